"""An index from words to the sentences of a text."""

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Optional

from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import Neighbor, Query, nearest_uses
from elmo_plugin.embedding import Corpus, Embedder
from elmo_plugin.text import AsciiSpacesTokenizer, split_tokens

MOST_WORDS = 512
"""Longer sentences are not searched."""
MOST_SENTENCES = 200
"""At most this many sentences with a word are compared, the first ones of the text."""


class Question(NamedTuple):
    """A word in its sentence, and how many uses to find."""

    query: Query
    k: int


class TextIndex:
    """Finds the uses of a word in a text, one tokenized sentence per line.

    # Parameters

    path : a plain, `.gz` or `.xz` file
    embedder : an embedder of all layers
    sentences : the number of sentences to read; all by default

    Raises `ConfigurationError` for a text that cannot be read or has no word.
    """

    def __init__(self, path: Path, embedder: Embedder, sentences: Optional[int] = None) -> None:
        self.name = path.name
        self._embedder = embedder
        self._texts: list[str] = []
        self._lines: dict[str, array[int]] = {}
        for window in Corpus(path, AsciiSpacesTokenizer()).windows():
            for sentence in window.sentences[: None if sentences is None else sentences - window.start]:
                self._add(sentence.text, sentence.tokens)
            if sentences is not None and len(self._texts) >= sentences:
                break
        if not self._lines:
            raise ConfigurationError(f"{path}: expected one tokenized sentence per line, got no word")

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self._texts)

    def nearest(self, questions: Sequence[Question]) -> list[list[list[Neighbor]]]:
        """Return the nearest uses of each question's word, layer by layer from layer 1."""
        nearest = []
        for query, k in questions:
            sentences = {line: split_tokens(self._texts[line - 1]) for line in self._lines.get(query.word, ())}
            nearest.append(nearest_uses(self._embedder, sentences, query, k))
        return nearest

    def _add(self, text: str, tokens: list[str]) -> None:
        self._texts.append(text)
        for word in set(tokens) if len(tokens) <= MOST_WORDS else ():
            lines = self._lines.setdefault(word, array("Q"))
            if len(lines) < MOST_SENTENCES:
                lines.append(len(self._texts))
