import json
from pathlib import Path

import pytest
import torch

from tests.report_runs import tagger_config, write_run
from tests.task_oracles import allennlp


def test_it_says_what_it_wrote_and_keeps_layer_weights_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "towns/none-1", tagger_config(1), [0.5, 0.6])
    folder = write_run(tmp_path / "towns/none-2", tagger_config(2), [0.7])
    (write_run(tmp_path / "towns/none-3", tagger_config(3), [0.7]) / "metrics.json").unlink()
    mix = "text.elmo.mixes.0"
    torch.save({f"{mix}.scalar_parameters": torch.zeros(2), f"{mix}.gamma": torch.ones(1)}, folder / "best.th")
    allennlp("report-elmo", tmp_path / "towns/none-1", tmp_path / "towns", "--output", tmp_path / "page", "--keep")
    said = capsys.readouterr().err
    assert f"{tmp_path}/page: 2 runs, 1 not counted; report.html, report.md and its 3 figures; " in said
    assert "| none | 65.00 ± 7.07 (2) |" in (tmp_path / "page/report.md").read_text(encoding="utf-8")
    kept = json.loads((folder / "layer_weights.json").read_text())
    assert kept == {"input": {"weights": [0.5, 0.5], "gamma": 1.0}}


def test_no_run_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"^report-elmo: .*: expected a finished run, got no run$"):
        allennlp("report-elmo", tmp_path, "--output", tmp_path / "page")
    assert not (tmp_path / "page").exists()
