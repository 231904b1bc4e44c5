from pathlib import Path

import pytest

from tests.commands.alone import run
from tests.report_runs import tagger_config, write_run


def test_it_says_what_it_wrote_or_why_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^report-elmo: .*: expected a finished run, got no run$"):
        run("report-elmo", tmp_path, "--output", tmp_path / "page")
    write_run(tmp_path / "towns/none-1", tagger_config(1), [0.5, 0.6])
    (write_run(tmp_path / "towns/none-3", tagger_config(3), [0.7]) / "metrics.json").unlink()
    run("report-elmo", tmp_path / "towns/none-1", tmp_path / "towns", "--output", tmp_path / "page")
    assert (
        f"{tmp_path}/page: 1 runs, 1 not counted; report.html, report.md and its 2 figures; " in capsys.readouterr().err
    )
