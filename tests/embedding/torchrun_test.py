"""Two processes that torchrun starts, one of which is killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from elmo_plugin.embedding import Hdf5File, corpus
from tests.embedding_runs import BATCH, CHARACTERS, embed, write_text
from tests.oracles import write_files
from tests.task_oracles import small_bilm

ROOT = Path(__file__).resolve().parents[2]
KILLED_ONCE = """
import os, sys
from tests.killer import kill
from elmo_plugin.embedding import Embedder, corpus
from allennlp.commands import main

corpus.CHARACTERS_IN_WINDOW = int(sys.argv.pop(1))
vectors = Embedder._vectors
batches = []

def counting(self, sentences):
    batches.append(len(sentences))
    if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and len(batches) == 10:
        kill()
    return vectors(self, sentences)

Embedder._vectors = counting
main()
print(os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"], "batches", len(batches))
"""


@pytest.mark.slow
def test_torchrun_restarts_a_killed_process_which_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "killed_once.py").write_text(KILLED_ONCE)
    write_files(tmp_path / "bilm", small_bilm())
    write_text(tmp_path / "text", 120)
    monkeypatch.setattr(corpus, "CHARACTERS_IN_WINDOW", CHARACTERS // 2)
    command = ["embed-corpus", "text", "vectors.hdf5", "--bilm", "bilm", "--tokens-per-batch", str(BATCH)]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1"]
    result = subprocess.run(
        [sys.executable, *torchrun, "killed_once.py", str(CHARACTERS // 2), *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, result.stderr
    ended = sorted(line for line in result.stdout.splitlines() if "batches" in line)
    assert [line.split()[:2] for line in ended[-2:]] == [["0", "1"], ["1", "1"]]
    embed(tmp_path, "whole", Hdf5File())
    assert (tmp_path / "vectors.hdf5").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not list(tmp_path.glob("*.part"))
