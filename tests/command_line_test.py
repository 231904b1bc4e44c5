"""`python -m elmo_plugin`: AllenNLP's commands and ours, in any folder and without a list of plugins."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import elmo_plugin
from tests.commands.alone import python_m

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_it_has_the_commands_of_allennlp_and_ours(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "elmo_plugin", "--help"]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0
    assert all(each in result.stdout for each in ("embed-corpus", "train", "serve-elmo"))
    assert not [line for line in result.stderr.splitlines() if "INFO" in line]


@pytest.mark.slow
def test_it_has_a_version(tmp_path: Path) -> None:
    ended = python_m("elmo_plugin", "--version", folder=tmp_path)
    assert ended.exit_code == 0
    assert f"python -m elmo_plugin {elmo_plugin.__version__} (AllenNLP 2.10.1)" in ended.out
    assert not [line for line in ended.err.splitlines() if "INFO" in line]
