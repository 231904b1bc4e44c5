"""The choice of pairs, the texts with pseudowords, and a probe of layers with and without context."""

from collections import Counter
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import LabelledSentence, probe, probing, pseudoword_task
from elmo_plugin.analysis.probing import conflate, draw_pairs
from elmo_plugin.embedding import Embedder
from tests.task_oracles import L

COUNTS = {"the": 9000, "door": 60, "river": 61, "play": 100, "boat": 97, "sea": 300, "ship": 500, "rare": 49}
COUNTS |= {"London": 60, "well-known": 60, "5th": 60, ",": 450}


def test_pairs_are_about_equally_frequent_and_no_word_is_in_two_pairs() -> None:
    pairs = draw_pairs(COUNTS, pairs=10, seed=0)
    assert sorted(sorted(pair) for pair in pairs) == [["boat", "play"], ["door", "river"]]
    many = {word: 50 + len(word) for word in map("".join, zip("abcdefghijklmnop", "qrstuvwxyzabcdef", strict=True))}
    drawn = [draw_pairs(many, pairs=5, seed=seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert max(Counter(word for pair in drawn[0] for word in pair).values()) == 1


def test_a_pair_becomes_one_token_and_the_label_is_the_original_word() -> None:
    text = ["The door of the banana .", "Nothing ."]
    (found,) = conflate((line.split() for line in text), [("banana", "door")])
    assert found == LabelledSentence(
        ["The", "banana-door", "of", "the", "banana-door", "."], [None, "door", None, None, "banana", None]
    )


def test_contextual_layers_distinguish_the_words_and_the_token_layer_cannot(
    tmp_path: Path, embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence in five is for evaluation, and none is in both parts: the first two of the text are repeated."""
    monkeypatch.setattr(probing, "MIN_COUNT", 8)
    monkeypatch.setattr(probing, "draw_pairs", lambda *_: [("door", "banana")])
    lines = [line for n in range(10) for line in (f"A{n} door creaks loudly", f"{n} , {n} , ripe banana")]
    (tmp_path / "text").write_text("\n".join([*lines[:2], *lines]), encoding="utf-8")
    task = pseudoword_task(tmp_path / "text", pairs=1, seed=1)
    assert (len(task.train), len(task.dev)) == (16, 4)
    assert not {tuple(s.tokens) for s in task.train} & {tuple(s.tokens) for s in task.dev}
    assert probe(embedder, task).layers == [50.0] + [100.0] * (L - 1)
    with pytest.raises(ConfigurationError, match=r"text: expected 3 pairs .* 8 to 500 times, got 1"):
        pseudoword_task(tmp_path / "text", pairs=3, seed=1)
