"""A language model that reads words, with separate tables for reading and predicting, or a shared one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.models import Model
from allennlp.predictors import Predictor

from elmo_plugin.bilm import BiLM, WordEncoder
from elmo_plugin.pretraining import BidirectionalLanguageModel
from elmo_plugin.pretraining.softmax import WordVectorSoftmax
from elmo_plugin.pretraining.vocabulary import BiLMVocabulary, WordIds, vocabulary_of, words_of
from tests.language_model_oracles import TRAIN, WORD_INPUT, WORDS, Config, experiment, language_model, write_corpus
from tests.oracles import file_layers, options, tensorflow_file, write_files
from tests.task_oracles import train

READING_WORDS: Config = {"bilm": {"options": WORD_INPUT, "seed": 1}}
SHARED: Config = {**READING_WORDS, "share_embedding_softmax": True}
BATCHES = {"type": "sentence_batches", "max_tokens": 40, "max_sentence_length": 20}


def tables(model: object) -> tuple[torch.nn.Parameter, torch.nn.Parameter]:
    """Return the table with which words are read (V + 1, P), and the one with which they are predicted."""
    assert isinstance(model, BidirectionalLanguageModel)
    encoder, softmax = model.bilm.token_encoder, model.softmax
    assert isinstance(encoder, WordEncoder) and isinstance(softmax, WordVectorSoftmax)
    return encoder.embedding.weight, softmax.weight  # type: ignore[return-value]


def loss(model: BidirectionalLanguageModel, lines: list[str]) -> torch.Tensor:
    """Return the loss of sentences."""
    return model(tokens=WordIds(model.vocab).of_sentences([line.split() for line in lines]))["loss"]


def test_the_shared_table_is_one_tensor_with_one_gradient() -> None:
    softmax = {"type": "sampled", "n_samples": 4}
    model = language_model(**{**SHARED, "softmax": softmax}).train()
    reading, predicting = tables(model)
    assert reading is predicting
    names = [name for name, _ in model.named_parameters()]
    assert len([name for name in names if name.endswith(("embedding.weight", "softmax.weight"))]) == 1
    loss(model, TRAIN[:1]).backward()
    gradient = reading.grad
    assert gradient is not None and not gradient[0].any()  # padding is neither read nor predicted
    # It is the sum of what the two would have, each apart.
    apart = language_model(**{**READING_WORDS, "softmax": softmax}).train()
    own_reading, own_predicting = tables(apart)
    with torch.no_grad():
        own_predicting.copy_(reading[1:])
    loss(apart, TRAIN[:1]).backward()
    assert own_reading.grad is not None and own_predicting.grad is not None
    wanted = own_reading.grad + torch.nn.functional.pad(own_predicting.grad, (0, 0, 1, 0))
    torch.testing.assert_close(gradient, wanted)


def test_a_shared_table_that_was_trained_stays_as_it_is(tmp_path: Path) -> None:
    bilm = BiLM.random(options(char_cnn=None, n_tokens_vocab=len(WORDS)), seed=1)
    write_files(tmp_path, bilm)
    keys = {"type": "bilm", "bilm": {"pretrained": str(tmp_path)}, "share_embedding_softmax": True}
    model = Model.from_params(Params(keys), vocab=vocabulary_of(WORDS))
    assert torch.equal(tables(model)[0], bilm.token_encoder.embedding.weight)  # type: ignore[arg-type,union-attr]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"share_embedding_softmax": True}, "characters"),
        ({**SHARED, "softmax": {"type": "adaptive", "cutoffs": [4], "div_value": 2.0}}, "'adaptive'"),
    ],
)
def test_a_table_that_cannot_be_shared_is_rejected(keys: Config, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'share_embedding_softmax'.*{message}"):
        language_model(**keys)


def test_boundaries_of_another_order_without_the_words_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"'bilm'.*\(2, 1\)"):
        language_model(bilm={"options": {**WORD_INPUT, "boundary_ids": [2, 1]}})


def test_a_pretrained_table_of_other_words_is_rejected(tmp_path: Path) -> None:
    write_files(tmp_path, BiLM.random(options(char_cnn=None, n_tokens_vocab=len(WORDS) + 2), seed=1))
    with pytest.raises(ConfigurationError, match=f"'bilm'.* {len(WORDS) + 2}"):
        language_model(bilm={"pretrained": str(tmp_path)})


OTHER_ORDER = ["</S>", *sorted(WORDS[3:]), "<S>", "<UNK>"]


def write_pair(folder: Path, words: list[str]) -> Path:
    """Write a word-input biLM in bilm-tf's format, with its vocabulary."""
    folder.mkdir(exist_ok=True)
    tensorflow_file(folder, {**WORD_INPUT, "n_tokens_vocab": len(words)}, len(words))
    (folder / "vocabulary.txt").write_text("\n".join(words), encoding="utf-8")
    return folder


def log_probs_by_hand(folder: Path, own: list[str], model: BidirectionalLanguageModel, sentence: list[str]) -> Any:
    """Compute the log probabilities of a sentence in both directions from the files, with the softmax of the model."""
    ids = {word: line for line, word in enumerate(own, 1)}
    boundaries = ids["<S>"], ids["</S>"]
    inputs = [ids.get(word, ids["<UNK>"]) for word in sentence]
    top = file_layers(folder, inputs, boundaries=boundaries)[-1].numpy()  # (T + 2, D)
    weight, bias = (part.detach().double().numpy() for part in (model.softmax.weight, model.softmax.bias))  # type: ignore[operator]
    known = [word if word in WORDS else "<UNK>" for word in sentence]
    for half, targets in ((top[:-1, :8], [*known, "</S>"]), (top[1:, 8:], ["<S>", *known])):
        scores = half @ weight.T + bias  # (T + 1, V)
        log_probs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        yield log_probs[np.arange(len(targets)), [WORDS.index(word) for word in targets]]


@pytest.mark.parametrize("share", [False, True])
def test_fine_tuning_and_its_predictor_read_the_words_of_the_file(tmp_path: Path, share: bool) -> None:
    """Training has a learning rate of 0, so the archive still has the weights of the file."""
    own = OTHER_ORDER
    folder = write_pair(tmp_path / "bilm", own)
    config = experiment(write_corpus(tmp_path), BATCHES, bilm=str(folder), dropout=0.0, share_embedding_softmax=share)
    files = config["train_data_path"]
    config["vocabulary"] = {"type": "pretrained_bilm", "pretrained": str(folder), "files": files}
    config["trainer"] |= {"num_epochs": 1, "optimizer": {"type": "sgd", "lr": 0.0}}
    train(config, tmp_path / "run")
    kept = folder.rename(tmp_path / "kept")
    predictor = Predictor.from_path(str(tmp_path / "run/model.tar.gz"), predictor_name="bilm")
    model = predictor._model
    assert isinstance(model, BidirectionalLanguageModel)
    assert set(words_of(model.vocab)) == set(own) and words_of(model.vocab)[:3] == WORDS[:3]
    sentence = ["the", "gull", "left", "a", "whale"]
    answer = predictor.predict_json({"tokens": sentence})
    assert answer["unknown"] == ["whale"]
    order = [words_of(model.vocab).index(word) for word in WORDS]
    with torch.no_grad():
        for part in ("weight", "bias"):
            values = getattr(model.softmax, part)[-len(WORDS) :]
            setattr(model.softmax, part, torch.nn.Parameter(values[order]))
    forward, backward = log_probs_by_hand(kept, own, model, sentence)
    np.testing.assert_allclose(answer["forward_log_probs"], forward, rtol=0, atol=1e-4)
    np.testing.assert_allclose(answer["backward_log_probs"], backward, rtol=0, atol=1e-4)


def test_other_words_of_the_same_number_are_rejected(tmp_path: Path) -> None:
    folder = write_pair(tmp_path, [*OTHER_ORDER[:-3], "other", "<S>", "<UNK>"])
    with pytest.raises(ConfigurationError, match=f"'bilm'.*'{OTHER_ORDER[-3]}'"):
        language_model(bilm=str(folder))


def test_a_vocabulary_without_an_unknown_word_cannot_be_predicted_over(tmp_path: Path) -> None:
    folder = write_pair(tmp_path, OTHER_ORDER[:-1])
    with pytest.raises(ConfigurationError, match=r"<UNK>"):
        BiLMVocabulary.from_pretrained_bilm(str(folder), "none")
