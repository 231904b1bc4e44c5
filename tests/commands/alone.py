"""Run commands without the seconds that it takes to set up AllenNLP's own, or to import everything."""

import argparse
import os
import runpy
import sys
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from allennlp.commands import ArgumentParserWithDefaults
from allennlp.commands.subcommand import Subcommand

from elmo_plugin.commands import COMMANDS as COMMANDS


def parser_of(name: str) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """Return the parser of `elmo-plugin` with this command alone, and that of the command."""
    parser = ArgumentParserWithDefaults(prog="elmo-plugin")
    return parser, Subcommand.by_name(name)().add_subparser(parser.add_subparsers())  # type: ignore[call-arg]


def run(name: str, *arguments: object) -> None:
    """Run a command."""
    args = parser_of(name)[0].parse_args([name, *map(str, arguments)])
    args.func(args)


class Ended(NamedTuple):
    """How a program ended, and what it printed."""

    exit_code: int | None
    out: str
    err: str


def python_m(module: str, *arguments: str, folder: Path) -> Ended:
    """Run `python -m` in a fork of this process, in a folder that is also the home of its user."""
    process = get_context("fork").Process(target=_run_module, args=(module, arguments, folder))
    process.start()
    process.join()
    return Ended(process.exitcode, (folder / "out").read_text(), (folder / "err").read_text())


def _run_module(module: str, arguments: tuple[str, ...], folder: Path) -> None:
    os.chdir(folder)
    os.environ["HOME"] = str(folder)
    sys.argv = [module, *arguments]
    with open("out", "w") as out, open("err", "w") as err:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        with redirect_stdout(out), redirect_stderr(err):
            runpy.run_module(module, run_name="__main__", alter_sys=True)
