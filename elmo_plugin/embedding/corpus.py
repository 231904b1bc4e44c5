"""A text as sentences, a window of them at a time, for one process or dealt out to several."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data import Token, Tokenizer

from elmo_plugin.text import OpenText, TextFile

CHARACTERS_IN_WINDOW = 2**18
"""Characters, line ends included, whose sentences are sorted by length together: some 50,000 tokens."""
SMALLEST_WINDOW = 2**13
"""Characters of the first windows: of a few hundred lines each of four processes has one.

The smaller a window, the less alike its lengths and the fewer words that come again: one process embeds windows of this
size at 0.6 to 0.75 of the speed of a whole text, and of an eighth of it at 0.35.
"""
WINDOWS_OF_A_SIZE = 8
"""After so many windows their size doubles, until it is `CHARACTERS_IN_WINDOW`: after 2 million characters.

The sizes do not depend on the text's length, which is not known of the standard input or of compressed files.
"""


@Tokenizer.register("just_tabs")
class JustTabsTokenizer(Tokenizer):
    """Splits at each tab and nowhere else: tokens may hold spaces, and be empty.

    ELMoForManyLangs reads its `plain` input so (`read_corpus` in its `__main__.py`); but of a text without
    characters, which is one empty token there, there are no tokens here.

    Registered as a `Tokenizer` with name `just_tabs`.
    """

    def tokenize(self, text: str) -> list[Token]:
        """The tokens of `text`."""
        return [Token(field) for field in text.split("\t")] if text else []


class Sentence(NamedTuple):
    """A line without its end and, unless tabs separate its tokens, the white space around it; and its tokens."""

    text: str
    tokens: list[str]


class Window(NamedTuple):
    """Lines that follow one another; the number of the first, from 0, is `start`."""

    start: int
    sentences: list[Sentence]


class Share(NamedTuple):
    """What of a text is one process' work: of the windows, numbered from 0, those that are `rank` modulo `size`.

    So each process reads the text once, need not know how long it is, and has about as much to do as any other; and
    its windows are those of a single process, which makes their vectors the same.
    """

    rank: int = 0
    size: int = 1


WHOLE = Share()


class Corpus:
    """A text of one sentence a line, plain or compressed by gzip or xz.

    # Parameters

    text : `Path` or `Iterable[str]`
        `-` is the standard input. Lines may come from an open file, too.
    tokenizer : `Tokenizer`
    share : `Share`
        By default the whole text.

    Raises `ConfigurationError` where there is no such file, and for a part of what only one process can read.
    """

    def __init__(self, text: Union[Path, Iterable[str]], tokenizer: Tokenizer, share: Share = WHOLE) -> None:
        is_file = isinstance(text, Path) and str(text) != "-"
        if share.size > 1 and not is_file:
            raise ConfigurationError(
                f"the standard input cannot be read by each of {share.size} processes; wanted a file, "
                "which all of them can open"
            )
        if isinstance(text, Path) and is_file and (text.is_dir() or not text.exists()):
            found = "a folder" if text.is_dir() else "nothing there"
            raise ConfigurationError(f"{text}: expected a text file, or - for the standard input, found {found}")
        self._file = TextFile(text) if isinstance(text, Path) else OpenText(text)
        self._tokenizer = tokenizer
        self.share = share

    def windows(self) -> Iterator[Window]:
        """The windows of this share in their order; the text is cut into windows always in one way.

        They are cut by characters, before there are tokens: of other shares only the lines are read.

        Raises `ConfigurationError` for a file that cannot be read to its end, and for what is no UTF-8 text.
        """
        start = 0
        for number, lines in enumerate(_cut(self._file.lines())):
            if number % self.share.size == self.share.rank:
                yield Window(start, [self._sentence(self._text(line)) for line in lines])
            start += len(lines)

    def texts(self) -> Iterator[str]:
        """The text of each line, of those of other shares too."""
        return map(self._text, self._file.lines())

    def share_read(self) -> Optional[float]:
        """How much of the file was read for the windows so far; `None` if its length is not known."""
        return self._file.share_read()

    def identity(self) -> dict[str, Any]:
        """What the sentences depend on, values of JSON. Reads the file, which is not the standard input."""
        assert isinstance(self._file, TextFile)
        with self._file.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"text": digest, "tokenizer": type(self._tokenizer).__name__}

    def _text(self, line: str) -> str:
        # A tab at an end of a line is beside an empty token.
        return line.rstrip("\r\n") if isinstance(self._tokenizer, JustTabsTokenizer) else line.strip()

    def _sentence(self, text: str) -> Sentence:
        return Sentence(text, [token.ensure_text() for token in self._tokenizer.tokenize(text)])


def _cut(lines: Iterable[str]) -> Iterator[list[str]]:
    """Lines that follow one another, as many as the next window has characters for, and one at least."""
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
