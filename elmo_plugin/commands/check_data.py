"""The command `elmo-plugin check-data`: check the data of a config before training."""

import argparse
import sys

from elmo_plugin.commands.arguments import Parsers, add_command, count

NAME = "check-data"
ABOUT = "Check the data of a config before training."
EXAMPLE = "elmo-plugin check-data config.jsonnet"
MORE = """
This prints a Markdown page with the size of each part of the data, and with
each label and its count. It finds columns that look like others than the config
says; labels that do not occur in train; texts that are repeated, empty, very
long or full of markup; and words that are cut off. It builds
the model and runs it on two texts. The page ends with a list of what to do. The
exit code is 1 if the config cannot train.

Check another file, and only the first 1,000 texts of each part:
  elmo-plugin check-data config.jsonnet --sentences 1000 \\
      -o '{"train_data_path": "my.txt"}'
"""


def add_parser(parsers: Parsers) -> argparse.ArgumentParser:
    """Add the command and its arguments."""
    subparser = add_command(parsers, NAME, ABOUT, "CONFIG", EXAMPLE, MORE, run)
    add = subparser.add_argument
    add("config", metavar="CONFIG", help="a config of `elmo-plugin train`")
    add("-o", "--overrides", metavar="JSON", help="changes to the config, as in `elmo-plugin train`")
    add("--sentences", metavar="N", type=count, help="read the first N texts of each part")
    return subparser


def run(args: argparse.Namespace) -> None:
    """Print the page. The exit code is 1 if the config cannot train."""
    from allennlp.common import Params

    from elmo_plugin.analysis import data_check_page
    from elmo_plugin.commands.console import print_page
    from elmo_plugin.models import check_data

    config = Params.from_file(args.config, args.overrides or "")
    checked = check_data(config, args.sentences)
    print_page(data_check_page(args.config, checked), "data.md")
    if checked.failures:
        sys.exit(1)
