"""Files for the readers of tags and of texts, and checks of how they are read."""

from collections.abc import Callable
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader
from allennlp.data.dataset_readers.dataset_reader import WorkerInfo


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "some file.txt"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def assert_rejected(reader: DatasetReader, path: Path, line: int | None, *facts: str) -> None:
    """Check that the error for a file begins with its path and the line, and then names these facts."""
    with pytest.raises(ConfigurationError) as caught:
        list(reader.read(path))
    place = f"{path}: " if line is None else f"{path}, line {line}: "
    found = str(caught.value)
    assert found.startswith(place) and all(fact in found.removeprefix(place) for fact in facts), found


def words_of_workers(build: Callable[[], DatasetReader], path: Path, num_workers: int) -> list[str]:
    """Return the words of all instances that the readers of several workers give, in order."""
    words = []
    for worker in range(num_workers):
        reader = build()
        reader._set_worker_info(WorkerInfo(num_workers, worker))
        words += [word for instance in reader.read(path) for word in instance["metadata"]["words"]]
    return sorted(words)
