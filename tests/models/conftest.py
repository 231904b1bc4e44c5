"""Trained models that several test files share. Do not change them."""

import shutil
from pathlib import Path

import pytest

from tests.models.configs import ELMO
from tests.task_oracles import (
    OPINIONS,
    TOWNS,
    bilm_files,
    classifier,
    csv_reader,
    experiment,
    tagger,
    tags_reader,
    train,
)


@pytest.fixture(scope="session")
def trained_tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of an `elmo_tagger` on `TOWNS` whose biLM files no longer exist."""
    folder = tmp_path_factory.mktemp("trained_tagger")
    elmo = {**bilm_files(folder / "bilm"), "dropout": 0.0}
    train(experiment(tagger(elmo), tags_reader(), TOWNS), folder / "run")
    shutil.rmtree(folder / "bilm")
    return folder / "run" / "model.tar.gz"


@pytest.fixture(scope="session")
def trained_classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of an `elmo_classifier` on `OPINIONS`, whose reader splits texts by spaCy's rules."""
    folder = tmp_path_factory.mktemp("trained_classifier")
    train(experiment(classifier(ELMO), csv_reader(tokenizer="spacy_blank"), OPINIONS), folder)
    return folder / "model.tar.gz"
