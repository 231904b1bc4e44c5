"""What became of a raw text: counts, examples and warnings, printed to standard error."""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
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
        self.counts = Counter[str]()
        self._text = text
        self._longest = 0
        self._sample: list[str] = []
        self._odd = Counter[str]()

    def read(self, sentences: Iterable[list[str]]) -> Iterator[str]:
        """Yield each sentence as a line, and count it."""
        random = Random(0)
        for tokens in sentences:
            line = " ".join(tokens)
            yield f"{line}\n"
            if not tokens:
                continue
            self.counts.update(
                sentences=1,
                tokens=len(tokens),
                words=sum(map(_is_word, tokens)),
                open=is_open(line),
                long=len(tokens) > LONG,
            )
            self._longest = max(self._longest, len(tokens))
            self._odd.update(token for token in tokens if not _is_usual(token))
            if len(self._odd) > MOST_ODD:
                self._odd = Counter(dict(self._odd.most_common(MOST_ODD // 2)))
            # Each sentence so far is in the sample with the same probability.
            place = random.randrange(self.counts["sentences"])
            if len(self._sample) < IN_THE_SAMPLE:
                self._sample.append(line)
            elif place < IN_THE_SAMPLE:
                self._sample[place] = line

    def check(self) -> None:
        """Raise `ConfigurationError` if what came out cannot be text."""
        names = shortened([file.file.name for file in self._text.files])
        n_sentences, n_tokens, n_words = (self.counts[name] for name in ("sentences", "tokens", "words"))
        if not n_sentences:
            raise ConfigurationError(f"{names}: expected text, got no sentences")
        if n_words < n_tokens / 3:
            raise ConfigurationError(
                f"{names}: expected text, got {n_words / n_tokens:.0%} of the tokens with a letter"
            )
        if n_words > 100 and n_tokens < 1.5 * n_sentences:
            raise ConfigurationError(
                f"{names}: expected sentences, got {n_sentences:,} of {n_tokens:,} tokens; a list of words is no text, "
                "and a language without spaces needs its own --language"
            )

    def print(self) -> None:
        """Print the report."""
        text, counts = self._text, self.counts
        divided = {"joined": text.hyphens.joined, "with their hyphen": text.hyphens.kept}
        if any(divided.values()):
            shown = [
                f"{n.total():,} {what}" + f" ({', '.join(islice(n, 10))})" * bool(n) for what, n in divided.items()
            ]
            say(f"words at line ends: {', '.join(shown)}")
        if text.spelling.counts:
            replaced = [f"{number:,} {kind}" for kind, number in text.spelling.counts.most_common()]
            say(f"characters replaced: {', '.join(replaced)}")
        for kind, lines in sorted(text.clutter.items()):
            lines_of_kind = f"{lines.total():,} {kind}: {' | '.join(islice(lines, 10))}"
            say(
                f"left out: {lines_of_kind}"
                if text.clean
                else f"warning: seen: {lines_of_kind}; --clean leaves them out"
            )
        if counts["repeated"]:
            say(f"left out: {counts['repeated']:,} repeated sentences")
        if self._odd:
            odd = ", ".join(f"{token[:40]} ({number:,})" for token, number in self._odd.most_common(10))
            say(f"odd tokens: {odd}")
        share = counts["open"] / counts["sentences"]
        say(
            f"{counts['sentences']:,} sentences of {counts['tokens']:,} tokens; the longest has {self._longest:,}; "
            f"{share:.1%} have no final mark"
        )
        say("ten of them at random:" if counts["sentences"] >= IN_THE_SAMPLE else "these are:")
        for sentence in self._sample:
            say(f"  {sentence[:200]}")
        if n_markup := sum(file.clutter.n_markup for file in text.files):
            warn(f"{n_markup:,} lines have marks of HTML, such as <br> or &amp;, which stay in the text")
        n_joined = sum(text.form(file) != SENTENCES for file in text.files)
        if share > 0.3 and n_joined > len(text.files) / 2:
            warn("many sentences have no final mark: look at them, and try another form for --lines")
        if counts["long"] > counts["sentences"] / 50:
            warn(f"{counts['long']:,} sentences have over {LONG} tokens: look at them, and try --lines or --language")


@lru_cache(2**16)
def _is_word(token: str) -> bool:
    return HAS_LETTER.search(token) is not None


@lru_cache(2**16)
def _is_usual(token: str) -> bool:
    return USUAL.fullmatch(token) is not None
