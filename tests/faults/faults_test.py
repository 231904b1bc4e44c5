"""A sample of the faults of `python -m tests.faults`, and a job that fails wherever it is careless."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ["embed-hdf5", "pretraining"]
PROGRAM = f"""
import sys
from pathlib import Path
from tests.faults import __main__, jobs

def write():
    Path("new").write_text("all of it")
    Path("left").touch()
    Path("left").unlink()

def again():
    if not Path("new").exists():
        write()

jobs.JOBS["careless"] = jobs.Job(lambda folder: None, write, again)
for sys.argv in (["", "careless"], ["", *{SAMPLE}, "--every", "149"]):
    print("status", __main__.main())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="needs Linux and gcc")
def test_a_sample_of_faults_changes_no_result_and_a_careless_job_fails() -> None:
    preloaded = f"from tests.faults.processes import run_preloaded; run_preloaded(['-c', {PROGRAM!r}])"
    result = subprocess.run([sys.executable, "-c", preloaded], cwd=ROOT, capture_output=True, text=True, check=True)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in result.stdout.splitlines()]
    careless, *sample = [row for row in rows if len(row) == 5 and row[1].isdecimal()]
    # Kills before `new` is opened, and before `left` is there, do no harm, nor do errors that name one of them.
    assert careless == ["careless", "4", "13", "6", "7"], result.stderr
    for problem in (
        "killed at 2, write new: 'new' is incomplete",
        "killed in the middle at 2, write new: differs at the end: /new",
        "EIO at 2, write new: no error of one line with the file",
        "killed at 4, unlink left: 'left' is left",
    ):
        assert f"careless: {problem}" in result.stderr
    assert "status 0" in result.stdout, result.stderr
    assert [row[0] for row in sample] == SAMPLE
    assert all(int(faults) == int(equal) > 0 for _, _, faults, equal, _ in sample)
