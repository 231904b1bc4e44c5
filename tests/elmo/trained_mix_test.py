"""AllenNLP's own ELMo inside a trained model: its layers and its mix, for `load` and for the predictor."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.models import Model
from allennlp.models.archival import load_archive
from allennlp.modules.elmo import Elmo as AllenNlpElmo
from allennlp.predictors import Predictor

from elmo_plugin.embedding import load
from elmo_plugin.text import batch_to_ids
from tests.oracles import SENTENCES
from tests.task_oracles import TOWNS, D, bilm_files, experiment, lstm, tags_reader, train, word_embedder


def their_tagger(folder: Path, **keys: Any) -> Path:
    """Train an AllenNLP tagger with AllenNLP's ELMo and its mix. Return its archive."""
    elmo = {"type": "elmo_token_embedder", **bilm_files(folder / "pair"), **keys}
    width = elmo.get("projection_dim", D)
    model = {
        "type": "simple_tagger",
        "encoder": lstm(width),
        "text_field_embedder": {"type": "basic", "token_embedders": {"elmo": elmo}},
    }
    reader = tags_reader(token_indexers={"elmo": {"type": "elmo_characters"}})
    train(experiment(model, reader, TOWNS, optimizer={"type": "adam", "lr": 0.1}), folder / "run")
    return folder / "run/model.tar.gz"


def its_elmo(model: Model) -> AllenNlpElmo:
    (found,) = [module for module in model.modules() if isinstance(module, AllenNlpElmo)]
    return found.eval()


def its_vectors(elmo: AllenNlpElmo, sentence: list[str]) -> np.ndarray:
    """The vectors (T, D) of a sentence by itself, from an all-zero state."""
    elmo._elmo_lstm._elmo_lstm.reset_states()
    with torch.no_grad():
        return elmo(batch_to_ids([sentence]))["elmo_representations"][0][0].numpy()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of an AllenNLP tagger with AllenNLP's ELMo, layer norm and a projection."""
    return their_tagger(tmp_path_factory.mktemp("theirs"), do_layer_norm=True, projection_dim=5)


@pytest.mark.slow
def test_the_trained_mix_is_loaded_also_without_the_original_weights(archive: Path) -> None:
    """AllenNLP cannot load an archive without the pair of files; here only their sizes are needed."""
    elmo = its_elmo(load_archive(archive).model)
    assert max(abs(float(weight.detach())) for weight in elmo.scalar_mix_0.scalar_parameters) > 0.01
    assert float(elmo.scalar_mix_0.gamma.detach()) != 1
    weights = archive.parents[1] / "pair/weights.hdf5"
    away = weights.rename(weights.with_suffix(".away"))
    for source in (archive, archive.parent):
        for sentence, found in zip(SENTENCES, load(source, "trained").embed(SENTENCES), strict=True):
            assert found.shape == (len(sentence), D)
            if sentence:
                np.testing.assert_allclose(found, its_vectors(elmo, sentence), atol=1e-5)
    away.rename(weights)


def test_the_predictor_returns_its_layers_and_its_mix(archive: Path) -> None:
    predictor = Predictor.from_path(str(archive), "elmo_embedder")
    elmo = its_elmo(load_archive(archive).model)
    answers = predictor.predict_batch_json([{"tokens": sentence} for sentence in SENTENCES])
    layers = load(archive).embed(SENTENCES)
    for sentence, answer, (word, first, second) in zip(SENTENCES, answers, layers, strict=True):
        if not sentence:
            assert answer["elmo"] == []
            continue
        np.testing.assert_allclose(answer["elmo"], its_vectors(elmo, sentence), atol=1e-5)
        np.testing.assert_allclose(answer["word_emb"], word[:, : D // 2], atol=1e-5)
        np.testing.assert_allclose(answer["lstm_outputs1"], first, atol=1e-5)
        np.testing.assert_allclose(answer["lstm_outputs2"], second, atol=1e-5)


def test_a_model_without_elmo_is_an_error(tmp_path: Path) -> None:
    model = {"type": "simple_tagger", "encoder": lstm(5), "text_field_embedder": word_embedder()}
    reader = tags_reader(token_indexers={"tokens": {"type": "single_id"}})
    train(experiment(model, reader, TOWNS, num_epochs=1), tmp_path / "run")
    with pytest.raises(ConfigurationError, match=r"model\.tar\.gz': .*expected one with ELMo, got a SimpleTagger"):
        load(tmp_path / "run/model.tar.gz", "trained")
    with pytest.raises(ConfigurationError, match=r"ELMo.*SimpleTagger"):
        Predictor.from_path(str(tmp_path / "run/model.tar.gz"), "elmo_embedder")
