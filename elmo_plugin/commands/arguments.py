"""Arguments that more than one command takes."""

import argparse
from pathlib import Path

from elmo_plugin.config_keys import MOST
from elmo_plugin.embedding import Embedder, load


def check_values(subparser: argparse.ArgumentParser) -> None:
    """Let each option of a command refuse an empty value, as of a shell variable that is not set, and huge numbers."""
    subparser.register("type", None, word)
    subparser.register("type", Path, _path)
    subparser.register("type", int, _whole_number)


def add_bilm(subparser: argparse.ArgumentParser) -> None:
    """The biLM, the part of the text, and where to compute."""
    subparser.add_argument("bilm", metavar="BILM", help="path or URL, in any format, or the name of a bundled biLM")
    subparser.add_argument("--sentences", metavar="N", type=count, help="of each file the first N (default: all)")
    subparser.add_argument("--cuda-device", type=device, default=-1, help="the number of a GPU, -1 for the processor")
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


def device(text: str) -> int:
    """The number of a GPU, or -1 for the processor."""
    number = _whole_number(text)
    if number < -1:
        raise argparse.ArgumentTypeError(f"expected -1 or the number of a GPU, got {number}")
    return number


def word(text: str) -> str:
    """A value that is not empty."""
    if not text:
        raise argparse.ArgumentTypeError("expected a non-empty value, got ''")
    return text


def _path(text: str) -> Path:
    return Path(word(text))


def _whole_number(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = MOST + 1
    if abs(number) > MOST:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}")
    return number
