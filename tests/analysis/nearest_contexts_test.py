"""The search, compared with plain NumPy that sorts every token of the text."""

from typing import Any

import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.data import Tokenizer

from elmo_plugin.analysis import Query, Search, find_query, search
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


def corpus_of(text: list[str]) -> Corpus:
    return Corpus(text, Tokenizer.by_name("just_spaces")())


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
            if token != query.word and not how.same_word:
                words[token] = cosine(array[0, place], wanted[0])
    nearest = sorted(contexts.values(), key=lambda found: (-found[0], found[1]))[: how.k]
    return [place for _, place in nearest], sorted(words, key=lambda word: -words[word])[: how.k]


def places(found: Found) -> tuple[list[Any], list[Any]]:
    return (
        [(neighbor.line, neighbor.position) for neighbor in found.in_context],
        [neighbor.tokens[neighbor.position] for neighbor in found.context_free],
    )


@pytest.mark.parametrize("characters", [2**18, 60], ids=["one window", "many windows"])
@pytest.mark.parametrize("how", [Search(2), Search(1, k=3), Search(2, sentences=4), Search(2, same_word=True)], ids=str)
def test_the_neighbors_equal_those_of_sorting_the_whole_text(
    monkeypatch: pytest.MonkeyPatch, embedder: Embedder, how: Search, characters: int
) -> None:
    monkeypatch.setattr(corpus, "CHARACTERS_IN_WINDOW", characters)
    found = search(embedder, corpus_of(TEXT), QUERIES, how)
    assert list(map(places, found)) == [expected(embedder, query, how) for query in QUERIES]
    assert search(embedder.with_mix("top"), corpus_of(TEXT), QUERIES, how) == found
    nearest = found[0].in_context[0]
    vectors = [embedder.embed([tokens])[0][how.layer] for tokens in (nearest.tokens, QUERIES[0].tokens)]
    assert nearest.cosine == pytest.approx(cosine(vectors[0][nearest.position], vectors[1][QUERIES[0].position]))


def test_the_first_uses_of_the_word_are_kept_with_their_vectors(embedder: Embedder) -> None:
    (found,) = search(embedder, corpus_of(TEXT), [QUERIES[0]], Search(2, uses=4))
    assert found.uses is not None and len(found.uses.neighbors) == 4
    for neighbor, vector in zip(found.uses.neighbors, found.uses.vectors[1:], strict=True):
        assert neighbor.tokens[neighbor.position] == "play" and TEXT[neighbor.line - 1].split() == neighbor.tokens
        own = embedder.embed([neighbor.tokens])[0][2, neighbor.position]
        np.testing.assert_allclose(vector, own / np.linalg.norm(own), atol=1e-5)


def test_the_query_is_a_token_of_its_sentence() -> None:
    sentence = "They play in a play at 5:2 ."
    words = ("They", "play:1", "play:2", "at:1", "5:2")
    assert [find_query(sentence, word).position for word in words] == [0, 1, 4, 5, 6]
    with pytest.raises(ConfigurationError, match=r"'word': expected one of They, play, .* in 'They .*', got 'cat'"):
        find_query(sentence, "cat")
    with pytest.raises(ConfigurationError, match=r"'word': expected one of play:1, play:2 in 'They .*', got 'play'"):
        find_query(sentence, "play")


def test_rejected_searches(embedder: Embedder) -> None:
    with pytest.raises(ConfigurationError, match=r"'layer': expected 0 .* to 2, got 3"):
        search(embedder, corpus_of(TEXT), QUERIES, Search(3))
    with pytest.raises(ConfigurationError, match="no token"):
        search(embedder, corpus_of(["", " "]), QUERIES, Search(2, same_word=True))
