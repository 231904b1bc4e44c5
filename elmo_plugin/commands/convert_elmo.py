r"""Convert a biLM from one format to another.

elmo-plugin convert-elmo FROM TO [options]

  elmo-plugin convert-elmo runs/demo/model.tar.gz my_bilm

FROM may be in any format that elmo_plugin reads. TO is in one of these formats:

  bilm-tf  a folder with options.json and weights.hdf5, which every ELMo tool
           reads, and vocabulary.txt if the vocabulary is known; it cannot
           hold the softmax over words
  native   one file NAME.safetensors with everything: biLM, softmax,
           vocabulary and warm state
  hub      a folder to publish on the Hugging Face Hub: a native file,
           config.json and a model card

Write one file of half the size, for a config with bilm: 'my_bilm.safetensors':
  elmo-plugin convert-elmo runs/demo/model.tar.gz my_bilm.safetensors \
      --dtype float16

Convert the current state of a run that is still training:
  elmo-plugin convert-elmo runs/demo so_far.safetensors --force

Convert a published model of ELMoForManyLangs to one file:
  elmo-plugin convert-elmo 144.zip english.safetensors

Publish a folder on the Hub, for configs with bilm: 'hf://USER/my_bilm':
  elmo-plugin convert-elmo runs/demo/model.tar.gz my_bilm --to hub \
      --license cc-by-4.0
  hf upload USER/my_bilm my_bilm

Add a warm initial state, computed on a text, for configs with
initial_state: 'warm'. Other tools ignore it:
  elmo-plugin convert-elmo elmo_weights.hdf5 my_bilm --warm-on sentences.txt
"""

import argparse
import shlex
from pathlib import Path

from elmo_plugin.commands.arguments import output, reject, say_written


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "source",
        metavar="FROM",
        help="a folder, weight file, zip file or model.tar.gz, by path, URL or bundled name",
    )
    parser.add_argument(
        "--options-file", metavar="FILE", help="bilm-tf's options.json, if that of FROM is elsewhere today"
    )
    parser.add_argument("target", metavar="TO", type=output, help="NAME.safetensors, or a folder to write into")
    parser.add_argument(
        "--to",
        metavar="FORMAT",
        help="native, bilm-tf or hub (default: native if TO ends with .safetensors, else bilm-tf)",
    )
    parser.add_argument(
        "--warm-on", type=Path, metavar="TEXT", help="add a warm state, computed on a text of tokenized sentences"
    )
    parser.add_argument(
        "--dtype",
        choices=["float32", "float16", "bfloat16"],
        default="float32",
        help="the number type in a native or hub file; readers convert it back to float32",
    )
    parser.add_argument(
        "--license", metavar="ID", help="the licence in the model card, such as apache-2.0 (default: unknown)"
    )
    parser.add_argument("--force", action="store_true", help="replace existing files at TO")


def run(args: argparse.Namespace) -> None:
    """Convert a biLM and say what was written."""
    from elmo_plugin.checkpoints import convert

    target: Path = args.target
    is_taken = any(target.iterdir()) if target.is_dir() else target.exists()
    reject((is_taken and not args.force, f"'{target}' exists already; name another, or replace it with --force"))
    checkpoint, left_out, files = convert(
        args.source, target, args.warm_on, args.to, args.dtype, args.license, args.options_file
    )
    parts = [
        f"a biLM of {checkpoint.options.lstm.n_layers} layers, {checkpoint.n_parameters:,} parameters",
        "its softmax" if checkpoint.softmax is not None else "",
        "its vocabulary" if checkpoint.vocabulary is not None else "",
        *(f"without its {part}" for part in left_out),
        f"in {', '.join(files)}" if files else "",
    ]
    say_written(
        target,
        "; ".join(filter(None, parts)),
        f"elmo-plugin embed-corpus sentences.txt vectors.hdf5 --bilm {shlex.quote(str(target))}",
    )
