r"""Embed a text, one sentence per line, and write the vectors to disk.

elmo-plugin embed-corpus INPUT [INPUT …] OUTPUT [options]

  elmo-plugin embed-corpus sentences.txt vectors.hdf5 --bilm english-tiny

The ending of OUTPUT chooses the format:

  hdf5     a file with one dataset per line, whose key is the line's number from
           0, and `sentence_to_index`, a JSON string with the key of each
           sentence: the layout of AllenNLP's retired command `elmo`
  npz      a file with one array per line, named by the line's number from 0
  parquet  a folder of Parquet files with one row per line: line, sentence,
           tokens, and vectors, in one column per layer

Arrays have the shape (L, T, D) for all layers, with the token layer first;
with --pool they have no T. An empty line keeps its number: its T is 0, or with
--pool its vectors are zeros. Several inputs are read as one text.

Read a column of a CSV or TSV file, or a key of JSON lines, and use ids instead
of line numbers. A column is a number from 1 on, or a name in the first row:
  elmo-plugin embed-corpus reviews.csv vectors.npz --bilm english-tiny --pool \
      --split spacy --id-column id --text-column review

Read standard input, use a pair of bilm-tf files, and write 16-bit numbers:
  zcat news.gz | elmo-plugin embed-corpus - news.hdf5 --half \
      --options-file options.json --weight-file weights.hdf5

Use the mix that a tagger has learned, and write one vector per sentence:
  elmo-plugin embed-corpus sentences.txt vectors.npz --pool \
      --mix runs/demo/model.tar.gz

Finished parts of the text are kept in OUTPUT.part. If a run is stopped, or the
disk is full, the same command resumes it and embeds only the missing parts. The
parts are copied into the output, so the disk needs room for twice its size;
Parquet keeps the parts.

--split tab and --split conll read the inputs `plain` and `conll` of
ELMoForManyLangs; with --split spacy the text need not be tokenized.

On a processor, as many processes embed as PyTorch may use threads, each with a
thread of its own: OMP_NUM_THREADS and --processes limit them. They share the
weights. A text of less than 65,536 characters has work for one process only.
"""

import argparse
import inspect
import json
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Any

from elmo_plugin.commands.arguments import add_device, add_initial_state, count, output, reject, say_written, word

TOKENIZERS = {"space": "ascii_spaces", "tab": "just_tabs", "spacy": "spacy_blank", "conll": "just_tabs"}
"""The tokenizer for each value of --split."""
SPLITS = {"just_spaces": "space", "ascii_spaces": "space", "just_tabs": "tab", "spacy_blank": "spacy"}
"""The value of --split for each name of a tokenizer, which is accepted, too."""
ENDINGS = {"": "hdf5", ".h5": "hdf5"}
"""The formats of endings that are not themselves the name of a format."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "input", metavar="INPUT", type=Path, nargs="+", help="a text, plain, .gz, .xz or .bz2; - is stdin"
    )
    parser.add_argument("output", metavar="OUTPUT", type=output, help="a path that does not exist yet")

    layers = parser.add_argument_group("layers").add_mutually_exclusive_group()
    for options, explained in (
        (["--all"], "all layers, kept apart: (L, T, D) (default)"),
        (["--last", "--top"], "the last (top) layer"),
        (["--average"], "the average of all layers"),
        (["--concatenate"], "all layers side by side: (T, L*D)"),
    ):
        name = options[0].removeprefix("--")
        layers.add_argument(*options, dest="layers", action="store_const", const=name, default="all", help=explained)
    layers.add_argument("--layers", metavar="NAME", help="a registered mix, such as one of your own")
    layers.add_argument(
        "--mix",
        metavar="MODEL",
        help="the biLM and the first mix of a trained model, NAME.tar.gz or the folder of its run, which is a program",
    )

    bilm = parser.add_argument_group("biLM; without these, the published original is downloaded once, 374 MB")
    bilm.add_argument("--bilm", help="path or URL, in any format, or the name of a bundled biLM")
    bilm.add_argument("--options-file", metavar="FILE", help="path or URL of bilm-tf's options.json")
    bilm.add_argument("--weight-file", metavar="FILE", help="path or URL of bilm-tf's hdf5 file")
    add_initial_state(bilm)

    written = parser.add_argument_group("output")
    written.add_argument(
        "--format",
        metavar="{hdf5,npz,parquet}",
        help="default: by the ending of OUTPUT: .hdf5, .h5, .npz, .parquet, or no ending for hdf5",
    )
    written.add_argument("--pool", action="store_true", help="write one vector per sentence, the mean over its tokens")
    written.add_argument("--half", action="store_true", help="write 16-bit numbers instead of 32-bit ones")
    written.add_argument("--compress", action="store_true", help="compress: slower, and most useful with --half")
    written.add_argument(
        "--use-sentence-keys",
        action="store_true",
        help="use sentences as keys of hdf5, with %%2F for /; a repeated sentence is stored once, an empty one never",
    )
    written.add_argument("--forget-sentences", action="store_true", help="write hdf5 without `sentence_to_index`")
    written.add_argument("--vocab-path", metavar="PATH", help="ignored; the retired command wrote no vocabulary either")

    work = parser.add_argument_group("computation")
    work.add_argument(
        "--split",
        "--tokenizer",
        type=lambda name: SPLITS.get(word(name), name),
        choices=list(TOKENIZERS),
        help="split into tokens at white space (default; if given, any file is taken as lines of tokens), at tabs, or "
        "by spaCy's rules for the language; or CoNLL-U",
    )
    work.add_argument("--id-column", metavar="COLUMN", help="use the ids in this column as keys")
    work.add_argument(
        "--text-column", metavar="COLUMN", help="the column of the sentences in a table, or their key in JSON lines"
    )
    work.add_argument(
        "--tokens-per-batch",
        metavar="N",
        type=count,
        default=4096,
        help="the largest number of tokens in a batch, padding included (default: 4096)",
    )
    work.add_argument(
        "--batch-size",
        metavar="N",
        type=count,
        help="the largest number of sentences in a batch (default: any)",
    )
    work.add_argument(
        "--precision",
        choices=["float32", "bfloat16", "int8", "auto"],
        default="float32",
        help="the number type to compute in; int8 saves memory on an x86 processor, and time on one without bfloat16; "
        "auto is bfloat16 if the device computes it natively (default: float32)",
    )
    add_device(work)
    work.add_argument(
        "--processes",
        metavar="N",
        type=count,
        help="embed in N processes with one thread each (default: as many as PyTorch has threads, but not more than "
        "the text has windows of up to 131,072 characters; one on a GPU)",
    )
    work.add_argument("--file-friendly-logging", action="store_true", help="write each progress update on a new line")


def run(args: argparse.Namespace) -> None:
    """Embed the text and say what was written.

    SIGTERM and Ctrl-C leave the finished parts; the exit code is 143 or 130.
    """
    from allennlp.common import logging as common_logging
    from tqdm import tqdm

    from elmo_plugin.common import Stopped, on_stop_signal, stop

    common_logging.FILE_FRIENDLY_LOGGING = args.file_friendly_logging
    try:
        with on_stop_signal(stop):  # stops at once: the next run embeds an unfinished part again
            _embed(args)
    except Stopped as stopped:
        tqdm.write(
            f"embed-corpus: stopped by {stopped.signal.name}; run the same command again to continue", file=sys.stderr
        )
        raise


def _embed(args: argparse.Namespace) -> None:
    from elmo_plugin import bilm, embedding, text

    # Options and paths are checked before anything is downloaded.
    folder = args.output.parent
    reject(
        (
            args.text_column and args.split in ("tab", "conll"),
            f"expected --text-column or --split {args.split}, got both",
        ),
        (
            args.id_column and not args.text_column,
            "--text-column: expected the column of the sentences beside --id-column, got none",
        ),
        (args.id_column and args.use_sentence_keys, "expected --id-column or --use-sentence-keys, got both"),
        (
            args.mix and (args.bilm or args.weight_file),
            "--mix: expected the archive of a trained model and no other option that names the biLM, got "
            f"{args.mix!r} and another one; the layers of a biLM are --last, --average, --concatenate or --all",
        ),
        (not folder.is_dir(), f"'{args.output}' cannot be written: make the folder '{folder}' first"),
    )
    file = _file(args)
    corpus = _corpus(args)
    embedding.reject_existing(args.output)
    if args.vocab_path:
        _say("--vocab-path is ignored: no vocabulary is written, as by the retired command")
    loaded = _embedder(args)
    if args.split == "spacy" and (language := bilm.language_of(loaded.elmo)):
        corpus.tokenizer = text.SpacyBlankTokenizer(language)
    embedder = embedding.CorpusEmbedder(loaded, args.pool, args.half, args.tokens_per_batch, args.batch_size)
    counts = embedder.embed(corpus, args.output, file, args.processes)
    shape = ", ".join("T" if size == -1 else str(size) for size in embedder.layout.shape)
    what = f"{counts.sentences:,} sentences, {counts.tokens:,} tokens; ({shape}) {embedder.layout.dtype}"
    path = json.dumps(str(args.output), ensure_ascii=False)  # double quotes need no escape in the shell's quotes
    then = f"python -c {shlex.quote(file.reading.format(path))}" if file.reading else None
    say_written(args.output, what, then)


def _corpus(args: argparse.Namespace) -> Any:
    """Return the `Corpus` of sentences, or of the rows of a table."""
    from allennlp.data import Tokenizer

    from elmo_plugin import embedding, text

    readers: dict[str, Any] = {
        "": partial(embedding.read_lines, use=text.TO_EMBED),
        "space": partial(embedding.read_lines, use=None),
        "tab": partial(embedding.read_lines, use=text.TABS_TO_EMBED),
        "spacy": partial(embedding.read_lines, use=text.RAW_TO_EMBED),
        "conll": embedding.read_conll,
    }
    read_rows = (
        embedding.TableReader(args.id_column, args.text_column) if args.text_column else readers[args.split or ""]
    )
    return embedding.Corpus(args.input, Tokenizer.by_name(TOKENIZERS[args.split or "space"])(), read_rows)


def _file(args: argparse.Namespace) -> Any:
    """Return the `VectorFile` of the format that the arguments choose."""
    from elmo_plugin.embedding import VectorFile

    ending = args.output.suffix.lower()
    chosen = args.format or ENDINGS.get(ending, ending.removeprefix("."))
    known = VectorFile.list_available()
    reject(
        (
            chosen not in known,
            f"'{args.output}': expected a name that ends in .h5 or in the name of a format ({', '.join(known)}), or "
            f"one of them for --format, got '{chosen}'",
        )
    )
    keys = {name: True for name in ("compress", "use_sentence_keys", "forget_sentences") if getattr(args, name)}
    kind = VectorFile.by_name(chosen)
    unknown = [f"--{name.replace('_', '-')}" for name in keys if name not in inspect.signature(kind).parameters]
    reject((unknown, f"{' and '.join(unknown)}: expected a format that has it, such as hdf5, got {chosen}"))
    return kind(**keys)


def _say(text: str) -> None:
    """Print a note for the user to standard error."""
    print(f"embed-corpus: {text}", file=sys.stderr)


def _embedder(args: argparse.Namespace) -> Any:
    """Load the biLM and the mix that the arguments name."""
    import torch
    from allennlp.common.file_utils import CACHE_DIRECTORY

    from elmo_plugin import checkpoints, embedding

    if args.cuda_device == -1 and torch.cuda.is_available():
        _say("computing on the processor; --cuda-device 0 uses the first GPU")
    how = (args.precision, args.cuda_device, args.initial_state)
    if args.mix:
        return embedding.load(args.mix, embedding.TRAINED, *how, options_file=args.options_file)
    keys = checkpoints.bilm_keys(args.bilm, args.options_file, args.weight_file)
    if not args.bilm and not args.weight_file:
        _say(
            "without --bilm, the published original model with 93.6 million parameters is used: 374 MB from "
            f"{checkpoints.PUBLISHED_WEIGHTS}, cached in {CACHE_DIRECTORY}; --bilm english-tiny needs no download"
        )
    return embedding.load_by_keys(keys, args.layers, *how)
