"""Each repair of `elmo_plugin.compat`."""

import copy
import io
import json
import os
import signal
import sys
import tarfile
import tempfile
import time
import types
import warnings
from argparse import Namespace
from multiprocessing import active_children, resource_sharer
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import pytest
import torch
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token, Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.data.dataset_readers import SequenceTaggingDatasetReader
from allennlp.data.fields import TextField
from allennlp.data.token_indexers import PretrainedTransformerMismatchedIndexer, SingleIdTokenIndexer
from allennlp.data.tokenizers import PretrainedTransformerTokenizer
from allennlp.models import Model, SimpleTagger, archival
from allennlp.models.multitask import MultiTaskModel
from allennlp.modules.seq2seq_encoders import GruSeq2SeqEncoder, LstmSeq2SeqEncoder
from allennlp.modules.seq2vec_encoders import BagOfEmbeddingsEncoder, LstmSeq2VecEncoder
from allennlp.nn import util as nn_util
from allennlp.predictors import Predictor
from allennlp.training.learning_rate_schedulers import LearningRateScheduler
from allennlp.training.moving_average import ExponentialMovingAverage
from torch.optim import SGD

from elmo_plugin import compat, load
from tests.serving_oracles import FILES

TAGGED = ["the###D cat###N sat###V", "a###D dog###N ran###V", "the###D dog###N sat###V", "a###D cat###N ran###V"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "the", "cat", "##s", "sat"]


@pytest.fixture
def tagger(tmp_path: Path) -> dict[str, Any]:
    """Return a config that trains a tagger within a fifth of a second."""
    data = tmp_path / "tagged.tsv"
    data.write_text("\n".join(TAGGED))
    embedder = {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 4}}}
    encoder = {"type": "lstm", "input_size": 4, "hidden_size": 4}
    return {
        "dataset_reader": {"type": "sequence_tagging"},
        "train_data_path": str(data),
        "validation_data_path": str(data),
        "model": {"type": "simple_tagger", "text_field_embedder": embedder, "encoder": encoder},
        "data_loader": {"batch_size": 2},
        "trainer": {"num_epochs": 2, "optimizer": {"type": "sgd", "lr": 0.5}},
    }


@Model.register("compat_test_tagger")
class NumpyTagger(SimpleTagger):
    """A tagger whose metrics are NumPy numbers. Registered as a `Model` with name "compat_test_tagger"."""

    def get_metrics(self, reset: bool = False) -> dict[str, float]:
        """Return the metrics as NumPy numbers."""
        return {name: np.float64(value) for name, value in super().get_metrics(reset).items()}


def train(config: dict[str, Any], folder: Path, num_epochs: int = 2, recover: bool = False) -> None:
    """Train in this process. With `recover`, train more epochs of the same run."""
    config = {**config, "trainer": {**config["trainer"], "num_epochs": num_epochs}}
    if recover:
        (folder / "config.json").write_text(json.dumps(config))  # AllenNLP compares the two
    train_model(Params(json.loads(json.dumps(config))), str(folder), recover=recover)


def test_recover_reads_numpy_numbers(tagger: dict[str, Any], tmp_path: Path) -> None:
    tagger["model"]["type"] = "compat_test_tagger"
    tagger["trainer"] |= {"validation_metric": "+accuracy"}
    train(tagger, tmp_path / "run")
    train(tagger, tmp_path / "run", num_epochs=4, recover=True)
    assert torch.load(tmp_path / "run/training_state_e4_b0.th")["metric_tracker"]["epoch_number"] == 4


def test_nothing_but_numpy_numbers_is_trusted(tmp_path: Path) -> None:
    before = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    compat.training.trust_numpy_scalars()
    added = [entry[0] if isinstance(entry, tuple) else entry for entry in torch.serialization.get_safe_globals()]
    torch.serialization.add_safe_globals(before)
    assert all(entry.__name__ == "scalar" or issubclass(entry, np.dtype) for entry in added)
    for harmful in (tmp_path, np.array([1, "o"], dtype=object)):
        torch.save(harmful, tmp_path / "harmful.th")
        with pytest.raises(UnpicklingError):
            torch.load(tmp_path / "harmful.th")


def test_reduce_on_plateau_reduces_quietly() -> None:
    optimizer = SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    settings = Params({"type": "reduce_on_plateau", "patience": 0, "factor": 0.25, "verbose": True})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler = LearningRateScheduler.from_params(settings, optimizer=optimizer)
        for metric in (3.0, 2.0, 2.0):
            scheduler.step(metric)
    assert optimizer.param_groups[0]["lr"] == 0.25


def spawning_loader(folder: Path) -> MultiProcessDataLoader:
    """Return a loader with one spawned worker, which makes batches."""
    data, reader = folder / "tagged.tsv", SequenceTaggingDatasetReader()
    data.write_text("\n".join(TAGGED))
    loader = MultiProcessDataLoader(
        reader, str(data), batch_size=2, num_workers=1, max_instances_in_memory=2, start_method="spawn"
    )
    loader.index_with(Vocabulary.from_instances(reader.read(data)))
    return loader


@pytest.mark.parametrize("name", ["_start_instance_workers", "_start_batch_workers"])
def test_spawned_workers_get_a_lock_of_their_context(tmp_path: Path, name: str) -> None:
    context, given = SpawnContext(), []

    class NeverStarted(SpawnProcess):
        def start(self) -> None:
            given.append(self._args)  # type: ignore[attr-defined]

    context.Process = NeverStarted  # type: ignore[misc]
    queue = context.JoinableQueue()
    getattr(spawning_loader(tmp_path), name)(queue, context)
    ((_, _, lock, _),) = given
    assert lock._is_fork_ctx is queue._rlock._is_fork_ctx is False


class KilledReader(DatasetReader):
    """Yields a few sentences; then the worker is killed, as by a system that runs out of memory."""

    def __init__(self) -> None:
        super().__init__(manual_distributed_sharding=True, manual_multiprocess_sharding=True)

    def _read(self, file_path: Any) -> Any:
        for _ in range(4):
            yield Instance({"tokens": TextField([Token("word")])})
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)

    def apply_token_indexers(self, instance: Any) -> None:
        """Give the tokens one indexer."""
        instance["tokens"].token_indexers = {"tokens": SingleIdTokenIndexer()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["instances", "batches", "a batch that is being handed over"])
def test_a_killed_worker_is_an_error(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind.startswith("a batch"):

        def detach(tensor: resource_sharer.DupFd) -> int:
            raise ConnectionResetError

        monkeypatch.setattr(resource_sharer.DupFd, "detach", detach)
    loader = MultiProcessDataLoader(
        KilledReader(), "", batch_size=2, num_workers=2, max_instances_in_memory=2, start_method="fork"
    )
    loader.index_with(Vocabulary())
    with pytest.raises(RuntimeError, match=r"worker \(pid \d+\) is killed"):
        list(loader.iter_instances() if kind == "instances" else loader)
    assert not active_children()


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Replace wandb by a stub of 0.28 or later, whose `util` generates no ids. It records the calls of `init`."""
    module: Any = types.ModuleType("wandb")
    module.util = types.SimpleNamespace()
    module.started = []
    module.init = lambda **settings: module.started.append(settings)
    module.save = module.watch = module.log = module.finish = lambda *args, **kwargs: None
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_wandb_run_starts_and_resumes_under_one_id(tagger: dict[str, Any], tmp_path: Path, wandb: Any) -> None:
    tagger["trainer"]["callbacks"] = [{"type": "wandb", "should_log_parameter_statistics": False}]
    train(tagger, tmp_path / "run")
    train(tagger, tmp_path / "run", num_epochs=3, recover=True)
    train(tagger, tmp_path / "another")
    first, resumed, another = wandb.started
    assert len(first["id"]) == 8
    assert resumed["id"] == first["id"] and resumed["resume"] == "auto"
    assert another["id"] != first["id"]


@pytest.fixture
def bert(tmp_path: Path) -> str:
    """Write a folder that transformers loads as a BERT with eleven word pieces."""
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(VOCABULARY))
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}')
    return str(tmp_path / "bert")


def test_pretrained_transformer_tokenizes_and_indexes(bert: str) -> None:
    bare = PretrainedTransformerTokenizer(bert, add_special_tokens=False)
    assert [token.text for token in bare.tokenize("the cats")] == ["the", "cat", "##s"]
    marked = PretrainedTransformerTokenizer(bert)
    assert [token.text for token in marked.tokenize("the cats")] == ["[CLS]", "the", "cat", "##s", "[SEP]"]
    vocabulary = Vocabulary.from_pretrained_transformer(bert)
    indexed = PretrainedTransformerMismatchedIndexer(bert).tokens_to_indices([Token("the"), Token("cats")], vocabulary)
    assert indexed["token_ids"] == [2, 7, 8, 9, 3]
    assert indexed["offsets"] == [(1, 1), (2, 3)]


def test_token_ids_are_found_rejected_or_none_where_all_are_characters() -> None:
    characters, ids = torch.ones(2, 3, 50, dtype=torch.long), torch.ones(2, 3, dtype=torch.long)
    find, alone = nn_util.get_token_ids_from_text_field_tensors, {"elmo": {"elmo_tokens": characters}}
    assert find({**alone, "tokens": {"tokens": ids}}) is ids
    none = find(alone)
    assert none.shape == (2, 0) and none.dtype == torch.long
    for unknown in ({}, {**alone, "characters": {"token_characters": characters}}):
        with pytest.raises(NotImplementedError):
            find(unknown)


def test_bfloat16_has_a_tiny_value_and_other_types_are_as_without_this_package() -> None:
    assert torch.zeros(1, dtype=torch.bfloat16) + nn_util.tiny_value_of_dtype(torch.bfloat16) > 0
    assert nn_util.tiny_value_of_dtype(torch.float16) == 1e-4
    with pytest.raises(TypeError, match="floating point"):
        nn_util.tiny_value_of_dtype(torch.long)
    tokens, mask = torch.ones(2, 3, 4, dtype=torch.float16), torch.ones(2, 3, dtype=torch.bool)
    assert BagOfEmbeddingsEncoder(4, averaged=True)(tokens, mask).dtype == torch.float32


def test_a_config_is_written_through_links_and_pipes_and_errors_keep_their_type(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "file.json")
    Params({"a": 1}).to_file(str(tmp_path / "link.json"))
    assert (tmp_path / "link.json").is_symlink() and json.loads((tmp_path / "file.json").read_text()) == {"a": 1}
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    Params({"a": 1}).to_file(str(tmp_path / "pipe"))
    assert json.loads(os.read(reading, 99)) == {"a": 1} and (tmp_path / "pipe").is_fifo()
    os.close(reading)
    with pytest.raises(FileNotFoundError):
        Params({}).to_file(str(tmp_path / "missing" / "config.json"))


@Model.register("compat_test_attributes")
class WithAttributes(SimpleTagger):
    """A tagger of another package, with attributes that ours use for other things. Registered as a `Model`."""

    metric_names = ("accuracy",)
    keeps_weights = True


def test_attributes_of_other_models_mean_nothing(tagger: dict[str, Any], tmp_path: Path) -> None:
    ones = {"regexes": [[".*", {"type": "constant", "val": 1}]]}
    tagger["model"] |= {"type": "compat_test_attributes", "initializer": ones}
    tagger["trainer"] |= {"validation_metric": "+accuracy", "num_epochs": 1, "optimizer": {"type": "sgd", "lr": 0.0}}
    train_model(Params(tagger), str(tmp_path / "run"))
    weights = torch.load(tmp_path / "run" / "best.th")
    assert all(weight.eq(1).all() for weight in weights.values())


def test_heads_of_a_multitask_model_get_own_dictionaries_with_the_same_tensors() -> None:
    tensor, words = torch.ones(2), [["a"]]
    given = {"tokens": {"elmo": {"elmo_tokens": tensor}}, "flat": {"token_ids": tensor}, "words": words, "mask": tensor}
    model = Namespace(_allowed_arguments={"head": given.keys()}, _arg_name_mapping={})
    found = MultiTaskModel._get_arguments(model, given, component="head")  # type: ignore[arg-type]
    assert found["tokens"] is not given["tokens"] and found["tokens"]["elmo"] is not given["tokens"]["elmo"]
    assert found["flat"] is not given["flat"] and found["words"] is words
    assert found["tokens"]["elmo"]["elmo_tokens"] is found["flat"]["token_ids"] is found["mask"] is tensor


def test_a_function_that_was_imported_before_is_replaced_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """For example, `from allennlp.commands.train import train_model` comes before `import elmo_plugin`."""
    owner, user, other = (types.ModuleType(name) for name in ("compat_owner", "compat_user", "compat_other"))
    for module in (owner, user, other):
        monkeypatch.setitem(sys.modules, module.__name__, module)
        module.answer = lambda: 1  # type: ignore[attr-defined]
    user.answer = owner.answer
    compat.replaces("compat_owner.answer")(lambda original: original() + 1)
    assert [module.answer() for module in (owner, user, other)] == [2, 2, 1]


@pytest.fixture
def evil_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write an archive whose member `outside` would be unpacked outside its folder."""
    (tmp_path / "unpacked").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "unpacked"))
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
        for name in ("config.json", "../../outside"):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    return tmp_path / "model.tar.gz"


def test_an_archive_writes_nothing_outside_its_folder(evil_archive: Path) -> None:
    with pytest.raises(tarfile.FilterError, match="outside the destination"), archival.extracted_archive(evil_archive):
        raise AssertionError("it was unpacked")
    with pytest.raises(ConfigurationError, match=r"model\.tar\.gz"):
        load(evil_archive, "trained")
    assert not evil_archive.with_name("outside").exists()


@pytest.mark.parametrize("harm", ["cut in half", "cut at the end", "a flipped bit"])
def test_a_damaged_archive_is_said_to_be_damaged(tmp_path: Path, harm: str) -> None:
    content = (FILES / "elmo_tagger.tar.gz").read_bytes()
    flipped = content[:-2000] + bytes([content[-2000] ^ 1]) + content[-1999:]
    damaged = {"cut in half": content[: len(content) // 2], "cut at the end": content[:-9], "a flipped bit": flipped}
    path = tmp_path / "model.tar.gz"
    path.write_bytes(damaged[harm])
    with pytest.raises((tarfile.ReadError, ConfigurationError), match=r"model\.tar\.gz"):
        Predictor.from_path(str(path))
    with pytest.raises((tarfile.ReadError, ConfigurationError), match=r"model\.tar\.gz"):
        evaluate_from_archive(str(path), str(tmp_path / "text"))
    with pytest.raises(ConfigurationError, match=r"model\.tar\.gz' cannot be unpacked"):
        load(path)


def test_an_archive_is_packed_at_the_fastest_level(tmp_path: Path) -> None:
    for name in ("config.json", "best.th"):
        (tmp_path / name).touch()
    (tmp_path / "vocabulary").mkdir()
    packed = Path(archival.archive_model(tmp_path)).read_bytes()
    assert packed[8] == 4  # gzip's XFL: the fastest algorithm; 2 is the slowest (RFC 1952)


def test_a_file_that_is_no_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "new.jsonl").write_text("no archive")
    with pytest.raises(tarfile.ReadError, match=r"new\.jsonl: not a gzip file"):
        archival.load_archive(tmp_path / "new.jsonl")


def test_a_restored_moving_average_averages_the_weights_of_the_model() -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    average = ExponentialMovingAverage([("weight", weight)], decay=0.5)
    average.load_state_dict(copy.deepcopy(average.state_dict()))
    weight.data += 1
    average.apply()
    average.assign_average_value()
    assert weight.item() == 0.5


@pytest.mark.parametrize("encoder", [GruSeq2SeqEncoder, LstmSeq2SeqEncoder, LstmSeq2VecEncoder])
@pytest.mark.parametrize("lengths", [[3, 3], [3, 2]])
@torch.no_grad()
def test_a_wrong_input_size_is_an_error_that_names_the_right_one(encoder: Any, lengths: list[int]) -> None:
    """Without it, PyTorch answers noise for sentences of equal length."""
    mask = torch.arange(3) < torch.tensor(lengths).unsqueeze(1)  # (B, T)
    with pytest.raises(ConfigurationError, match=r"'input_size': expected 8, .* got 10"):
        encoder(input_size=10, hidden_size=4)(torch.zeros(2, 3, 8), mask)
    encoder(input_size=8, hidden_size=4)(torch.zeros(2, 3, 8), mask)
