"""The transformer against `elmo_plugin.load` and scikit-learn's own checks."""

import pickle

import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import SkipTestWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import elmo_plugin
from elmo_plugin.integrations import ElmoVectorizer, scikit_learn
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


def test_a_text_has_the_same_vector_alone_and_beside_others(small: str) -> None:
    vectorizer = ElmoVectorizer(small)
    together = vectorizer.transform(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(vectorizer.transform([text])[0], vector, atol=1e-6)
    assert together.any(axis=1).tolist() == [True, True, False, True]


def test_texts_may_be_tokens_or_arrays_or_split_by_the_users_tokenizer(small: str) -> None:
    wanted = ElmoVectorizer(small).transform(TOKENS)
    for texts in (
        TEXTS,
        np.array(TEXTS),
        np.array(TEXTS, dtype=object),
        [np.array(words, dtype=str) for words in TOKENS],
    ):
        np.testing.assert_array_equal(ElmoVectorizer(small).transform(texts), wanted)
    spaced = [" ".join(words) for words in TOKENS]
    np.testing.assert_array_equal(ElmoVectorizer(small, tokenizer=str.split).transform(spaced), wanted)
    assert not np.array_equal(ElmoVectorizer(small, tokenizer=str.split).transform(TEXTS), wanted)


def test_check_estimator_passes_where_it_applies_to_texts() -> None:
    """Most checks use tables of numbers and are skipped, as for scikit-learn's `CountVectorizer`."""
    with pytest.warns(SkipTestWarning, match="which requires input  of type"):
        ours, theirs = check_estimator(ElmoVectorizer()), check_estimator(CountVectorizer())
    assert [(check["check_name"], check["status"]) for check in ours] == [("check_estimator_cloneable", "passed")]
    assert {check["check_name"] for check in ours} == {check["check_name"] for check in theirs}


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
    load = scikit_learn.load
    monkeypatch.setattr(scikit_learn, "load", lambda bilm, mix, *rest: loaded.append(mix) or load(bilm, mix, *rest))
    vectorizer = ElmoVectorizer(small, mix="top")
    assert loaded == []
    vectorizer.fit(TEXTS).transform(TEXTS)
    vectorizer.set_params(pooling="max").transform(TEXTS)
    assert loaded == ["top"]
    found = vectorizer.set_params(mix="all", pooling="mean").transform(TEXTS)
    assert loaded == ["top", "all"] and found.shape == (len(TEXTS), L * D)


def test_a_grid_search_over_the_mix_and_the_pooling_runs_through_a_pipeline(small: str) -> None:
    pipeline = make_pipeline(ElmoVectorizer(small), LogisticRegression())
    grid = {"elmovectorizer__mix": ["top", "all"], "elmovectorizer__pooling": ["mean", "max"]}
    texts, labels = TOKENS * 3, [0, 1, 0, 1] * 3
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(texts, labels)
    assert len(search.cv_results_["params"]) == 4
    assert search.predict(texts).shape == (12,)


def test_features_have_names_even_beside_other_columns(small: str) -> None:
    names = ElmoVectorizer(small).get_feature_names_out()
    assert names[[0, -1]].tolist() == ["elmovectorizer0", f"elmovectorizer{D - 1}"]
    assert len(ElmoVectorizer(small, mix="all").get_feature_names_out()) == L * D
    table = np.array([[text, len(text)] for text in TEXTS], dtype=object)
    columns = ColumnTransformer([("elmo", ElmoVectorizer(small), 0), ("length", "passthrough", [1])])
    found = columns.fit_transform(table)
    assert columns.get_feature_names_out().tolist() == [f"elmo__{name}" for name in names] + ["length__x1"]
    np.testing.assert_array_equal(found[:, :D].astype(np.float32), ElmoVectorizer(small).transform(TEXTS))


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ("A lone text.", "got 'A lone text.'"),
        (np.array(TEXTS)[:, None], "got a ndarray of 2 axes"),
        (["A text", float("nan")], "row 1: .*nan"),
        (["A text", None], "row 1: .*None"),
    ],
)
def test_anything_but_a_column_of_texts_is_an_error(small: str, texts: object, found: str) -> None:
    with pytest.raises(ConfigurationError, match=found):
        ElmoVectorizer(small).transform(texts)


def test_wrong_parameters_are_errors_when_it_is_fitted_and_not_before(small: str) -> None:
    with pytest.raises(ConfigurationError, match=r"'pooling': .*'sum'"):
        ElmoVectorizer(small, pooling="sum").fit(TEXTS)
    with pytest.raises(ConfigurationError, match=r"'mix': .*trained.*'best'"):
        ElmoVectorizer(small, mix="best").fit(TEXTS)


def test_a_warm_start_is_a_parameter_that_loads_again_when_it_changes(warm: str, small: str) -> None:
    vectorizer = ElmoVectorizer(warm)
    for state in ("zero", "warm"):
        wanted = means(elmo_plugin.load(warm, "average", initial_state=state).embed(TOKENS))
        found = vectorizer.set_params(initial_state=state).transform(TOKENS)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(vectorizer)).transform(TOKENS), wanted)
    with pytest.raises(ConfigurationError, match="holds no warm state"):
        ElmoVectorizer(small, initial_state="warm").fit(TEXTS)
    with pytest.raises(ConfigurationError, match="'initial_state': expected 'zero' or 'warm', got 'carried'"):
        ElmoVectorizer(small, initial_state="carried").fit(TEXTS)
