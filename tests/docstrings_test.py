"""The examples in docstrings run and print what they say."""

import doctest
import importlib
import re
from pathlib import Path

import pytest
from allennlp.common import Registrable

import elmo_plugin  # noqa: F401

ROOT = Path(__file__).resolve().parents[1]
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "elmo_plugin").rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_run(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # examples may write files
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testmod(importlib.import_module(module), optionflags=options)
    assert result.attempted and not result.failed


OF_COMMANDS = {"Subcommand", "CheckpointFormat", "VectorFile"}
"""Registries whose classes no config names."""


def test_each_class_that_a_config_names_shows_an_example() -> None:
    without = {
        cls.__name__
        for base, components in Registrable._registry.items()
        for cls, _ in components.values()
        if cls.__module__.startswith("elmo_plugin") and base.__name__ not in OF_COMMANDS
        if not re.search(">>> |```", cls.__doc__ or "")
    }
    assert not without
