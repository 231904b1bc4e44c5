"""The `--help` of each of our commands begins with a minimal example, and all of its examples are valid."""

import re
import shlex

import pytest

from tests.commands.alone import COMMANDS, parser_of


@pytest.mark.parametrize("columns", ["80", "120"])
@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_fits_and_begins_with_an_example(name: str, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = parser_of(name)[1].format_help()
    assert not re.search(r"default: [^)]*\)\s+\(default =", text)
    lines = text.splitlines()
    assert not [line for line in lines if len(line) > 80 if columns == "80"]
    usage, empty, about, _, example = lines[:5]
    assert usage.startswith(f"usage: allennlp {name} ") and not empty and about.endswith(".")
    assert example.startswith(f"  allennlp {name} ") and "positional arguments:" in lines[5:8]


@pytest.mark.parametrize("name", COMMANDS)
def test_its_examples_are_accepted(name: str) -> None:
    parser, command = parser_of(name)
    lines = command.format_help().replace("\\\n", " ")
    examples = re.findall(rf"^  .*\ballennlp +({name} .*)", lines, re.MULTILINE)
    assert len(examples) >= 2
    for example in examples:
        parser.parse_args(shlex.split(example))
