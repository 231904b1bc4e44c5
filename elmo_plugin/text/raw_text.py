"""Raw text → training text: paragraphs, sentences and tokens, by spaCy's rules and without a trained pipeline."""

from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import TYPE_CHECKING, Optional

from allennlp.common.checks import ConfigurationError

if TYPE_CHECKING:
    from spacy.tokens import Doc

WRAPPED_UP_TO = 100
"""Lines of at most this many characters may be parts of a paragraph; longer ones are paragraphs themselves."""
SAMPLE = 1000
"""The number of lines from which the form of a text is estimated."""
LONGEST_PARAGRAPH = 100_000
"""Characters that are given to spaCy at once, which bounds its memory."""


def paragraphs(lines: Iterable[str]) -> Iterator[str]:
    r"""Yield the paragraphs of a text: what stands between blank lines, with hard-wrapped lines joined.

    A text is hard-wrapped if nine in ten of its first lines have at most `WRAPPED_UP_TO` characters and there are blank
    lines between them. In any other text, each line is a paragraph.

    >>> list(paragraphs(["It rains\n", "again.\n", "\n", "Go home.\n"]))
    ['It rains again.', 'Go home.']
    """
    lines = iter(lines)
    first = [line.strip() for line, _ in zip(lines, range(SAMPLE), strict=False)]
    widths = sorted(map(len, filter(None, first)))
    is_wrapped = bool(widths) and widths[len(widths) * 9 // 10] <= WRAPPED_UP_TO and "" in first
    stripped = (line for part in (first, map(str.strip, lines)) for line in part)
    if not is_wrapped:
        yield from filter(None, stripped)
        return
    for has_text, block in groupby(stripped, bool):
        if has_text:
            yield " ".join(block)


def raw_text_form(lines: Iterable[str]) -> Optional[str]:
    """Return "untokenized" or "hard-wrapped" for a text that looks so, or else `None`.

    In untokenized text, one token in 20 or more ends in a punctuation mark after a letter; English texts have 8 to 15 %
    of such tokens, and tokenized ones, where these are abbreviations, below 2 %. In hard-wrapped text, most lines do
    not end a sentence, and have nearly the same length.

    >>> raw_text_form(["It rained, again."])
    'untokenized'
    """
    lines = list(filter(None, map(str.strip, islice(lines, SAMPLE))))
    tokens = [token for line in lines for token in line.split()]
    if sum(token[-1] in ".,;:!?。，、；：！？" and token[-2:-1].isalpha() for token in tokens) > len(tokens) / 20:
        return "untokenized"
    if len(lines) < 20:
        return None
    width = sorted(map(len, lines))[len(lines) * 9 // 10]
    n_full = sum(0.75 * width <= len(line) <= 1.1 * width for line in lines)
    n_open = sum(line.rstrip(" \"'”’»)]")[-1:] not in tuple(".!?…:;。！？") for line in lines)
    return "hard-wrapped" if min(n_full, n_open) > 0.6 * len(lines) else None


class SentenceSplitter:
    """Split paragraphs into tokenized sentences, by the tokenizer and the sentencizer of a blank spaCy pipeline.

    >>> list(SentenceSplitter("en").sentences(["Mr. Orrin didn't come. Why?"]))
    [['Mr.', 'Orrin', 'did', "n't", 'come', '.'], ['Why', '?']]

    # Parameters

    language : `str`
        spaCy's code of the language, or `xx` for any language. Raises `ConfigurationError` for an unknown code, and for
        a language whose tokenizer needs a library that is not installed.
    """

    def __init__(self, language: str = "en") -> None:
        import spacy  # takes half as long as PyTorch

        try:
            self._pipeline = spacy.blank(language)
        except (ImportError, AttributeError) as error:
            expected = f"expected a language that spaCy can tokenize, got {language!r}"
            raise ConfigurationError(f"'language': {expected}: {error}") from error
        self._pipeline.add_pipe("sentencizer")

    def sentences(self, paragraphs: Iterable[str]) -> Iterator[list[str]]:
        """Yield the tokens of each sentence. A token never contains white space."""
        pieces = (
            paragraph[start : start + LONGEST_PARAGRAPH]
            for paragraph in paragraphs
            for start in range(0, len(paragraph), LONGEST_PARAGRAPH)
        )
        for document in self._pipeline.pipe(pieces):
            start = 0
            for sentence in document.sents:
                end = sentence.end
                # The sentencizer leaves an opening quotation mark at the end of the sentence before it.
                while start < end - 1 and end < len(document) and _opens(document, end - 1):
                    end -= 1
                if end < len(document) and document[end].is_lower:
                    continue  # `"Why?" asked he.` is one sentence
                tokens = [part for token in document[start:end] for part in token.text.split()]
                start = end
                if tokens:
                    yield tokens


def _opens(document: "Doc", index: int) -> bool:
    """Return whether a token is a punctuation mark that belongs to the token after it."""
    return document[index].is_punct and not document[index].whitespace_ and bool(document[index - 1].whitespace_)
