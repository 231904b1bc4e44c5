"""The served models that the files of this folder share."""

from collections.abc import Iterator

import pytest
from allennlp.common import Params
from allennlp.data import DatasetReader

from elmo_plugin.embedding import Embedder
from elmo_plugin.models import ElmoClassifierPredictor
from elmo_plugin.serving import ServedModel, load_served
from tests.serving_oracles import FILES, Client, serving
from tests.task_oracles import OPINIONS, build_model, classifier, csv_reader, experiment, random_elmo


@pytest.fixture(scope="session")
def tagger() -> ServedModel:
    """The archive of a tagger, with the softmax of another biLM for its words."""
    return load_served(str(FILES / "elmo_tagger.tar.gz"), language_model=str(FILES / "bilm.tar.gz"))


@pytest.fixture(scope="session")
def opinions() -> ServedModel:
    """An untrained classifier that reads two words of a text, and embedders of its biLM."""
    elmo = random_elmo()
    keys = {"bilm": {"options": elmo.bilm.options.to_dict(), "seed": 0}}
    config = experiment(classifier(keys), csv_reader(max_sequence_length=2), OPINIONS)
    model, _ = build_model(config)
    predictor = ElmoClassifierPredictor(model, DatasetReader.from_params(Params(config["dataset_reader"])))
    embedder = Embedder(elmo).with_mix("average")
    return ServedModel("opinions", predictor.tokenizer, {"average": embedder}, predictor)


@pytest.fixture(scope="session")
def tagger_client(tagger: ServedModel) -> Iterator[Client]:
    with serving(tagger) as client:
        yield client
