"""Run our commands without setting up AllenNLP's own, which takes seconds."""

import argparse

from allennlp.commands import ArgumentParserWithDefaults
from allennlp.commands.subcommand import Subcommand

from elmo_plugin.commands import COMMANDS as COMMANDS


def parser_of(name: str) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """Return the parser of `elmo-plugin` with this command alone, and that of the command."""
    parser = ArgumentParserWithDefaults(prog="elmo-plugin")
    return parser, Subcommand.by_name(name)().add_subparser(parser.add_subparsers())  # type: ignore[call-arg]


def run(name: str, *arguments: object) -> None:
    """Run a command."""
    args = parser_of(name)[0].parse_args([name, *map(str, arguments)])
    args.func(args)
