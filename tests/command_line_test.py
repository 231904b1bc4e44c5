"""`python -m elmo_plugin`: AllenNLP's commands and ours, in any folder and without a list of plugins."""

from pathlib import Path

import pytest

import elmo_plugin
from tests.commands.alone import python_m


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
    ended = python_m("elmo_plugin", option, folder=tmp_path)
    assert ended.exit_code == 0
    assert all(each in ended.out for each in shown)
    assert not [line for line in ended.err.splitlines() if "INFO" in line]
