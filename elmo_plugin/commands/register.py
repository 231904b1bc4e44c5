"""Give AllenNLP's command line the commands of this package, and adapt its own."""

import argparse
from collections.abc import Callable

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.commands import COMMANDS
from elmo_plugin.commands.arguments import Parsers
from elmo_plugin.commands.console import OURS, adapt_console, is_command, other_plugins, program
from elmo_plugin.commands.evaluate import adapt_evaluate
from elmo_plugin.commands.train import adapt_train


def _register(name: str, add_parser: Callable[[Parsers], argparse.ArgumentParser]) -> None:
    @Subcommand.register(name)
    class Command(Subcommand):
        """A command of this package."""

        def add_subparser(self, parser: Parsers) -> argparse.ArgumentParser:
            """Add the command and its arguments."""
            return add_parser(parser)


for name, add_parser in COMMANDS.items():
    _register(name, add_parser)
if program() in OURS or (is_command() and not other_plugins()):
    adapt_console()
adapt_train()
adapt_evaluate()
