"""Each option of each of our commands rejects invalid values. New options are found and tested, too."""

import argparse

import pytest

from elmo_plugin.commands.arguments import count
from tests.commands.alone import COMMANDS, parser_of


@pytest.mark.parametrize("name", COMMANDS)
def test_an_empty_value_an_invalid_or_huge_number_and_a_negative_device_are_rejected(name: str) -> None:
    _, parser = parser_of(name)
    for action in parser._actions:
        if action.nargs != 0:
            texts = ["", *(["1.5", "9" * 30] if action.type in (int, count) else [])]
            for text in [*texts, "-5"] if action.dest == "cuda_device" else texts:
                with pytest.raises(argparse.ArgumentError, match=f"'{text}'"):
                    parser._get_value(action, text)
