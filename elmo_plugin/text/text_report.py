"""What became of a raw text: counts, examples and warnings, printed to standard error."""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b
from random import Random

from allennlp.common.checks import ConfigurationError

from elmo_plugin.text.line_forms import SENTENCES, is_open
from elmo_plugin.text.raw_text import RawText

IN_THE_SAMPLE, MOST_ODD = 10, 10_000
LONG = 100
"""The tokens of a long sentence."""
HAS_LETTER = re.compile(r"[^\W\d_]")
USUAL = re.compile(r"[^\W_]+(?:[-'’.·][^\W_]+)*[-'’.]?|['’][^\W_]+|\d+(?:[.,:/]\d+)*%?|[^\w\s<>&#@~^|\\\ufffd]{1,3}")
"""What most tokens are: words, numbers, marks."""


def shortened(names: list[str]) -> str:
    """Return the first names of a list."""
    return ", ".join(names[:3]) + ", …" * (len(names) > 3)


def say(line: str) -> None:
    """Print a line that is no result."""
    print(line, file=sys.stderr)


def warn(line: str) -> None:
    """Print a warning."""
    say(f"warning: {line}")


class Report:
    """Count what is written of a text, and print it.

    # Parameters

    text : `RawText`
    """

    def __init__(self, text: RawText) -> None:
        self.n_sentences = 0
        self._text = text
        self._n_tokens = self._longest = self._n_open = self._n_long = self._n_words = self._n_repeated = 0
        self._sample: list[str] = []
        self._odd: Counter[str] = Counter()

    def read(self, sentences: Iterable[list[str]], drop_duplicates: bool) -> Iterator[str]:
        """Yield each sentence as a line, or only the first of equal ones, and count what is yielded."""
        random, seen = Random(0), set[bytes]()
        for tokens in sentences:
            line = " ".join(tokens)
            if drop_duplicates:
                digest = blake2b(line.encode(), digest_size=16).digest()
                if digest in seen:
                    self._n_repeated += 1
                    continue
                seen.add(digest)
            if tokens:
                self._count(tokens)
                self._n_open += is_open(line)
                # Each sentence so far is in the sample with the same probability.
                place = random.randrange(self.n_sentences)
                if self.n_sentences <= IN_THE_SAMPLE:
                    self._sample.append(line)
                elif place < IN_THE_SAMPLE:
                    self._sample[place] = line
            yield f"{line}\n"

    def check(self) -> None:
        """Raise `ConfigurationError` if what came out cannot be text."""
        names = shortened([file.file.name for file in self._text.files])
        if not self.n_sentences:
            raise ConfigurationError(f"{names}: expected text, got no sentences")
        if self._n_words < self._n_tokens / 3:
            share = self._n_words / self._n_tokens
            raise ConfigurationError(f"{names}: expected text, got {share:.0%} of the tokens with a letter")
        if self._n_words > 100 and self._n_tokens < 1.5 * self.n_sentences:
            raise ConfigurationError(
                f"{names}: expected sentences, got {self.n_sentences:,} of {self._n_tokens:,} tokens; a list of "
                "words is no text, and a language without spaces needs its own --language"
            )

    def print(self) -> None:
        """Print the report."""
        text, hyphens = self._text, self._text.hyphens
        if hyphens.n_joined or hyphens.n_kept:
            joined, kept = (f" ({', '.join(words)})" * bool(words) for words in (hyphens.joined, hyphens.kept))
            say(f"words at line ends: {hyphens.n_joined:,} joined{joined}, {hyphens.n_kept:,} with their hyphen{kept}")
        if text.spelling.counts:
            replaced = [f"{number:,} {kind}" for kind, number in text.spelling.counts.most_common()]
            say(f"characters replaced: {', '.join(replaced)}")
        clutter = text.clutter()
        for kind, (number, examples) in clutter.items():
            say(f"{'left out' if text.clean else 'warning: seen'}: {number:,} {kind}: {' | '.join(examples)}")
        if self._n_repeated:
            say(f"left out: {self._n_repeated:,} repeated sentences")
        if self._odd:
            odd = ", ".join(f"{token[:40]} ({number:,})" for token, number in self._odd.most_common(10))
            say(f"odd tokens: {odd}")
        share = self._n_open / self.n_sentences
        say(
            f"{self.n_sentences:,} sentences of {self._n_tokens:,} tokens; the longest has {self._longest:,}; "
            f"{share:.1%} have no final mark"
        )
        say("ten of them at random:" if self.n_sentences >= IN_THE_SAMPLE else "these are:")
        for sentence in self._sample:
            say(f"  {sentence[:200]}")
        if clutter and not text.clean:
            warn("--clean leaves these lines out")
        if n_markup := sum(file.clutter.n_markup for file in text.files):
            warn(f"{n_markup:,} lines have marks of HTML, such as <br> or &amp;, which stay in the text")
        if unknown := [file.file.name for file in text.files if file.form is None and file.n_characters]:
            warn(f"neither wrapped lines, nor paragraphs, nor sentences: {shortened(unknown)}; perhaps a table")
        wrapped_or_paragraphs = [file for file in text.files if text.form(file) != SENTENCES]
        if share > 0.3 and len(wrapped_or_paragraphs) > len(text.files) / 2:
            warn("many sentences have no final mark: look at them, and try another form for --lines")
        if self._n_long > self.n_sentences / 50:
            warn(f"{self._n_long:,} sentences have over {LONG} tokens: look at them, and try --lines or --language")

    def _count(self, tokens: list[str]) -> None:
        self.n_sentences += 1
        self._n_tokens += len(tokens)
        self._longest = max(self._longest, len(tokens))
        self._n_long += len(tokens) > LONG
        for token in tokens:
            is_word, is_usual = _kind(token)
            self._n_words += is_word
            if not is_usual:
                self._odd[token] += 1
        if len(self._odd) > MOST_ODD:
            self._odd = Counter(dict(self._odd.most_common(MOST_ODD // 2)))


@lru_cache(2**16)
def _kind(token: str) -> tuple[bool, bool]:
    """Return whether a token has a letter, and whether it looks as most tokens do."""
    return HAS_LETTER.search(token) is not None, USUAL.fullmatch(token) is not None
