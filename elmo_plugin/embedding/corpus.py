"""A text as windows of sentences, for one process or for several."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data import Tokenizer

from elmo_plugin.text import WHITE_SPACE, JustTabsTokenizer, OpenText, TextFile

CHARACTERS_IN_WINDOW = 2**18
"""The size of a window in characters, line ends included: some 50,000 tokens, which are sorted by length together."""
SMALLEST_WINDOW = 2**13
"""The size of the first windows in characters. A text of a few hundred lines has enough of them for four processes.

In smaller windows, lengths differ more and fewer words are repeated. One process embeds windows of this size at 0.6 to
0.75 of the speed of a whole text, and windows an eighth of it at 0.35.
"""
WINDOWS_OF_A_SIZE = 8
"""The number of windows after which their size doubles. It reaches `CHARACTERS_IN_WINDOW` after 2 million characters.

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
        """Return a name that identifies the window's lines and tokens, and that sorts by `start`.

        >>> Window(3, [Sentence("Two words", ["Two", "words"])]).name()
        '000000000003-04ac4cf1a53bcd2d'
        """
        digest = hashlib.blake2b(json.dumps(self.sentences).encode(), digest_size=8)
        return f"{self.start:012}-{digest.hexdigest()}"


class Share(NamedTuple):
    """The share of one of `size` processes: every `size`th window, starting with window number `rank`.

    Each process reads the text once, need not know its length, and has about as much work as any other. The vectors
    equal those of a single process, because the windows are the same.
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
        The windows to read. The default is all of them.

    Raises `ConfigurationError` for a path that is not a file, for a path given as a string, and if several processes
    are to read standard input or lines.

    >>> from allennlp.data.tokenizers import WhitespaceTokenizer
    >>> (window,) = Corpus(["Two words", "One"], WhitespaceTokenizer()).windows()
    >>> [sentence.tokens for sentence in window.sentences]
    [['Two', 'words'], ['One']]
    """

    def __init__(self, text: Union[Path, Iterable[str]], tokenizer: Tokenizer, share: Share = WHOLE) -> None:
        if isinstance(text, str):  # an iterable of its characters
            raise ConfigurationError(f"expected a `Path` or lines, got the string {text[:100]!r}")
        path = text if isinstance(text, Path) and str(text) != "-" else None
        if share.size > 1 and path is None:
            found = "standard input" if isinstance(text, Path) else "lines"
            raise ConfigurationError(f"expected a file that each of {share.size} processes can read, got {found}")
        if path is not None and (path.is_dir() or not path.exists()):
            found = "a folder" if path.is_dir() else "a path that does not exist"
            raise ConfigurationError(f"{path}: expected a text file, or - for standard input, got {found}")
        self._file = TextFile(text) if isinstance(text, Path) else OpenText(text)
        self._tokenizer = tokenizer
        self.share = share

    def windows(self) -> Iterator[Window]:
        """Yield the windows of this share in order. Every share sees the text cut into the same windows.

        Windows are cut by characters, before tokenizing, so the lines of other shares are read but not tokenized.

        Raises `ConfigurationError` for a file that cannot be read to its end, and for a line that is not UTF-8.
        """
        start = 0
        for number, lines in enumerate(_cut(self._file.lines())):
            if number % self.share.size == self.share.rank:
                sentences = []
                for text in map(self._text, lines):
                    tokens = self._tokenizer.tokenize(text)
                    sentences.append(Sentence(text, [token.ensure_text() for token in tokens]))
                yield Window(start, sentences)
            start += len(lines)

    def texts(self) -> Iterator[str]:
        """Yield the text of each line, those of other shares included."""
        return map(self._text, self._file.lines())

    def share_read(self) -> Optional[float]:
        """Return the share of the file that was read so far, from 0 to 1, or `None` if its length is unknown."""
        return self._file.share_read()

    def identity(self) -> dict[str, Any]:
        """Return what the sentences depend on, as JSON values. Reads the file, which cannot be standard input."""
        assert isinstance(self._file, TextFile)
        with self._file.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"text": digest, "tokenizer": type(self._tokenizer).__name__}

    def _text(self, line: str) -> str:
        # Where tabs separate tokens, a tab at either end of a line marks an empty token.
        return line.rstrip("\r\n") if isinstance(self._tokenizer, JustTabsTokenizer) else line.strip(WHITE_SPACE)


def _cut(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield the lines of each window: as many as its size in characters has room for, and at least one."""
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
