"""What the program `elmo-plugin` answers before it imports torch and AllenNLP: help, its version, and mistakes."""

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from elmo_plugin.commands import COMMANDS
from elmo_plugin.commands.arguments import add_command

OF_ALLENNLP = {
    "build-vocab": "Build a vocabulary from an experiment config file.",
    "cached-path": "Cache remote files to the AllenNLP cache.",
    "checklist": "Run a trained model through a checklist suite.",
    "count-instances": "Count the number of training instances in an experiment config file.",
    "diff": "Display a diff between two model checkpoints.",
    "evaluate": "Evaluate the specified model + dataset(s).",
    "find-lr": "Find a learning rate range.",
    "predict": "Use a trained model to make predictions.",
    "print-results": "Print results from allennlp serialization directories to the console.",
    "test-install": "Test AllenNLP installation.",
    "train": "Train a model.",
}
"""AllenNLP's commands, with the first line of their help. AllenNLP parses their arguments itself."""


REMOVED = {
    "elmo": "the command 'elmo' was removed in AllenNLP 1.0; this one takes the same arguments: elmo-plugin "
    "embed-corpus INPUT OUTPUT --all | --top | --average (add --format hdf5 unless OUTPUT ends in .hdf5)",
    "push-to-hf": "AllenNLP's 'push-to-hf' was written for an older huggingface_hub; type: hf upload USER/NAME FOLDER; "
    "for a biLM, elmo-plugin convert-elmo FROM FOLDER --to hub writes the folder",
}
"""Commands of AllenNLP's that are gone or no longer work, and what to type instead."""


class Parser(argparse.ArgumentParser):
    """A parser that shows the default of an argument as AllenNLP's `ArgumentParserWithDefaults` does."""

    def add_argument(self, *args: Any, **kwargs: Any) -> argparse.Action:
        """Add an argument, and its default to its help."""
        default = kwargs.get("default")
        if default and default != argparse.SUPPRESS:
            kwargs["help"] = f"{kwargs.get('help', '')} (default = {default})"
        return super().add_argument(*args, **kwargs)


def answer(program: str, arguments: list[str]) -> None:
    """Exit with the help, the version or a mistake if the arguments ask for or contain one; else return."""
    name = arguments[0] if arguments else "--help"
    if name == "--version":
        from importlib.metadata import version

        print(f"{program} {version('elmo-plugin')} (AllenNLP {version('allennlp')})")
        sys.exit()
    if name in OF_ALLENNLP:
        return
    whole, ours = parsers(program)
    if name in ours:
        ours[name].parse_args(arguments[1:])
    elif not other_plugins(arguments):  # whose commands only AllenNLP knows
        if not name.startswith("-"):
            close = difflib.get_close_matches(name, [*ours, *OF_ALLENNLP], n=1)
            meant = f"; did you mean '{close[0]}'?" if close else f"; {program} --help lists them"
            whole.error(REMOVED.get(name, f"expected a command, got '{name}'{meant}"))
        whole.parse_args(arguments or ["--help"])


def parsers(program: str) -> tuple[Parser, dict[str, argparse.ArgumentParser]]:
    """Return the parser of the program, and those of the commands of this package."""
    whole = Parser(prog=program, description="AllenNLP's command line, with the commands of elmo_plugin")
    whole.add_argument("--version", action="store_true", help="show the versions of elmo_plugin and AllenNLP, and exit")
    commands = whole.add_subparsers(title="Commands", metavar="")
    ours = {}
    for name in sorted([*COMMANDS, *OF_ALLENNLP]):
        if name in OF_ALLENNLP:
            commands.add_parser(name, help=OF_ALLENNLP[name])
        else:
            ours[name] = add_command(commands, name, COMMANDS[name])
            ours[name].add_argument(  # as AllenNLP adds it to each command
                "--include-package", type=str, action="append", default=[], help="additional packages to include"
            )
    return whole, ours


def other_plugins(arguments: Sequence[str]) -> set[str]:
    """Return the plugins that AllenNLP imports beside this one and its own, by its two files and `--include-package`.

    The program does not know their commands, and leaves their output and their errors as they are.
    """
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--include-package", action="append", nargs="?", default=[])
    found = [name or "" for name in parser.parse_known_args(arguments)[0].include_package]
    for file in (Path(".allennlp_plugins"), Path.home() / ".allennlp/plugins"):
        if file.is_file():
            found += file.read_text(encoding="utf-8", errors="replace").split()
    return {name for name in found if name.partition(".")[0] not in ("", "elmo_plugin", "allennlp_models")}
