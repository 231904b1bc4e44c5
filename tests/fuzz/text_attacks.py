"""Small texts that would fill the memory or take for ever: each is answered or rejected at once.

Each function writes a text into an empty folder, and returns what a user would do with it.
"""

import gzip
import lzma
import string
import zlib
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

from allennlp.data.tokenizers import WhitespaceTokenizer

from elmo_plugin.analysis import frequent_words
from elmo_plugin.embedding import Corpus, read_conll
from elmo_plugin.models import ColumnTagsReader, TextClassificationCsvReader
from elmo_plugin.pretraining import TextShardsReader
from elmo_plugin.text import SpacyBlankTokenizer

MEGABYTE = b"a" * 2**20
REQUEST = 2**18
"""The characters of the largest request that `serve-elmo` takes."""
Use = Callable[[], object]


def _read_all(values: Iterable[object]) -> None:
    for _ in values:
        pass


def _long_lines(folder: Path) -> Path:
    """Write ten lines of 60 MB in 600 kB."""
    with gzip.open(folder / "text.gz", "wb", 1) as file:
        for _ in range(10):
            file.writelines([*[MEGABYTE] * 60, b"\n"])
    return folder / "text.gz"


def long_lines_to_embed(folder: Path) -> Use:
    """`embed-corpus` looks at the first twenty lines together."""
    corpus = Corpus(_long_lines(folder), WhitespaceTokenizer())
    return lambda: _read_all(window.sentences for window in corpus.windows())


def long_lines_to_search(folder: Path) -> Use:
    """`nearest-contexts`."""
    corpus = Corpus(_long_lines(folder), WhitespaceTokenizer())
    return lambda: frequent_words(corpus)


def long_lines_of_csv(folder: Path) -> Use:
    """The reader keeps a sample of the rows."""
    path = _long_lines(folder)
    reader = TextClassificationCsvReader(text_columns=[0], label_column=None, tokenizer=WhitespaceTokenizer())
    return lambda: _read_all(reader.read(str(path)))


def long_lines_to_pretrain_on(folder: Path) -> Use:
    """The reader of text shards."""
    path = _long_lines(folder)
    return lambda: _read_all(TextShardsReader().read(str(path)))


def xz_that_needs_memory(folder: Path) -> Use:
    """The header of a block says how much memory unpacking may take, here 2 GB."""
    content = lzma.compress(b"a\n" * 2**20)
    start, end = 12, 12 + 4 * content[12]
    size_of_memory = content.index(b"\x21\x01", start) + 2  # after the filter LZMA2 and the size of its keys
    header = content[start:size_of_memory] + b"\x26" + content[size_of_memory + 1 : end]
    sum_of_header = zlib.crc32(header).to_bytes(4, "little")
    (folder / "text.xz").write_bytes(content[:start] + header + sum_of_header + content[end + 4 :])
    corpus = Corpus(folder / "text.xz", WhitespaceTokenizer())
    return lambda: _read_all(corpus.windows())


def columns_without_a_blank_line(folder: Path) -> Use:
    """A sentence is in memory as a whole."""
    with gzip.open(folder / "tags.gz", "wb", 1) as file:
        file.writelines(b"word O\n" * 1000 for _ in range(1500))
    return lambda: _read_all(ColumnTagsReader().read(str(folder / "tags.gz")))


def conllu_without_a_blank_line(folder: Path) -> Use:
    """The same in `embed-corpus --split conll`."""
    with gzip.open(folder / "words.gz", "wb", 1) as file:
        file.writelines(b"1\tword\n" * 1000 for _ in range(6000))
    corpus = Corpus(folder / "words.gz", WhitespaceTokenizer(), read_conll)
    return lambda: _read_all(corpus.windows())


def _marks(marks: str, run: int) -> Callable[[Path], Use]:
    """Return what splits a text of these marks, in runs of some length, into tokens by spaCy's rules."""

    def attack(folder: Path) -> Use:
        tokenizer = SpacyBlankTokenizer()
        text = " ".join("".join(islice(_cycle(marks, number), run)) for number in range(REQUEST // (run + 1)))
        return lambda: tokenizer.tokenize(text)

    return attack


def _cycle(marks: str, start: int) -> Iterable[str]:
    """Yield marks in an order that does not repeat soon, because spaCy caches what it has split."""
    state = start + 1
    while True:
        state = (state * 1103515245 + 12345) % 2**31
        yield marks[(state >> 16) % len(marks)]


def _affixes(affix: str, language: str) -> Callable[[Path], Use]:
    """Return what splits words of 500 times an affix, each of which a rule of the language takes off alone."""

    def attack(folder: Path) -> Use:
        tokenizer = SpacyBlankTokenizer(language)
        text = " ".join(f"a{number}{500 * affix}" for number in range(REQUEST // (500 * len(affix))))
        return lambda: tokenizer.tokenize(text)

    return attack


TEXT_ATTACKS: dict[str, Callable[[Path], Use]] = {
    **{
        attack.__name__: attack
        for attack in (
            long_lines_to_embed,
            long_lines_to_search,
            long_lines_of_csv,
            long_lines_to_pretrain_on,
            xz_that_needs_memory,
            columns_without_a_blank_line,
            conllu_without_a_blank_line,
        )
    },
    "apostrophes": _marks("'", REQUEST - 1),
    "apostrophes_in_words": _marks("'", 500),
    "signs_in_words": _marks("=$%+", 500),
    "signs_and_lines_in_words": _marks("$_", 500),
    "marks_in_words": _marks(string.punctuation, 500),
    **{
        f"affixes_{language}_{affix}": _affixes(affix, language)
        for language, affix in (("en", "'s"), ("id", "'s"), ("id", "-ku"), ("ms", "RM"), ("ro", "-al"), ("el", "9mg"))
    },
}
