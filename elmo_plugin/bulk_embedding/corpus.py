"""A text as sentences, a window of them at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Optional

from allennlp.data import Tokenizer

from elmo_plugin.bulk_embedding.length_batches import BOUNDARIES
from elmo_plugin.characters.text_file import TextFile

TOKENS_IN_WINDOW = 65536
"""Tokens, sentence boundaries included, that are sorted by length together: some MB of text."""


class Sentence(NamedTuple):
    """A line without the white space around it, and its tokens, of which it may have none."""

    text: str
    tokens: list[str]


class Corpus:
    """A text of one sentence a line, plain, .gz or .xz.

    # Parameters

    path : `Path`
        `-` is the standard input.
    tokenizer : `Tokenizer`
    """

    def __init__(self, path: Path, tokenizer: Tokenizer) -> None:
        self._file = TextFile(path)
        self._tokenizer = tokenizer

    def windows(self) -> Iterator[list[Sentence]]:
        """All sentences in their order, cut where `TOKENS_IN_WINDOW` are together; of one text always in one way.

        Raises `ConfigurationError` for a file that cannot be read to its end, and for what is no UTF-8 text.
        """
        window: list[Sentence] = []
        tokens_in_window = 0
        for line in self._file.lines():
            window.append(self._sentence(line.strip()))
            tokens_in_window += len(window[-1].tokens) + BOUNDARIES
            if tokens_in_window >= TOKENS_IN_WINDOW:
                yield window
                window, tokens_in_window = [], 0
        if window:
            yield window

    def share_read(self) -> Optional[float]:
        """How much of the file was read for the windows so far; `None` if its length is not known."""
        return self._file.share_read()

    def _sentence(self, text: str) -> Sentence:
        return Sentence(text, [token.ensure_text() for token in self._tokenizer.tokenize(text)])
