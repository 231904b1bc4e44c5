"""Sizes: what an `options.json` may hold, and the errors for wrong values."""

import copy
import json
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import BiLMOptions, CharCnnOptions, LstmOptions, ManyLangsOptions
from elmo_plugin.bilm.option import Option

PUBLISHED: dict[str, Any] = {
    "lstm": {
        "cell_clip": 3,
        "dim": 4096,
        "n_layers": 2,
        "proj_clip": 3,
        "projection_dim": 512,
        "use_skip_connections": True,
    },
    "char_cnn": {
        "activation": "relu",
        "embedding": {"dim": 16},
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "max_characters_per_token": 50,
        "n_characters": 262,
        "n_highway": 2,
    },
}
MISSING = object()


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the published options with one key changed or deleted."""
    options = copy.deepcopy(PUBLISHED)
    *blocks, key = path.split(".")
    block = options
    for name in blocks:
        block = block[name]
    if value is MISSING:
        del block[key]
    else:
        block[key] = value
    return options


def test_published_options_are_read() -> None:
    options = BiLMOptions.from_dict(PUBLISHED)
    assert options.lstm == LstmOptions(4096, 512, 2, cell_clip=3, projection_clip=3, use_skip_connections=True)
    assert options.char_cnn is not None
    assert options.char_cnn.filters == ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
    assert (options.char_cnn.n_filters, options.num_layers, options.layer_dim) == (2048, 3, 1024)
    assert options.lstm.has_projection
    assert options.to_dict() == PUBLISHED


def test_keys_of_the_training_run_are_ignored() -> None:
    """bilm-tf's trainer writes its hyperparameters into the same file."""
    run = {**PUBLISHED, "n_tokens_vocab": 793471, "n_train_tokens": 768648884, "bidirectional": True, "dropout": 0.1}
    options = BiLMOptions.from_dict(run)
    assert options.to_dict() == {**PUBLISHED, "n_tokens_vocab": 793471}


CHAR_CNN = CharCnnOptions(((1, 4), (7, 2)), 3, max_characters_per_token=9, n_highway=1, activation="tanh")
CHARACTERS = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>", "ü")


@pytest.mark.parametrize(
    "keys",
    [
        {"char_cnn": CHAR_CNN, "n_tokens_vocab": 7, "contextualizer": {"type": "gru"}},
        {"n_tokens_vocab": 7, "boundary_ids": (5, 3)},
        {
            "many_langs": ManyLangsOptions(
                words=("<oov>", ""), word_dim=4, characters=CHARACTERS, char_cnn=CHAR_CNN, max_characters_per_token=9
            )
        },
        {"many_langs": ManyLangsOptions(words=("<oov>", "a"), word_dim=4)},
    ],
)
def test_to_dict_and_from_dict_are_inverse(keys: dict[str, Any]) -> None:
    options = BiLMOptions(LstmOptions(24, 8, 3, cell_clip=0.5, use_skip_connections=True), **keys)
    assert BiLMOptions.from_dict(options.to_dict()) == options


def rejection(options: Any) -> str:
    """Return the message of the `ConfigurationError` that these options raise."""
    with pytest.raises(ConfigurationError) as error:
        BiLMOptions.from_dict(options)
    return str(error.value)


@pytest.mark.parametrize(
    ("lexicon", "key"),
    [
        ({}, "lexicon"),
        ({"word_dim": 2}, "lexicon.words"),
        ({"word_dim": 2, "words": ["<oov>", "a", "a"]}, "lexicon.words"),
    ],
)
def test_wrong_sizes_of_elmo_for_many_langs_are_named(lexicon: dict[str, Any], key: str) -> None:
    assert rejection({"lstm": PUBLISHED["lstm"], "lexicon": lexicon}).startswith(f"'{key}': expected ")


def test_a_model_has_one_token_encoder() -> None:
    message = rejection({**PUBLISHED, "lexicon": {"word_dim": 2, "words": ["<oov>"]}})
    assert "'char_cnn'" in message and "'lexicon'" in message


def test_optional_keys_default_as_in_bilm_tf() -> None:
    sizes = {
        "lstm": {"dim": 4, "projection_dim": 2},
        "char_cnn": {"embedding": {"dim": 3}, "filters": [[1, 2]]},
    }
    options = BiLMOptions.from_dict(sizes)
    assert options.lstm == LstmOptions(4, 2, 1, cell_clip=None, projection_clip=None, use_skip_connections=False)
    assert options.char_cnn == CharCnnOptions(((1, 2),), 3, 50, n_highway=0, activation="relu")


def test_a_clip_of_zero_means_none_and_both_counts_of_characters_the_same_model() -> None:
    lstm = BiLMOptions.from_dict(changed("lstm.cell_clip", 0)).lstm
    assert (lstm.cell_clip, lstm.projection_clip) == (None, 3)
    assert BiLMOptions.from_dict(changed("char_cnn.n_characters", 261)) == BiLMOptions.from_dict(PUBLISHED)


@pytest.mark.parametrize("path", ["lstm", "char_cnn.embedding.dim"])
def test_a_missing_key_is_named(path: str) -> None:
    assert rejection(changed(path, MISSING)).startswith(f"'{path}': expected this key, got the keys [")


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("lstm.projection_dim", 4097, "at most 'lstm.dim', 4096"),
        ("lstm.n_layers", 1001, "a whole number from 1 to 1,000"),
        ("lstm.cell_clip", 1e39, "a number from 0 to 1e+30"),
        ("char_cnn.activation", "gelu", "relu or tanh"),
        ("char_cnn.n_characters", 256, "261 or 262"),
        ("char_cnn.max_characters_per_token", 2, "a whole number from 3 to"),
        ("char_cnn.filters", [[0, 4]], "[width, channels] pairs"),
        ("char_cnn.filters", [[1, 4], [51, 8]], "up to 'max_characters_per_token', 50"),
        ("boundary_ids", [3, 3], "the two ids of <S> and </S>"),
    ],
)
def test_a_wrong_value_is_named_with_the_expected_one(path: str, value: Any, expected: str) -> None:
    start, _, got = rejection(changed(path, value)).rpartition(", got ")
    assert start.startswith(f"'{path}': expected ") and expected in start and got


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("char_cnn.filters", [[1, 10**6]]),
        ("char_cnn.embedding", {"dim": 10**7}),
        ("char_cnn.max_characters_per_token", 10**4),
    ],
)
def test_a_word_that_no_machine_can_convolve_is_rejected(path: str, value: Any) -> None:
    assert rejection(changed(path, value)).startswith("'char_cnn': expected 'max_characters_per_token' times ")


@dataclass(frozen=True)
class WiderOptions(LstmOptions):
    """The options of an LSTM and a new one, which is declared as any option is."""

    layer_norm: Annotated[bool, Option("Whether a layer norm follows each layer.")] = False


def test_a_new_option_is_declared_once() -> None:
    """It is read, checked, written and known; at its default, files and caches are those of before it."""
    lstm = PUBLISHED["lstm"]
    with_norm = WiderOptions.from_dict({**lstm, "layer_norm": True})
    without = WiderOptions.from_dict({**lstm, "layer_norm": False})
    assert with_norm.layer_norm and not without.layer_norm and WiderOptions.from_dict(lstm) == without
    assert with_norm.to_dict() == {**lstm, "layer_norm": True}
    assert json.dumps(without.to_dict()) == json.dumps(lstm)
    assert (with_norm.added(), without.added()) == (["lstm.layer_norm"], [])  # what bilm-tf's format has no place for
    WiderOptions.reject_unknown({"layer_norm": False}, "bilm.options.lstm")
    with pytest.raises(ConfigurationError, match=r"'lstm.layer_norm': expected true or false, got 1"):
        WiderOptions.from_dict({**lstm, "layer_norm": 1})
    with pytest.raises(ConfigurationError, match=r"'bilm.options.lstm.layer_nrom': .*did you mean 'layer_norm'"):
        WiderOptions.reject_unknown({"layer_nrom": True}, "bilm.options.lstm")


def test_lstms_that_are_described_outside_lstm_are_refused_before_they_are_trained() -> None:
    lstm = {"type": "elmo_lstm", "input_size": 8, "hidden_size": 8, "cell_size": 9}
    sizes = {"lstm": {"dim": 9, "projection_dim": 8, "n_layers": 1}, "n_tokens_vocab": 5}
    assert BiLMOptions.from_dict({**sizes, "contextualizer": {**lstm, "num_layers": 1}}).num_layers == 2
    with pytest.raises(ConfigurationError, match=r"'contextualizer'.*'lstm'.*'num_layers': 2"):
        BiLMOptions.from_dict({**sizes, "contextualizer": {**lstm, "num_layers": 2}})
