"""Raw text → training text: sentences of tokens, one per line, in one file or in shards with a held-out part.

Each file is read twice: to learn what it is, and to join and split its lines. What was done with the text is reported
to standard error: counts, examples and warnings.
"""

import re
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import lru_cache
from hashlib import blake2b
from heapq import nlargest
from itertools import chain, count, islice
from pathlib import Path
from random import Random
from tempfile import TemporaryFile
from typing import Any, NamedTuple, Optional, TextIO

from allennlp.common.checks import ConfigurationError
from allennlp.common.tqdm import Tqdm
from more_itertools import constrained_batches, countable, map_reduce, spy, unique_everseen

from elmo_plugin.common import atomic_file, some_of
from elmo_plugin.text.clutter import Clutter, Spelling
from elmo_plugin.text.languages import ANY, NOTABLE, language_shares, pieces, say_shares
from elmo_plugin.text.line_forms import (
    CELLS,
    MEANINGS,
    PARAGRAPHS,
    SENTENCES,
    Hyphens,
    KnownWords,
    LineForm,
    is_open,
    join_lines,
)
from elmo_plugin.text.look import PROSE, look_at
from elmo_plugin.text.tables import TextColumn
from elmo_plugin.text.text_file import PACKED, TextFile, find_shards
from elmo_plugin.text.tokenizer import SentenceSplitter, SpacyBlankTokenizer

OTHER_PACKERS = {
    ".zst": "zstd",
    ".lz4": "lz4",
    ".br": "brotli",
    ".lzma": "xz --format=lzma",
    ".zip": "zip",
    ".Z": "compress",
}
"""Endings of compressed files that are not written, and the programs that write them."""
HELDOUT = "heldout.txt.gz"
SURE, VERY_SURE = 0.5, 0.7
"""A language that is guessed with less certainty is taken to be English, or to be the one that is given."""
WITHOUT_SPACES = frozenset(["bo", "dz", "ja", "km", "lo", "my", "th", "zh"])
CHARACTERS = 100_000
"""The characters of lines that are looked at together."""
MOST_SAMPLES = 50
"""The pieces of a file, drawn at random, of which the language is guessed."""
BLOCK = 20
"""Sentences that stay together: each block goes to one shard, or to the held-out text, whole."""

IN_THE_SAMPLE, MOST_ODD = 10, 10_000
LONG = 100
"""The tokens of a long sentence."""
USUAL = re.compile(r"[^\W_]+(?:[-'’.·][^\W_]+)*[-'’.]?|['’][^\W_]+|\d+(?:[.,:/]\d+)*%?|[^\w\s<>&#@~^|\\\ufffd]{1,3}")
"""What most tokens are: words, numbers, marks."""
find_letter = lru_cache(2**16)(re.compile(r"[^\W\d_]").search)
is_usual = lru_cache(2**16)(USUAL.fullmatch)


class Prepared(NamedTuple):
    """What was written: the number of sentences to train on, of those held out, and the language."""

    n_training: int
    n_heldout: int
    language: str


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
        for block in constrained_batches(plain, CHARACTERS, get_len=lambda line: len(line) + 1, strict=False):
            self.layout.add(block)
            self.clutter.add(block)
            known.add(block)
            self.n_characters += sum(map(len, block))
            samples = nlargest(MOST_SAMPLES, chain(samples, ((random.random(), piece) for piece in pieces(block))))
        self.form = form or self.layout.guess() or PARAGRAPHS
        self.languages = language_shares([piece for _, piece in samples])
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


class Report:
    """Count what is written of a text, and print it.

    # Parameters

    text : `RawText`
    """

    def __init__(self, text: RawText) -> None:
        self.counts = Counter[str]()
        self._text = text
        self._sample: list[tuple[float, int, str]] = []  # a random number, the number of the sentence, and its line
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
                words=sum(find_letter(token) is not None for token in tokens),
                open=is_open(line),
                long=len(tokens) > LONG,
            )
            self.counts["longest"] = max(self.counts["longest"], len(tokens))
            self._odd.update(token for token in tokens if not is_usual(token))
            if len(self._odd) > MOST_ODD:
                self._odd = Counter(dict(self._odd.most_common(MOST_ODD // 2)))
            # Each sentence so far is in the sample with the same probability.
            drawn = random.random(), self.counts["sentences"], line
            self._sample = sorted([*self._sample, drawn])[:IN_THE_SAMPLE]

    def check(self) -> None:
        """Raise `ConfigurationError` if what came out cannot be text."""
        n_sentences, n_tokens, n_words = (self.counts[name] for name in ("sentences", "tokens", "words"))
        for is_wrong, found in [
            (not n_sentences, "text, got no sentences"),
            (n_words < n_tokens / 3, f"text, got {n_words / max(n_tokens, 1):.0%} of the tokens with a letter"),
            (
                n_words > 100 and n_tokens < 1.5 * n_sentences,
                f"sentences, got {n_sentences:,} of {n_tokens:,} tokens; a list of words is no text, and a language "
                "without spaces needs its own --language",
            ),
        ]:
            if is_wrong:
                raise ConfigurationError(f"{some_of([file.file.name for file in self._text.files])}: expected {found}")

    def print(self) -> None:
        """Print the report."""
        text, counts, odd = self._text, self.counts, self._odd.most_common(10)
        divided = {"joined": text.hyphens.joined, "with their hyphen": text.hyphens.kept}
        shown = [f"{n.total():,} {what}" + f" ({', '.join(islice(n, 10))})" * bool(n) for what, n in divided.items()]
        replaced = [f"{number:,} {kind}" for kind, number in text.spelling.counts.most_common() if number]
        clutter = [
            f"{lines.total():,} {kind}: {' | '.join(islice(lines, 10))}" for kind, lines in sorted(text.clutter.items())
        ]
        share = counts["open"] / counts["sentences"]
        n_markup = sum(file.clutter.n_markup for file in text.files)
        n_joined = sum(file.form != SENTENCES for file in text.files)
        may_be_cut = share > 0.3 and n_joined > len(text.files) / 2
        say(
            f"words at line ends: {', '.join(shown)}" * any(divided.values()),
            f"characters replaced: {', '.join(replaced)}" * bool(replaced),
            *(f"left out: {lines}" for lines in clutter if text.clean),
            *(f"warning: seen: {lines}; --clean leaves them out" for lines in clutter if not text.clean),
            f"left out: {counts['repeated']:,} repeated sentences" * bool(counts["repeated"]),
            f"odd tokens: {', '.join(f'{token[:40]} ({number:,})' for token, number in odd)}" * bool(odd),
            f"{counts['sentences']:,} sentences of {counts['tokens']:,} tokens; the longest has {counts['longest']:,}; "
            f"{share:.1%} have no final mark",
            "ten of them at random:" if counts["sentences"] >= IN_THE_SAMPLE else "these are:",
            *(f"  {line[:200]}" for _, _, line in sorted(self._sample, key=lambda drawn: drawn[1])),
            f"warning: {n_markup:,} lines have marks of HTML, such as <br> or &amp;, which stay in the text"
            * bool(n_markup),
            "warning: many sentences have no final mark: look at them, and try another form for --lines" * may_be_cut,
            f"warning: {counts['long']:,} sentences have over {LONG} tokens: try --lines or --language"
            * (counts["long"] > counts["sentences"] / 50),
        )


def prepare_text(
    inputs: Sequence[str],
    output: Optional[Path],
    lines: Optional[str] = None,
    language: Optional[str] = None,
    clean: bool = False,
    shards: Optional[int] = None,
    heldout: Optional[int] = None,
    drop_duplicates: bool = False,
    text_column: Optional[str] = None,
) -> Optional[Prepared]:
    """Split raw text into sentences and tokens, write it, and report to standard error what was done.

    # Parameters

    inputs : `Sequence[str]`
        Paths and patterns of text files, plain or compressed, or only `-` for standard input.
    output : `Optional[Path]`
        A new file, `-` for standard output, or with `shards` or `heldout` a new folder. Without it, the first
        sentences are printed.
    lines : `Optional[str]`
        What the lines of all files are: `wrapped`, `paragraphs` or `sentences`; by default it is guessed for each file.
    language : `Optional[str]`
        The language, guessed by default.
    clean : `bool`
        Whether page numbers, running heads and the frame of Project Gutenberg are left out.
    shards, heldout : `Optional[int]`
        The number of files to train on, and the percentage of the sentences that are held out.
    drop_duplicates : `bool`
        Whether only the first of equal sentences is kept.
    text_column : `Optional[str]`
        The column of the texts in a CSV or TSV file, or their key in JSON lines.

    Raises `ConfigurationError` if the output exists, and if what comes out cannot be text; then nothing is written.
    """
    if output is not None:
        check_output(output, shards is not None or heldout is not None)
    if language is not None:
        SentenceSplitter(language)  # raises before all of the text is read
    with standard_input() if inputs == ["-"] else nullcontext(list(map(ShownFile, find_shards(*inputs)))) as files:
        texts: Sequence[TextFile] = [TextColumn(file, text_column) for file in files] if text_column else files
        lines = lines or (CELLS if text_column else None)
        with shown_bytes(files, "looking at the text"):
            text = RawText(texts, lines, clean)
        language = choose_language(language, text)
        say(f"lines: {forms(text)}")
        splitter = SentenceSplitter(language)
        sentences: Iterable[list[str]] = chain.from_iterable(text.sentences(file, splitter) for file in text.files)
        if drop_duplicates or shards or heldout:  # else a text of a sentence per line stays parallel to others
            sentences = filter(None, sentences)
        if drop_duplicates:
            all_sentences = countable(sentences)
            sentences = unique_everseen(
                all_sentences, key=lambda tokens: blake2b(" ".join(tokens).encode(), digest_size=16).digest()
            )
        report = Report(text)
        written = report.read(sentences)
        if output is None:
            print(*islice(written, 20), sep="", end="")
            return None
        with shown_bytes(files, "writing"):
            n_heldout = write(written, output, shards, heldout, report.check)
    n_sentences = report.counts["sentences"]
    if drop_duplicates:
        report.counts["repeated"] = all_sentences.items_seen - n_sentences
    report.print()
    return Prepared(n_sentences - n_heldout, n_heldout, language)


def say(*lines: str) -> None:
    """Print those lines that are not empty. They are no results."""
    print(*filter(None, lines), sep="\n", file=sys.stderr)


def check_output(output: Path, is_folder: bool) -> None:
    """Raise `ConfigurationError` if a file or folder cannot be written."""
    if output.exists() and str(output) != "-":
        raise ConfigurationError(f"{output} exists already: expected the name of a new file or folder")
    if is_folder and str(output) == "-":
        raise ConfigurationError("expected the name of a new folder for shards, got - for standard output")
    if output.suffix in OTHER_PACKERS and not is_folder:
        raise ConfigurationError(
            f"{output}: expected a plain name, or one that ends in {', '.join(PACKED)}, or - with a pipe: "
            f"prepare-text … - | {OTHER_PACKERS[output.suffix]} > {output}"
        )


class ShownFile(TextFile):
    """A text file that moves a bar by the bytes that are read of it."""

    bar: Any = None

    def lines(self) -> Iterator[str]:
        """Yield each line with its line end."""
        size, before = self.path.stat().st_size, self.bar.n
        for number, line in enumerate(super().lines()):
            yield line
            if number % 100 == 0:
                self.bar.update(before + round(size * (self.share_read() or 0)) - self.bar.n)
        self.bar.update(before + size - self.bar.n)


@contextmanager
def shown_bytes(files: Sequence[ShownFile], what: str) -> Iterator[None]:
    """Show a bar of the bytes that are read of all files."""
    size = sum(file.path.stat().st_size for file in files)
    with Tqdm.tqdm(desc=what, total=size, unit="B", unit_scale=True) as bar:
        for file in files:
            file.bar = bar
        yield


@contextmanager
def standard_input() -> Iterator[list[ShownFile]]:
    """Yield the standard input as the only file, which can be read twice."""
    with TemporaryFile() as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield [ShownFile(Path(f"/dev/fd/{copy.fileno()}"), "standard input")]


def choose_language(given: Optional[str], text: RawText) -> str:
    """Return the language of the text, given or guessed, and say which one it is and what does not fit it."""
    shares = {language: share for language, share in text.languages().items() if share >= NOTABLE}
    guessed, sure = next(iter(shares), "en"), sum(shares.values())
    looks = f"warning: the text looks like {say_shares(shares)}"
    language = given or guessed
    if given is None and sure < SURE:
        say(
            f"warning: the language is hard to guess ({guessed}, {sure:.2f} sure): en is taken; --language names "
            "another"
        )
        return "en"
    if given is None:
        say(f"language: {guessed} ({shares[guessed]:.2f} sure; --language CODE names another)")
        try:
            SpacyBlankTokenizer(guessed)
        except ConfigurationError as error:
            say(f"warning: {error}: the rules for any language (xx) are taken")
            language = ANY
    elif given == ANY and guessed in WITHOUT_SPACES:
        say(f"{looks}, which has no spaces: its words are not split; try --language {guessed}")
    elif given not in (*shares, ANY) and sure > VERY_SURE:
        say(f"{looks}, not like {given}")
    others = [f"{file.file.name} ({file.language})" for file in text.files if file.language != guessed]
    if others and sure > SURE:
        say(f"warning: {len(others):,} of {len(text.files):,} files look like another language: {some_of(others)}")
    elif len(shares) > 1 and given != ANY:
        say(f"{looks}: all of it is split by the rules for {language}")
    return language


def forms(text: RawText) -> str:
    """Return how many files have which form of lines, with the names of a few files of the less frequent forms."""
    groups = map_reduce(text.files, lambda file: file.form, lambda file: file.file.name)
    (most, names), *others = sorted(groups.items(), key=lambda group: -len(group[1]))
    said = [f"{len(few):,} {MEANINGS[form]} ({some_of(few)})" for form, few in others]
    return ", ".join([f"{len(names):,} {MEANINGS[most]}", *said]) + "; --lines names another form"


def write(
    lines: Iterable[str], output: Path, shards: Optional[int], heldout: Optional[int], check: Callable[[], None]
) -> int:
    """Write lines to a file, or in turn to the shards in a folder, with `heldout` percent in a file of their own.

    Lines stay together in blocks, in smaller ones if the text would not fill all parts otherwise. Return the number of
    lines that are held out. `check` is called before the files get their names.
    """
    percent, n_heldout = heldout or 0, 0
    n_parts = shards or 1
    names = [f"train-{shard:05}-of-{n_parts:05}.txt.gz" for shard in range(n_parts)] + [HELDOUT] * bool(heldout)
    paths = [output / name for name in names] if shards or heldout else [output]
    n_blocks = next(n for n in count(1) if n - n * percent // 100 >= n_parts and n * percent // 100 >= bool(percent))
    first, lines = spy(lines, n_blocks * BLOCK)
    size = max(1, len(first) // n_blocks)
    with ExitStack() as stack:
        stack.callback(_remove_if_empty, output)
        files = [sys.stdout if str(path) == "-" else stack.enter_context(_written(path)) for path in paths]
        for number, line in enumerate(lines):
            block = number // size
            if (block + 1) * percent // 100 > block * percent // 100:
                files[-1].write(line)
                n_heldout += 1
            else:
                files[(number - n_heldout) // size % n_parts].write(line)
        check()
        if len(first) < n_blocks:
            raise ConfigurationError(f"expected text for every part, got {len(first):,} sentences")
    return n_heldout


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


@contextmanager
def _written(path: Path) -> Iterator[TextIO]:
    """Give a file to write UTF-8 text to, packed as its name says."""
    write = PACKED[path.suffix][-1] if path.suffix in PACKED else open
    with atomic_file(path) as partial, write(partial, "wt", encoding="utf-8", newline="\n") as file:
        yield file
