"""A language model that reads words: one table of vectors to read with and to predict with, if asked."""

from pathlib import Path

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.models import Model, load_archive

from elmo_plugin.bilm import BiLM
from elmo_plugin.bilm.word_encoder import WordEncoder
from elmo_plugin.pretraining import BidirectionalLanguageModel
from elmo_plugin.pretraining.softmax import WordVectorSoftmax
from elmo_plugin.pretraining.vocabulary import vocabulary_of
from elmo_plugin.pretraining.word_ids import WordIds
from tests.language_model_oracles import TRAIN, WORD_INPUT, WORDS, Config, experiment, language_model, write_corpus
from tests.oracles import options, write_files
from tests.task_oracles import train

READING_WORDS: Config = {"bilm": {"options": WORD_INPUT, "seed": 1}}
SHARED: Config = {**READING_WORDS, "share_embedding_softmax": True}
BATCHES = {"type": "sentence_batches", "max_tokens": 40, "max_sentence_length": 20}


def tables(model: object) -> tuple[torch.nn.Parameter, torch.nn.Parameter]:
    """What words are read with (V + 1, P), and what they are predicted with."""
    assert isinstance(model, BidirectionalLanguageModel)
    encoder, softmax = model.bilm.token_encoder, model.softmax
    assert isinstance(encoder, WordEncoder) and isinstance(softmax, WordVectorSoftmax)
    return encoder.embedding.weight, softmax.weight  # type: ignore[return-value]


def loss(model: BidirectionalLanguageModel, lines: list[str]) -> torch.Tensor:
    """The loss of sentences."""
    return model(tokens=WordIds(model.vocab).of_sentences([line.split() for line in lines]))["loss"]


@pytest.mark.parametrize("softmax", [{"type": "full"}, {"type": "sampled", "n_samples": 4}])
def test_the_shared_table_is_one_tensor_with_one_gradient(softmax: Config) -> None:
    model = language_model(**{**SHARED, "softmax": softmax}).train()
    reading, predicting = tables(model)
    assert reading is predicting
    assert (
        len([name for name, _ in model.named_parameters() if name.endswith(("embedding.weight", "softmax.weight"))])
        == 1
    )
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


def test_the_table_stays_one_through_training_and_in_the_archive(tmp_path: Path) -> None:
    trained = train(experiment(write_corpus(tmp_path), BATCHES, **SHARED), tmp_path / "run")
    loaded = load_archive(str(tmp_path / "run/model.tar.gz")).model
    for model in (trained, loaded):
        reading, predicting = tables(model)
        assert reading is predicting
    assert torch.equal(tables(trained)[0], tables(loaded)[0])
    with torch.no_grad():
        tables(loaded)[0].add_(1.0)
    assert torch.equal(*tables(loaded))


def test_a_shared_table_that_was_trained_stays_as_it_is(tmp_path: Path) -> None:
    bilm = BiLM.random(options(char_cnn=None, n_tokens_vocab=len(WORDS)), seed=1)
    write_files(tmp_path, bilm)
    keys = {"type": "bilm", "bilm": {"pretrained": str(tmp_path)}, "share_embedding_softmax": True}
    model = Model.from_params(Params(keys), vocab=vocabulary_of(WORDS))
    assert torch.equal(tables(model)[0], bilm.token_encoder.embedding.weight)  # type: ignore[arg-type,union-attr]


def test_without_it_there_are_two() -> None:
    reading, predicting = tables(language_model(**READING_WORDS))
    assert (len(reading), len(predicting)) == (len(WORDS) + 1, len(WORDS))


def test_words_that_are_not_in_the_vocabulary_are_all_one() -> None:
    model = language_model(**SHARED)
    assert torch.equal(loss(model, ["the whale left"]), loss(model, ["the zebra left"]))
    assert not torch.equal(loss(model, ["the whale left"]), loss(model, ["the gull left"]))


def test_a_model_of_characters_tells_them_apart() -> None:
    model = language_model()
    assert not torch.equal(loss(model, ["the whale left"]), loss(model, ["the zebra left"]))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"share_embedding_softmax": True}, "'share_embedding_softmax' is true, but the biLM reads characters"),
        (
            {**SHARED, "softmax": {"type": "adaptive", "cutoffs": [4], "div_value": 2.0}},
            "found an 'adaptive' softmax, .*; wanted 'full' or 'sampled'",
        ),
        (
            {**SHARED, "contextualizer": {"type": "lstm", "input_size": 8, "hidden_size": 6, "bidirectional": True}},
            r"'share_embedding_softmax': found a table of words of shape \(\d+, 8\); wanted \(\d+, 6\)",
        ),
    ],
)
def test_what_cannot_be_shared_is_refused(keys: Config, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        language_model(**keys)


def test_the_size_of_the_vocabulary_is_filled_in_or_agrees() -> None:
    assert language_model(**READING_WORDS).bilm.options.n_tokens_vocab == len(WORDS)
    stated = options(char_cnn=None, n_tokens_vocab=len(WORDS)).to_dict()
    assert language_model(bilm={"options": stated}).bilm.options.n_tokens_vocab == len(WORDS)
    with pytest.raises(
        ConfigurationError, match=f"'bilm.options.n_tokens_vocab' is 5; the vocabulary has {len(WORDS)}"
    ):
        language_model(bilm={"options": {**stated, "n_tokens_vocab": 5}})


def test_a_pretrained_table_of_other_words_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path, BiLM.random(options(char_cnn=None, n_tokens_vocab=len(WORDS) + 2), seed=1))
    with pytest.raises(ConfigurationError, match=f"'bilm' reads {len(WORDS) + 2} words and the vocabulary has"):
        language_model(bilm={"pretrained": str(tmp_path)})
