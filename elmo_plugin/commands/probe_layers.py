"""The command `allennlp probe-layers`: measure what each layer of a biLM knows."""

import argparse
import sys
from pathlib import Path

from allennlp.commands.subcommand import Subcommand
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import Task, accuracies_page, probe, pseudoword_task, random_twin, sense_task, tagging_task
from elmo_plugin.commands.arguments import add_bilm, add_command, count, load_bilm, separator
from elmo_plugin.commands.endings import print_page
from elmo_plugin.models import ColumnTagsReader

ABOUT = "Measure how well each layer alone predicts tags or senses."
EXAMPLE = "allennlp probe-layers english-tiny --tags train.conll dev.conll"
MORE = """
The result is a Markdown table of accuracies (Tables 5 and 6 of the ELMo paper),
below the accuracy of the words alone: the most frequent tag or sense of each in
training.

Tags, by a linear classifier (logistic regression) over the vectors of a layer:
  allennlp probe-layers english-tiny --control \\
      --tags train.conllu dev.conllu --conllu

Senses, from files with a token and its sense (or O) per line, by the nearest
average vector of training, by cosine; a word that training lacks gets the most
frequent sense of all:
  allennlp probe-layers english-tiny --senses train.txt dev.txt

Pseudowords, for texts without annotated senses: pairs of about equally frequent
words (50 to 500 times in the text) become one token, such as door-banana, and
the layer must tell which of the two it was. One sentence in five is for
evaluation. This is easier than senses are: two random words have less in
common, and are often different parts of speech.
  allennlp probe-layers english-tiny --pseudowords novels.txt --control

--control adds a biLM of the same sizes with random weights: what spelling and a
random memory of the surrounding words tell. Memory holds 4 * L * D bytes per
token of training, 12 kB at the original size.
"""


@Subcommand.register("probe-layers")
class ProbeLayers(Subcommand):
    """Registered as a `Subcommand` with name `probe-layers`."""

    def add_subparser(self, parser: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
        """Add the command's arguments to the parser."""
        subparser = add_command(parser, self.name, ABOUT, "BILM --tags|--senses|--pseudowords FILES", EXAMPLE, MORE)
        add_bilm(subparser)
        subparser.add_argument("--control", action="store_true", help="add a biLM with random weights")
        subparser.add_argument("--seed", type=int, default=1, help="seed of pseudowords and random weights")
        _add_task(subparser)
        _add_columns(subparser)
        subparser.set_defaults(func=run)
        return subparser


def _add_task(subparser: argparse.ArgumentParser) -> None:
    group = subparser.add_argument_group("what to predict").add_mutually_exclusive_group(required=True)
    files = {"nargs": 2, "metavar": ("TRAIN", "DEV")}
    group.add_argument("--tags", **files, help="two files of columns")  # type: ignore[arg-type]
    group.add_argument("--senses", **files, help="two files of columns; O means no sense")  # type: ignore[arg-type]
    group.add_argument("--pseudowords", metavar="TEXT", type=Path, help="a text, one tokenised sentence per line")
    subparser.add_argument("--pairs", type=count, default=100, metavar="N", help="number of pseudowords")


def _add_columns(subparser: argparse.ArgumentParser) -> None:
    group = subparser.add_argument_group("files of columns, as the reader `column_tags` reads them")
    group.add_argument("--conllu", action="store_true", help="CoNLL-U: the columns FORM and UPOS")
    group.add_argument("--token-column", type=int, metavar="N", help="from 0 (default: 0, with --conllu 1)")
    group.add_argument("--tag-column", type=int, metavar="N", help="tag or sense (default: -1, with --conllu 3)")
    group.add_argument(
        "--delimiter",
        type=separator,
        help=r"between columns, \t for a tab (default: spaces and tabs; with --conllu a tab)",
    )


def run(args: argparse.Namespace) -> None:
    """Probe the layers and print the accuracies. Errors are one line and exit code 1."""
    try:
        task, title = _task(args)
        embedder = load_bilm(args)
        columns = {args.bilm: probe(embedder, task)}
        if args.control:
            columns["random weights"] = probe(random_twin(embedder, args.seed), task)
    except (ConfigurationError, OSError) as error:
        sys.exit(f"probe-layers: {error}")
    print_page(accuracies_page(title, columns), "layers.md")


def _task(args: argparse.Namespace) -> tuple[Task, str]:
    """Return the task and the title of its page."""
    if args.pseudowords:
        title = f"Pseudowords: {args.pairs} pairs of words of {args.pseudowords}"
        return pseudoword_task(args.pseudowords, args.pairs, args.seed, args.sentences), title
    reader = ColumnTagsReader(
        token_column=args.token_column,
        tag_column=args.tag_column,
        delimiter=args.delimiter,
        conllu=args.conllu,
        max_instances=args.sentences,
    )
    make, name = (tagging_task, "Tags") if args.tags else (sense_task, "Senses")
    train, dev = args.tags or args.senses
    return make(train, dev, reader), f"{name}: {train}, counted on {dev}"
