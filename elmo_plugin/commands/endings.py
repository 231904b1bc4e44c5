"""How a command ends: results go to standard output; what was written and what to do next go to standard error."""

import shlex
import sys
from pathlib import Path

from tqdm import tqdm

from elmo_plugin.commands.console import program


def say_written(path: Path, what: str, then: str) -> None:
    """Say what the file or folder `path` holds and how large it is, and name the next command."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    size = tqdm.format_sizeof(sum(file.stat().st_size for file in files), "B")
    print(f"{path}: {what}; {size}\nnext: {then}", file=sys.stderr)


def print_page(page: str, name: str) -> None:
    """Print a page. On a terminal, also say how to save it as the file `name`."""
    print(page, end="", flush=True)
    if sys.stdout.isatty():
        print(f"next: {program()} {shlex.join(sys.argv[1:])} > {name}    # saves this page", file=sys.stderr)
