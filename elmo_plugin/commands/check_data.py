r"""Check the data of a config before training.

elmo-plugin check-data CONFIG [options]

  elmo-plugin check-data config.jsonnet

This prints a Markdown page with the size of each part of the data, and with
each label and its count. It finds columns that look like others than the config
says; labels that do not occur in train; texts that are repeated, empty, very
long or full of markup; and words that are cut off. It builds
the model and runs it on two texts. The page ends with a list of what to do. The
exit code is 1 if the config cannot train.

Check another file, and only the first 1,000 texts of each part:
  elmo-plugin check-data config.jsonnet --sentences 1000 \
      -o '{"train_data_path": "my.txt"}'
"""

import argparse
import sys

from elmo_plugin.commands.arguments import count, print_page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("config", metavar="CONFIG", help="a config of `elmo-plugin train`")
    parser.add_argument("-o", "--overrides", metavar="JSON", help="changes to the config, as in `elmo-plugin train`")
    parser.add_argument("--sentences", metavar="N", type=count, help="read the first N texts of each part")


def run(args: argparse.Namespace) -> None:
    """Print the page. The exit code is 1 if the config cannot train."""
    from allennlp.common import Params

    from elmo_plugin import analysis, models

    checked = models.check_data(Params.from_file(args.config, args.overrides or ""), args.sentences)
    print_page(analysis.data_check_page(args.config, checked), "data.md")
    if checked.failures:
        sys.exit(1)
