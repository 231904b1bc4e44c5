"""How each command is added, the arguments that several commands share, and what they print."""

import argparse
import logging
import os
import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

OURS = ("elmo-plugin", "python -m elmo_plugin")
"""The programs that always load this package."""


def program() -> str:
    """Return the program that this process runs, as its user types it: `elmo-plugin`, `allennlp` or any other."""
    path = Path(*sys.argv[:1])
    return f"python -m {path.parent.name}" if path.name == "__main__.py" else path.name


def add_command(parsers: Any, name: str, command: ModuleType) -> argparse.ArgumentParser:
    """Add the command of a module, with what `add_arguments` adds to its parser, and what `run` does with it.

    The docstring of the module is its help: a line about it, its usage, a minimal example and, after the arguments,
    further ones.

    A `ConfigurationError`, an `ArgumentError` or an `OSError` from `run` ends the command with one line and exit code
    1, or with its traceback if `ALLENNLP_DEBUG` is set. Options reject an empty value, which an unset shell variable
    gives, and huge numbers.
    """
    # With -OO, Python leaves docstrings out, and argparse shows what it knows.
    about, usage, example, more, *_ = [*(command.__doc__ or "").split("\n\n", 3), "", "", ""]
    parser: argparse.ArgumentParser = parsers.add_parser(
        name,
        help=about,
        usage=usage.replace(f"elmo-plugin {name}", "%(prog)s") or None,
        description=f"{about}\n\n{example}",
        epilog=more,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.register("type", None, word)
    parser.register("type", Path, lambda text: Path(word(text)))
    parser.register("type", int, whole_number())
    command.add_arguments(parser)
    parser.set_defaults(func=partial(_run, name, command.run))
    return parser


class WarningPrinter(logging.Handler):
    """Prints the warnings of this package, each as one line that a progress bar does not run into."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a warning, and mark it, so that the handlers of AllenNLP's commands do not print it too."""
        from tqdm import tqdm

        from elmo_plugin.common import printable

        tqdm.write(f"warning: {printable(record.getMessage())}", file=sys.stderr)
        record.is_printed = True


def _run(name: str, run: Callable[[argparse.Namespace], None], args: argparse.Namespace) -> None:
    from allennlp.common.checks import ConfigurationError

    logger, printer = logging.getLogger(__name__.partition(".")[0]), WarningPrinter(logging.WARNING)
    logger.addHandler(printer)
    try:
        run(args)
    except (ConfigurationError, argparse.ArgumentError, OSError) as error:
        if os.environ.get("ALLENNLP_DEBUG"):
            raise
        sys.exit(f"{name}: {error}")
    finally:
        logger.removeHandler(printer)


def reject(*mistakes: tuple[object, str]) -> None:
    """Raise `ArgumentError` for the first mistake that is made. Each is a condition and a message."""
    for is_made, message in mistakes:
        if is_made:
            raise argparse.ArgumentError(None, message)


def whole_number(
    expected: str = "a whole number", least: int = -sys.maxsize, most: int = sys.maxsize
) -> Callable[[str], int]:
    """Return the type of an option: what is `expected` is a whole number from `least` to `most`."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = most + 1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"expected {expected}, got {text!r}")
        return number

    return parse


count = whole_number("a whole number of 1 or more", least=1)


def add_bilm(subparser: argparse.ArgumentParser) -> None:
    """Add the biLM, the number of sentences, the device and the initial state."""
    subparser.add_argument("bilm", metavar="BILM", help="path or URL, in any format, or the name of a bundled biLM")
    subparser.add_argument("--sentences", metavar="N", type=count, help="read the first N of each file (default: all)")
    add_device(subparser)
    add_initial_state(subparser)


def add_device(parser: argparse._ActionsContainer) -> None:
    """Add the device to compute on."""
    parser.add_argument(
        "--cuda-device",
        metavar="N",
        type=whole_number("-1 or the number of a GPU", least=-1),
        default=-1,
        help="the number of a GPU, -1 for the processor",
    )


def add_initial_state(parser: argparse._ActionsContainer) -> None:
    """Add the state of the LSTMs before each sentence."""
    parser.add_argument(
        "--initial-state",
        metavar="STATE",
        help="the LSTM state before each sentence: zero (default), or warm, as stored by `convert-elmo --warm-on`",
    )


def output(text: str) -> Path:
    """Return the path of an output. Only commands whose results are lines of text write to standard output."""
    if word(text) == "-":
        raise argparse.ArgumentTypeError("expected the name of a file or folder, got -")
    return Path(text)


def word(text: str) -> str:
    """Return the text unless it is empty."""
    if not text:
        raise argparse.ArgumentTypeError("expected a non-empty value, got ''")
    return text


def say_written(path: Path, what: str, then: Optional[str]) -> None:
    """Say what the file or folder `path` holds and how large it is, and name the next command, if there is one."""
    from tqdm import tqdm

    size = tqdm.format_sizeof(sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file()), "B")
    print(f"{path}: {what}; {size}" + (f"\nnext: {then}" if then else ""), file=sys.stderr)


def print_page(page: str, name: str) -> None:
    """Print a page. On a terminal, also say how to save it as the file `name`."""
    print(page, end="", flush=True)
    if sys.stdout.isatty():
        print(f"next: {program()} {shlex.join(sys.argv[1:])} > {name}    # saves this page", file=sys.stderr)
