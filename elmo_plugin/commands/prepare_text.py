"""Write raw text as tokenized sentences, one per line, as training and embedding read them.

elmo-plugin prepare-text INPUT… OUTPUT [options]

  elmo-plugin prepare-text 'novels/*.txt' text.txt.gz

What the lines of each file are, and the language, are guessed and printed;
--lines and --language override that. Look at the result first:
  elmo-plugin prepare-text 'novels/*.txt' --preview

Read a column of a CSV or TSV file, or a key of JSON lines, and print the
sentences:
  elmo-plugin prepare-text reviews.csv - --text-column review

Shards to pretrain on, and a held-out part to measure perplexity on:
  elmo-plugin prepare-text 'novels/*.txt' corpus --shards 10 --heldout 2
  export LM_TRAIN='corpus/train-*' LM_HELDOUT=corpus/heldout.txt.gz

--clean leaves out page numbers, running heads, and Project Gutenberg's header
and licence, and says which. sentencex finds the ends of sentences, spaCy's
rules the tokens; nothing is downloaded.
"""

import argparse
from glob import glob
from pathlib import Path

from elmo_plugin.commands.arguments import count, reject, say_written, whole_number

BUNDLED = {"en": "english-tiny", "la": "latin-tiny"}
"""The biLM that comes with the package, for each language that has one."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "names",
        metavar="INPUT… OUTPUT",
        nargs="+",
        help="raw text: paths, patterns or -; then a new file or folder, or -",
    )
    parser.add_argument("--preview", action="store_true", help="print twenty sentences, and write nothing")
    parser.add_argument(
        "--lines",
        choices=["wrapped", "paragraphs", "sentences"],
        help="what the lines are: parts of a paragraph, paragraphs, or sentences",
    )
    parser.add_argument("--language", metavar="CODE", help="the language, such as de; xx for any")
    parser.add_argument(
        "--text-column", metavar="COLUMN", help="the column of the texts in a table, or their key in JSON lines"
    )
    parser.add_argument("--clean", action="store_true", help="leave out page numbers, running heads and the like")
    parser.add_argument("--shards", metavar="N", type=count, help="write N files of training text to a folder")
    parser.add_argument(
        "--heldout",
        metavar="PERCENT",
        type=whole_number("a percentage from 1 to 99", least=1, most=99),
        help="set this part of the sentences aside, in blocks of 20",
    )
    parser.add_argument("--drop-duplicates", action="store_true", help="keep only the first of equal sentences")


def run(args: argparse.Namespace) -> None:
    """Prepare the text and say what was written."""
    from elmo_plugin.text import HELDOUT, prepare_text

    *inputs, output = args.names
    if args.preview and (not inputs or output == "-" or glob(output)):  # without OUTPUT
        inputs = args.names
    reject((not inputs, "expected INPUT… OUTPUT, got one name; --preview needs no OUTPUT"))
    target = Path(output)
    prepared = prepare_text(
        inputs,
        None if args.preview else target,
        args.lines,
        args.language,
        args.clean,
        args.shards,
        args.heldout,
        args.drop_duplicates,
        args.text_column,
    )
    if prepared is None or output == "-":
        return
    if args.shards is None and args.heldout is None:
        written = f"{prepared.n_training:,} sentences"
        then = f"elmo-plugin embed-corpus {target} vectors.hdf5 --bilm "
        then += BUNDLED.get(prepared.language, f"BILM    # a biLM that reads {prepared.language}")
    else:
        written = f"{prepared.n_training:,} sentences to train on, {prepared.n_heldout:,} held out"
        then = f"export LM_TRAIN='{target}/train-*'" + f" LM_HELDOUT={target / HELDOUT}" * bool(args.heldout)
        then += "; elmo-plugin train small_text -s runs/bilm    # from 5 M words on: bilm_tiny, bilm_small"
    say_written(target, written, then)
