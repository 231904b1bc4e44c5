"""The limits of requests, and the errors of requests that exceed them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Union

from allennlp.common.checks import ConfigurationError

from elmo_plugin.common import did_you_mean
from elmo_plugin.text import split_tokens


class RequestError(Exception):
    """Raised for a request that is not answered, with the HTTP status that says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Limits:
    """The most that one request may ask for, and that the server does at once.

    # Parameters

    bytes : of a request
    sentences : of a request
    words : of a request
    sentence_words : of a sentence
    characters : of a word
    numbers : of the vectors in an answer
    requests : that are read, waiting or being answered at the same time
    seconds : until a request is answered
    """

    bytes: int = 2**18
    sentences: int = 64
    words: int = 4096
    sentence_words: int = 512
    characters: int = 500
    numbers: int = 10**6
    requests: int = 64
    seconds: int = 30

    def check_given(self, given: Sequence[Union[str, list[str]]]) -> None:
        """Raise `RequestError` for too many sentences, and for texts that are too long to be tokenized."""
        at_most(self.sentences, len(given), "'sentences'", "sentences")
        self.check_words([split_tokens(each) if isinstance(each, str) else each for each in given])

    def check_words(self, sentences: Sequence[Sequence[str]]) -> None:
        """Raise `RequestError` for sentences with too many words or with words that are too long."""
        for number, words in enumerate(sentences):
            where = f"'sentences[{number}]'"
            at_most(self.sentence_words, len(words), where, "words")
            at_most(self.characters, max(map(len, words), default=0), where, "characters in a word")
        at_most(self.words, sum(map(len, sentences)), "'sentences'", "words")


def at_most(most: int, got: int, where: str, what: str) -> None:
    """Raise `RequestError` if there is more of something than allowed."""
    if got > most:
        raise RequestError(422, f"{where}: expected at most {most:,} {what}, got {got:,}")


def read_limits(assignments: Iterable[str]) -> Limits:
    """Return the default limits, changed by assignments `NAME=NUMBER`. Raises `ConfigurationError` for anything else.

    >>> read_limits(["sentences=8"]).sentences
    8
    """
    limits, names = Limits(), [field.name for field in fields(Limits)]
    for assignment in assignments:
        name, _, number = assignment.partition("=")
        if name not in names:
            hint = did_you_mean(name, names)
            raise ConfigurationError(f"'limit': expected one of {', '.join(names)}, got {name!r}{hint}")
        if not (number.isascii() and number.isdecimal() and len(number) <= 10 and 1 <= int(number) <= 10**9):
            raise ConfigurationError(f"'limit {name}': expected a whole number from 1 to 1,000,000,000, got {number!r}")
        limits = replace(limits, **{name: int(number)})
    return limits
