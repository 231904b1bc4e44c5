"""One corpus, several processes: each writes a shard, and whichever ends last joins them; none waits for another.

All that they share is the folder of the target. Of two processes, for the target `vectors.hdf5`:

    vectors-00000-of-00002.hdf5        the first one's shard, whole as soon as it has this name
    vectors-00000-of-00002.hdf5.json   its record: what it was made of, and which lines it holds
    vectors-00000-of-00002.hdf5.part   while there is no shard: what is embedded so far
    vectors.hdf5.json                  the manifest, there when all shards are
    vectors.hdf5                       of hdf5 alone: a link to each line's dataset in its shard
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from allennlp.common.checks import ConfigurationError

from elmo_plugin.embedding.corpus import Corpus, Share
from elmo_plugin.embedding.corpus_embedder import PART, CorpusEmbedder, Counts
from elmo_plugin.embedding.hdf5 import Hdf5File, LinkedSentence
from elmo_plugin.embedding.vector_file import EmbeddedSentence, Layout, VectorFile, refuse_existing

RECORD = ".json"
"""What the names of records and of the manifest end with."""
Record = dict[str, Any]
"""`run`, all that the vectors depend on; `sentences` and `tokens`, how many; `lines`, for lines that follow one another
the number of the first and the number behind the last."""


class ShardedCorpusEmbedder:
    """Embeds the share of one process, and joins what all have embedded if it is the last of them.

    # Parameters

    embedder : `CorpusEmbedder`
    """

    def __init__(self, embedder: CorpusEmbedder) -> None:
        self._embedder = embedder

    def embed(self, corpus: Corpus, target: Path, file: VectorFile) -> Counts:
        """Write the shard of a corpus' share beside the target; if no other is missing, join them.

        A shard that is there is not made again; one that was begun is gone on with. The vectors are those of a single
        process, since the windows are.

        Raises `ConfigurationError` for a name that something else has, for shards of another run or another text, and
        for what `CorpusEmbedder.embed` raises it for.
        """
        shard, *_ = shards = _shards(target, corpus.share)
        if shard.exists() and _record(shard).exists():
            _check(shard, self._run(corpus, file))
            shutil.rmtree(f"{shard}{PART}", ignore_errors=True)  # which a kill has left
        else:
            refuse_existing(target, _record(target))
            self._embedder.embed(corpus, shard, _RecordedFile(file, self._run(corpus, file), _record(shard)))
        if {path.name for path in shards} <= set(os.listdir(target.parent)):
            self._join(sorted(shards), corpus, target, file)
        record = _read(shard)
        return Counts(record["sentences"], record["tokens"])

    def _join(self, shards: Sequence[Path], corpus: Corpus, target: Path, file: VectorFile) -> None:
        """Write the manifest, and behind it what links. Two processes may do so at once: they write the same."""
        run = self._run(corpus, file)
        records = [_check(shard, run) for shard in shards]
        if target.exists() and not _record(target).exists():
            refuse_existing(target)
        partial = target.with_name(f"{target.name}.{corpus.share.rank}{PART}")
        try:
            partial.write_text(json.dumps(_manifest(run, shards, records)), encoding="utf-8")
            os.replace(partial, _record(target))
            if isinstance(file, Hdf5File):
                file.link(partial, _links(shards, records, corpus.texts()))
                os.replace(partial, target)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise ConfigurationError(f"'{target}' cannot be joined: {error}; its shards are whole") from error

    def _run(self, corpus: Corpus, file: VectorFile) -> Record:
        """All that a shard depends on but its share."""
        run = {**self._embedder.run(), **corpus.identity(), "file": file.to_params().as_dict(quiet=True)}
        return dict(json.loads(json.dumps(run)))


def check_processes(target: Path, size: int) -> None:
    """Raise `ConfigurationError` where another number of processes than `size` has begun to write the target."""
    ours = re.compile(rf"{re.escape(target.stem)}-\d{{5}}-of-(\d{{5}}){re.escape(target.suffix)}(\{PART}|\{RECORD})?")
    beside = sorted(target.parent.iterdir()) if target.parent.is_dir() else []
    begun = {path: int(match[1]) for path in beside if (match := ours.fullmatch(path.name))}
    if (whole := Path(f"{target}{PART}")) in beside:
        begun[whole] = 1
    for path, found in begun.items():
        if found != size:
            raise ConfigurationError(
                f"'{path}' is of a run of {found} processes, and this one has {size}; "
                f"go on with {found}, name another output, or delete it"
            )


class _RecordedFile(VectorFile):
    """A shard, and its record, which is written before the shard gets its name."""

    def __init__(self, file: VectorFile, run: Record, record: Path) -> None:
        self._file = file
        self._run = run
        self._record = record

    def write(self, path: Path, sentences: Iterable[EmbeddedSentence], layout: Layout) -> None:
        seen = _Seen(sentences)
        self._file.write(path, seen, layout)
        partial = path.with_name(self._record.name)
        partial.write_text(json.dumps({"run": self._run, **seen.counts}), encoding="utf-8")
        os.replace(partial, self._record)


class _Seen:
    """Sentences that go by are counted."""

    def __init__(self, sentences: Iterable[EmbeddedSentence]) -> None:
        self._sentences = sentences
        self.counts: Record = {"sentences": 0, "tokens": 0, "lines": []}

    def __iter__(self) -> Iterator[EmbeddedSentence]:
        lines = self.counts["lines"]
        for sentence in self._sentences:
            self.counts["sentences"] += 1
            self.counts["tokens"] += len(sentence.tokens)
            if not lines or lines[-1][1] != sentence.line:
                lines.append([sentence.line, sentence.line])
            lines[-1][1] += 1
            yield sentence


def _shards(target: Path, share: Share) -> list[Path]:
    """The file of each process, that of this one first."""
    ranks = sorted(range(share.size), key=lambda rank: rank != share.rank)
    return [target.with_name(f"{target.stem}-{rank:05}-of-{share.size:05}{target.suffix}") for rank in ranks]


def _record(path: Path) -> Path:
    """What says of a shard what it is, or of a target which shards it has."""
    return path.with_name(f"{path.name}{RECORD}")


def _read(shard: Path) -> Record:
    try:
        return dict(json.loads(_record(shard).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"'{_record(shard)}' is damaged ({error}); delete '{shard}' to make it anew"
        ) from error


def _check(shard: Path, run: Record) -> Record:
    """The record of a shard, which has to be of this run."""
    record = _read(shard)
    for key in run:
        if record["run"].get(key) != run[key]:
            raise ConfigurationError(
                f"'{shard}' was made with another '{key}': found {record['run'].get(key)}, wanted {run[key]}; "
                "name another output, or delete it"
            )
    return record


def _manifest(run: Record, shards: Sequence[Path], records: Sequence[Record]) -> Record:
    counted = ("sentences", "tokens")
    return {
        "run": run,
        **{key: sum(record[key] for record in records) for key in counted},
        "shards": [
            {"file": shard.name, **{key: record[key] for key in (*counted, "lines")}}
            for shard, record in zip(shards, records, strict=True)
        ],
    }


def _links(shards: Sequence[Path], records: Sequence[Record], texts: Iterator[str]) -> Iterator[LinkedSentence]:
    """Where the dataset of each line is, in the order of the text."""
    parts = zip(shards, records, strict=True)
    runs = sorted((start, stop, shard.name) for shard, record in parts for start, stop in record["lines"])
    for start, stop, name in runs:
        for line, text in enumerate(islice(texts, stop - start), start):
            yield LinkedSentence(line, text, name)
