"""The native format: what the file holds, which files are rejected, and how a file is written."""

import json
import os
import time
import zlib
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from elmo_plugin.bilm import BiLM
from elmo_plugin.checkpoints import Checkpoint, Native, SavedSoftmax, build_bilm, convert, load_checkpoint
from tests.checkpoint_oracles import SOFTMAX, WORDS, assert_rejected, assert_same_checkpoint, pretrained
from tests.checkpoints.file_tools import flipped
from tests.full_disk import disk_of
from tests.oracles import lively, options

BIAS = "bilm.lstm.forward_layers.0.bias"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A good file."""
    Native().write(pretrained(), tmp_path / "good.safetensors")
    return tmp_path / "good.safetensors"


def metadata_of(path: Path) -> dict[str, str]:
    with safe_open(path, framework="pt") as opened:
        return dict(opened.metadata())


def change(path: Path, metadata: Optional[dict[str, Optional[str]]] = None, **tensors: Any) -> None:
    """Change metadata and tensors of a file and their check sums; `None` deletes a value."""
    texts = {key: text for key, text in {**metadata_of(path), **(metadata or {})}.items() if text is not None}
    kept = {name: value for name, value in {**load_file(path), **tensors}.items() if value is not None}
    sums = {key: zlib.crc32(text.encode()) for key, text in texts.items()}
    sums |= {name: zlib.crc32(value.flatten().numpy().tobytes()) for name, value in kept.items()}
    save_file(kept, path, {**texts, "sums": json.dumps(sums)})


def test_the_file_is_one_that_any_safetensors_reader_understands(tmp_path: Path) -> None:
    checkpoint, path = pretrained(), tmp_path / "one.safetensors"
    Native().write(checkpoint, path)
    metadata = metadata_of(path)
    assert (metadata["format"], metadata["version"]) == ("elmo_plugin", "1")
    assert json.loads(metadata["options"]) == checkpoint.options.to_dict()
    assert json.loads(metadata["softmax"]) == SOFTMAX
    assert metadata["vocabulary"].split("\n") == WORDS
    tensors = load_file(path)
    assert torch.equal(tensors[BIAS], checkpoint.state_dict["lstm.forward_layers.0.bias"])
    assert {name.partition(".")[0] for name in tensors} == {"bilm", "softmax"}
    assert not any("_extra_state" in name for name in tensors)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_halves_the_file_and_is_read_as_single(tmp_path: Path, dtype: torch.dtype) -> None:
    bilm = lively(BiLM(options(dim=200, projection_dim=64)))
    checkpoint = Checkpoint(bilm.options, bilm.state_dict())
    Native().write(checkpoint, tmp_path / "single.safetensors")
    Native().write(checkpoint, tmp_path / "half.safetensors", dtype)
    single, half = (os.path.getsize(tmp_path / f"{name}.safetensors") for name in ("single", "half"))
    assert 1.9 < single / half < 2.0
    for name, value in load_checkpoint(tmp_path / "half.safetensors").state_dict.items():
        assert value.dtype == torch.float32
        assert torch.equal(value, checkpoint.state_dict[name].to(dtype).float()), name


def test_numbers_that_half_precision_cannot_hold_are_rejected(tmp_path: Path) -> None:
    checkpoint = pretrained()
    checkpoint.state_dict["lstm.forward_layers.0.bias"][0] = 1e5
    with pytest.raises(ConfigurationError, match=f"'{BIAS}': expected at most 65,504 .*got 100,000"):
        Native().write(checkpoint, tmp_path / "one.safetensors", torch.float16)
    Native().write(checkpoint, tmp_path / "one.safetensors", torch.bfloat16)


def test_weights_that_are_tied_are_written_twice(tmp_path: Path) -> None:
    checkpoint = pretrained(char_cnn=None, n_tokens_vocab=len(WORDS))
    tied = SavedSoftmax({"type": "full"}, {"weight": checkpoint.state_dict["token_encoder.embedding.weight"][1:]})
    Native().write(checkpoint._replace(softmax=tied), tmp_path / "one.safetensors")
    assert_same_checkpoint(load_checkpoint(tmp_path / "one.safetensors"), checkpoint._replace(softmax=tied))


def test_a_folder_with_two_files_is_not_one_checkpoint(file: Path) -> None:
    (file.parent / "other.safetensors").write_bytes(file.read_bytes())
    assert_rejected(file.parent, f"'{file.parent}'", "good.safetensors, other.safetensors")


@pytest.mark.parametrize("content", [0.0, 0.999, b"<html>404</html>"])
def test_a_file_that_was_cut_short_or_is_of_another_kind_is_rejected(file: Path, content: float | bytes) -> None:
    good = file.read_bytes()
    file.write_bytes(content if isinstance(content, bytes) else good[: int(content * len(good))])
    assert_rejected(file, f"'{file}' is not a complete safetensors file")


def test_a_flipped_bit_anywhere_is_an_error(file: Path) -> None:
    content = file.read_bytes()
    for position in range(0, len(content), 997):
        file.write_bytes(flipped(content, position))
        assert_rejected(file, f"'{file}'")


def test_another_models_file_is_rejected(file: Path) -> None:
    save_file({"embeddings.weight": torch.ones(2, 2)}, file, {"format": "pt"})
    assert_rejected(file, f"'{file}' holds another model", "'pt'")


@pytest.mark.parametrize(
    ("metadata", "fact"),
    [
        ({"version": "2", "options": "a later format"}, "got 2"),
        ({"options": "{"}, "'options'"),
        ({"options": None}, "'options'"),
        ({"softmax": None}, "'softmax."),
    ],
)
def test_wrong_metadata_are_named(file: Path, metadata: dict[str, Any], fact: str) -> None:
    change(file, metadata)
    assert_rejected(file, f"'{file}'", fact)


@pytest.mark.parametrize(
    ("name", "value", "facts"),
    [
        (BIAS, None, ("no such tensor", "(96,)")),
        (BIAS, torch.ones(95), ("(95,)", "(96,)")),
        ("bilm.lstm.forward_layers.2.bias", torch.ones(3), ("only the tensors",)),
        ("bilm.warm_cell", torch.ones(2, 2, 1, 9), ("warm_hidden",)),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(file: Path, name: str, value: Any, facts: tuple[str, ...]) -> None:
    change(file, **{name: value})
    with pytest.raises(ConfigurationError) as error:
        build_bilm(load_checkpoint(file), source=file)
    for fact in (f"'{file}'", *facts, *([] if "warm" in name else [name.removeprefix("bilm.")])):
        assert fact in str(error.value.message), error.value.message


def test_a_tensor_of_many_dimensions_takes_no_time(file: Path) -> None:
    """The softmax is compared with its weights only where it is built."""
    change(file, {}, **{"softmax.a": torch.zeros([1] * 30_000 + [0])})
    begin = time.process_time()
    softmax = load_checkpoint(file).softmax
    assert softmax is not None and softmax.state_dict["a"].dim() == 30_001
    convert(file, file.parent / "again.safetensors")
    assert time.process_time() - begin < 1


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "old.safetensors"
    file.write_bytes(b"the old one")
    with disk_of(4096), pytest.raises(ConfigurationError, match=f"'{file}' cannot be written: .*File too large"):
        Native().write(pretrained(), file)
    assert [path.name for path in tmp_path.iterdir()] == ["old.safetensors"]
    assert file.read_bytes() == b"the old one"
