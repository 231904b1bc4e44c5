"""The transformer against `elmo_plugin.load`, alone and beside scikit-learn's own."""

import pickle

import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError
from sklearn.base import clone
from sklearn.compose import ColumnTransformer

import elmo_plugin
from elmo_plugin.integrations import ElmoVectorizer, shared
from tests.task_oracles import D, L

TEXTS = ["The ship sank.", "A calm, bright morning!", "", "She sold the bakery."]
TOKENS = [
    ["The", "ship", "sank", "."],
    ["A", "calm", ",", "bright", "morning", "!"],
    [],
    ["She", "sold", "the", "bakery", "."],
]


def means(arrays: list[np.ndarray]) -> np.ndarray:
    """The mean of each array (…, T, D) over its tokens, zeros where T is 0: (B, width)."""
    return np.stack([(array.sum(axis=-2) / max(array.shape[-2], 1)).ravel() for array in arrays])


@pytest.mark.parametrize("mix", ["top", "all"])
def test_vectors_equal_the_means_of_those_of_load_to_the_bit(small: str, mix: str) -> None:
    arrays = elmo_plugin.load(small, mix).embed(TOKENS)
    found = ElmoVectorizer(small, mix).fit_transform(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, means(arrays))
    if mix == "top":
        largest = [array.max(axis=0) if len(array) else np.zeros(D) for array in arrays]
        np.testing.assert_array_equal(ElmoVectorizer(small, mix, pooling="max").transform(TOKENS), np.stack(largest))
    assert ElmoVectorizer(small, mix).transform([]).shape == (0, found.shape[1])


def test_texts_may_be_tokens_or_arrays_or_split_by_the_users_tokenizer(small: str) -> None:
    wanted = ElmoVectorizer(small).transform(TOKENS)
    vectorizer = ElmoVectorizer(small)
    for texts in (TEXTS, np.array(TEXTS, dtype=object), [np.array(words, dtype=str) for words in TOKENS]):
        np.testing.assert_array_equal(vectorizer.transform(texts), wanted)
    spaced = [" ".join(words) for words in TOKENS]
    np.testing.assert_array_equal(ElmoVectorizer(small, tokenizer=str.split).transform(spaced), wanted)


def test_a_clone_and_a_pickle_hold_names_and_not_weights(small: str) -> None:
    fitted = ElmoVectorizer(small, mix="top", tokenizer=str.split).fit(TEXTS)
    wanted = fitted.transform(TEXTS)
    assert len(pickle.dumps(fitted)) < 1000
    for copy in (clone(fitted), pickle.loads(pickle.dumps(fitted))):
        assert copy.get_params() == fitted.get_params() and copy._loaded is None
        np.testing.assert_array_equal(copy.transform(TEXTS), wanted)


def test_weights_are_loaded_once_and_again_when_a_parameter_changes(
    small: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    load = shared.load
    monkeypatch.setattr(shared, "load", lambda bilm, mix, *rest: loaded.append(mix) or load(bilm, mix, *rest))
    vectorizer = ElmoVectorizer(small, mix="top")
    assert loaded == []
    vectorizer.fit(TEXTS).transform(TEXTS)
    vectorizer.set_params(pooling="max").transform(TEXTS)
    assert loaded == ["top"]
    found = vectorizer.set_params(mix="all", pooling="mean").transform(TEXTS)
    assert loaded == ["top", "all"] and found.shape == (len(TEXTS), L * D)


def test_features_have_names_even_beside_other_columns(small: str) -> None:
    table = np.array([[text, len(text)] for text in TEXTS], dtype=object)
    columns = ColumnTransformer([("elmo", ElmoVectorizer(small), 0), ("length", "passthrough", [1])])
    columns.fit_transform(table)
    names = [f"elmo__elmovectorizer{number}" for number in range(D)]
    assert columns.get_feature_names_out().tolist() == [*names, "length__x1"]


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ("A lone text.", "got 'A lone text.'"),
        (np.array(TEXTS)[:, None], r"got a ndarray of 2 axes; .*\"text\" instead of \[\"text\"\]"),
        ([b"A text"], "row 0: expected a text, got bytes"),
        (np.array([b"A text"]), "row 0: expected a text, got bytes"),
        (["A text", float("nan")], "row 1: .*nan"),
        (["A text", None], "row 1: .*None"),
    ],
)
def test_anything_but_a_column_of_texts_is_an_error(small: str, texts: object, found: str) -> None:
    with pytest.raises(ConfigurationError, match=found):
        ElmoVectorizer(small).transform(texts)


def test_a_warm_start_is_a_parameter(warm: str, small: str) -> None:
    wanted = means(elmo_plugin.load(warm, "average", initial_state="warm").embed(TOKENS))
    np.testing.assert_array_equal(ElmoVectorizer(warm, initial_state="warm").transform(TOKENS), wanted)
    with pytest.raises(ConfigurationError, match="holds no warm state"):
        ElmoVectorizer(small, initial_state="warm").fit(TEXTS)
    with pytest.raises(ConfigurationError, match=r"'pooling'.*'sum'"):
        ElmoVectorizer(small, pooling="sum").fit(TEXTS)
