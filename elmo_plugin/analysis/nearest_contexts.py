"""Nearest neighbours of a word in its context, and of the word without any (ELMo §5.3, Table 4)."""

import heapq
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

import numpy as np
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError

from elmo_plugin.embedding import Corpus, Embedder


class Query(NamedTuple):
    """A tokenised sentence, and the place of the word in it whose neighbours are wanted."""

    tokens: list[str]
    place: int

    @property
    def word(self) -> str:
        """The word itself."""
        return self.tokens[self.place]


class Neighbor(NamedTuple):
    """A token of a text: its cosine to the query, its line from 1, its sentence, and its place there."""

    cosine: float
    line: int
    tokens: list[str]
    place: int


class Found(NamedTuple):
    """The neighbours of a query, nearest first.

    `in_context`: by the vectors of a layer, one a sentence. `context_free`: by token vectors, one a word.
    """

    in_context: list[Neighbor]
    context_free: list[Neighbor]


class Search(NamedTuple):
    """How to search: `k` neighbours by the vectors of `layer`, in the first `sentences` lines of a text or in all.

    `same_word`: only tokens with the query's word form are neighbours. Token vectors of them are all the same, so
    that there are no context-free neighbours then, and of the text only sentences with the word are embedded.
    """

    layer: int
    k: int = 10
    same_word: bool = False
    sentences: Optional[int] = None


def find_query(sentence: str, word: str) -> Query:
    """The word of a tokenised sentence; `word:2` is the second of that form.

    Raises `ConfigurationError` if the word is not there, or more than once and without a number.
    """
    tokens = sentence.split()
    form, _, number = (word, "", "") if word in tokens else word.rpartition(":")
    places = [place for place, token in enumerate(tokens) if token == form]
    if number.isdecimal() and 1 <= int(number) <= len(places):
        return Query(tokens, places[int(number) - 1])
    if len(places) > 1:
        wanted = ", ".join(f"{form}:{n}" for n in range(1, len(places) + 1))
        raise ConfigurationError(f"'word' {form!r} stands {len(places)} times in {sentence!r}; wanted one of {wanted}")
    if number or not places:
        raise ConfigurationError(f"'word' {word!r} is no token of {sentence!r}; wanted one of its tokens")
    return Query(tokens, places[0])


def search(embedder: Embedder, corpus: Corpus, queries: Sequence[Query], how: Search) -> list[Found]:
    """The neighbours of each query, nearest by cosine first, in memory that does not grow with the text.

    The query's own sentence is left out, and of sentences that are the same all but the first are. Context-free
    neighbours are words other than the query's.

    # Parameters

    embedder : of all layers
    corpus, queries, how : what is read, what is looked for, and how

    Raises `ConfigurationError` for an embedder of one mix, a layer that it has not, and a text that cannot be read.
    """
    if len(embedder.shape) != 3:
        raise ConfigurationError("the embedder gives one mix of the layers; wanted one that was loaded with 'all'")
    if not 0 <= how.layer < embedder.shape[0]:
        raise ConfigurationError(f"'layer' is {how.layer}; wanted 0, the token layer, to {embedder.shape[0] - 1}")
    vectors = embedder.embed([query.tokens for query in queries])  # (L, T, D) each
    hunts = [_Hunt(query, array[:, query.place], how) for query, array in zip(queries, vectors, strict=True)]
    for line, tokens, array in _embedded(embedder, corpus, hunts, how):
        for hunt in hunts:
            hunt.visit(line, tokens, array)
    return [Found(hunt.in_context.sorted(), hunt.context_free.sorted()) for hunt in hunts]


class _Nearest:
    """The `k` nearest of all that was offered, one a key; of equals, those that stand first in the text."""

    def __init__(self, k: int, left_out: str) -> None:
        self._k = k
        self._heap: list[tuple[float, int, int, str, Neighbor]] = []
        self._keys = {left_out}

    @property
    def least(self) -> float:
        """A cosine below this one finds no place."""
        return self._heap[0][0] if len(self._heap) == self._k else -np.inf

    def offer(self, key: str, neighbor: Neighbor) -> None:
        if key in self._keys:
            return
        entry = (neighbor.cosine, -neighbor.line, -neighbor.place, key, neighbor)
        self._keys.add(key)
        if len(self._heap) < self._k:
            heapq.heappush(self._heap, entry)
        else:
            self._keys.remove(heapq.heappushpop(self._heap, entry)[3])

    def sorted(self) -> list[Neighbor]:
        return [entry[-1] for entry in sorted(self._heap, reverse=True)]


class _Hunt:
    """One query, its vectors (L, D), and what was found so far."""

    def __init__(self, query: Query, vectors: np.ndarray, how: Search) -> None:
        self._query, self._how = query, how
        self._contextual, self._token = _unit(vectors[how.layer]), _unit(vectors[0])  # (D,)
        self.in_context = _Nearest(how.k, left_out=" ".join(query.tokens))
        self.context_free = _Nearest(how.k, left_out=query.word)

    def wants(self, tokens: Sequence[str]) -> bool:
        """Whether a sentence can hold a neighbour."""
        return not self._how.same_word or self._query.word in tokens

    def visit(self, line: int, tokens: list[str], array: np.ndarray) -> None:
        """Look at a sentence, whose layers are (L, T, D)."""
        if not tokens or not self.wants(tokens):
            return
        cosines = _unit(array[self._how.layer]) @ self._contextual  # (T,)
        if self._how.same_word:
            cosines[[token != self._query.word for token in tokens]] = -np.inf
        best = int(cosines.argmax())
        self.in_context.offer(" ".join(tokens), Neighbor(float(cosines[best]), line, tokens, best))
        if not self._how.same_word:
            alike = _unit(array[0]) @ self._token  # (T,)
            for place in np.flatnonzero(alike >= self.context_free.least).tolist():
                self.context_free.offer(tokens[place], Neighbor(float(alike[place]), line, tokens, place))


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors (…, D) of length 1; zeros stay zeros."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), np.finfo(vectors.dtype).tiny)


def _embedded(
    embedder: Embedder, corpus: Corpus, hunts: Sequence[_Hunt], how: Search
) -> Iterator[tuple[int, list[str], np.ndarray]]:
    """Line, tokens and layers (L, T, D) of each sentence that can hold a neighbour, window by window of the text."""
    with Tqdm.tqdm(desc="reading", unit=" lines", unit_scale=True, total=how.sentences) as bar:
        for window in corpus.windows():
            within = window.sentences[: None if how.sentences is None else how.sentences - window.start]
            lines = [
                (line, sentence.tokens)
                for line, sentence in enumerate(within, window.start + 1)
                if any(hunt.wants(sentence.tokens) for hunt in hunts)
            ]
            for place, array in embedder.by_length([tokens for _, tokens in lines]):
                yield *lines[place], array
            bar.update(len(within))
            share = corpus.share_read()
            if how.sentences is None and share:
                bar.total = round(bar.n / share)  # an estimate until the text is read
            if bar.n == how.sentences:
                return
