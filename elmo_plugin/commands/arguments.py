"""Arguments that several commands have, and the types of their values."""

import argparse
from pathlib import Path

from allennlp.common.checks import ConfigurationError

from elmo_plugin.config_keys import MOST
from elmo_plugin.embedding import Embedder, load


def add_command(
    parsers: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    about: str,
    usage: str,
    example: str,
    more: str,
) -> argparse.ArgumentParser:
    """Add a command whose help is one line about it, a minimal example, its arguments, and then further examples.

    Its options reject an empty value, as of a shell variable that is not set, and huge numbers.
    """
    parser = parsers.add_parser(
        name,
        help=about,
        usage=f"%(prog)s {usage} [options]",
        description=f"{about}\n\n  {example}",
        epilog=more,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.register("type", None, word)
    parser.register("type", Path, lambda text: Path(word(text)))
    parser.register("type", int, _whole_number)
    return parser


def add_bilm(subparser: argparse.ArgumentParser) -> None:
    """Add the biLM, the number of sentences, and the device."""
    subparser.add_argument("bilm", metavar="BILM", help="path or URL, in any format, or the name of a bundled biLM")
    subparser.add_argument("--sentences", metavar="N", type=count, help="read the first N of each file (default: all)")
    subparser.add_argument("--cuda-device", type=device, default=-1, help="the number of a GPU, -1 for the processor")
    add_initial_state(subparser)


def add_initial_state(parser: argparse._ActionsContainer) -> None:
    """Add the state before each sentence."""
    parser.add_argument(
        "--initial-state",
        metavar="STATE",
        help="the state before each sentence: zero (default), or warm, which `convert-elmo --warm-on` stored",
    )


def load_bilm(args: argparse.Namespace) -> Embedder:
    """Load the biLM that the arguments name, with all of its layers."""
    return load(args.bilm, "all", cuda_device=args.cuda_device, initial_state=args.initial_state)


def refuse_folder(config: str) -> None:
    """Raise `ConfigurationError` for the name of a folder where a config should be, for which jsonnet aborts."""
    if Path(config).is_dir():
        raise ConfigurationError(f"'{config}': expected a config, got a folder")


def count(text: str) -> int:
    """Return a whole number of 1 or more."""
    number = _whole_number(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of 1 or more, got {text!r}")
    return number


def device(text: str) -> int:
    """Return the number of a GPU, or -1 for the processor."""
    number = _whole_number(text)
    if number < -1:
        raise argparse.ArgumentTypeError(f"expected -1 or the number of a GPU, got {number}")
    return number


def word(text: str) -> str:
    """Return a value that is not empty."""
    if not text:
        raise argparse.ArgumentTypeError("expected a non-empty value, got ''")
    return text


def separator(text: str) -> str:
    """Return what separates columns, with a tab for the two characters that a shell passes on for it."""
    return word(text).replace(r"\t", "\t")


def new_file(text: str) -> Path:
    """Return a path that can be the name of a file, as `.` and `/` cannot."""
    path = Path(word(text))
    if not path.name:
        raise argparse.ArgumentTypeError(f"expected the name of a file, got {text!r}")
    return path


def _whole_number(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = MOST + 1
    if abs(number) > MOST:
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}")
    return number
