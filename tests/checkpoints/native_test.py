"""The native format: what is in the file, what is refused and how the message says so, and how it is written."""

import json
import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from elmo_plugin.bilm import BiLM
from elmo_plugin.checkpoints import Checkpoint, Native, SavedSoftmax, build_bilm, load_checkpoint
from elmo_plugin.checkpoints.checkpoint_format import CheckpointFormat
from tests.checkpoint_oracles import SOFTMAX, WORDS, assert_same_checkpoint, pretrained
from tests.oracles import lively, options

BIAS = "bilm.lstm.forward_layers.0.bias"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A good file."""
    Native().write(pretrained(), tmp_path / "good.safetensors")
    return tmp_path / "good.safetensors"


@pytest.fixture
def small_disk() -> Iterator[None]:
    """No file may grow beyond 4 KiB: the system refuses the next byte, as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def metadata_of(path: Path) -> dict[str, str]:
    with safe_open(path, framework="pt") as opened:
        return dict(opened.metadata())


def change(path: Path, metadata: Optional[dict[str, Optional[str]]] = None, **tensors: Any) -> None:
    """Give metadata and tensors of a file other values, or take them away with `None`; no check sums are left."""
    said = {**metadata_of(path), "sums": None, **(metadata or {})}
    kept = {**load_file(path), **tensors}
    save_file(
        {name: value for name, value in kept.items() if value is not None},
        path,
        {key: value for key, value in said.items() if value is not None},
    )


def refusal(location: Path) -> str:
    """The message with which a location is refused."""
    with pytest.raises(ConfigurationError) as error:
        load_checkpoint(location)
    return str(error.value.message)


CHECKPOINTS = {
    "all there is": pretrained(warm=True),
    "no projections, no highways": pretrained(dim=8, projection_dim=8, n_highway=0, filters=[[1, 8]]),
    "words as input": pretrained(char_cnn=None, n_tokens_vocab=len(WORDS)),
    "no vocabulary": pretrained()._replace(vocabulary=None),
    "no softmax": pretrained()._replace(softmax=None),
    "a softmax of no weights": pretrained()._replace(softmax=SavedSoftmax(SOFTMAX, {})),
    "the biLM alone": pretrained(n_layers=1)._replace(softmax=None, vocabulary=None),
}


@pytest.mark.parametrize("checkpoint", CHECKPOINTS.values(), ids=CHECKPOINTS)
def test_what_is_written_is_read_bit_for_bit(tmp_path: Path, checkpoint: Checkpoint) -> None:
    Native().write(checkpoint, tmp_path / "new" / "one.safetensors")
    assert_same_checkpoint(load_checkpoint(tmp_path / "new" / "one.safetensors"), checkpoint)
    assert_same_checkpoint(load_checkpoint(str(tmp_path / "new")), checkpoint)
    build_bilm(load_checkpoint(tmp_path / "new"))


def test_the_file_is_one_that_any_safetensors_reader_understands(tmp_path: Path) -> None:
    checkpoint, path = pretrained(), tmp_path / "one.safetensors"
    Native().write(checkpoint, path, metadata={"licence": "CC BY 4.0, ©"})
    metadata = metadata_of(path)
    assert (metadata["format"], metadata["version"]) == ("elmo_plugin", "1")
    read = {key: json.loads(metadata[key]) for key in ("options", "softmax", "about")}
    assert read == {
        "options": checkpoint.options.to_dict(),
        "softmax": SOFTMAX,
        "about": {"licence": "CC BY 4.0, ©"},
    }
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


def test_weights_that_are_tied_are_written_twice(tmp_path: Path) -> None:
    checkpoint = pretrained(char_cnn=None, n_tokens_vocab=len(WORDS))
    tied = SavedSoftmax({"type": "full"}, {"weight": checkpoint.state_dict["token_encoder.embedding.weight"][1:]})
    Native().write(checkpoint._replace(softmax=tied), tmp_path / "one.safetensors")
    assert_same_checkpoint(load_checkpoint(tmp_path / "one.safetensors"), checkpoint._replace(softmax=tied))


def test_a_model_in_half_precision_is_read_as_single(tmp_path: Path) -> None:
    bilm = lively(BiLM(options())).to(torch.bfloat16)
    Native().write(Checkpoint(bilm.options, bilm.state_dict()), tmp_path / "one.safetensors")
    found = load_checkpoint(tmp_path / "one.safetensors").state_dict["token_encoder.projection.weight"]
    assert found.dtype == torch.float32
    assert torch.equal(found, bilm.token_encoder.projection.weight.float())


def test_it_is_registered_and_recognises_its_own_by_name(file: Path, tmp_path: Path) -> None:
    native = CheckpointFormat.by_name("native")()
    assert isinstance(native, Native)
    assert native.recognises(file) and native.recognises(tmp_path)
    assert native.recognises("https://example.org/my.safetensors")
    assert not native.recognises(tmp_path / "weights.hdf5") and not native.recognises("my.tar.gz")


def test_a_folder_with_two_files_is_not_one_checkpoint(file: Path) -> None:
    (file.parent / "other.safetensors").write_bytes(file.read_bytes())
    wanted = f"'{file.parent}': wanted a folder with one *.safetensors, found good.safetensors, other.safetensors"
    assert refusal(file.parent) == wanted


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.999])
def test_a_file_that_was_cut_short_is_refused(file: Path, kept: float) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: int(kept * len(content))])
    assert refusal(file).startswith(f"'{file}' is no complete safetensors file: ")


@pytest.mark.parametrize("content", [b"<html>404</html>", b"\xff" * 99, b"\0" * 99])
def test_a_file_of_another_kind_is_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    assert refusal(file).startswith(f"'{file}' is no complete safetensors file: ")


def test_a_flipped_bit_anywhere_is_an_error(file: Path) -> None:
    content = file.read_bytes()
    for place in range(0, len(content), 191):
        file.write_bytes(content[:place] + bytes([content[place] ^ 64]) + content[place + 1 :])
        assert refusal(file).startswith(f"'{file}'"), place


@pytest.mark.parametrize("key", ["sums", "vocabulary", "softmax", "about"])
def test_a_spoiled_name_in_the_metadata_is_an_error(file: Path, key: str) -> None:
    said = {"about": "{}", **metadata_of(file)}
    save_file(load_file(file), file, {f"{key}?" if name == key else name: text for name, text in said.items()})
    assert refusal(file) == f"'{file}' is spoiled: nothing writes '{key}?' into its metadata"


def test_a_part_that_was_spoiled_is_named(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    last = sorted(load_file(file))[-1]
    assert refusal(file).startswith(f"'{file}' is spoiled: '") and last
    said = metadata_of(file)
    save_file(load_file(file), file, {**said, "vocabulary": said["vocabulary"].replace("cat", "dog")})
    assert refusal(file) == f"'{file}' is spoiled: 'vocabulary' is not what was written"


def test_a_file_without_check_sums_is_read(file: Path) -> None:
    change(file)
    assert "sums" not in metadata_of(file)
    assert_same_checkpoint(load_checkpoint(file), pretrained())


def test_options_that_no_machine_can_hold_are_refused_at_once(file: Path) -> None:
    change(file, {"options": json.dumps({"lstm": {"dim": 10**7, "projection_dim": 10**6}, "n_tokens_vocab": 3})})
    said = "the options ask for 180,000,080,000,000 parameters; wanted at most 10,000,000,000"
    assert refusal(file) == f"'{file}', 'options' of its metadata: {said}"


@pytest.mark.parametrize(("metadata", "found"), [(None, "none"), ({"format": "pt"}, "pt")])
def test_another_models_file_is_refused(file: Path, metadata: Optional[dict[str, str]], found: str) -> None:
    save_file({"embeddings.weight": torch.ones(2, 2)}, file, metadata)
    assert refusal(file) == f"'{file}' holds another model: wanted the format 'elmo_plugin' in it, found '{found}'"


def test_a_file_from_the_future_is_refused(file: Path) -> None:
    change(file, {"version": "2", "options": "what will be"})
    said = "this elmo_plugin reads version 1, a newer one may read it"
    assert refusal(file) == f"'{file}' is of version 2 of the native format; {said}"


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"options": "{"}, "'options' of its metadata: Expecting property name"),
        ({"options": "[]"}, "'options' of its metadata is a list; wanted an object"),
        ({"options": "{}"}, "'options' of its metadata: the key 'lstm' is missing"),
        ({"options": None}, "'options' of its metadata: the options are NoneType"),
        ({"softmax": "3"}, "'softmax' of its metadata is a int; wanted an object"),
        ({"softmax": None}, "' holds a tensor 'softmax.counts', which is no part of what its metadata describe"),
    ],
)
def test_metadata_that_describe_nothing_are_named(file: Path, metadata: dict[str, Any], said: str) -> None:
    change(file, metadata)
    message = refusal(file)
    assert message.startswith(f"'{file}'") and said in message


@pytest.mark.parametrize(
    ("name", "value", "shapes"),
    [
        (BIAS, None, "found shape None, the options want (96,)"),
        (BIAS, torch.ones(95), "found shape (95,), the options want (96,)"),
        ("bilm.lstm.other", torch.ones(3), "found shape (3,), the options want None"),
        ("bilm.warm_cell", torch.ones(2, 2, 1, 9), "found shape (2, 2, 1, 9), the options want (2, 2, 1, 24)"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(file: Path, name: str, value: Any, shapes: str) -> None:
    change(file, **{name: value})
    assert refusal(file) == f"'{file}', tensor '{name}': {shapes}"


@pytest.mark.usefixtures("small_disk")
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "old.safetensors"
    file.write_bytes(b"the old one")
    with pytest.raises(ConfigurationError, match=f"'{file}' cannot be written: .*File too large"):
        Native().write(pretrained(), file)
    assert [path.name for path in tmp_path.iterdir()] == ["old.safetensors"]
    assert file.read_bytes() == b"the old one"


def test_a_path_that_cannot_be_written_is_named(file: Path) -> None:
    (file.parent / "folder.safetensors").mkdir()
    for path in (file / "below.safetensors", file.parent / "folder.safetensors"):
        with pytest.raises(ConfigurationError, match=f"'{path}' cannot be written: "):
            Native().write(pretrained(), path)
    assert {path.name for path in file.parent.iterdir()} == {"good.safetensors", "folder.safetensors"}
    with pytest.raises(ConfigurationError, match="'my_bilm' is no name for the native format"):
        Native().write(pretrained(), Path("my_bilm"))


def test_a_file_may_be_written_over_itself_and_others_may_read_it(file: Path) -> None:
    checkpoint = load_checkpoint(file)
    Native().write(checkpoint, file)
    assert_same_checkpoint(load_checkpoint(file), pretrained())
    (file.parent / "any").touch()
    assert stat.filemode(file.stat().st_mode) == stat.filemode((file.parent / "any").stat().st_mode)
