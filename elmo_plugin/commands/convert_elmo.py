"""`allennlp convert-elmo`: a biLM from one format to another."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from allennlp.commands.subcommand import Subcommand
from allennlp.common.checks import ConfigurationError

from elmo_plugin.checkpoints import DTYPES, NO_PLACE, Conversion, convert
from elmo_plugin.commands.arguments import check_values

DESCRIPTION = """
Read a biLM in any format that elmo_plugin knows and write it in one of three:

  bilm-tf     a folder with options.json and weights.hdf5, which every ELMo tool reads, and vocabulary.txt
              if the vocabulary is known; the softmax over words has no place in it
  many-langs  a folder that ELMoForManyLangs reads, of a biLM with lexicons; its weights alone have a place in it
  native      one file NAME.safetensors with everything: biLM, softmax, vocabulary and warm state

The biLM of a run of `allennlp train`, for other tools:
  allennlp convert-elmo runs/demo/model.tar.gz my_bilm

The same in one file of half the size; say {"pretrained": "my_bilm.safetensors"} in a config:
  allennlp convert-elmo runs/demo/model.tar.gz my_bilm.safetensors --dtype float16

While the run still trains, as it is now:
  allennlp convert-elmo runs/demo so_far.safetensors --force

A model of ELMoForManyLangs as it is published, in one file, and back; bilm-tf's files have no place for its lexicons:
  allennlp convert-elmo 144.zip english.safetensors
  allennlp convert-elmo english.safetensors 144 --to many-langs

With a warm initial state, computed on a text, for "initial_state": "warm"; other tools pass it over:
  allennlp convert-elmo elmo_weights.hdf5 my_bilm --warm-on sentences.txt
"""


@Subcommand.register("convert-elmo")
class ConvertElmo(Subcommand):
    """Registered as a `Subcommand` with name `convert-elmo`."""

    def add_subparser(self, parser: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
        """Say what the command takes."""
        subparser = parser.add_parser(
            self.name,
            description=DESCRIPTION,
            help="Convert a biLM from one format to another.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        check_values(subparser)
        subparser.add_argument(
            "source",
            metavar="FROM",
            help="a folder, a weight file, a zip file or a model.tar.gz, by path or URL, or the name of a bundled biLM",
        )
        subparser.add_argument("target", metavar="TO", type=Path, help="NAME.safetensors, or a folder to write into")
        subparser.add_argument(
            "--to",
            metavar="FORMAT",
            help=f"{', '.join(NO_PLACE)}; by default native if TO ends with .safetensors, else bilm-tf",
        )
        subparser.add_argument(
            "--warm-on", type=Path, metavar="TEXT", help="tokenised sentences, one a line, to compute a warm state on"
        )
        subparser.add_argument(
            "--dtype",
            choices=list(DTYPES),
            default="float32",
            help="precision of the numbers in a native file, which are read as float32 again",
        )
        subparser.add_argument("--force", action="store_true", help="replace what is at TO")
        subparser.set_defaults(func=run)
        return subparser


def run(args: argparse.Namespace) -> None:
    """Convert, and say what was written; one line and exit code 1 if something is wrong."""
    try:
        _check_target(args.target, args.force)
        converted = convert(args.source, args.target, args.warm_on, args.to, args.dtype)
    except (ConfigurationError, OSError) as error:
        sys.exit(f"convert-elmo: {error}")
    print(f"{args.target}: {'; '.join(_said(converted))}")


def _check_target(target: Path, force: bool) -> None:
    """Raise `ConfigurationError` where something would be replaced that nobody said to replace."""
    if not force and (any(target.iterdir()) if target.is_dir() else target.exists()):
        raise ConfigurationError(f"'{target}' is there already; name another target, or replace it with --force")


def _said(converted: Conversion) -> Iterator[str]:
    """What a file or a folder now holds and what it does not, in words."""
    checkpoint = converted.checkpoint
    values = sum(tensor.numel() for name, tensor in checkpoint.state_dict.items() if not name.endswith("_extra_state"))
    yield f"a biLM of {checkpoint.options.lstm.n_layers} layers, {values:,} values"
    lexicon = checkpoint.options.lexicon
    if lexicon is not None:
        yield f"its lexicons, {len(lexicon.characters):,} characters and {len(lexicon.words):,} words"
    if checkpoint.softmax is not None:
        yield f"its softmax, {sum(tensor.numel() for tensor in checkpoint.softmax.state_dict.values()):,} values"
    if checkpoint.vocabulary is not None:
        yield f"its vocabulary, {len(checkpoint.vocabulary):,} lines"
    for part in converted.left_out:
        yield f"without its {part}"
    if converted.files:
        yield f"in {', '.join(converted.files)}"
