"""A text as sentences, a window of them at a time, for one process or dealt out to several."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data import Tokenizer
from more_itertools import constrained_batches

from elmo_plugin.characters.text_file import TextFile

CHARACTERS_IN_WINDOW = 2**18
"""Characters, line ends included, whose sentences are sorted by length together: some 50,000 tokens."""


class Sentence(NamedTuple):
    """A line without the white space around it, and its tokens, of which it may have none."""

    text: str
    tokens: list[str]


class Window(NamedTuple):
    """Lines that follow one another; the number of the first, from 0, is `start`."""

    start: int
    sentences: list[Sentence]


class Share(NamedTuple):
    """What of a text is one process' work: of the windows, numbered from 0, those that are `rank` modulo `size`.

    So each process reads the text once, need not know how long it is, and has as much to do as any other; and its
    windows are those of a single process, which makes their vectors the same.
    """

    rank: int = 0
    size: int = 1


WHOLE = Share()


class Corpus:
    """A text of one sentence a line, plain, .gz or .xz.

    # Parameters

    path : `Path`
        `-` is the standard input.
    tokenizer : `Tokenizer`
    share : `Share`
        By default the whole text. Raises `ConfigurationError` for a part of the standard input.
    """

    def __init__(self, path: Path, tokenizer: Tokenizer, share: Share = WHOLE) -> None:
        if str(path) == "-" and share.size > 1:
            raise ConfigurationError(
                f"the standard input cannot be read by each of {share.size} processes; wanted a file, "
                "which all of them can open"
            )
        self._file = TextFile(path)
        self._tokenizer = tokenizer
        self.share = share

    def windows(self) -> Iterator[Window]:
        """The windows of this share in their order; the text is cut into windows always in one way.

        They are cut by characters, before there are tokens: of other shares only the lines are read.

        Raises `ConfigurationError` for a file that cannot be read to its end, and for what is no UTF-8 text.
        """
        cut = constrained_batches(self._file.lines(), CHARACTERS_IN_WINDOW, strict=False)
        start = 0
        for number, lines in enumerate(cut):
            if number % self.share.size == self.share.rank:
                yield Window(start, [self._sentence(line.strip()) for line in lines])
            start += len(lines)

    def texts(self) -> Iterator[str]:
        """All lines, those of other shares too, without the white space around them."""
        return (line.strip() for line in self._file.lines())

    def share_read(self) -> Optional[float]:
        """How much of the file was read for the windows so far; `None` if its length is not known."""
        return self._file.share_read()

    def identity(self) -> dict[str, Any]:
        """What the sentences depend on, values of JSON. Reads the file, which is not the standard input."""
        with self._file.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"text": digest, "tokenizer": type(self._tokenizer).__name__}

    def _sentence(self, text: str) -> Sentence:
        return Sentence(text, [token.ensure_text() for token in self._tokenizer.tokenize(text)])
