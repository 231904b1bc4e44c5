"""TensorFlow Hub's `elmo/3`, its two signatures and its dictionary, by the recipe of the README.

Source of keys and shapes: the module's page, https://tfhub.dev/google/elmo/3; its weights are of the size 4096/512.
"""

from pathlib import Path

import pytest
import torch
from allennlp.predictors import Predictor
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

import elmo_plugin
from elmo_plugin.bilm import BiLM, BiLMOptions
from elmo_plugin.embedding import Embedder
from tests.oracles import lively, write_files
from tests.task_oracles import TOWNS, experiment, lstm, tagger, tags_reader, train

P, D = 512, 1024
OPTIONS = BiLMOptions.from_dict(
    {
        "lstm": {"dim": P, "projection_dim": P, "n_layers": 2, "use_skip_connections": True},
        "char_cnn": {"embedding": {"dim": 4}, "filters": [[1, 4], [2, 8]], "n_highway": 1},
    }
)
"""As wide as the published model, and otherwise as small as may be."""
TEXTS = ["the cat is on the mat", "dogs are in the fog", "go"]
B, T = 3, 6
PADDED = [["the", "cat", "is", "on", "the", "mat"], ["dogs", "are", "in", "the", "fog", ""], ["go", "", "", "", "", ""]]
LENGTHS = [6, 5, 1]
SHAPES = {
    "word_emb": (B, T, P),
    "lstm_outputs1": (B, T, D),
    "lstm_outputs2": (B, T, D),
    "elmo": (B, T, D),
    "default": (B, D),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A biLM, and a model with it whose mix is the module's before it is trained: every layer alike."""
    folder = tmp_path_factory.mktemp("hub")
    options_file, weight_file = write_files(folder, lively(BiLM(OPTIONS)))
    elmo = {"options_file": options_file, "weight_file": weight_file, "mix": "average"}
    model = tagger(elmo, encoder=lstm(D), elmo_at=["input"])
    train(experiment(model, tags_reader(), TOWNS, num_epochs=1), folder / "run")
    return folder


@pytest.fixture(scope="module")
def predictor(folder: Path) -> Predictor:
    """`elmo_embedder` of that model."""
    return Predictor.from_path(str(folder / "run/model.tar.gz"), "elmo_embedder")


@pytest.fixture(scope="module")
def embedder(folder: Path) -> Embedder:
    """The biLM alone."""
    return elmo_plugin.load(folder)


def through_predictor(predictor: Predictor, sentences: list[list[str]]) -> dict[str, Tensor]:
    """`as_dict=True` by the predictor."""
    answers = predictor.predict_batch_json([{"tokens": tokens} for tokens in sentences])
    rows = {key: [torch.tensor(answer[key]) for answer in answers] for key in answers[0] if key != "tokens"}
    return {key: pad_sequence(row, batch_first=True) for key, row in rows.items()}


def through_python(embedder: Embedder, sentences: list[list[str]]) -> dict[str, Tensor]:
    """`as_dict=True` in three lines."""
    vectors = [torch.tensor(each).transpose(0, 1) for each in embedder.embed(sentences)]  # (T, L, D) each
    word, first, second = pad_sequence(vectors, batch_first=True).unbind(dim=2)  # (B, T, D) each
    elmo, lengths = (word + first + second) / 3, torch.tensor([[len(tokens)] for tokens in sentences])
    return {
        "word_emb": word.chunk(2, dim=-1)[0],
        "lstm_outputs1": first,
        "lstm_outputs2": second,
        "elmo": elmo,
        "default": elmo.sum(dim=1) / lengths,
    }


def of_default(texts: list[str]) -> list[list[str]]:
    """What `signature="default"` reads: raw sentences, split at spaces."""
    return [text.split() for text in texts]


def of_tokens(tokens: list[list[str]], lengths: list[int]) -> list[list[str]]:
    """What `signature="tokens"` reads: rows padded with empty strings, and the length of each."""
    return [row[:length] for row, length in zip(tokens, lengths, strict=True)]


def test_both_signatures_have_the_modules_keys_and_shapes(predictor: Predictor, embedder: Embedder) -> None:
    for sentences in (of_default(TEXTS), of_tokens(PADDED, LENGTHS)):
        for module in (through_predictor(predictor, sentences), through_python(embedder, sentences)):
            assert {key: tuple(value.shape) for key, value in module.items()} == SHAPES


def test_both_ways_give_the_same_vectors(predictor: Predictor, embedder: Embedder) -> None:
    asked, own = through_predictor(predictor, of_default(TEXTS)), through_python(embedder, of_default(TEXTS))
    for key in SHAPES:
        torch.testing.assert_close(asked[key], own[key], rtol=0, atol=1e-5)


def test_padding_does_not_count_as_tokens(predictor: Predictor) -> None:
    module = through_predictor(predictor, of_tokens(PADDED, LENGTHS))
    for row, length in enumerate(LENGTHS):
        alone = through_predictor(predictor, [PADDED[row][:length]])
        for key in SHAPES:
            if key == "default":
                torch.testing.assert_close(module[key][row], alone["elmo"][0].mean(dim=0), rtol=0, atol=1e-5)
            else:
                torch.testing.assert_close(module[key][row, :length], alone[key][0], rtol=0, atol=1e-5)
                assert not module[key][row, length:].any()


def test_the_modules_mix_before_training_is_the_mean_of_its_layers(predictor: Predictor) -> None:
    module = through_predictor(predictor, of_default(TEXTS))
    doubled = torch.cat([module["word_emb"]] * 2, dim=-1)  # (B, T, D)
    mean = (doubled + module["lstm_outputs1"] + module["lstm_outputs2"]) / 3
    torch.testing.assert_close(module["elmo"], mean, rtol=0, atol=1e-5)
