"""The examples in the `--help` of each of our commands are valid."""

import re
import shlex

import pytest

from tests.commands.alone import COMMANDS, parser_of


@pytest.mark.parametrize("name", COMMANDS)
def test_its_examples_are_accepted(name: str) -> None:
    parser, command = parser_of(name)
    lines = command.format_help().replace("\\\n", " ")
    examples = re.findall(rf"^  .*\belmo-plugin +({name} .*)", lines, re.MULTILINE)
    assert len(examples) >= 2
    for example in examples:
        parser.parse_args(shlex.split(example))
