"""The outputs of several processes, joined by the process that ends last. No process waits for another.

The processes share only the folder of the target. For two processes and the target `vectors.hdf5` it holds:

    vectors-00000-of-00002.hdf5        the shard of the first process, which gets this name when it is complete
    vectors-00000-of-00002.hdf5.json   its manifest entry: the run that wrote it, and the lines that it has
    vectors-00000-of-00002.hdf5.part   the folder of its parts while the shard is unfinished
    vectors.hdf5.json                  the manifest, written when all shards are complete
    vectors.hdf5                       for hdf5 alone: links to each line's dataset in its shard
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from allennlp.common.checks import ConfigurationError

from elmo_plugin.common import atomic_file, check_made_with
from elmo_plugin.embedding.corpus import Corpus, Share
from elmo_plugin.embedding.hdf5 import Hdf5File
from elmo_plugin.embedding.part_folder import OTHER_OUTPUT, PART, refuse_existing
from elmo_plugin.embedding.vector_file import VectorFile

Entry = dict[str, Any]
"""`run`, everything that the vectors depend on; `sentences` and `tokens`, their numbers; and `lines`, a list of ranges
of lines as [start, stop], counted from 0, without the line `stop`."""


def shard_path(target: Path, share: Share) -> Path:
    """Return the path of a shard: the file that one of several processes writes."""
    return target.with_name(f"{target.stem}-{share.rank:05}-of-{share.size:05}{target.suffix}")


def entry_path(shard: Path) -> Path:
    """Return the path of the manifest entry of a shard, or of the manifest of a target."""
    return shard.with_name(f"{shard.name}.json")


def read_entry(shard: Path, run: Mapping[str, Any]) -> Entry:
    """Read the manifest entry of a shard. Raises `ConfigurationError` if it is damaged or belongs to another run."""
    try:
        entry = dict(json.loads(entry_path(shard).read_text(encoding="utf-8")))
        found = entry["run"]
    except (OSError, ValueError, KeyError) as error:
        path = entry_path(shard)
        raise ConfigurationError(f"'{path}' is damaged ({error}); delete '{shard}' to make it again") from error
    check_made_with(str(shard), found, run, OTHER_OUTPUT)
    return entry


def write_entry(path: Path, entry: Entry) -> None:
    """Write a manifest entry, or a manifest."""
    with atomic_file(path) as partial:
        partial.write_text(json.dumps(entry), encoding="utf-8")


def join_shards(corpus: Corpus, target: Path, file: VectorFile, run: Mapping[str, Any]) -> None:
    """If all shards are complete, write the manifest and the file that links to them.

    Two processes that do so at once write the same. Raises `ConfigurationError` for shards of different runs.
    """
    rank, size = corpus.share
    shards = [shard_path(target, Share(other, size)) for other in range(size)]
    if not {shard.name for shard in shards} <= set(os.listdir(target.parent)):
        return
    entries = [read_entry(shard, run) for shard in shards]
    manifest, partial = entry_path(target), target.with_name(f"{target.name}.{rank}.partial")
    if not manifest.exists():
        refuse_existing(target)
    counted = ("sentences", "tokens")
    summary = {
        "run": run,
        **{key: sum(entry[key] for entry in entries) for key in counted},
        "shards": [
            {"file": shard.name, **{key: entry[key] for key in (*counted, "lines")}}
            for shard, entry in zip(shards, entries, strict=True)
        ],
    }
    with atomic_file(manifest, partial):
        partial.write_text(json.dumps(summary), encoding="utf-8")
    if isinstance(file, Hdf5File):
        with atomic_file(target, partial):
            file.link(partial, _places(shards, entries, corpus.texts()))


def check_processes(target: Path, size: int) -> None:
    """Raise `ConfigurationError` if the target was begun with a number of processes other than `size`."""
    shard = rf"{re.escape(target.stem)}-\d{{5}}-of-(\d{{5}}){re.escape(target.suffix)}"
    begun = re.compile(rf"{shard}(|{re.escape(PART)}|\.json)")
    for path in sorted(target.parent.iterdir()) if target.parent.is_dir() else []:
        match = begun.fullmatch(path.name)
        found = int(match[1]) if match else 1
        if found != size and (match or path.name == f"{target.name}{PART}"):
            raise ConfigurationError(
                f"'{path}': expected a run of {size} processes, got a run of {found}; "
                f"resume it with {found}, {OTHER_OUTPUT}"
            )


def _places(shards: Sequence[Path], entries: Sequence[Entry], texts: Iterator[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the number, the text and the shard's name of each line, in the order of the text."""
    runs = [(*lines, shard.name) for shard, entry in zip(shards, entries, strict=True) for lines in entry["lines"]]
    for start, stop, name in sorted(runs):
        for number, text in enumerate(islice(texts, stop - start), start):
            yield number, text, name
