"""How much processor time it takes to import the package and to start a command, beside `import torch`."""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Optional

from benchmarks.table import ROOT, Table, machine
from elmo_plugin.commands.arguments import count

DESCRIPTION = """
Measure the processor time, user and system, of whole processes: imports, help, a mistake in an option, and
`embed-corpus` of ten lines. The processes take turns; each figure is the median of the rounds.

  python -m benchmarks.start
  python -m benchmarks.start --before OTHER_CHECKOUT    # the same for the package in another checkout
"""
PROGRAM = "import sys; sys.argv = ['elmo-plugin', *sys.argv[1:]]; from {} import run; run()"
IMPORTS = {
    "Python": "pass",
    "`import torch`": "import torch",
    "`import elmo_plugin`": "import elmo_plugin",
    "`from allennlp.predictors import Predictor`": "from allennlp.predictors import Predictor",
}
COMMANDS = {
    "`elmo-plugin --version`": "--version",
    "`elmo-plugin --help`": "--help",
    "`elmo-plugin embed-corpus --help`": "embed-corpus --help",
    "`elmo-plugin embed-corpus --mistake`": "embed-corpus --mistake",
    "`elmo-plugin train --help`": "train --help",
    "`embed-corpus` of ten lines": "embed-corpus text out-{}.npz --bilm english-tiny",
}


def main(arguments: Optional[list[str]] = None) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.start",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="a checkout to compare with")
    parser.add_argument("--rounds", type=count, default=5, metavar="N", help="default: 5")
    args = parser.parse_args(arguments)
    checkouts = {"today": ROOT} | ({"before": args.before.resolve()} if args.before else {})
    rows = [*IMPORTS, *COMMANDS]
    with TemporaryDirectory() as folder:
        Path(folder, "text").write_text("One sentence of six words .\n" * 10, encoding="utf-8")
        times: dict[tuple[str, str], list[float]] = {(row, name): [] for row in rows for name in checkouts}
        for number in range(args.rounds):
            for row in rows:
                for name, checkout in checkouts.items():
                    command = command_of(row, checkout, f"{name}-{number}")
                    times[row, name].append(processor_seconds(command, checkout, folder))
    cells = [[row, *(f"{statistics.median(times[row, name]):.2f}" for name in checkouts)] for row in rows]
    lines = machine("benchmarks.start")
    print("\n".join(lines))
    remark = f"Seconds of processor time, user and system; medians of {args.rounds} rounds."
    print("\n".join(Table("Starting", remark, ["", *checkouts], cells).lines()))


def command_of(row: str, checkout: Path, run: str) -> list[str]:
    """Return the command of a row, as the program of that checkout starts."""
    if row in IMPORTS:
        return [sys.executable, "-c", IMPORTS[row]]
    has_startup = (checkout / "elmo_plugin_startup.py").exists()
    code = PROGRAM.format("elmo_plugin_startup" if has_startup else "elmo_plugin.__main__")
    return [sys.executable, "-c", code, *COMMANDS[row].format(run).split()]


def processor_seconds(command: list[str], checkout: Path, folder: str) -> float:
    """Run a command with the package of a checkout, and return its processor time."""
    startup = "on" if (checkout / "elmo_plugin_startup.py").exists() else "off"  # the installed one is that of today
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout),
        "OMP_NUM_THREADS": "1",
        "ELMO_PLUGIN_STARTUP": startup,
    }
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0  # it is waited for
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
