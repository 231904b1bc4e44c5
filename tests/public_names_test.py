"""What `docs/understand/stability.md` calls public is listed in `public_names.txt`, so that no change is an accident.

python -m tests.public_names_test > tests/public_names.txt    # after a deliberate change
"""

import importlib
from collections.abc import Iterator
from pathlib import Path

from allennlp.commands import ArgumentParserWithDefaults, Subcommand

import elmo_plugin
from tests.docs_test import hook

LISTED = Path(__file__).with_name("public_names.txt")
INTERNAL = {"commands"}
"""What `import elmo_plugin` names that is no Python interface: its interface is the command line."""


def public_names() -> Iterator[str]:
    """Yield a line for each name of Python, for each key of a config with its default, and for each option."""
    for name in elmo_plugin.__all__:
        if name not in INTERNAL:
            yield f"elmo_plugin.{name}"
            value = getattr(elmo_plugin, name)
            if value.__class__.__name__ == "module":
                package = importlib.import_module(f"elmo_plugin.{name}")
                yield from (f"elmo_plugin.{name}.{inner}" for inner in package.__all__)
    subparsers = ArgumentParserWithDefaults(prog="elmo-plugin").add_subparsers()
    for component in hook("reference_pages").components():
        yield f"{component.registry} {component.name}"
        if component.registry == "Subcommand":
            parser = Subcommand.by_name(component.name)().add_subparser(subparsers)  # type: ignore[call-arg]
            for action in parser._actions:
                yield from (f"Subcommand {component.name} {name}" for name in action.option_strings or [action.dest])
        for key in component.keys:
            yield f"{component.registry} {component.name} {key.name} = {key.default.strip('`')}"


def test_the_public_names_are_those_that_are_listed() -> None:
    listed = LISTED.read_text(encoding="utf-8").splitlines()
    names = sorted(public_names())
    assert len(names) > 500
    assert {*names} - {*listed} == set(), "new"
    assert {*listed} - {*names} == set(), "gone"
    assert names == listed  # each once, sorted


if __name__ == "__main__":
    print(*sorted(public_names()), sep="\n")
