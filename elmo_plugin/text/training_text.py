"""Raw text → training text: sentences of tokens, one per line, in one file or in shards with a held-out part."""

import gzip
import lzma
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple, Optional, TextIO

from allennlp.common.checks import ConfigurationError
from allennlp.common.tqdm import Tqdm
from more_itertools import unique_everseen

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
            files = [TextFile(path) for pattern in inputs for path in find_shards(pattern)]
        text = RawText(Tqdm.tqdm(files, desc="looking at the text"), lines, clean)
        language = choose_language(language, text)
        say(f"lines: {forms(text)}")
        report = Report(text, language)
        splitter = SentenceSplitter(language)
        sentences = report.read(
            tokens
            for file in (text.files if output is None else Tqdm.tqdm(text.files, desc="writing"))
            for tokens in splitter.sentences(text.parts(file))
        )
        written: Iterator[str] = (f"{' '.join(tokens)}\n" for tokens in sentences)
        if drop_duplicates:
            written = unique_everseen(written, key=lambda line: blake2b(line.encode(), digest_size=16).digest())
        if output is None:
            print(*islice(written, IN_A_PREVIEW), sep="", end="")
            return None
        if shards is None and heldout is None:
            n_training, n_heldout = write_file(written, output, report.check), 0
        else:
            n_training, n_heldout = write_shards(written, output, shards or 1, heldout or 0, report.check)
    report.print()
    return Prepared(n_training, n_heldout, language)


@contextmanager
def standard_input() -> Iterator[TextFile]:
    """Yield the standard input as a file that can be read twice."""
    with TemporaryFile() as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        yield TextFile(Path(f"/dev/fd/{copy.fileno()}"), "standard input")


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


def write_file(lines: Iterable[str], target: Path, check: Callable[[], None]) -> int:
    """Write the lines to a file, and return their number. `check` is called before the file gets its name."""
    with atomic_file(target) as path:
        with open_text(path, target.suffix) as file:
            n_sentences = sum(file.write(line) > 0 for line in lines)
        check()
    return n_sentences


def write_shards(
    lines: Iterable[str], folder: Path, shards: int, heldout: int, check: Callable[[], None]
) -> tuple[int, int]:
    """Write `heldout` percent of the blocks to one file and the others in turn to `shards` files.

    Return the number of sentences to train on, and of those held out. `check` is called before the files get their
    names.
    """
    names = [f"train-{shard:05}-of-{shards:05}.txt.gz" for shard in range(shards)] + [HELDOUT] * bool(heldout)
    n_training = n_heldout = 0
    with ExitStack() as stack:
        stack.callback(_remove_if_empty, folder)
        files = [
            stack.enter_context(open_text(stack.enter_context(atomic_file(folder / name)), ".gz")) for name in names
        ]
        for number, line in enumerate(lines):
            block = number // BLOCK
            if (block + 1) * heldout // 100 > block * heldout // 100:
                files[-1].write(line)
                n_heldout += 1
            else:
                files[n_training // BLOCK % shards].write(line)
                n_training += 1
        check()
        if not n_training or (heldout and not n_heldout):
            raise ConfigurationError(f"expected text for every part, got {n_training + n_heldout:,} sentences")
    return n_training, n_heldout


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def open_text(path: Path, suffix: str) -> TextIO:
    """Open a file to write UTF-8 text, compressed if `suffix` is .gz or .xz."""
    opened: TextIO = OPENERS.get(suffix, open)(path, "wt", encoding="utf-8", newline="\n")
    return opened
