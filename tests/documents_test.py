"""The commands of the other pages exist: a shell runs their blocks, with a `uv` that only notes its calls."""

import json
import os
import re
import shlex
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple, Optional

import pytest
from allennlp.common import Params

from benchmarks import __main__ as benchmarks
from benchmarks import commits, epoch, serve
from experiments import five_gram, grid, how_much_text, litbank, senseval, text_of, widen
from tests.task_oracles import allennlp_parser

ROOT = Path(__file__).parent.parent
UV = """#!/bin/bash
call=$(mktemp -d "$CALLS/XXXXXX")
env -0 > "$call/environment"
printf '%s\\0' "$@" > "$call/arguments"
"""
PARSERS = {
    "benchmarks": benchmarks.parse,
    "benchmarks.commits": commits.parse,
    "benchmarks.epoch": epoch.parse,
    "benchmarks.serve": serve.parse,
    "experiments.five_gram": five_gram.parse,
    "experiments.grid": grid.parse,
    "experiments.how_much_text": how_much_text.parse,
    "experiments.litbank": litbank.parse,
    "experiments.senseval": senseval.parse,
    "experiments.text_of": text_of.parse,
    "experiments.widen": widen.parse,
}


class Call(NamedTuple):
    """The arguments of a `uv` call and its environment variables."""

    arguments: list[str]
    environment: dict[str, str]


def calls_of(document: str, folder: Path) -> list[Call]:
    """Run all indented blocks of a document in an empty folder, and return the calls of `uv`."""
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


@cache
def evaluate(config: str, override_keys: frozenset[str], variables: frozenset[str], task: Optional[str]) -> None:
    """Evaluate a config once for all calls that override the same keys and set the same variables."""
    ext_vars = dict.fromkeys(variables, "1") | ({} if task is None else {"TASK": task})
    Params.from_file(ROOT / config, dict.fromkeys(override_keys, 1), ext_vars)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "least"),
    [("training_configs/README.md", 2), pytest.param("docs/results.md", 30, marks=pytest.mark.slow)],
)
def test_each_command_exists_and_has_all_variables_that_it_needs(document: str, least: int, tmp_path: Path) -> None:
    calls = calls_of(document, tmp_path)
    assert len(calls) >= least
    for call in calls:
        run, program, *arguments = call.arguments
        assert run == "run"
        if program == "python":
            assert arguments[0] == "-m"
            PARSERS[arguments[1]](arguments[2:])
        else:
            assert program == "elmo-plugin"
            parsed = allennlp_parser().parse_args(arguments)
            if arguments[0] == "train":
                override_keys = frozenset(json.loads(parsed.overrides or "{}"))
                variables = frozenset(call.environment)
                evaluate(parsed.param_path, override_keys, variables, call.environment.get("TASK"))


def test_the_tables_of_benchmarks_were_printed_by_commands_that_exist() -> None:
    printed_by = re.findall(r"^- `python -m (\S+) (.*)`$", (ROOT / "docs/benchmarks.md").read_text(), re.MULTILINE)
    assert len(printed_by) >= 6
    for module, arguments in printed_by:
        PARSERS[module](shlex.split(arguments))
