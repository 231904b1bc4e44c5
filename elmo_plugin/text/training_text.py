"""Raw text → training text: sentences of tokens, one per line, in one file or in shards with a held-out part."""

import gzip
import lzma
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from itertools import chain, count, islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple, Optional, TextIO

from allennlp.common.checks import ConfigurationError
from allennlp.common.tqdm import Tqdm
from more_itertools import countable, unique_everseen

from elmo_plugin.common import atomic_file
from elmo_plugin.text.line_forms import MEANINGS
from elmo_plugin.text.raw_text import RawText
from elmo_plugin.text.sentence_splitter import SentenceSplitter
from elmo_plugin.text.text_file import TextFile, find_shards
from elmo_plugin.text.text_report import Report, say, shortened, warn

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
HELDOUT = "heldout.txt.gz"
IN_A_PREVIEW = 20
SURE = 0.5
"""A language that is guessed with less certainty than this is taken to be English."""
WITHOUT_SPACES = frozenset(["bo", "dz", "ja", "km", "lo", "my", "th", "zh"])
BLOCK = 20
"""Sentences that stay together: each block goes to one shard, or to the held-out text, whole."""


class Prepared(NamedTuple):
    """What was written: the number of sentences to train on, of those held out, and the language."""

    n_training: int
    n_heldout: int
    language: str


def prepare_text(
    inputs: Sequence[str],
    output: Optional[Path],
    lines: Optional[str] = None,
    language: Optional[str] = None,
    clean: bool = False,
    shards: Optional[int] = None,
    heldout: Optional[int] = None,
    drop_duplicates: bool = False,
) -> Optional[Prepared]:
    """Split raw text into sentences and tokens, write it, and report to standard error what was done.

    # Parameters

    inputs : `Sequence[str]`
        Paths and patterns of text files, plain or compressed, or only `-` for standard input.
    output : `Optional[Path]`
        A new file, or with `shards` or `heldout` a new folder. Without it, the first sentences are printed.
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

    Raises `ConfigurationError` if the output exists, and if what comes out cannot be text; then nothing is written.
    """
    if output is not None and output.exists():
        raise ConfigurationError(f"{output} exists already: expected the name of a new file or folder")
    if language is not None:
        SentenceSplitter(language)  # raises before all of the text is read
    with ExitStack() as stack:
        if inputs == ["-"]:
            files = [stack.enter_context(standard_input())]
        else:
            files = [ShownFile(path) for pattern in inputs for path in find_shards(pattern)]
        with shown_bytes(files, "looking at the text"):
            text = RawText(files, lines, clean)
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
            print(*islice(written, IN_A_PREVIEW), sep="", end="")
            return None
        with shown_bytes(files, "writing"):
            n_heldout = write(written, output, shards, heldout, report.check)
    n_sentences = report.counts["sentences"]
    if drop_duplicates:
        report.counts["repeated"] = all_sentences.items_seen - n_sentences
    report.print()
    return Prepared(n_sentences - n_heldout, n_heldout, language)


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
def standard_input() -> Iterator[ShownFile]:
    """Yield the standard input as a file that can be read twice."""
    with TemporaryFile() as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield ShownFile(Path(f"/dev/fd/{copy.fileno()}"), "standard input")


def choose_language(given: Optional[str], text: RawText) -> str:
    """Return the language of the text, given or guessed, and say which one it is and what does not fit it."""
    guessed, certainty = text.language()
    if given is None and certainty < SURE:
        warn(f"the language is hard to guess ({guessed}, {certainty:.2f} sure): en is taken; --language names another")
        guessed = "en"
    elif given is None:
        say(f"language: {guessed} ({certainty:.2f} sure; --language CODE names another)")
    elif given == "xx" and guessed in WITHOUT_SPACES:
        warn(f"the text looks like {guessed}, which has no spaces: its words are not split; try --language {guessed}")
    elif given != guessed and certainty > 0.9 and given != "xx":
        warn(f"the text looks like {guessed} ({certainty:.2f} sure), not like {given}")
    language = given or guessed
    if certainty < SURE:
        return language
    others = [f"{file.file.name} ({file.language})" for file in text.files if file.language != guessed]
    if others:
        warn(f"{len(others):,} of {len(text.files):,} files look like another language: {shortened(others)}")
    return language


def forms(text: RawText) -> str:
    """Return how many files have which form of lines, with the names of a few files of the less frequent forms."""
    parts = []
    for form, files in text.forms().items():
        parts.append(f"{len(files):,} {MEANINGS[form]}")
        if len(parts) > 1:
            parts[-1] += f" ({shortened([file.file.name for file in files])})"
    return ", ".join(parts) + "; --lines names another form"


def write(
    lines: Iterable[str], output: Path, shards: Optional[int], heldout: Optional[int], check: Callable[[], None]
) -> int:
    """Write lines to a file, or in turn to the shards in a folder, with `heldout` percent in a file of their own.

    Lines stay together in blocks, in smaller ones if the text would not fill all parts otherwise. Return the number of
    lines that are held out. `check` is called before the files get their names.
    """
    paths, percent, n_heldout = [output], heldout or 0, 0
    if shards or heldout:
        paths = [output / f"train-{shard:05}-of-{shards or 1:05}.txt.gz" for shard in range(shards or 1)]
    n_parts = len(paths)
    n_blocks = next(n for n in count(1) if n - n * percent // 100 >= n_parts and n * percent // 100 >= bool(percent))
    lines = iter(lines)
    first = list(islice(lines, n_blocks * BLOCK))
    size = max(1, len(first) // n_blocks)
    with ExitStack() as stack:
        if shards or heldout:
            stack.callback(_remove_if_empty, output)
        if heldout:
            paths.append(output / HELDOUT)
        files = [stack.enter_context(open_text(stack.enter_context(atomic_file(path)), path.suffix)) for path in paths]
        for number, line in enumerate(chain(first, lines)):
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


def open_text(path: Path, suffix: str) -> TextIO:
    """Open a file to write UTF-8 text, compressed if `suffix` is .gz or .xz."""
    opened: TextIO = OPENERS.get(suffix, open)(path, "wt", encoding="utf-8", newline="\n")
    return opened
