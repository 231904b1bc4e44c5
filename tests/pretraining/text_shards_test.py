"""Text shards through AllenNLP's own loaders: every sentence once, split if it is too long."""

from pathlib import Path
from typing import Any, Optional

import pytest
from allennlp.common import Params
from allennlp.data import DatasetReader, Instance
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.data.dataset_readers.dataset_reader import WorkerInfo

from elmo_plugin.pretraining.loaders import TextShardsReader, split_sentences
from elmo_plugin.pretraining.vocabulary import vocabulary_of
from elmo_plugin.text import batch_to_ids

LINES = ["the cat sat", "on", "the mat", "", "Gänge 東京 😀 x", "on and on"]


@pytest.fixture
def pattern(tmp_path: Path) -> str:
    """Write two shards of `LINES`."""
    (tmp_path / "a.txt").write_text("\n".join(LINES[:2]) + "\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("\n".join(LINES[2:]) + "\n", encoding="utf-8")
    return str(tmp_path / "*.txt")


def reader(**keys: Any) -> TextShardsReader:
    """Build the reader from a config."""
    made = DatasetReader.from_params(Params({"type": "text_shards", **keys}))
    assert isinstance(made, TextShardsReader)
    return made


def words(instance: Instance) -> str:
    """Return the tokens of an instance, joined with spaces."""
    return " ".join(token.text for token in instance["tokens"].tokens)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("length", "wanted"), [(1, ["a", "b", "c", "d"]), (3, ["abc", "d"]), (4, ["abcd"]), (None, ["abcd"])]
)
def test_the_pieces_of_a_sentence_add_up_to_it(
    length: Optional[int], wanted: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    pieces = split_sentences([list("abcd"), list("abcd")], length, "text")
    assert ["".join(piece) for piece in pieces] == 2 * wanted
    assert len(caplog.records) == (len(wanted) > 1)


def test_a_tensor_has_the_ids_of_the_biLM_and_of_the_vocabulary(pattern: str) -> None:
    vocab = vocabulary_of(["<S>", "</S>", "<UNK>", "the", "cat"])
    loader = MultiProcessDataLoader(reader(), pattern, batch_size=2)
    loader.index_with(vocab)
    batch = next(iter(loader))["tokens"]
    assert batch["words"]["tokens"].tolist() == [[4, 5, 3], [3, 0, 0]]
    assert batch["characters"]["elmo_tokens"].equal(batch_to_ids([["the", "cat", "sat"], ["on"]]))


@pytest.mark.parametrize(("max_instances", "wanted", "workers"), [(None, 5, 1), (None, 5, 3), (3, 3, 2)])
def test_workers_divide_the_instances(pattern: str, max_instances: Any, wanted: int, workers: int) -> None:
    found: list[str] = []
    for number in range(workers):
        made = reader(max_instances=max_instances)
        made._set_worker_info(WorkerInfo(workers, number))
        found += [words(instance) for instance in made.read(pattern)]
    assert sorted(found) == sorted([line for line in LINES if line][:wanted])
