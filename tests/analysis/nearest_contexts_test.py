"""The search, compared with plain NumPy that sorts every token of the text."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.data import Tokenizer

from elmo_plugin.analysis import Query, Search, find_query, frequent_words, search
from elmo_plugin.analysis.nearest_contexts import Found
from elmo_plugin.embedding import Corpus, Embedder, corpus

TEXT = [
    "They went to the play .",
    "The children play by the river .",
    "",
    "He sat on the bank of the river .",
    "The bank lent us money .",
    "The children play by the river .",
    "She wrote a play and they play it .",
    "A boat leaks .",
    "Money is in the bank , and the bank is by the river .",
    "The play was long .",
]
QUERIES = [find_query("She saw the play .", "play"), find_query("The bank lent us money .", "bank")]


def text_file(folder: Path) -> Corpus:
    (folder / "text").write_text("\n".join(TEXT), encoding="utf-8")
    return Corpus(folder / "text", Tokenizer.by_name("just_spaces")())


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def expected(embedder: Embedder, query: Query, how: Search) -> tuple[list[Any], list[Any]]:
    """Return (line, position) of the neighbours in context, and the words without context, by sorting all tokens."""
    wanted = embedder.embed([query.tokens])[0][:, query.position]  # (L, D)
    contexts: dict[str, tuple[float, tuple[int, int]]] = {}
    words: dict[str, float] = {}
    for line, text in enumerate(TEXT[: how.sentences], 1):
        array = embedder.embed([text.split()])[0]  # (L, T, D)
        for place, token in enumerate(text.split()):
            in_context = cosine(array[how.layer, place], wanted[how.layer])
            is_candidate = text != " ".join(query.tokens) and (token == query.word or not how.same_word)
            if is_candidate and in_context > contexts.get(text, (-2,))[0] + 1e-6:
                contexts[text] = (in_context, (line, place))
            if token != query.word:
                words[token] = cosine(array[0, place], wanted[0])
    nearest = sorted(contexts.values(), key=lambda found: (-found[0], found[1]))[: how.k]
    return [place for _, place in nearest], sorted(words, key=lambda word: -words[word])[: how.k]


def places(found: Found) -> tuple[list[Any], list[Any]]:
    return (
        [(neighbor.line, neighbor.position) for neighbor in found.in_context],
        [neighbor.tokens[neighbor.position] for neighbor in found.context_free],
    )


@pytest.mark.parametrize(
    ("how", "characters"),
    [(Search(2), 2**18), (Search(1, k=3), 60), (Search(2, k=2, sentences=4), 60)],
    ids=["one window", "many windows", "the first sentences"],
)
def test_the_neighbors_equal_those_of_sorting_the_whole_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, embedder: Embedder, how: Search, characters: int
) -> None:
    monkeypatch.setattr(corpus, "CHARACTERS_IN_WINDOW", characters)
    found = search(embedder, text_file(tmp_path), QUERIES, how)
    assert list(map(places, found)) == [expected(embedder, query, how) for query in QUERIES]
    for query, neighbors in zip(QUERIES, found, strict=True):
        wanted = embedder.embed([query.tokens])[0]
        for neighbor in neighbors.in_context:
            array = embedder.embed([neighbor.tokens])[0]
            alike = cosine(array[how.layer, neighbor.position], wanted[how.layer, query.position])
            assert neighbor.cosine == pytest.approx(alike, abs=1e-5)


def test_only_the_same_word_on_request(tmp_path: Path, embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[list[str]] = []
    by_length = Embedder.by_length
    monkeypatch.setattr(Embedder, "by_length", lambda self, s, *a: read.extend(s) or by_length(self, s, *a))
    how = Search(2, same_word=True)
    found = search(embedder, text_file(tmp_path), QUERIES, how)
    assert all({"play", "bank"} & set(tokens) for tokens in read)
    for query, neighbors in zip(QUERIES, found, strict=True):
        assert places(neighbors) == (expected(embedder, query, how)[0], [])
    assert [len(neighbors.in_context) for neighbors in found] == [4, 2]


def test_the_uses_of_the_word_are_kept_for_a_picture(tmp_path: Path, embedder: Embedder) -> None:
    """All uses of "bank" but that of the query's own sentence, in the order of the text."""
    _, banks = search(embedder, text_file(tmp_path), QUERIES, Search(1, uses=9))
    assert banks.uses is not None
    found, vectors = banks.uses
    assert [(use.line, use.position) for use in found] == [(4, 4), (9, 4), (9, 8)]
    wanted = [embedder.embed([use.tokens])[0][1, use.position] for use in found]
    assert [cosine(row, vector) for row, vector in zip(vectors[1:], wanted, strict=True)] == pytest.approx([1.0] * 3)
    assert (vectors[1:] @ vectors[0]).tolist() == pytest.approx([use.cosine for use in found], abs=1e-6)


def test_frequent_words_are_listed_with_a_sentence() -> None:
    words = frequent_words(Corpus(TEXT, Tokenizer.by_name("just_spaces")()), words=2)
    assert words == [("play", TEXT[0].split(), 6), ("river", TEXT[1].split(), 4)]


def test_the_query_is_a_token_of_its_sentence() -> None:
    sentence = "They play in a play at 5:2 ."
    assert find_query(sentence, "They") == Query(sentence.split(), 0)
    assert [find_query(sentence, word).position for word in ("play:1", "play:2", "at:1", "5:2")] == [1, 4, 5, 6]
    for word in ("They:2", "cat", "cat:1", "pla", ""):
        with pytest.raises(
            ConfigurationError, match=f"'word': expected one of the tokens .*'They', 'play'.*, got '{word}'"
        ):
            find_query(sentence, word)
    for word in ("play", "play:3", "play:0"):
        with pytest.raises(ConfigurationError, match=r"'word': .*'play' 2 times: choose play:1, play:2"):
            find_query(sentence, word)


def test_rejected_searches(tmp_path: Path, embedder: Embedder) -> None:
    for layer in (-1, 3):
        with pytest.raises(ConfigurationError, match=f"'layer': expected 0 .* to 2, got {layer}"):
            search(embedder, text_file(tmp_path), QUERIES, Search(layer))
    with pytest.raises(ConfigurationError, match="'all'"):
        search(embedder.with_mix("top"), text_file(tmp_path), QUERIES, Search(2))
    for text, how in (([], Search(2)), (["", " "], Search(2, same_word=True)), (["", *TEXT], Search(2, sentences=1))):
        with pytest.raises(ConfigurationError, match="no token"):
            search(embedder, Corpus(text, Tokenizer.by_name("just_spaces")()), QUERIES, how)
