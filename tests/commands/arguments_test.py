"""Each option of each of our commands rejects invalid values. New options are found and tested, too."""

import argparse

import pytest

from elmo_plugin.commands.arguments import count
from tests.commands.alone import COMMANDS, parser_of
from tests.task_oracles import allennlp


def options() -> dict[str, tuple[argparse.ArgumentParser, argparse.Action]]:
    """Every argument that takes a value, by command and name."""
    found = {}
    for name in COMMANDS:
        _, parser = parser_of(name)
        takes_value = [action for action in parser._actions if action.nargs != 0]
        found |= {f"{name} {action.dest}": (parser, action) for action in takes_value}
    return found


OPTIONS = options()


def refused(name: str, text: str) -> str:
    parser, action = OPTIONS[name]
    with pytest.raises(argparse.ArgumentError) as caught:
        parser._get_value(action, text)
    return str(caught.value)


def test_an_empty_value_an_invalid_or_huge_number_and_a_negative_device_are_rejected() -> None:
    for name, (_, action) in OPTIONS.items():
        assert "''" in refused(name, ""), name
        if action.type in (int, count):
            for text in ("1.5", "one", "9" * 30, "-" + "9" * 30):
                assert f"expected a whole number, got '{text}'" in refused(name, text)
        if name.endswith("cuda_device"):
            assert "expected -1 or the number of a GPU, got -5" in refused(name, "-5")


def test_an_empty_name_does_not_fetch_the_published_weights(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        allennlp("embed-corpus", "text", "vectors.hdf5", "--bilm", "")
    assert end.value.code == 2
    assert "argument --bilm: expected a non-empty value" in capsys.readouterr().err
