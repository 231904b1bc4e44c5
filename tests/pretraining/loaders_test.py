"""Both data loaders of text shards: they resume a run, and name files that they cannot read."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from torch.utils._pytree import tree_leaves

from elmo_plugin.pretraining import loaders
from tests.loader_oracles import LINES, assert_equal, build_loader, through_a_file, write_shards

EPOCHS = 4
STREAMS = {"type": "unrolled_streams", "streams": 2, "window": 4}
BATCHES = {"type": "sentence_batches", "max_tokens": 24, "max_sentence_length": 8}
LOADERS = pytest.mark.parametrize("keys", [STREAMS, BATCHES], ids=["unrolled_streams", "sentence_batches"])


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaders, "SHUFFLED", 4)
    monkeypatch.setattr(loaders, "GROUP", 1)


def epochs_of(loader: Any) -> list[Any]:
    """Return the batches of `EPOCHS` epochs."""
    return [batch for _ in range(EPOCHS) for batch in loader]


@LOADERS
def test_a_run_that_stopped_after_any_batch_continues_with_the_next_one(tmp_path: Path, keys: dict[str, Any]) -> None:
    path = write_shards(tmp_path)
    loader = build_loader(path, seed=5, **keys)
    states, undisturbed = [loader.state_dict()], []
    for _ in range(EPOCHS):
        for batch in loader:
            undisturbed.append(batch)
            states.append(loader.state_dict())
    for behind, state in enumerate(states):  # also those that were kept while the loader went on
        resumed = build_loader(path, seed=5, **keys)
        resumed.load_state_dict(through_a_file(state, tmp_path / "state"))
        assert resumed.state_dict() == state
        batches = epochs_of(resumed)
        assert batches[:behind] == [{}] * behind
        assert_equal(batches[behind:], undisturbed[behind:])
        assert resumed.state_dict() == states[-1]


@pytest.mark.parametrize(
    ("keys", "changed", "message"),
    [
        (STREAMS, {"streams": 1}, "'batches_per_epoch': expected 16, got 8; 'streams': expected 1, got 2"),
        (STREAMS, {"seed": 1}, "'seed': expected 1, got 0"),
        (BATCHES, {"max_tokens": 25}, "'max_tokens': expected 25, got 24"),
        (BATCHES, STREAMS, "'streams': expected 2, got None"),
    ],
)
def test_a_state_of_other_settings_is_rejected(
    tmp_path: Path, keys: dict[str, Any], changed: dict[str, Any], message: str
) -> None:
    path = write_shards(tmp_path)
    state = build_loader(path, **keys).state_dict()
    if "type" in changed:
        keys = {}
    with pytest.raises(ConfigurationError, match=message):
        build_loader(path, **{**keys, **changed}).load_state_dict(state)


def test_a_state_of_another_text_is_rejected(tmp_path: Path) -> None:
    path = write_shards(tmp_path)
    state = build_loader(path, **STREAMS).state_dict()
    with open(tmp_path / "a.txt", "a") as file:
        file.write("on\n")
    n_bytes = sum(len(f"{line}\n".encode()) for line in LINES)
    message = f"{path}' was made with other settings than this run ('bytes': expected {n_bytes + 3}, got {n_bytes};"
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        build_loader(path, **STREAMS).load_state_dict(state)


def test_only_training_has_a_length(tmp_path: Path) -> None:
    path = write_shards(tmp_path)
    with pytest.raises(TypeError, match="shuffle"):
        len(build_loader(path, shuffle=False, **STREAMS))
    assert len(list(build_loader(path, batches_per_epoch=7, **STREAMS))) == 7
    with pytest.raises(ConfigurationError, match=r"'batches_per_epoch'.* 0"):
        build_loader(path, batches_per_epoch=0, **STREAMS)


@LOADERS
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_file_without_tokens_is_named(tmp_path: Path, keys: dict[str, Any], shuffle: bool) -> None:
    write_shards(tmp_path)
    (tmp_path / "c.txt").write_text("\n \n")
    with pytest.raises(ConfigurationError, match=r"c\.txt"):
        list(build_loader(str(tmp_path / "*.txt"), shuffle=shuffle, **keys))


@LOADERS
def test_instances_are_the_sentences_and_batches_stay_on_the_cpu(tmp_path: Path, keys: dict[str, Any]) -> None:
    loader = build_loader(write_shards(tmp_path), **keys)
    instances = [" ".join(token.text for token in instance["tokens"].tokens) for instance in loader.iter_instances()]
    assert instances == LINES
    loader.set_target_device(torch.device("meta"))
    tensors = [leaf for leaf in tree_leaves(next(iter(loader))) if isinstance(leaf, torch.Tensor)]
    assert tensors and all(tensor.device.type == "cpu" for tensor in tensors)
