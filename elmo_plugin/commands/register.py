"""Give AllenNLP's command line the commands of this package, and adapt its own."""

import argparse
import sys
from collections.abc import Callable

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.commands import COMMANDS, evaluate, train  # noqa: F401  (two replace functions)
from elmo_plugin.commands.arguments import Parsers
from elmo_plugin.commands.command_line import other_plugins
from elmo_plugin.commands.console import OURS, adapt_console, is_command, program


def _register(name: str, add_parser: Callable[[Parsers], argparse.ArgumentParser]) -> None:
    @Subcommand.register(name)
    class Command(Subcommand):
        """A command of this package."""

        def add_subparser(self, parser: Parsers) -> argparse.ArgumentParser:
            """Add the command and its arguments."""
            return add_parser(parser)


for name, add_parser in COMMANDS.items():
    _register(name, add_parser)
if program() in OURS or (is_command() and not other_plugins(sys.argv[1:])):
    adapt_console()
