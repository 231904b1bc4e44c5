"""The embedder of batches against `load`, alone and inside Ray Data and Hugging Face `datasets`."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import datasets
import joblib
import numpy as np
import pandas
import pyarrow
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from datasets.fingerprint import Hasher

import elmo_plugin
from elmo_plugin.integrations import BatchEmbedder, ElmoVectorizer
from tests.oracles import lively, write_files
from tests.task_oracles import D, small_bilm

TEXTS: list[Any] = ["The ship sank.", None, "", "A calm, bright morning!", float("nan"), pandas.NA]
TOKENS: list[list[str]] = [["The", "ship", "sank", "."], [], [], ["A", "calm", ",", "bright", "morning", "!"], [], []]


@pytest.mark.parametrize("mix", ["last", "all"])
def test_vectors_equal_those_of_load_pooled_or_one_per_token(small: str, mix: str) -> None:
    arrays = elmo_plugin.load(small, "concatenate" if mix == "all" else mix).embed(TOKENS)
    batch = {"text": TEXTS, "n": list(range(len(TEXTS)))}
    for pooling in ("mean", "max", None):
        found = BatchEmbedder(bilm=small, mix=mix, pooling=pooling)(batch)
        assert list(batch) == ["text", "n"] and list(found) == ["text", "n", "elmo"]
        for vector, array in zip(found["elmo"], arrays, strict=True):
            wanted = array
            if pooling is not None:
                pool = np.mean if pooling == "mean" else np.max
                wanted = pool(array, axis=0) if len(array) else np.zeros(array.shape[1])
            assert vector.dtype == np.float32
            np.testing.assert_allclose(vector, wanted, atol=1e-6)


def test_every_kind_of_column_that_an_engine_passes_is_read(small: str) -> None:
    embed = BatchEmbedder("tokens", "vectors", bilm=small)
    wanted = embed({"tokens": TOKENS})["vectors"]
    objects = np.empty(len(TOKENS), dtype=object)
    objects[:] = [np.array(tokens, dtype=object) for tokens in TOKENS]
    nested = pyarrow.array(TOKENS, type=pyarrow.list_(pyarrow.string()))
    for column in (
        objects,
        pyarrow.chunked_array([nested]),
        TEXTS,
        pandas.Series(TEXTS, dtype="str"),
        pyarrow.array([text if isinstance(text, str) else None for text in TEXTS]),
    ):
        np.testing.assert_array_equal(embed({"tokens": column})["vectors"], wanted)
    frame = pandas.DataFrame({"tokens": TEXTS, "n": range(len(TEXTS))})
    found = embed(frame)  # Ray's pandas batches
    assert list(found) == ["tokens", "n", "vectors"] and list(frame) == ["tokens", "n"]
    np.testing.assert_array_equal(np.stack(found["vectors"]), wanted)
    assert embed({"tokens": []})["vectors"] == [] == embed({"tokens": np.array([], dtype=object)})["vectors"]


def test_a_pickle_is_small_and_the_same_before_and_after_use(warm: str) -> None:
    keys = {"bilm": warm, "initial_state": "warm", "tokenizer": str.split, "num_threads": 1}
    embed = BatchEmbedder(**keys)
    content, mark = pickle.dumps(embed), Hasher.hash(embed)
    (vector,) = embed({"text": ["The ship"]})["elmo"]
    assert pickle.dumps(embed) == content and len(content) < 1000
    assert Hasher.hash(embed) == mark == Hasher.hash(BatchEmbedder(**keys))
    assert Hasher.hash(BatchEmbedder(**{**keys, "mix": "last"})) != mark
    np.testing.assert_array_equal(pickle.loads(content)({"text": ["The ship"]})["elmo"][0], vector)


def test_a_cache_does_not_take_vectors_of_files_that_were_replaced(small: str) -> None:
    """`datasets` and joblib's `Memory`, as in scikit-learn's pipelines, compare pickles."""
    marks = []
    for scale in (1.0, 0.5):
        write_files(Path(small), lively(small_bilm(), scale))
        marks.append((Hasher.hash(BatchEmbedder(bilm=small)), joblib.hash(ElmoVectorizer(small))))
    assert marks[0][0] != marks[1][0] and marks[0][1] != marks[1][1]


def test_wrong_parameters_and_batches_are_errors(small: str) -> None:
    with pytest.raises(ConfigurationError, match=r"'input_column': .*'body'.*'text'"):
        BatchEmbedder(bilm=small)({"body": ["a"]})
    with pytest.raises(ConfigurationError, match=r"row 1: .*7"):
        BatchEmbedder(bilm=small)({"text": ["a", 7]})
    with pytest.raises(ConfigurationError, match=r"'pooling': .*'sum'"):
        BatchEmbedder(pooling="sum")
    with pytest.raises(ConfigurationError, match="'num_threads'"):
        BatchEmbedder(num_threads=0)
    with pytest.raises(ConfigurationError, match=r"'text': .*'a boat'.*batched=True"):
        BatchEmbedder(bilm=small)({"text": "a boat"})
    with pytest.raises(ConfigurationError, match=r"'input_column': .*'body'.*'text'"):
        BatchEmbedder(bilm=small)(pyarrow.table({"body": ["a"]}))
    with pytest.raises(ConfigurationError, match=r"got a list"):
        BatchEmbedder(bilm=small)(["a"])
    with pytest.raises(ConfigurationError, match=r"row 1: expected a text, got bytes"):
        BatchEmbedder(bilm=small)({"text": ["a", b"b"]})


@pytest.mark.parametrize("pooling", ["mean", None])
def test_tables_of_arrow_get_a_column_as_ray_and_datasets_pass_them(small: str, pooling: str | None) -> None:
    embed = BatchEmbedder(bilm=small, pooling=pooling)
    texts = ["Two words", None, "One"]
    wanted = [array.tolist() for array in embed({"text": texts})["elmo"]]
    table = embed(pyarrow.table({"text": texts, "n": [1, 2, 3]}))
    assert table.column_names == ["text", "n", "elmo"] and table.column("elmo").to_pylist() == wanted
    assert embed(table).column("elmo").to_pylist() == wanted  # which is there already
    assert embed(table.slice(0, 0)).column("elmo").type == table.column("elmo").type
    rows = datasets.Dataset.from_dict({"text": texts}).with_format("arrow")
    assert rows.map(embed, batched=True).with_format(None)["elmo"][:] == wanted


@pytest.mark.slow
def test_datasets_maps_it_in_forked_processes_and_reuses_the_result(small: str, tmp_path: Path) -> None:
    texts = [text if isinstance(text, str) else None for text in TEXTS] * 3
    datasets.Dataset.from_dict({"text": texts}).save_to_disk(tmp_path / "data")
    wanted = BatchEmbedder(bilm=small, pooling=None)({"text": texts})["elmo"]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)  # forked processes do not inherit these threads
        torch.randn(500, 500) @ torch.randn(500, 500)
        once, again = (
            datasets.load_from_disk(tmp_path / "data").map(
                BatchEmbedder(bilm=small, pooling=None), batched=True, batch_size=4, num_proc=2, remove_columns=["text"]
            )
            for _ in range(2)
        )
    finally:
        torch.set_num_threads(before)
    assert once.column_names == ["elmo"] and once.cache_files == again.cache_files
    assert once.features["elmo"] == datasets.List(datasets.List(datasets.Value("float32")))
    for row, array in zip(once, wanted, strict=True):
        np.testing.assert_allclose(np.array(row["elmo"]).reshape(-1, D), array, atol=1e-6)


class OfRay(BatchEmbedder):
    """Calls the embedder in the only thread of an executor, as Ray's actors do."""

    def __call__(self, batch: Any) -> Any:
        return executor.submit(super().__call__, batch).result(timeout=60)


executor = ThreadPoolExecutor(1)


@pytest.mark.parametrize("pooling", ["mean", None])
def test_a_batch_of_any_kind_is_embedded_in_one_call_as_rays_actors_need(small: str, pooling: str | None) -> None:
    embed = OfRay(bilm=small, pooling=pooling)
    wanted = [array.tolist() for array in embed({"text": ["Two words"]})["elmo"]]
    assert embed(pyarrow.table({"text": ["Two words"]})).column("elmo").to_pylist() == wanted
    assert [array.tolist() for array in embed(pandas.DataFrame({"text": ["Two words"]}))["elmo"]] == wanted
