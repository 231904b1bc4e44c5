"""Sizes: what an `options.json` may hold, and the errors for wrong values."""

import copy
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_plugin.bilm import (
    BiLM,
    BiLMOptions,
    CharCnnOptions,
    LstmOptions,
    ManyLangsOptions,
)

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


positive = st.integers(1, 99)
clips = st.none() | st.floats(0.5, 9.0) | positive
lstms = st.tuples(positive, positive).flatmap(
    lambda dims: st.builds(
        LstmOptions, st.just(max(dims)), st.just(min(dims)), positive, clips, clips, use_skip_connections=st.booleans()
    )
)
char_cnns = st.builds(
    CharCnnOptions,
    filters=st.lists(st.tuples(st.integers(1, 7), positive), min_size=1).map(tuple),
    embedding_dim=positive,
    max_characters_per_token=st.integers(7, 99),
    n_highway=st.integers(0, 5),
    activation=st.sampled_from(["relu", "tanh"]),
)


MARKS = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")
sets = st.sets(st.text(max_size=3), max_size=5)
lexicons = st.builds(
    lambda cnn, words, characters, word_dim: ManyLangsOptions(
        words=tuple({"<oov>", *words}) if word_dim or cnn is None else (),
        word_dim=word_dim or int(cnn is None),
        characters=() if cnn is None else tuple({*MARKS, *characters}),
        char_cnn=cnn,
        max_characters_per_token=9 if cnn is None else cnn.max_characters_per_token,
    ),
    st.none() | char_cnns,
    sets,
    sets,
    st.integers(0, 9),
)
bilms = st.builds(BiLMOptions, lstms, st.none() | char_cnns, st.none() | positive) | st.builds(
    BiLMOptions, lstms, st.none(), st.none(), lexicons
)


@settings(max_examples=50)
@given(bilms)
def test_to_dict_and_from_dict_are_inverse(options: BiLMOptions) -> None:
    assert BiLMOptions.from_dict(options.to_dict()) == options


@settings(max_examples=15)
@given(bilms.filter(lambda options: options.n_parameters < 10**8))
def test_parameters_are_counted_before_they_are_made(options: BiLMOptions) -> None:
    if options.char_cnn is None and options.many_langs is None and options.n_tokens_vocab is None:
        return
    with torch.device("meta"):
        made = BiLM(options)
    assert options.n_parameters == sum(parameter.numel() for parameter in made.parameters())


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
        ({"word_dim": 2, "words": "<oov>"}, "lexicon.words"),
        ({"word_dim": 2, "words": ["<oov>", 3]}, "lexicon.words"),
        ({"word_dim": -2}, "lexicon.word_dim"),
        ({"char_cnn": 7}, "lexicon.char_cnn"),
    ],
)
def test_wrong_sizes_of_elmo_for_many_langs_are_named(lexicon: dict[str, Any], key: str) -> None:
    assert rejection({"lstm": PUBLISHED["lstm"], "lexicon": lexicon}).startswith(f"'{key}': expected ")


def test_a_model_has_one_token_encoder() -> None:
    message = rejection({**PUBLISHED, "lexicon": {"word_dim": 2, "words": ["<oov>"]}})
    assert "'char_cnn'" in message and "'lexicon'" in message


@pytest.mark.parametrize(
    ("path", "value", "fact"),
    [
        ("lstm.dim", 10**9, "the options ask for 18,448,"),
        ("lstm.n_layers", 1001, "'lstm.n_layers': expected at most 1,000"),
        ("char_cnn.n_highway", 10**12, "'char_cnn.n_highway': expected at most 1,000"),
        ("char_cnn.filters", [[1, 10**6]], "'char_cnn': expected 'max_characters_per_token' times "),
        ("char_cnn.embedding", {"dim": 10**10}, "'char_cnn': expected 'max_characters_per_token' times "),
        ("char_cnn.max_characters_per_token", 10**4, "'char_cnn': expected 'max_characters_per_token' times "),
        ("char_cnn.max_characters_per_token", 10**5, "'char_cnn.max_characters_per_token': expected at most 10,000"),
    ],
)
def test_sizes_that_no_machine_can_hold_are_rejected(path: str, value: Any, fact: str) -> None:
    assert rejection(changed(path, value)).startswith(fact)


def test_a_vocabulary_that_no_machine_can_hold_is_rejected() -> None:
    message = rejection({"lstm": PUBLISHED["lstm"], "n_tokens_vocab": 10**12})
    assert message.startswith("the options ask for 512,")


@pytest.mark.parametrize(
    ("path", "default"),
    [
        ("char_cnn", None),
        ("char_cnn.n_characters", None),
        ("char_cnn.activation", "relu"),
        ("char_cnn.max_characters_per_token", 50),
        ("char_cnn.n_highway", 0),
        ("lstm.n_layers", 1),
        ("lstm.cell_clip", None),
        ("lstm.proj_clip", None),
        ("lstm.use_skip_connections", False),
    ],
)
def test_optional_keys_default_as_in_bilm_tf(path: str, default: Any) -> None:
    options = BiLMOptions.from_dict(changed(path, MISSING))
    said = changed(path, default) if path != "char_cnn.n_characters" else PUBLISHED
    assert options == BiLMOptions.from_dict(said)
    assert options == BiLMOptions.from_dict(options.to_dict())


@pytest.mark.parametrize("key", ["cell_clip", "proj_clip"])
@pytest.mark.parametrize("none", [MISSING, None, 0, 0.0])
def test_four_values_mean_no_clip(key: str, none: Any) -> None:
    lstm = BiLMOptions.from_dict(changed(f"lstm.{key}", none)).lstm
    assert (lstm.cell_clip if key == "cell_clip" else lstm.projection_clip) is None


@pytest.mark.parametrize("n_characters", [261, 262])
def test_both_counts_of_characters_mean_the_same_model(n_characters: int) -> None:
    assert BiLMOptions.from_dict(changed("char_cnn.n_characters", n_characters)) == BiLMOptions.from_dict(PUBLISHED)


@pytest.mark.parametrize(
    ("path", "beside"),
    [
        ("lstm", "char_cnn"),
        ("lstm.dim", "projection_dim"),
        ("lstm.projection_dim", "dim"),
        ("char_cnn.filters", "embedding"),
        ("char_cnn.embedding", "filters"),
        ("char_cnn.embedding.dim", "[]"),
    ],
)
def test_a_missing_key_is_named_with_the_existing_ones(path: str, beside: str) -> None:
    message = rejection(changed(path, MISSING))
    assert message.startswith(f"'{path}': ") and beside in message.partition("got")[2]


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("lstm", [], "an object"),
        ("lstm.dim", 0, "a whole number of 1 or more"),
        ("lstm.dim", "4096", "a whole number"),
        ("lstm.dim", True, "a whole number"),
        ("lstm.projection_dim", 512.0, "a whole number"),
        ("lstm.projection_dim", -1, "a whole number of 1 or more"),
        ("lstm.projection_dim", None, "a whole number"),
        ("lstm.n_layers", 0, "a whole number of 1 or more"),
        ("lstm.n_layers", 1.5, "a whole number"),
        ("lstm.cell_clip", -3, "null or a number from 0 to 1e+18"),
        ("lstm.cell_clip", "", "null or a number from 0 to 1e+18"),
        ("lstm.proj_clip", "3", "null or a number from 0 to 1e+18"),
        ("lstm.proj_clip", True, "null or a number from 0 to 1e+18"),
        ("lstm.proj_clip", 1e19, "null or a number from 0 to 1e+18"),
        ("lstm.proj_clip", float("nan"), "null or a number from 0 to 1e+18"),
        ("lstm.use_skip_connections", "false", "true or false"),
        ("char_cnn", 7, "an object"),
        ("char_cnn.embedding", 16, "an object"),
        ("char_cnn.embedding.dim", "16", "a whole number of 1 or more"),
        ("char_cnn.activation", "gelu", "relu or tanh"),
        ("char_cnn.n_characters", 256, "261 or 262"),
        ("char_cnn.n_characters", "262", "261 or 262"),
        ("char_cnn.max_characters_per_token", 2, "a whole number of 3 or more"),
        ("char_cnn.n_highway", -1, "a whole number of 0 or more"),
        ("char_cnn.n_highway", "2", "a whole number of 0 or more"),
        ("char_cnn.filters", [], "[width, channels] pairs"),
        ("char_cnn.filters", [[1]], "[width, channels] pairs"),
        ("char_cnn.filters", [[0, 4]], "[width, channels] pairs"),
        ("char_cnn.filters", [["1", 4]], "[width, channels] pairs"),
        ("char_cnn.filters", 32, "[width, channels] pairs"),
        ("n_tokens_vocab", "many", "a whole number of 1 or more"),
    ],
)
def test_a_wrong_value_is_named_with_the_expected_one(path: str, value: Any, expected: str) -> None:
    start, _, got = rejection(changed(path, value)).rpartition(", got ")
    assert start.startswith(f"'{path}': expected ") and expected in start
    assert got == repr(value)


def test_a_filter_is_at_most_as_wide_as_a_word_and_a_projection_as_the_cell() -> None:
    message = rejection(changed("char_cnn.filters", [[1, 4], [51, 8]]))
    assert "'char_cnn.filters'" in message and "'max_characters_per_token', 50" in message and "51" in message
    assert BiLMOptions.from_dict(changed("char_cnn.filters", [[50, 8]])).char_cnn is not None
    message = rejection(changed("lstm.projection_dim", 4097))
    assert "'lstm.projection_dim'" in message and "4097" in message and "4096" in message
    assert not BiLMOptions.from_dict(changed("lstm.projection_dim", 4096)).lstm.has_projection


@pytest.mark.parametrize("options", [[], None, "options.json", 3])
def test_options_that_are_not_an_object_are_rejected(options: Any) -> None:
    assert f"got a {type(options).__name__}" in rejection(options)
