"""Each classifier on made-up vectors, and the whole probe on the small biLM."""

from pathlib import Path

import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import Examples, LabelledSentence, probe, random_twin, sense_task
from elmo_plugin.analysis.probing import embed_examples, linear, most_frequent, nearest_sense
from elmo_plugin.bilm import BiLM
from elmo_plugin.embedding import Embedder, load
from elmo_plugin.models import ColumnTagsReader
from tests.oracles import write_files
from tests.task_oracles import D, L, small_bilm, warm_bilm


def examples(seed: int, words: str, labels: str, width: int = 3) -> Examples:
    """Return examples with two layers: noise, and noise around a centre for each label."""
    named = labels.split()
    noise = np.random.default_rng(seed).normal(size=(2, len(named), width)).astype("float32")
    centres = {label: np.random.default_rng(ord(label[-1])).normal(size=width) for label in named}
    noise[1] += 2 * np.array([centres[label] for label in named])
    return Examples(np.array(words.split()), np.array(named), noise)


def test_the_most_frequent_label_of_each_word_and_of_all_words() -> None:
    train = examples(0, "a a a b b b b", "x longest longest y y y y")
    dev = examples(1, "a b new", "x x x")
    assert most_frequent(train, dev).tolist() == ["longest", "y", "y"]


@pytest.mark.parametrize("layer", [0, 1])
def test_the_nearest_sense_of_the_word(layer: int) -> None:
    words, labels = "a b a b a b a b " * 6, "a1 b1 a2 b2 a1 b1 a3 much-longer-b2 " * 6
    train, dev = examples(0, words, labels), examples(1, words + " new", labels + " a1")
    wanted = []
    for word, vector in zip(dev.words, dev.vectors[layer], strict=True):
        best, sense = -2.0, "a1"  # as frequent as b1, and before it
        for label in sorted(set(train.labels[train.words == word])):
            average = train.vectors[layer][(train.words == word) & (train.labels == label)].mean(axis=0)
            alike = average @ vector / np.linalg.norm(average) / np.linalg.norm(vector)
            best, sense = max((best, sense), (alike, label))
        wanted.append(sense)
    assert nearest_sense(train, dev, layer).tolist() == wanted
    assert "much-longer-b2" in wanted


def test_the_linear_classifier_learns_what_the_layer_tells_at_any_scale() -> None:
    train, dev = (examples(seed, "w " * 600, "x y long-label " * 200) for seed in (0, 1))
    scaled = [each._replace(vectors=each.vectors * np.float32([1e-3, 1, 1e3])) for each in (train, dev)]
    accuracies = [(linear(*scaled, layer) == dev.labels).mean() for layer in (0, 1)]
    assert accuracies[0] < 0.5 and accuracies[1] > 0.8


def test_examples_are_the_labelled_tokens_in_their_order(embedder: Embedder) -> None:
    sentences = [
        LabelledSentence(["The", "Bank", "lent", "money", "."], [None, "bank%1", None, "money", None]),
        LabelledSentence(["No"], [None]),
        LabelledSentence(["A", "bank"], ["a", "bank%2"]),
    ]
    found = embed_examples(embedder, sentences, str.lower)
    assert found.words.tolist() == ["bank", "money", "a", "bank"]
    assert found.labels.tolist() == ["bank%1", "money", "a", "bank%2"]
    assert found.vectors.shape == (L, 4, D)
    first, _, last = embedder.embed([sentence.tokens for sentence in sentences])
    np.testing.assert_allclose(found.vectors, np.concatenate([first[:, [1, 3]], last], axis=1), atol=1e-6)


def test_senses_are_read_from_columns_words_are_lowercased_and_accuracy_is_measured_on_dev(
    tmp_path: Path, embedder: Embedder
) -> None:
    (tmp_path / "train").write_text("Bank\tbank%1\nlent\tO\n\nthe\tO\nbank\tbank%1\n", encoding="utf-8")
    (tmp_path / "other").write_text("Bank\tbank%2\n", encoding="utf-8")
    (tmp_path / "none").write_text("Bank\tO\n", encoding="utf-8")
    task = sense_task(tmp_path / "train", tmp_path / "train", ColumnTagsReader())
    assert [sentence.labels for sentence in task.train] == [["bank%1", None], [None, "bank%1"]]
    assert probe(embedder, task) == (100.0, [100.0] * L, 2, 2)
    task = sense_task(tmp_path / "train", tmp_path / "other", ColumnTagsReader())
    assert probe(embedder.with_mix("average"), task) == (0.0, [0.0] * L, 2, 1)
    with pytest.raises(ConfigurationError, match="none: expected labels other than 'O'"):
        sense_task(tmp_path / "train", tmp_path / "none", ColumnTagsReader())


def test_the_twin_has_random_weights_starts_from_zeros_and_leaves_the_bilm_as_it_is(tmp_path: Path) -> None:
    write_files(tmp_path / "random", BiLM.random(small_bilm().options, seed=7))
    write_files(tmp_path / "warm", warm_bilm())
    embedder, sentences = load(tmp_path / "warm", initial_state="warm"), [["The", "cat", "sat", "."]]
    (before,) = embedder.embed(sentences)
    (twin,) = random_twin(embedder, seed=7).embed(sentences)
    np.testing.assert_allclose(twin, load(tmp_path / "random").embed(sentences)[0], atol=1e-6)
    np.testing.assert_array_equal(embedder.embed(sentences)[0], before)
