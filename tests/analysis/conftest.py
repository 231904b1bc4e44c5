"""The embedder that the tests in this folder share."""

import pytest

from elmo_plugin.embedding import Embedder, load
from tests.oracles import write_files
from tests.task_oracles import small_bilm


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    """The small biLM with all of its layers."""
    folder = tmp_path_factory.mktemp("bilm")
    write_files(folder, small_bilm())
    return load(folder)
