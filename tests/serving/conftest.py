"""The served models that the files of this folder share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from allennlp.common import Params
from allennlp.data import DatasetReader

from elmo_plugin.models import ElmoClassifierPredictor
from elmo_plugin.serving import ServedModel, Text, load_served
from elmo_plugin.text import SpacyBlankTokenizer
from tests.serving_oracles import FILES, Client, serving
from tests.task_oracles import OPINIONS, build_model, classifier, csv_reader, experiment, random_elmo

TEXT = [
    "They went to the play .",
    "The children play by the river .",
    "",
    "She wrote a play and they play it .",
    "They went to the play .",
    "The play was long .",
    "A <b>play</b> & a boat .",
]


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of seven lines."""
    path = tmp_path_factory.mktemp("serving") / "<text>.txt"
    path.write_text("\n".join(TEXT) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tagger() -> ServedModel:
    """The archive of a tagger, with the softmax of another biLM for its words."""
    return load_served(str(FILES / "elmo_tagger.tar.gz"), language_model=str(FILES / "bilm.tar.gz"))


@pytest.fixture(scope="session")
def bilm(text: Path) -> ServedModel:
    """The bundled biLM and a text."""
    return load_served("english-tiny", Text(text))


@pytest.fixture(scope="session")
def opinions() -> ServedModel:
    """An untrained classifier."""
    elmo = {"bilm": {"options": random_elmo().bilm.options.to_dict(), "seed": 0}}
    config = experiment(classifier(elmo), csv_reader(), OPINIONS)
    model, _ = build_model(config)
    predictor = ElmoClassifierPredictor(model, DatasetReader.from_params(Params(config["dataset_reader"])))
    return ServedModel("opinions", SpacyBlankTokenizer(), predictor=predictor)


@pytest.fixture(scope="session")
def tagger_client(tagger: ServedModel) -> Iterator[Client]:
    with serving(tagger) as client:
        yield client


@pytest.fixture(scope="session")
def bilm_client(bilm: ServedModel) -> Iterator[Client]:
    with serving(bilm) as client:
        yield client
