"""`python -m elmo_plugin`: AllenNLP's commands and ours, in any folder and without a list of plugins."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import elmo_plugin

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "shown"),
    [
        ("--help", ("embed-corpus", "train", "serve-elmo")),
        ("--version", (f"python -m elmo_plugin {elmo_plugin.__version__} (AllenNLP 2.10.1)",)),
    ],
)
def test_it_has_the_commands_of_allennlp_and_ours_and_a_version(
    option: str, shown: tuple[str, ...], tmp_path: Path
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "elmo_plugin", option]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 0
    assert all(each in result.stdout for each in shown)
    assert not [line for line in result.stderr.splitlines() if "INFO" in line]
