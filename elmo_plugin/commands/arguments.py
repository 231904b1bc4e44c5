"""Arguments that more than one command takes."""

import argparse

from elmo_plugin.bulk_embedding import Embedder, load


def add_bilm(subparser: argparse.ArgumentParser) -> None:
    """The biLM, the part of the text, and where to compute."""
    subparser.add_argument("bilm", metavar="BILM", help="path or URL, in any format, or the name of a bundled biLM")
    subparser.add_argument("--sentences", metavar="N", type=count, help="of each file the first N (default: all)")
    subparser.add_argument("--cuda-device", type=int, default=-1, help="the number of a GPU, -1 for the processor")
    add_initial_state(subparser)


def add_initial_state(parser: argparse._ActionsContainer) -> None:
    """What each sentence starts from."""
    parser.add_argument(
        "--initial-state",
        metavar="STATE",
        help="what each sentence starts from: zero (default), or warm, the state that `convert-elmo --warm-on` stored",
    )


def load_bilm(args: argparse.Namespace) -> Embedder:
    """The biLM that the arguments name, with all of its layers."""
    return load(args.bilm, "all", cuda_device=args.cuda_device, initial_state=args.initial_state)


def count(text: str) -> int:
    """A whole number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}; wanted a whole number of 1 or more")
    return int(text)
