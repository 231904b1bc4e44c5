"""The biLMs for all tests in this folder."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.oracles import write_files
from tests.task_oracles import small_bilm, warm_bilm

# flair cannot be installed with transformers 5.
collect_ignore = [] if find_spec("flair") else ["flair_embeddings_test.py"]


@pytest.fixture
def small(tmp_path: Path) -> str:
    """The small biLM in the files of bilm-tf."""
    write_files(tmp_path / "bilm", small_bilm())
    return str(tmp_path / "bilm")


@pytest.fixture
def warm(tmp_path: Path) -> str:
    """The small biLM with a warm state."""
    write_files(tmp_path / "warm", warm_bilm())
    return str(tmp_path / "warm")
