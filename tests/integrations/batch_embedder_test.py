"""The embedder of batches against `load`, alone and inside Ray Data and Hugging Face `datasets`."""

import os
import pickle
import signal
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
from tests.task_oracles import TOWNS, D, L, experiment, lstm, small_bilm, tags_reader, train

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


def test_layers_that_a_trained_model_concatenates_are_one_vector_too(tmp_path: Path, small: str) -> None:
    elmo = {"type": "elmo", "bilm": small, "mix": "concatenate", "dropout": 0.0}
    embedder = {"type": "basic", "token_embedders": {"elmo": elmo}}
    model = {"type": "simple_tagger", "encoder": lstm(L * D), "text_field_embedder": embedder}
    reader = tags_reader(token_indexers={"elmo": {"type": "elmo_characters"}})
    train(experiment(model, reader, TOWNS, num_epochs=1), tmp_path / "run")
    keys = {"bilm": str(tmp_path / "run/model.tar.gz"), "mix": "trained"}
    (wanted,) = elmo_plugin.load(small, "concatenate").embed(TOKENS[:1])  # (T, L · D)
    (found,) = BatchEmbedder(**keys, pooling=None)({"text": TEXTS[:1]})["elmo"]
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    (pooled,) = BatchEmbedder(**keys)({"text": TEXTS[:1]})["elmo"]
    np.testing.assert_allclose(pooled, wanted.mean(axis=0), atol=1e-6)


def test_every_kind_of_column_that_an_engine_passes_is_read(small: str) -> None:
    embed = BatchEmbedder("tokens", "vectors", bilm=small)
    wanted = embed({"tokens": TOKENS})["vectors"]
    objects = np.empty(len(TOKENS), dtype=object)
    objects[:] = [np.array(tokens, dtype=object) for tokens in TOKENS]
    nested = pyarrow.array(TOKENS, type=pyarrow.list_(pyarrow.string()))
    for column in (
        objects,
        pandas.Series(TOKENS),
        pyarrow.chunked_array([nested]),
        pyarrow.array([tokens or None for tokens in TOKENS]),
        TEXTS,
        np.array(TEXTS, dtype=object),
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
    with pytest.raises(ConfigurationError, match=r"'mix': .*'best'"):
        BatchEmbedder(bilm=small, mix="best")({"text": ["a"]})
    with pytest.raises(ConfigurationError, match=r"'text': .*'a boat'.*batched=True"):
        BatchEmbedder(bilm=small)({"text": "a boat"})
    with pytest.raises(ConfigurationError, match="Table"):
        BatchEmbedder(bilm=small)(pyarrow.table({"text": ["a"]}))


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


@pytest.mark.skipif("RAY_TESTS" not in os.environ, reason="a Ray cluster may hang on a busy machine: set RAY_TESTS")
def test_ray_computes_all_vectors_although_one_of_two_workers_is_killed(small: str, tmp_path: Path) -> None:
    import ray  # takes seconds

    class Mortal(BatchEmbedder):  # type: ignore[misc]
        """Kills its worker at one batch, but only the first time."""

        def __call__(self, batch: Any) -> Any:
            found = super().__call__(batch)
            if 40 in batch["n"] and not (tmp_path / "killed").exists():
                (tmp_path / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return {**found, "process": np.full(len(batch["n"]), os.getpid())}

    texts = [["The ship sank.", None, "A calm, bright morning!", ""][index % 4] for index in range(80)]
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20, log_to_driver=False)
    try:
        data = ray.data.from_items([{"n": n, "text": text} for n, text in enumerate(texts)], override_num_blocks=8)
        rows = data.map_batches(
            Mortal,
            fn_constructor_kwargs={"bilm": small, "pooling": None},
            batch_size=5,
            compute=ray.data.ActorPoolStrategy(size=2),
        ).take_all()
    finally:
        ray.shutdown()
    assert (tmp_path / "killed").exists() and len({row["process"] for row in rows}) >= 2
    rows.sort(key=lambda row: row["n"])
    assert [row["n"] for row in rows] == list(range(80))
    for row, wanted in zip(rows, BatchEmbedder(bilm=small, pooling=None)({"text": texts})["elmo"], strict=True):
        np.testing.assert_allclose(row["elmo"], wanted, atol=1e-5)
