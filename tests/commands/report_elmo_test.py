import json
from pathlib import Path

import pytest
import torch

from tests.report_runs import tagger_config, write_run
from tests.task_oracles import allennlp


def test_it_says_what_it_wrote_and_how_many_runs_it_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "towns/none-1", tagger_config(1), [0.5, 0.6])
    write_run(tmp_path / "towns/none-2", tagger_config(2), [0.7])
    (write_run(tmp_path / "towns/none-3", tagger_config(3), [0.7]) / "metrics.json").unlink()
    allennlp("report-elmo", tmp_path / "towns/none-1", tmp_path / "towns", "--output", tmp_path / "page")
    files = "learning_curves_towns_accuracy.svg, report.html, report.md, scores.svg"
    assert f"{tmp_path}/page: 2 runs, 1 not counted; {files}; " in capsys.readouterr().err
    assert "| none | 65.00 ± 7.07 |" in (tmp_path / "page/report.md").read_text(encoding="utf-8")


def test_no_run_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"^report-elmo: .*: expected a finished run, got no run$"):
        allennlp("report-elmo", tmp_path, "--output", tmp_path / "page")
    with pytest.raises(SystemExit, match=r"^report-elmo: '.*nowhere'"):
        allennlp("report-elmo", tmp_path / "nowhere", "--output", tmp_path / "page")
    assert not (tmp_path / "page").exists()


def test_it_keeps_layer_weights_on_request(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "towns/both-1", tagger_config(1, {}), [0.5])
    mix = "text.elmo.mixes.0"
    torch.save({f"{mix}.scalar_parameters": torch.zeros(2), f"{mix}.gamma": torch.ones(1)}, folder / "best.th")
    allennlp("report-elmo", tmp_path / "towns", "--output", tmp_path / "page")
    assert not (folder / "layer_weights.json").exists()
    allennlp("report-elmo", tmp_path / "towns", "--output", tmp_path / "page", "--keep")
    kept = json.loads((folder / "layer_weights.json").read_text())
    assert kept == {"input": {"weights": [0.5, 0.5], "gamma": 1.0}}
