"""Find the nearest neighbours of a word in context, and of the word without context (ELMo §5.3, Table 4)."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import NamedTuple, Optional

import numpy as np
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError
from more_itertools import unique_everseen

from elmo_plugin.common import extra
from elmo_plugin.embedding import Corpus, Embedder
from elmo_plugin.text import SpacyBlankTokenizer, split_tokens

LONGEST_EXAMPLE = 20
"""The number of tokens of a sentence that shows a frequent word."""


class Query(NamedTuple):
    """A tokenized sentence, and the position of the word whose neighbours to find."""

    tokens: list[str]
    position: int

    @property
    def word(self) -> str:
        """Return the word."""
        return self.tokens[self.position]


class Neighbor(NamedTuple):
    """A token of a text: its cosine to the query, its line (from 1), its sentence, its position in the sentence.

    `text` is the name of the text, if there are several.
    """

    cosine: float
    line: int
    tokens: list[str]
    position: int
    text: str = ""


class Uses(NamedTuple):
    """The uses of the query's word in the order of the text, and their vectors of length 1, the query's first.

    *Shape:* vectors (1 + N, D).
    """

    neighbors: list[Neighbor]
    vectors: np.ndarray


class Found(NamedTuple):
    """The neighbours of a query, nearest first.

    `in_context` compares the vectors of a layer and has one neighbour per sentence. `context_free` compares token
    vectors and has one neighbour per word. `uses` are the first uses of the word, if the search keeps some.
    """

    in_context: list[Neighbor]
    context_free: list[Neighbor]
    uses: Optional[Uses] = None


class Search(NamedTuple):
    """How to search: for `k` neighbours by the vectors of `layer`, in the first `sentences` lines of a text or in all.

    With `same_word`, only tokens with the query's word form are neighbours, and only sentences that contain the word
    are embedded. The token vectors of a word are all equal, so there are no context-free neighbours. The vectors of up
    to `uses` uses of the word are kept.
    """

    layer: int
    k: int = 10
    same_word: bool = False
    sentences: Optional[int] = None
    uses: int = 0


def frequent_words(
    corpus: Corpus, sentences: Optional[int] = None, words: int = 20, language: Optional[str] = None
) -> list[tuple[str, list[str], int]]:
    """Return the most frequent words of a text to search for: letters only, no stop word of spaCy for the language.

    The default language is English. Each word has a sentence, the first one with it that is not long, and its count.
    """
    stop_words = SpacyBlankTokenizer(language or "en").stop_words
    counts: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    for _, tokens in chain.from_iterable(_windows(corpus, sentences)):
        counts.update(tokens)
        for token in tokens if len(tokens) <= LONGEST_EXAMPLE else ():
            examples.setdefault(token, tokens)
    found = ((word, count) for word, count in counts.most_common() if word.isalpha() and word.lower() not in stop_words)
    return [(word, examples[word], count) for word, count in islice(found, words) if word in examples]


def find_query(sentence: str, word: str) -> Query:
    """Return the query for a word of a tokenized sentence; `word:2` is the word's second occurrence.

    >>> find_query("They play in a play .", "play:2").position
    4

    Raises `ConfigurationError` if the sentence does not contain the word, or contains it more than once and no number
    is given.
    """
    tokens = split_tokens(sentence)
    numbered = {f"{token}:{tokens[:index].count(token) + 1}": index for index, token in enumerate(tokens)}
    found = [name for name, index in numbered.items() if word in (name, tokens[index])]
    if len(found) != 1:
        raise ConfigurationError(f"'word': expected one of {', '.join(found or tokens)} in {sentence!r}, got {word!r}")
    return Query(tokens, numbered[found[0]])


def search(embedder: Embedder, corpus: Corpus, queries: Sequence[Query], how: Search, text: str = "") -> list[Found]:
    """Return the neighbours of each query in one text, which `text` names; see `search_texts`."""
    return search_texts(embedder, {text: corpus}, queries, how)


def search_texts(
    embedder: Embedder, corpora: Mapping[str, Corpus], queries: Sequence[Query], how: Search
) -> list[Found]:
    """Return the neighbours of each query, nearest by cosine first, in memory that does not grow with the texts.

    The query's own sentence and repeated sentences are left out. Context-free neighbours are other words than the
    query's. As many uses are kept from each text.

    # Parameters

    embedder : an embedder of any mix: the search compares the layers of its biLM
    corpora : the texts to search, by the names that neighbours get
    queries : the words to find neighbours of
    how : the layer and the limits of the search

    Raises `ConfigurationError` if the biLM lacks the layer, and if a text is empty or cannot be read.
    """
    embedder = embedder.with_mix("all")
    if not 0 <= how.layer < embedder.shape[0]:
        raise ConfigurationError(f"'layer': expected 0 (the token layer) to {embedder.shape[0] - 1}, got {how.layer}")
    vectors = embedder.embed([query.tokens for query in queries])  # (L, T, D) each
    each = how._replace(uses=how.uses // len(corpora))
    neighborhoods = [
        _Neighborhood(query, array[:, query.position], each) for query, array in zip(queries, vectors, strict=True)
    ]
    words = {query.word for query in queries}
    for text, corpus in corpora.items():
        for window in _windows(corpus, how.sentences):
            lines = [(line, tokens) for line, tokens in window if tokens and (not how.same_word or words & {*tokens})]
            for index, array in embedder.by_length([tokens for _, tokens in lines]):
                for neighborhood in neighborhoods:
                    neighborhood.visit(text, *lines[index], array)
            for neighborhood in neighborhoods:
                neighborhood.forget_others()
    return [neighborhood.found() for neighborhood in neighborhoods]


def write_contexts(
    output: Path,
    queries: Sequence[Query],
    found: Sequence[Found],
    layer: int,
    k: int,
    senses: Optional[Mapping[tuple[int, int], str]] = None,
) -> list[Path]:
    """Draw the uses of each query's word in two dimensions: `contexts.md` with SVG files, and `contexts.html`.

    The dimensions are the first two principal components of the vectors of a layer. Colours show the senses, or which
    uses are nearest to the query.

    # Parameters

    output : the folder to write to
    found : what `search` found for the queries by the vectors of `layer`, with their `uses`
    k : how many of the nearest uses to number and to list
    senses : maps the line, from 1, and the position of a token to its sense

    Returns the files. Raises `ConfigurationError` if the libraries of the `report` extra are not installed.
    """
    with extra("report"):
        from elmo_plugin.analysis.figure_pages import write_uses_page
    return write_uses_page(output, queries, found, layer, k, senses)


class _Neighborhood:
    """A query, the vectors (L, D) of its word, and what is found so far: neighbours, and uses by text."""

    def __init__(self, query: Query, vectors: np.ndarray, how: Search) -> None:
        self._query, self._how = query, how
        self._contextual, self._token = _unit(vectors[how.layer]), _unit(vectors[0])  # (D,)
        self._in_context: list[Neighbor] = []
        self._context_free: list[Neighbor] = []
        self._uses: dict[str, list[tuple[Neighbor, np.ndarray]]] = defaultdict(list)

    def found(self) -> Found:
        uses = [
            use
            for of_text in self._uses.values()
            for use in sorted(of_text, key=lambda use: (use[0].line, use[0].position))
        ]
        vectors = np.stack([self._contextual, *(vector for _, vector in uses)])  # (1 + N, D)
        kept = Uses([neighbor for neighbor, _ in uses], vectors) if self._how.uses else None
        return Found(self._in_context, self._context_free, kept)

    def visit(self, text: str, line: int, tokens: list[str], array: np.ndarray) -> None:
        """Compare the query with the tokens of a sentence, whose layers are (L, T, D)."""
        is_word = np.array([token == self._query.word for token in tokens])

        def neighbors(cosines: np.ndarray, positions: np.ndarray) -> list[Neighbor]:
            return [Neighbor(float(cosines[place]), line, tokens, place, text) for place in positions.tolist()]

        if not self._how.same_word:
            self._context_free += neighbors(_unit(array[0]) @ self._token, np.flatnonzero(~is_word))
        if tokens == self._query.tokens or (self._how.same_word and not is_word.any()):
            return
        vectors = _unit(array[self._how.layer])  # (T, D)
        cosines = vectors @ self._contextual  # (T,)
        uses = self._uses[text]
        more = np.flatnonzero(is_word)[: self._how.uses - len(uses)]
        uses += zip(neighbors(cosines, more), vectors[more], strict=True)
        if self._how.same_word:
            cosines[~is_word] = -np.inf
        self._in_context += neighbors(cosines, cosines.argmax(keepdims=True))

    def forget_others(self) -> None:
        """Keep the nearest neighbours only, so that memory does not grow with the text."""
        self._in_context = _nearest(unique_everseen(self._in_context, lambda found: tuple(found.tokens)), self._how.k)
        self._context_free = _nearest(
            unique_everseen(self._context_free, lambda found: found.tokens[found.position]), self._how.k
        )


def _nearest(found: Iterable[Neighbor], k: int) -> list[Neighbor]:
    """Return the `k` nearest neighbours, nearest first. Among equals, the earlier one in the text comes first."""
    return heapq.nlargest(k, found, key=lambda neighbor: (neighbor.cosine, -neighbor.line, -neighbor.position))


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors (…, D) to length 1; zeros stay zeros."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), np.finfo(vectors.dtype).tiny)


def _windows(corpus: Corpus, sentences: Optional[int]) -> Iterator[list[tuple[int, list[str]]]]:
    """Yield the line, from 1, and the tokens of each sentence, window by window, and show the progress.

    Raises `ConfigurationError` at the end if there is no token.
    """
    is_empty = True
    with Tqdm.tqdm(desc="reading", unit=" lines", unit_scale=True, total=sentences) as bar:
        for window in takewhile(lambda window: sentences is None or window.start < sentences, corpus.windows()):
            within = window.sentences[: None if sentences is None else sentences - window.start]
            is_empty = is_empty and not any(sentence.tokens for sentence in within)
            yield [(line, sentence.tokens) for line, sentence in enumerate(within, window.start + 1)]
            bar.update(len(within))
            bar.total = sentences or corpus.estimated_sentences()
    if is_empty:
        raise ConfigurationError("the text to search: expected one tokenized sentence per line, got no token")
