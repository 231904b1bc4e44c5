"""A predictor that threads share gives each of them the answers that one thread gets."""

import logging
import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from allennlp.common import Params
from allennlp.data import DatasetReader
from allennlp.predictors import Predictor

from elmo_plugin.elmo.sentence_cache import open_store
from tests.models.configs import ELMO
from tests.task_oracles import (
    OPINIONS,
    TOWNS,
    build_model,
    classifier,
    csv_reader,
    experiment,
    tagger,
    tags_reader,
)

N_THREADS = 8
QUESTIONS = [
    {"sentence": " ".join(f"Word{number % 7}{word} isn't" for word in range(number % 5 + 1))} for number in range(12)
]


@pytest.fixture(autouse=True)
def threads_take_turns_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def predictor(name: str, elmo: dict[str, Any]) -> Predictor:
    """Build an untrained model and its predictor."""
    elmo = {**ELMO, **elmo}
    if name == "elmo_classifier":
        config = experiment(classifier(elmo), csv_reader(), OPINIONS)
    else:
        config = experiment(tagger(elmo), tags_reader(), TOWNS)
    model, _ = build_model(config)
    return Predictor.by_name(name)(model, DatasetReader.from_params(Params(config["dataset_reader"])))


def in_threads(work: Callable[[int], Any]) -> list[Any]:
    """The results of some work for the number of each thread. All begin at the same moment."""
    barrier = Barrier(N_THREADS)

    def begin(number: int) -> Any:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(N_THREADS) as threads:
        return list(threads.map(begin, range(N_THREADS)))


def assert_same(found: Any, wanted: Any) -> None:
    """Compare answers; numbers may differ in their last bits, as those of words that are computed together do."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            assert_same(found[key], value)
    elif isinstance(wanted, list) and any(isinstance(each, str | dict) for each in wanted):
        for ours, theirs in zip(found, wanted, strict=True):
            assert_same(ours, theirs)
    elif isinstance(wanted, list | float):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    else:
        assert found == wanted


@pytest.mark.parametrize("name", ["elmo_tagger", "elmo_classifier", "elmo_embedder"])
@pytest.mark.parametrize("with_cache", [False, True])
def test_threads_get_the_answers_of_one_thread(
    name: str, with_cache: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = [predictor(name, {}).predict_json(question) for question in QUESTIONS]
    elmo = {"sentence_cache": str(tmp_path / "cache")} if with_cache else {}
    shared = deepcopy(predictor(name, elmo))  # a copy has not opened its cache yet

    def ask(seed: int) -> list[Any]:
        order = random.Random(seed).sample(range(len(QUESTIONS)), len(QUESTIONS))
        answers = {number: shared.predict_json(QUESTIONS[number]) for number in order}
        return [answers[number] for number in range(len(QUESTIONS))]

    for answers in in_threads(ask):
        assert_same(answers, wanted)
    assert not [record.message for record in caplog.records if record.levelno >= logging.WARNING]


def test_threads_that_open_a_store_get_the_same_one(tmp_path: Path) -> None:
    """LMDB opens a file only once in a process."""
    for number in range(30):
        stores = in_threads(lambda _, number=number: open_store(tmp_path / str(number)))
        assert stores[0] is not None and all(store is stores[0] for store in stores)
