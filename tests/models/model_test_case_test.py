"""AllenNLP's own `ModelTestCase` on our models: they train, are saved and loaded, and no batch changes an answer."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from allennlp.common.testing import ModelTestCase

from tests.oracles import options
from tests.task_oracles import (
    OPINIONS,
    TOWNS,
    Config,
    D,
    classifier,
    csv_reader,
    experiment,
    lstm,
    tagger,
    tags_reader,
    word_embedder,
)

ELMO = {"bilm": {"options": options().to_dict(), "seed": 0}}
TUNED = {**ELMO, "requires_grad": True}
WORDS = {"encoder": lstm(D + 5), "text_field_embedder": word_embedder(5)}
EXPERIMENTS: dict[str, Config] = {
    "tagger of words, tuned": experiment(tagger(TUNED, crf=False, **WORDS), tags_reader(), TOWNS),
    "classifier": experiment(classifier(ELMO, dropout=0.3), csv_reader(), OPINIONS),
}


@pytest.fixture
def case() -> Iterator[ModelTestCase]:
    case = ModelTestCase()
    case.setup_method()
    yield case
    case.teardown_method()


def set_up(case: Any, config: Config, data: Any, folder: Path) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    case.set_up_model(path, data, seed=3)
    return path


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_task_model_passes_allennlps_test_case(name: str, case: Any, tmp_path: Path) -> None:
    config = EXPERIMENTS[name]
    path = set_up(case, config, config["train_data_path"], tmp_path)
    case.ensure_batch_predictions_are_consistent()
    case.ensure_model_can_train_save_and_load(path, tolerance=1e-4)
