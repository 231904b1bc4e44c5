"""The served models that the files of this folder share."""

from collections.abc import Iterator

import pytest

from elmo_plugin.serving import ServedModel
from tests.serving_oracles import Client, served_classifier, served_tagger, serving


@pytest.fixture(scope="session")
def tagger() -> ServedModel:
    return served_tagger()


@pytest.fixture(scope="session")
def opinions() -> ServedModel:
    return served_classifier()


@pytest.fixture(scope="session")
def tagger_client(tagger: ServedModel) -> Iterator[Client]:
    with serving(tagger) as client:
        yield client
