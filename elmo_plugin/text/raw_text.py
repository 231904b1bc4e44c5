"""Raw files → sentences. Each file is read twice: to learn what it is, and to join and split its lines."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import chain
from random import Random
from typing import Optional

from more_itertools import constrained_batches

from elmo_plugin.text.clutter import Clutter
from elmo_plugin.text.hyphens import Hyphens, KnownWords
from elmo_plugin.text.languages import language_shares, pieces
from elmo_plugin.text.line_forms import PARAGRAPHS, SENTENCES, LineForm, join_lines
from elmo_plugin.text.look import PROSE, look_at
from elmo_plugin.text.sentence_splitter import SentenceSplitter
from elmo_plugin.text.spelling import Spelling
from elmo_plugin.text.text_file import TextFile

BLOCK = 100_000
"""Characters of lines that are looked at together."""
MOST_SAMPLES = 50
"""The pieces of a file, drawn at random, of which the language is guessed."""


class RawFile:
    """Say what a raw file is: the form of its lines, its size, its language.

    # Parameters

    file : `TextFile`
        The file, which is read to its end.
    known : `KnownWords`
        Gets the words of the file.
    form : `Optional[str]`
        What its lines are, as in `FORMS`; by default it is guessed.
    """

    def __init__(self, file: TextFile, known: KnownWords, form: Optional[str]) -> None:
        self.file = file
        self.layout = LineForm()
        self.clutter = Clutter()
        self.n_characters = 0
        samples: list[tuple[float, str]] = []
        random = Random(0)
        lines = look_at(file.lines(), file.name, PROSE)[1]
        plain = map(Spelling().plain, lines)
        for block in constrained_batches(plain, BLOCK, get_len=lambda line: len(line) + 1, strict=False):
            self.layout.add(block)
            self.clutter.add(block)
            known.add(block)
            self.n_characters += sum(map(len, block))
            samples = nlargest(MOST_SAMPLES, chain(samples, ((random.random(), piece) for piece in pieces(block))))
        self.form = form or self.layout.guess() or PARAGRAPHS
        self.languages = language_shares(piece for _, piece in samples)
        self.language = next(iter(self.languages), "en")


class RawText:
    """Read raw files as sentences.

    # Parameters

    files : `Sequence[TextFile]`
        The files, which are read once at construction.
    form : `Optional[str]`
        What the lines of all files are, as in `FORMS`; by default it is guessed for each file.
    clean : `bool`
        Whether page numbers, running heads and the header and licence of Project Gutenberg are left out.
    """

    def __init__(self, files: Iterable[TextFile], form: Optional[str] = None, clean: bool = False) -> None:
        self._form, self.clean = form, clean
        self.spelling = Spelling()
        known = KnownWords()
        self.hyphens = Hyphens(known)
        self.clutter = defaultdict[str, Counter[str]](Counter)  # the lines that are not text, by their kinds
        self.files: Sequence[RawFile] = [RawFile(file, known, form) for file in files]

    def languages(self) -> dict[str, float]:
        """Return how much of the text is in which language, up to 1, the most first."""
        sizes: Counter[str] = Counter()
        for file in self.files:
            sizes.update({language: share * file.n_characters for language, share in file.languages.items()})
        total = sum(file.n_characters for file in self.files)
        return {language: size / total for language, size in sizes.most_common() if size}

    def sentences(self, file: RawFile, splitter: SentenceSplitter) -> Iterator[list[str]]:
        """Yield the tokens of each sentence of a file.

        Where each line is a sentence, it stays one, whatever marks it contains; if the form was given, so does a blank
        line, as a sentence without tokens, so that parallel texts stay parallel.
        """
        lines = file.clutter.sort(map(self.spelling.plain, file.file.lines()), self.clean, self.clutter)
        if file.form == SENTENCES:
            sentences = map(splitter.words, lines)
            return sentences if self._form else filter(None, sentences)
        return splitter.sentences(join_lines(lines, file.form, file.layout, self.hyphens))
