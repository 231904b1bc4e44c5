"""AllenNLP's own `ModelTestCase` on our models: they train, are saved and loaded, and no batch changes an answer."""

import json
from pathlib import Path
from typing import Any

import pytest
from allennlp.common.testing import ModelTestCase

from tests.models.configs import ELMO
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

WORDS = {"encoder": lstm(D + 5), "text_field_embedder": word_embedder(5)}


@pytest.mark.parametrize(
    "config",
    [
        experiment(tagger({**ELMO, "requires_grad": True}, crf=False, **WORDS), tags_reader(), TOWNS),
        experiment(classifier(ELMO, dropout=0.3), csv_reader(), OPINIONS),
    ],
)
def test_a_task_model_passes_allennlps_test_case(config: Config, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    case: Any = ModelTestCase()
    case.setup_method()
    case.set_up_model(path, config["train_data_path"], seed=3)
    case.ensure_batch_predictions_are_consistent()
    case.ensure_model_can_train_save_and_load(path, tolerance=1e-4)
    case.teardown_method()
