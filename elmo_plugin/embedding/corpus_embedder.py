"""A corpus to a file of vectors, in memory that does not grow with it, and from where a killed run was."""

import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import identity
from elmo_plugin.embedding.corpus import (
    CHARACTERS_IN_WINDOW,
    SMALLEST_WINDOW,
    WINDOWS_OF_A_SIZE,
    Corpus,
    Share,
    Window,
)
from elmo_plugin.embedding.embedder import Embedder
from elmo_plugin.embedding.journal import Journal, KeptWindow
from elmo_plugin.embedding.pooling import mean
from elmo_plugin.embedding.vector_file import Layout, VectorFile, refuse_existing
from elmo_plugin.text import TOKENS_PER_BATCH

PART = ".part"
"""What the folder of a run that still goes on ends with."""


class Counts(NamedTuple):
    """How much was embedded: lines, empty ones too, and their tokens."""

    sentences: int
    tokens: int


class CorpusEmbedder:
    """Embeds a text window by window: batches of like length inside, the order of the text in the file.

    # Parameters

    embedder : `Embedder`
    pool : `bool`
        One vector a sentence and layer, the mean over its tokens, zeros if it has none.
    half : `bool`
        Numbers of 16 bits in the file, of 32 otherwise.
    tokens_per_batch, batch_size : `int`, `Optional[int]`
        As of `length_batches`.
    """

    def __init__(
        self,
        embedder: Embedder,
        pool: bool = False,
        half: bool = False,
        tokens_per_batch: int = TOKENS_PER_BATCH,
        batch_size: Optional[int] = None,
    ) -> None:
        self._embedder = embedder
        self._pool = pool
        shape = tuple(count for count in embedder.shape if count != -1 or not pool)
        self.layout = Layout(shape, "float16" if half else "float32")
        self._tokens_per_batch = tokens_per_batch
        self._batch_size = batch_size

    def embed(self, corpus: Corpus, target: Path, file: VectorFile, replace: bool = False) -> Counts:
        """Write the vectors of a corpus, or of a share of it, to a new file; with `replace`, also in place of another.

        What is embedded is kept in the folder `target` with `.part` behind it. A run that was broken off goes on from
        there, and its file is that of an undisturbed run: a window is computed the same wherever a run begins. The
        file itself is made of it at the end, and then gets its name.

        Raises `ConfigurationError` where there is a file already, for a folder of another run or of another text, for a
        text that cannot be read, and where the disk takes no more.
        """
        if not replace:
            refuse_existing(target)
        folder = target.with_name(f"{target.name}{PART}")
        try:
            with closing(Journal(folder, self.run(), self.layout)) as journal:
                counts = self._embed_windows(corpus, journal)
                written = _bar(
                    corpus.share, journal.sentences(), desc="writing", unit=" sentences", total=counts.sentences
                )
                file.write(folder / target.name, written, self.layout)
                os.replace(folder / target.name, target)
                journal.remove()
        except OSError as error:
            kept = f"; '{folder}' keeps what is embedded, and the same command goes on from there"
            raise ConfigurationError(f"'{target}' cannot be written: {error}{kept * folder.is_dir()}") from error
        return counts

    def _embed_windows(self, corpus: Corpus, journal: Journal) -> Counts:
        sentences = tokens = 0
        kept = journal.windows()
        with _bar(corpus.share, desc="embedding", unit=" tokens", unit_scale=True) as bar:
            for window in corpus.windows():
                sentences, tokens = sentences + len(window.sentences), tokens + _tokens(window)
                share = corpus.share_read()
                bar.total = round(tokens / share) if share else None  # an estimate until the text is read
                before = next(kept, None)
                if before is None:
                    journal.add(window, self._arrays(window, bar))
                else:
                    _compare(window, before, journal.folder)
                    bar.initial = bar.n = tokens  # the rate is that of this run
            bar.total = tokens
        if next(kept, None) is not None:
            raise _other_text(journal.folder, "it had more lines")
        return Counts(sentences, tokens)

    def _arrays(self, window: Window, bar: Any) -> Iterator[tuple[int, np.ndarray]]:
        """The place and the array of each sentence. Of the windows before, no word is remembered."""
        self._embedder.elmo.bilm.word_cache.clear()  # what a word is computed together with moves its last bits
        sentences = [sentence.tokens for sentence in window.sentences]
        for place, array in self._embedder.by_length(sentences, self._tokens_per_batch, self._batch_size):
            yield place, mean(array) if self._pool else array
            bar.update(len(sentences[place]))

    def run(self) -> dict[str, Any]:
        """All that the arrays depend on but the text: values of JSON."""
        elmo = self._embedder.elmo
        mix = {name: value.tolist() for name, value in elmo.mixes[0].state_dict().items()}
        return {
            **identity(elmo.bilm, elmo.initial_state),
            "mix": {"type": type(elmo.mixes[0]).__name__, **mix},
            "shape": list(self.layout.shape),
            "type of numbers": self.layout.dtype,
            "tokens per batch": self._tokens_per_batch,
            "batch size": self._batch_size,
            "characters in a window": [SMALLEST_WINDOW, WINDOWS_OF_A_SIZE, CHARACTERS_IN_WINDOW],
        }


def _bar(share: Share, iterable: Optional[Iterable[Any]] = None, **keys: Any) -> Any:
    """A progress bar; of several processes the first one shows its own."""
    return Tqdm.tqdm(iterable, disable=share.rank > 0, **keys)


def _tokens(window: Window) -> int:
    return sum(len(sentence.tokens) for sentence in window.sentences)


def _compare(window: Window, kept: KeptWindow, folder: Path) -> None:
    """Raise `ConfigurationError` where a window is not what was embedded for it."""
    if kept.start != window.start:
        raise _other_text(folder, f"what was line {kept.start + 1} is at another place")
    for line, (sentence, record) in enumerate(zip_longest(window.sentences, kept.records), window.start + 1):
        if sentence is None or record is None or sentence != tuple(record[:2]):
            raise _other_text(folder, f"line {line} is not what it was")


def _other_text(folder: Path, found: str) -> ConfigurationError:
    return ConfigurationError(
        f"'{folder}' was begun with another text, or tokens cut in another way: {found}; "
        "name another output, or delete it"
    )
