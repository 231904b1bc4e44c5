"""Embed a corpus and write the vectors to disk: memory does not grow with the corpus, and a killed run is resumed."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError

from elmo_plugin.common import check_made_with
from elmo_plugin.embedding.corpus import CHARACTERS_IN_WINDOW, SMALLEST_WINDOW, WINDOWS_OF_A_SIZE, Corpus, Window
from elmo_plugin.embedding.embedder import Embedder
from elmo_plugin.embedding.part_folder import (
    OTHER_OUTPUT,
    PART,
    part_folder,
    part_names,
    refuse_existing,
    remove_part_folder,
)
from elmo_plugin.embedding.pooling import mean
from elmo_plugin.embedding.shards import entry_path, join_shards, read_entry, shard_path, write_entry
from elmo_plugin.embedding.vector_file import Layout, VectorFile
from elmo_plugin.text import TOKENS_PER_BATCH


class Counts(NamedTuple):
    """The numbers of embedded lines, empty ones included, and of their tokens."""

    sentences: int
    tokens: int


class CorpusEmbedder:
    """Embeds a text window by window, in batches of similar length, and writes the vectors in the order of the text.

    # Parameters

    embedder : `Embedder`
    pool : `bool`
        Write one vector per sentence and layer: the mean over its tokens, or zeros if it has none.
    half : `bool`
        Write 16-bit instead of 32-bit numbers.
    tokens_per_batch, batch_size : `int`, `Optional[int]`
        As in `length_batches`.

    ```python
    work = CorpusEmbedder(elmo_plugin.load("english-tiny"), half=True)
    work.embed(Corpus(Path("sentences.txt"), WhitespaceTokenizer()), Path("vectors.hdf5"), Hdf5File())
    ```
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
        shape = tuple(size for size in embedder.shape if size != -1 or not pool)
        self.layout = Layout(shape, "float16" if half else "float32")
        self._tokens_per_batch = tokens_per_batch
        self._batch_size = batch_size

    def embed(self, corpus: Corpus, target: Path, file: VectorFile, replace: bool = False) -> Counts:
        """Write the vectors of a corpus to a new output; with `replace`, an existing one is replaced.

        Each window becomes a part file in the folder `target` with `.part` appended. A resumed run embeds the windows
        that have no part yet. A window's vectors do not depend on where a run starts, so the output is the same as that
        of an uninterrupted run. At the end the parts are joined.

        If the corpus is one share of several, the output is a shard beside the target, and the process that completes
        the last shard joins all of them.

        Raises `ConfigurationError` if the target exists, for an unfinished output of another run or another text, for a
        text that cannot be read, and if the disk is full.
        """
        share = corpus.share
        text = corpus.identity() if share.size > 1 else {}
        run = {**self.run(), "file": file.to_params().as_dict(quiet=True), **text}
        run = json.loads(json.dumps(run))  # to compare it with what is read from a file, where tuples are lists
        if share.size == 1:
            return self._embed_share(corpus, target, file, run, [] if replace else [target])
        shard = shard_path(target, share)
        if shard.exists() and entry_path(shard).exists():
            entry = read_entry(shard, run)
            counts = Counts(entry["sentences"], entry["tokens"])
            shutil.rmtree(f"{shard}{PART}", ignore_errors=True)  # left by a kill
        else:
            counts = self._embed_share(corpus, shard, file, run, [target, entry_path(target), shard])
        join_shards(corpus, target, file, run)
        return counts

    def _embed_share(
        self, corpus: Corpus, path: Path, file: VectorFile, run: dict[str, Any], outputs: list[Path]
    ) -> Counts:
        """Write the part of each window, then join the parts to a file at `path`. None of the `outputs` may exist."""
        refuse_existing(*outputs)
        folder = path.with_name(f"{path.name}{PART}")
        with part_folder(folder, run) as parts:
            counts, lines = self._write_parts(corpus, parts, file)
            if corpus.share.size > 1:
                write_entry(entry_path(path), {"run": run, **counts._asdict(), "lines": lines})
            with _resumable(folder):
                file.join(parts, path, self.layout, progress=corpus.share.rank == 0)
            remove_part_folder(folder)
        return counts

    def _write_parts(self, corpus: Corpus, parts: Path, file: VectorFile) -> tuple[Counts, list[list[int]]]:
        """Write the part of each window that has none. Return the counts and the ranges of lines."""
        kept = part_names(parts.parent)
        sentences = tokens = windows = 0
        lines: list[list[int]] = []
        with Tqdm.tqdm(desc="embedding", unit=" tokens", unit_scale=True, disable=corpus.share.rank > 0) as bar:
            for windows, window in enumerate(corpus.windows(), 1):
                sentences += len(window.sentences)
                tokens += sum(len(sentence.tokens) for sentence in window.sentences)
                if not lines or lines[-1][1] != window.start:
                    lines.append([window.start, window.start])
                lines[-1][1] += len(window.sentences)
                share_read = corpus.share_read()
                bar.total = round(tokens / share_read) if share_read else None  # an estimate until the text is read
                name = f"{window.name()}{file.part_ending}"
                if windows > len(kept):
                    with _resumable(parts.parent):
                        file.write_part(parts / name, window, self._arrays(window, bar), self.layout)
                    continue
                key = f"text from line {window.start + 1}"
                check_made_with(str(parts.parent), {key: kept[windows - 1]}, {key: name}, OTHER_OUTPUT)
                bar.initial = bar.n = tokens  # so that the bar shows the speed of this run
            bar.total = tokens
        if windows < len(kept):
            check_made_with(str(parts.parent), {"windows": len(kept)}, {"windows": windows}, OTHER_OUTPUT)
        return Counts(sentences, tokens), lines

    def _arrays(self, window: Window, bar: Any) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the index and the array of each sentence of a window."""
        # The vector of a cached word depends in its last bits on the words that were computed in the same batch.
        self._embedder.elmo.bilm.word_cache.clear()
        sentences = [sentence.tokens for sentence in window.sentences]
        for index, array in self._embedder.by_length(sentences, self._tokens_per_batch, self._batch_size):
            yield index, mean(array) if self._pool else array
            bar.update(len(sentences[index]))

    def run(self) -> dict[str, Any]:
        """Return everything that the arrays depend on except the text, as JSON values."""
        return {
            **self._embedder.identity(),
            "shape": list(self.layout.shape),
            "type of numbers": self.layout.dtype,
            "tokens per batch": self._tokens_per_batch,
            "batch size": self._batch_size,
            "characters in a window": [SMALLEST_WINDOW, WINDOWS_OF_A_SIZE, CHARACTERS_IN_WINDOW],
        }


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Turn a disk error into a `ConfigurationError` that names the output and says how to resume the run."""
    try:
        yield
    except (ConfigurationError, OSError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        raise ConfigurationError(
            f"'{str(folder).removesuffix(PART)}' cannot be written: {cause}; finished parts stay in '{folder}', "
            "and the same command resumes the run"
        ) from error
