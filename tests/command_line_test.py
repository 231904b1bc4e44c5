"""`python -m elmo_plugin`: AllenNLP's commands and ours, in any folder and without a list of plugins."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from allennlp import commands

import elmo_plugin
from elmo_plugin.__main__ import run

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_it_has_the_commands_of_allennlp_and_ours(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "elmo_plugin", "--help"]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0
    assert all(name in result.stdout for name in ("embed-corpus", "train", "serve-elmo"))
    assert not [line for line in result.stderr.splitlines() if "INFO" in line]


def test_the_version_is_ours_beside_allennlps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["elmo-plugin", "--version"])
    monkeypatch.setattr(commands, "__version__", "2.10.1")
    with pytest.raises(SystemExit):
        run()
    assert capsys.readouterr().out == f"elmo-plugin {elmo_plugin.__version__} (AllenNLP 2.10.1)\n"
