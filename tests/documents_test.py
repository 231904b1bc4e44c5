"""The commands of the other documents are whole: their blocks are run by a shell in which `uv` only notes its calls."""

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
from allennlp.commands import parse_args
from allennlp.common import Params

from benchmarks import __main__ as benchmarks
from benchmarks import epoch
from experiments import grid, perplexity, text_of

ROOT = Path(__file__).parent.parent
UV = """#!/bin/bash
call=$(mktemp -d "$CALLS/XXXXXX")
env -0 > "$call/environment"
printf '%s\\0' "$@" > "$call/arguments"
"""
PARSERS = {
    "benchmarks": benchmarks.parse,
    "benchmarks.epoch": epoch.parse,
    "experiments.grid": grid.parse,
    "experiments.perplexity": perplexity.parse,
    "experiments.text_of": text_of.parse,
}


class Call(NamedTuple):
    """What `uv run` was given, and the variables that were set."""

    arguments: list[str]
    environment: dict[str, str]


def calls_of(document: str, folder: Path) -> list[Call]:
    """Of all its indented blocks, one after the other, in an empty folder."""
    lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
    (folder / "bin").mkdir()
    (folder / "calls").mkdir()
    (folder / "bin/uv").write_text(UV)
    (folder / "bin/uv").chmod(0o755)
    kept = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "CALLS": str(folder / "calls"), "TMPDIR": str(folder)}
    script = "\n".join(line[4:] for line in lines if line.startswith("    "))
    subprocess.run(["bash"], input=script, cwd=folder, env=kept, text=True, timeout=120, capture_output=True)
    calls = []
    for call in (folder / "calls").iterdir():
        arguments, environment = ((call / name).read_text().split("\0")[:-1] for name in ("arguments", "environment"))
        calls.append(Call(arguments, dict(pair.split("=", 1) for pair in environment)))
    return calls


@pytest.mark.parametrize("document", ["training_configs/README.md", "training_configs/RESULTS.md"])
def test_each_command_names_what_there_is_and_has_all_variables_that_it_needs(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = calls_of(document, tmp_path)
    assert len(calls) >= 10
    for call in calls:
        run, program, *arguments = call.arguments
        assert run == "run"
        if program == "python" and arguments[0] == "-m":
            PARSERS[arguments[1]](arguments[2:])
        elif program == "python":
            assert (ROOT / arguments[0]).is_file()
        else:
            assert program == "allennlp"
            monkeypatch.setattr("sys.argv", ["allennlp", *arguments])
            _, parsed = parse_args()
            if arguments[0] == "train":
                Params.from_file(ROOT / parsed.param_path, parsed.overrides, ext_vars=call.environment)


def test_the_tables_of_benchmarks_were_printed_by_commands_that_there_are() -> None:
    printed_by = re.findall(r"^- `python -m (\S+) (.*)`$", (ROOT / "benchmarks/README.md").read_text(), re.MULTILINE)
    assert len(printed_by) >= 6
    for module, arguments in printed_by:
        PARSERS[module](shlex.split(arguments))
