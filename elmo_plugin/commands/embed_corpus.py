"""`allennlp embed-corpus`: a text to vectors on disk."""

import argparse
import os
import sys
from pathlib import Path
from typing import Optional

import torch
from allennlp.commands.subcommand import Subcommand
from allennlp.common import logging as common_logging
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import CACHE_DIRECTORY
from allennlp.data import Tokenizer

from elmo_plugin.bilm import CHOICES
from elmo_plugin.checkpoints import PUBLISHED_OPTIONS, PUBLISHED_WEIGHTS, bundled_names
from elmo_plugin.commands.arguments import add_initial_state, check_values, count, device, word
from elmo_plugin.embedding import (
    MIXES,
    SMALLEST_WINDOW,
    TRAINED,
    Corpus,
    CorpusEmbedder,
    Embedder,
    ShardedCorpusEmbedder,
    Share,
    VectorFile,
    check_processes,
    load,
    load_by_keys,
    refuse_existing,
)
from elmo_plugin.text import TOKENS_PER_BATCH

DESCRIPTION = """
Embed a text, one sentence a line, and write the vectors to one file:

  hdf5     a dataset a line, its key the line's number from 0, and `sentence_to_index`, a JSON string of
           each sentence's key: the layout of AllenNLP's retired command `elmo`
  npz      an array a line, its name the line's number from 0
  parquet  a row a line: line, sentence, tokens, and a column of vectors for each layer

An array is (L, T, D) for all layers, the token layer first, (T, D) for one layer or a mix, and without T
if pooled. An empty line keeps its number; it has a T of 0, or zeros if pooled.

With the biLM that comes with the package, no download; without --bilm the published original model is fetched,
374 MB, once:
  allennlp embed-corpus sentences.txt vectors.hdf5 --bilm english-tiny --all

With a pair of files, from standard input, half the size:
  zcat news.gz | allennlp embed-corpus - news.hdf5 --options-file options.json --weight-file weights.hdf5 --half

With the mix that a tagger has learned, a vector a sentence:
  allennlp embed-corpus sentences.txt vectors.npz --mix runs/demo/model.tar.gz --pool

What is embedded is kept in OUTPUT.part until OUTPUT is made of it, so that the disk needs room for it twice. A
run that was killed goes on from there when the same command is given again.

Tokens are what white space separates. With --split tab they are what tabs separate, as in the `plain` input of
ELMoForManyLangs: they may hold spaces, and be empty. With --split spacy the text need not be tokenised.

On four processes, each of which writes a shard of its own, such as vectors-00000-of-00004.hdf5:
  torchrun --standalone --nproc-per-node 4 --max-restarts 3 -m allennlp embed-corpus sentences.txt vectors.hdf5

The one that ends last writes the manifest, vectors.hdf5.json, and vectors.hdf5, which links to the shards and
is read as if it held them; npz and parquet have the manifest alone.
"""

SPLITS = {"space": "just_spaces", "tab": "just_tabs", "spacy": "spacy_blank"}
"""The tokenizer of each way to split, which may be called by the tokenizer's name, too."""
OTHER_NAMES = {tokenizer: split for split, tokenizer in SPLITS.items()}
ENDINGS = {"": "hdf5", ".h5": "hdf5"}
"""What names end with beside the names of formats."""


@Subcommand.register("embed-corpus")
class EmbedCorpus(Subcommand):
    """Registered as a `Subcommand` with name `embed-corpus`."""

    def add_subparser(self, parser: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
        """Say what the command takes."""
        subparser = parser.add_parser(
            self.name,
            description=DESCRIPTION,
            help="Embed a text, one sentence a line, and write the vectors to a file.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        check_values(subparser)
        subparser.add_argument("input", metavar="INPUT", type=Path, help="a text, plain, .gz or .xz; - is stdin")
        subparser.add_argument("output", metavar="OUTPUT", type=Path, help="a file that is not there yet")
        _add_layers(subparser)
        _add_bilm(subparser)
        _add_file(subparser)
        _add_work(subparser)
        subparser.set_defaults(func=run)
        return subparser


def _add_layers(subparser: argparse.ArgumentParser) -> None:
    group = subparser.add_argument_group("what of the layers").add_mutually_exclusive_group()
    explained = {"all": "all layers (default)", "top": "the top layer", "average": "the average of all layers"}
    for mix in MIXES:
        group.add_argument(
            f"--{mix}", dest="layers", action="store_const", const=mix, default="all", help=explained[mix]
        )
    group.add_argument(
        "--mix", metavar="ARCHIVE", help="the first mix that the model in an archive learned, and its biLM"
    )


def _add_bilm(subparser: argparse.ArgumentParser) -> None:
    group = subparser.add_argument_group("the biLM; without any of these the published original is fetched, 374 MB")
    group.add_argument("--bilm", help="path or URL, in any format, or the name of a bundled biLM")
    group.add_argument("--options-file", help="path or URL of bilm-tf's options.json")
    group.add_argument("--weight-file", help="path or URL of bilm-tf's hdf5 file")
    add_initial_state(group)


def _add_file(subparser: argparse.ArgumentParser) -> None:
    group = subparser.add_argument_group("the file")
    group.add_argument(
        "--format",
        choices=sorted(VectorFile.list_available()),
        help="by default OUTPUT's ending says it: .hdf5, .h5, .npz, .parquet, or none for hdf5",
    )
    group.add_argument("--pool", action="store_true", help="one vector a sentence, the mean over its tokens")
    group.add_argument("--half", action="store_true", help="numbers of 16 bits, not of 32")
    group.add_argument("--compress", action="store_true", help="slower, and smaller above all with --half")
    group.add_argument(
        "--use-sentence-keys",
        action="store_true",
        help="hdf5's keys are the sentences, / written %%2F; a repeated sentence is there once, an empty one is not",
    )
    group.add_argument("--forget-sentences", action="store_true", help="hdf5 without `sentence_to_index`")
    group.add_argument(
        "--vocab-path", metavar="PATH", help="nothing: the retired command took it too, and wrote no vocabulary"
    )


def _add_work(subparser: argparse.ArgumentParser) -> None:
    group = subparser.add_argument_group("the work")
    group.add_argument(
        "--split",
        "--tokenizer",
        type=lambda name: OTHER_NAMES.get(word(name), name),
        choices=list(SPLITS),
        default="space",
        help="tokens by white space (default), by tabs, or by spaCy's rules for English",
    )
    group.add_argument(
        "--tokens-per-batch",
        type=count,
        default=TOKENS_PER_BATCH,
        help=f"in a batch, padding included (default: {TOKENS_PER_BATCH})",
    )
    group.add_argument("--batch-size", type=count, help="sentences in a batch at most (default: any number)")
    group.add_argument(
        "--precision",
        choices=CHOICES,
        default="float32",
        help="what is computed in; auto is bfloat16 where the device computes it natively (default: float32)",
    )
    group.add_argument(
        "--cuda-device",
        type=device,
        help="the number of a GPU, 0 for the first, -1 for the processor (default: -1; under torchrun a GPU of its own "
        "for each process, where there are GPUs)",
    )
    group.add_argument("--file-friendly-logging", action="store_true", help="progress on lines of its own")


def run(args: argparse.Namespace) -> None:
    """Embed, and say what was written; one line and exit code 1 if something is wrong."""
    common_logging.FILE_FRIENDLY_LOGGING = args.file_friendly_logging
    try:
        share = _share()
        check_processes(args.output, share.size)
        file = _file(args)
        corpus = Corpus(args.input, Tokenizer.by_name(SPLITS[args.split])(), share)
        _check_output(args.output, share)
        if args.vocab_path:
            _say("--vocab-path: no vocabulary is written, as by the retired command")
        embedder = CorpusEmbedder(_embedder(args), args.pool, args.half, args.tokens_per_batch, args.batch_size)
        whole_or_shard = embedder if share.size == 1 else ShardedCorpusEmbedder(embedder)
        counts = whole_or_shard.embed(corpus, args.output, file)
    except (ConfigurationError, OSError) as error:
        sys.exit(f"embed-corpus: {error}")
    if share.size > 1 and not counts.sentences:
        about = f"a window of the text has {SMALLEST_WINDOW:,} characters or more, and there are fewer than processes"
        print(f"embed-corpus: nothing to do for process {share.rank + 1} of {share.size}: {about}", file=sys.stderr)
    written = f"{args.output}, shard {share.rank + 1} of {share.size}" if share.size > 1 else args.output
    shape = ", ".join("T" if count == -1 else str(count) for count in embedder.layout.shape)
    print(f"{written}: {counts.sentences:,} sentences, {counts.tokens:,} tokens; ({shape}) {embedder.layout.dtype}")


def _share() -> Share:
    """Which of several processes this one is, as torchrun says it."""
    size = os.environ.get("WORLD_SIZE", "1")
    rank = os.environ.get("RANK", "0" if size == "1" else "")
    if not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size)):
        raise ConfigurationError(
            f"the environment's RANK is {rank!r} and WORLD_SIZE {size!r}; wanted two numbers, the first from 0 and less"
        )
    return Share(int(rank), int(size))


def _file(args: argparse.Namespace) -> VectorFile:
    ending = args.output.suffix.lower()
    chosen = args.format or ENDINGS.get(ending, ending.removeprefix("."))
    if chosen not in VectorFile.list_available():
        known = ", ".join(f".{name}" for name in ["h5", *VectorFile.list_available()])
        raise ConfigurationError(f"'{args.output}': expected a name that ends in {known}, or --format, got '{ending}'")
    keys = {name: True for name in ("use_sentence_keys", "forget_sentences") if getattr(args, name)}
    if chosen != "hdf5" and keys:
        named = " and ".join(f"--{name.replace('_', '-')}" for name in keys)
        raise ConfigurationError(f"{named} is for hdf5; found the format {chosen}")
    return VectorFile.by_name(chosen)(args.compress, **keys)


def _check_output(output: Path, share: Share) -> None:
    """Raise `ConfigurationError` where it cannot be written, before anything is loaded.

    Of several processes the others may have joined it already.
    """
    if not output.parent.is_dir():
        raise ConfigurationError(f"'{output}' cannot be written: there is no folder '{output.parent}'; make it first")
    if share.size == 1:
        refuse_existing(output)


def _say(text: str) -> None:
    """What a user should know and no program reads; of several processes the first one says it."""
    if os.environ.get("RANK", "0") == "0":
        print(f"embed-corpus: {text}", file=sys.stderr)


def _embedder(args: argparse.Namespace) -> Embedder:
    named = [f"--{name}" for name in ("mix", "bilm", "options-file") if getattr(args, name.replace("-", "_"))]
    if args.weight_file and "--options-file" not in named:
        named.append("--weight-file")
    if len(named) > 1:
        raise ConfigurationError(f"{' and '.join(named)} each say which biLM it is; wanted one of them")
    if bool(args.options_file) != bool(args.weight_file):
        missing = "--weight-file" if args.options_file else "--options-file"
        raise ConfigurationError(f"{missing} is missing; wanted both files of a bilm-tf pair, or neither")
    if args.mix in MIXES or args.mix in bundled_names():
        instead = f"--{args.mix}" if args.mix in MIXES else f"--bilm {args.mix}, with --all, --top or --average"
        raise ConfigurationError(f"--mix: expected the archive of a trained model, got {args.mix!r}; write {instead}")
    device = _cuda_device(args.cuda_device)
    if args.mix:
        return load(args.mix, TRAINED, args.precision, device, args.initial_state)
    if args.bilm:
        return load(args.bilm, args.layers, args.precision, device, args.initial_state)
    if not args.options_file:
        _say(
            "without --bilm, this is the published original model, 93.6 million parameters: 374 MB from "
            f"{PUBLISHED_WEIGHTS}, kept in {CACHE_DIRECTORY} for the next time; --bilm english-tiny needs no download"
        )
    pair = {
        "options_file": args.options_file or PUBLISHED_OPTIONS,
        "weight_file": args.weight_file or PUBLISHED_WEIGHTS,
    }
    return load_by_keys(pair, args.layers, args.precision, device, args.initial_state)


def _cuda_device(chosen: Optional[int]) -> int:
    """What the user says; or the GPU of this process among those that torchrun has started on this machine."""
    if chosen is not None:
        return chosen
    if not torch.cuda.is_available():
        return -1
    if "LOCAL_RANK" not in os.environ:
        _say("the vectors are computed on the processor; --cuda-device 0 takes the first GPU")
        return -1
    return int(os.environ["LOCAL_RANK"])
