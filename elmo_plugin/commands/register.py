"""Give AllenNLP's command line the commands of this package, and adapt its own."""

import argparse
import sys
from typing import Any

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.commands import COMMANDS, evaluate, train  # noqa: F401  (two replace functions)
from elmo_plugin.commands.arguments import OURS, add_command, program
from elmo_plugin.commands.command_line import other_plugins
from elmo_plugin.commands.console import adapt_console, is_command


class Command(Subcommand):
    """A command of this package."""

    def add_subparser(self, parser: Any) -> argparse.ArgumentParser:
        """Add the command and its arguments."""
        return add_command(parser, self.name, COMMANDS[self.name])


for name in COMMANDS:
    Subcommand.register(name)(type(name, (Command,), {}))
if program() in OURS or (is_command() and not other_plugins(sys.argv[1:])):
    adapt_console()
