r"""Measure how well each layer alone predicts tags or senses.

elmo-plugin probe-layers BILM --tags|--senses|--pseudowords FILES [options]

  elmo-plugin probe-layers english-tiny --tags train.conll dev.conll

This prints a Markdown table with the accuracy of each layer (Tables 5 and 6 of
the ELMo paper). Its first row is a baseline that knows only the word: it
predicts the word's most frequent tag or sense in training.

Predict tags, with logistic regression over the vectors of a layer:
  elmo-plugin probe-layers english-tiny --control \
      --tags train.conllu dev.conllu --conllu

Predict senses, from files with one token and its sense (or O) per line. The
prediction is the sense whose average training vector is nearest by cosine. A
word that training lacks gets the most frequent sense of all words:
  elmo-plugin probe-layers english-tiny --senses train.txt dev.txt

Predict pseudowords, for a text without annotated senses. Pairs of words that
are about equally frequent (50 to 500 times in the text) become one token, such
as door-banana, and the layer must tell which of the two words it was. This is
easier than real senses:
  elmo-plugin probe-layers english-tiny --pseudowords novels.txt --control

--control adds a column for a biLM of the same sizes with random weights.
Memory holds 4 * L * D bytes per labelled token, 12 kB at the original size.
"""

import argparse
from pathlib import Path

from elmo_plugin.commands.arguments import add_bilm, count, print_page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_bilm(parser)
    parser.add_argument("--control", action="store_true", help="add a column for a biLM with random weights")
    parser.add_argument("--seed", type=int, default=1, help="the seed of pseudowords and of random weights")
    parser.add_argument("--pairs", type=count, default=100, metavar="N", help="the number of pseudowords")
    tasks = parser.add_argument_group("what to predict").add_mutually_exclusive_group(required=True)
    tasks.add_argument("--tags", nargs=2, metavar=("TRAIN", "DEV"), help="two files of columns")
    tasks.add_argument("--senses", nargs=2, metavar=("TRAIN", "DEV"), help="two files of columns; O means no sense")
    tasks.add_argument("--pseudowords", metavar="TEXT", type=Path, help="a text, one tokenized sentence per line")
    columns = parser.add_argument_group("files of columns, as the reader `column_tags` reads them")
    columns.add_argument("--conllu", action="store_true", help="read CoNLL-U: the columns FORM and UPOS")
    columns.add_argument(
        "--token-column",
        type=int,
        metavar="N",
        help="the column of tokens, from 0 (default: 0, with --conllu 1)",
    )
    columns.add_argument("--tag-column", type=int, metavar="N", help="the column of tags (default: -1, or 3)")
    columns.add_argument(
        "--delimiter", help=r"what separates columns, \t for a tab (default: white space; with --conllu a tab)"
    )


def run(args: argparse.Namespace) -> None:
    """Probe the layers and print the accuracies."""
    from elmo_plugin import analysis, embedding, models

    if args.pseudowords:
        title = f"Pseudowords: {args.pairs} pairs of words of {args.pseudowords}"
        task = analysis.pseudoword_task(args.pseudowords, args.pairs, args.seed, args.sentences)
    else:
        reader = models.ColumnTagsReader(
            token_column=args.token_column,
            tag_column=args.tag_column,
            delimiter=args.delimiter and args.delimiter.replace(r"\t", "\t"),  # a shell passes on both characters
            conllu=args.conllu or None,
            max_instances=args.sentences,
        )
        train, dev = args.tags or args.senses
        title = f"{'Tags' if args.tags else 'Senses'}: trained on {train}, evaluated on {dev}"
        task = (analysis.tagging_task if args.tags else analysis.sense_task)(train, dev, reader)
    embedder = embedding.load(args.bilm, "all", cuda_device=args.cuda_device, initial_state=args.initial_state)
    columns = {args.bilm: analysis.probe(embedder, task)}
    if args.control:
        columns["random weights"] = analysis.probe(analysis.random_twin(embedder, args.seed), task)
    print_page(analysis.accuracies_page(title, columns), "layers.md")
