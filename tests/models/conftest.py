"""A trained model that several test files share."""

import shutil
from pathlib import Path

import pytest

from tests.task_oracles import TOWNS, bilm_files, experiment, tagger, tags_reader, train


@pytest.fixture(scope="session")
def trained_tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of an `elmo_tagger` on `TOWNS` whose biLM files no longer exist. Do not change it."""
    folder = tmp_path_factory.mktemp("trained_tagger")
    elmo = {**bilm_files(folder / "bilm"), "dropout": 0.0}
    train(experiment(tagger(elmo), tags_reader(), TOWNS), folder / "run")
    shutil.rmtree(folder / "bilm")
    return folder / "run" / "model.tar.gz"
