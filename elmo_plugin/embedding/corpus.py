"""A text as windows of sentences, for one process or for several."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data import Tokenizer

from elmo_plugin.text import JustTabsTokenizer, OpenText, TextFile

CHARACTERS_IN_WINDOW = 2**18
"""Characters, line ends included, whose sentences are sorted by length together: some 50,000 tokens."""
SMALLEST_WINDOW = 2**13
"""Characters of the first windows, so that each of four processes has a window of a few hundred lines.

In a smaller window lengths differ more and fewer words are repeated. One process embeds windows of this size at 0.6 to
0.75 of the speed of a whole text, and windows of an eighth of it at 0.35.
"""
WINDOWS_OF_A_SIZE = 8
"""The number of windows after which their size doubles, up to `CHARACTERS_IN_WINDOW`: after 2 million characters.

The sizes do not depend on the length of the text, which is unknown for standard input and for compressed files.
"""


class Sentence(NamedTuple):
    """A line and its tokens. The line has no line end and, unless split at tabs, no white space around it."""

    text: str
    tokens: list[str]


class Window(NamedTuple):
    """Consecutive lines; `start` is the number of the first one, counted from 0."""

    start: int
    sentences: list[Sentence]

    def name(self) -> str:
        """Return a name that tells the window from others of its text and of other texts, and that sorts by `start`.

        >>> Window(3, [Sentence("Two words", ["Two", "words"])]).name()
        '000000000003-04ac4cf1a53bcd2d'
        """
        digest = hashlib.blake2b(json.dumps(self.sentences).encode(), digest_size=8)
        return f"{self.start:012}-{digest.hexdigest()}"


class Share(NamedTuple):
    """The share of one process: of the windows, numbered from 0, those whose number modulo `size` is `rank`.

    Each process reads the text once, need not know its length, and has about as much work as any other. The windows are
    the same as those of a single process, so the vectors are the same, too.
    """

    rank: int = 0
    size: int = 1


WHOLE = Share()


class Corpus:
    """A text of one sentence per line, plain or compressed by gzip or xz.

    # Parameters

    text : `Path` or `Iterable[str]`
        A file, `-` for standard input, or lines, such as an open file.
    tokenizer : `Tokenizer`
    share : `Share`
        By default the whole text.

    Raises `ConfigurationError` for a path that is no file, and if several processes are to read standard input.

    >>> from allennlp.data.tokenizers import WhitespaceTokenizer
    >>> (window,) = Corpus(["Two words", "One"], WhitespaceTokenizer()).windows()
    >>> [sentence.tokens for sentence in window.sentences]
    [['Two', 'words'], ['One']]
    """

    def __init__(self, text: Union[Path, Iterable[str]], tokenizer: Tokenizer, share: Share = WHOLE) -> None:
        is_file = isinstance(text, Path) and str(text) != "-"
        if share.size > 1 and not is_file:
            raise ConfigurationError(
                f"expected a file that each of {share.size} processes can read, got the standard input"
            )
        if isinstance(text, Path) and is_file and (text.is_dir() or not text.exists()):
            found = "a folder" if text.is_dir() else "a path that does not exist"
            raise ConfigurationError(f"{text}: expected a text file, or - for the standard input, got {found}")
        self._file = TextFile(text) if isinstance(text, Path) else OpenText(text)
        self._tokenizer = tokenizer
        self.share = share

    def windows(self) -> Iterator[Window]:
        """Yield the windows of this share in their order. The text is always cut into the same windows.

        They are cut by characters, before tokenizing: the lines of other shares are only read.

        Raises `ConfigurationError` for a file that cannot be read to its end, and for a line that is not UTF-8.
        """
        start = 0
        for number, lines in enumerate(_cut(self._file.lines())):
            if number % self.share.size == self.share.rank:
                texts = [self._text(line) for line in lines]
                tokens = ([token.ensure_text() for token in self._tokenizer.tokenize(text)] for text in texts)
                yield Window(start, [Sentence(*sentence) for sentence in zip(texts, tokens, strict=True)])
            start += len(lines)

    def texts(self) -> Iterator[str]:
        """Yield the text of each line, of all shares."""
        return map(self._text, self._file.lines())

    def share_read(self) -> Optional[float]:
        """Return how much of the file was read for the windows so far, from 0 to 1; `None` if its length is unknown."""
        return self._file.share_read()

    def identity(self) -> dict[str, Any]:
        """Return what the sentences depend on, as values of JSON. Reads the file, which is not the standard input."""
        assert isinstance(self._file, TextFile)
        with self._file.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"text": digest, "tokenizer": type(self._tokenizer).__name__}

    def _text(self, line: str) -> str:
        # A tab at an end of a line is beside an empty token.
        return line.rstrip("\r\n") if isinstance(self._tokenizer, JustTabsTokenizer) else line.strip()


def _cut(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield consecutive lines, as many as the next window has characters for, and at least one."""
    window: list[str] = []
    size, number, room = min(SMALLEST_WINDOW, CHARACTERS_IN_WINDOW), 0, 0
    for line in lines:
        if window and len(line) > room:
            yield window
            window, number = [], number + 1
            if number % WINDOWS_OF_A_SIZE == 0:
                size = min(2 * size, CHARACTERS_IN_WINDOW)
        if not window:
            room = size
        window.append(line)
        room -= len(line)
    if window:
        yield window
