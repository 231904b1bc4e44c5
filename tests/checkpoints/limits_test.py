"""Decompression limits: small files that would grow large are rejected before they fill memory or disk."""

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pytest
import torch
from torch import Tensor

from elmo_plugin.bilm import BiLM, BiLMOptions
from elmo_plugin.checkpoints import AllenNlpArchive, BilmTf, load_checkpoint
from elmo_plugin.checkpoints.weight_map import allennlp_map, bilm_tf_map, many_langs_map
from tests.checkpoint_oracles import assert_rejected, language_model_weights, pretrained
from tests.checkpoints.file_tools import zipped
from tests.full_disk import disk_of
from tests.many_langs_oracle import config, write_folder
from tests.oracles import options, write_json

LARGE = 2**26
"""A number of zero bytes, which compress a thousandfold."""
ZERO = torch.zeros(1)


def spread(shape: tuple[int, ...]) -> Tensor:
    """Return a tensor of any size that takes one number in a file."""
    return ZERO.expand(shape)


def large() -> BiLMOptions:
    """Return sizes that no test could hold in memory."""
    return options(dim=2**15, projection_dim=2**12, n_layers=4)


def member(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """Return the header of a member of an archive."""
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.USTAR_FORMAT)


@pytest.mark.parametrize("name", ["weights.th", "vocabulary/tokens.txt", "of/no/use"])
def test_an_archive_is_unpacked_only_as_far_as_weights_compress(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.tar.gz"
    path.write_bytes(gzip.compress(member(name, LARGE) + bytes(LARGE) + member("weights.th", 0)))
    with disk_of(LARGE // 16):
        assert_rejected(path, f"'{path}'", f"an archive of {path.stat().st_size:,}")


def test_a_long_header_in_an_archive_is_rejected(tmp_path: Path) -> None:
    """tarfile reads a header of this kind into memory."""
    path = tmp_path / "model.tar.gz"
    path.write_bytes(gzip.compress(member("././@PaxHeader", 8**11 - 1, tarfile.XHDTYPE) + bytes(LARGE)))
    assert_rejected(path, f"'{path}'", "got 8,589,935,")


@pytest.mark.parametrize("name", ["encoder.pkl", "token_embedder.pkl", "word.dic", "sizes.json", "config.json"])
def test_a_member_of_a_zip_file_is_read_only_if_it_is_no_larger_than_weights_are(tmp_path: Path, name: str) -> None:
    folder = write_folder(tmp_path / "144", config())
    (folder / name).write_bytes(bytes(LARGE))
    path = zipped(folder, tmp_path / "144.zip")
    assert_rejected(path, f"'{path}/{name}'", f"an archive of {path.stat().st_size:,}, got 67,1")


def test_a_zip_file_of_very_many_empty_files_is_rejected(tmp_path: Path) -> None:
    """Each takes a block of the disk, but adds nothing to the total size."""
    path = tmp_path / "144.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(1000):
            archive.writestr(f"{number}", b"")
    assert_rejected(path, f"'{path}/", f"an archive of {path.stat().st_size:,}")


def test_a_compressed_vocabulary_is_unpacked_only_as_far_as_words_compress(tmp_path: Path) -> None:
    BilmTf().write(pretrained()._replace(vocabulary=None), tmp_path)
    path = tmp_path / "vocab.txt.gz"
    path.write_bytes(gzip.compress(bytes(LARGE)))
    assert_rejected(tmp_path, f"'{path}'", f"an archive of {path.stat().st_size:,}")


def repacked(path: Path, change: Callable[[zipfile.ZipFile, zipfile.ZipInfo, bytes], None]) -> Path:
    """Rewrite each member of a PyTorch file."""
    content = io.BytesIO(path.read_bytes())
    with zipfile.ZipFile(content) as old, zipfile.ZipFile(path, "w") as new:
        for info in old.infolist():
            change(new, info, old.read(info))
    return path


@pytest.mark.parametrize("place", ["run", "folder"])
def test_a_compressed_pickle_is_rejected(tmp_path: Path, place: str) -> None:
    weights = {"bilm.weight": torch.zeros(LARGE // 4)}
    path = tmp_path / "best.th" if place == "run" else write_folder(tmp_path, config()) / "encoder.pkl"
    torch.save(weights, path)
    repacked(path, lambda new, info, data: new.writestr(info.filename, data, zipfile.ZIP_DEFLATED))
    size = path.stat().st_size
    assert size < LARGE / 100
    assert_rejected(tmp_path, f"'{path}'", f"{size:,}", "got 67,1")


def test_members_of_a_pickle_that_share_their_bytes_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "best.th"
    torch.save({"bilm.weight": torch.zeros(2**18)}, path)
    with zipfile.ZipFile(path, "a") as archive:
        data = next(info for info in archive.infolist() if info.filename.endswith("data/0"))
        archive.filelist += [data] * 9  # in the directory alone
        archive._didModify = True  # type: ignore[attr-defined]
    assert_rejected(tmp_path, f"'{path}'", "got 10,4")


def test_datasets_without_numbers_are_not_filled_with_them(tmp_path: Path) -> None:
    """An hdf5 file of a few kilobytes may have datasets of any shape."""
    sizes = large()
    write_json(tmp_path / "options.json", sizes.to_dict())
    with h5py.File(tmp_path / "weights.hdf5", "w") as file:
        for row in bilm_tf_map(sizes):
            for name, shape in row.theirs.items():
                file.create_dataset(name, shape, "float32")
    size = (tmp_path / "weights.hdf5").stat().st_size
    assert_rejected(tmp_path, f"'{tmp_path / 'weights.hdf5'}'", f"{sizes.n_parameters:,} parameters", f"got {size:,}")
    write_json(tmp_path / "options.json", {"lstm": options().lstm.to_dict()})
    with h5py.File(tmp_path / "weights.hdf5", "w") as file:
        file.create_dataset("embedding", (10**12, 8), "float32")
    assert_rejected(tmp_path, "8,000,000,0")


def spread_run(folder: Path, sizes: BiLMOptions) -> None:
    """Write a run with a biLM of these sizes in a file of a few kilobytes."""
    with torch.device("meta"):
        bilm = BiLM(sizes)
    weights = {f"bilm.{name}": spread(tuple(value.shape)) for name, value in bilm.state_dict().items()}
    torch.save({**weights, "bilm._extra_state": bilm.get_extra_state().cpu()}, folder / "best.th")


def spread_elmo(folder: Path, sizes: BiLMOptions) -> None:
    """Write the same with AllenNLP's own names."""
    assert sizes.char_cnn is not None
    rows = allennlp_map(sizes.char_cnn, sizes.lstm, "_elmo_lstm.")
    shapes = {name: shape for row in rows for name, shape in row.theirs.items()}
    torch.save({name: spread(shape) for name, shape in shapes.items()}, folder / "best.th")
    options_file = write_json(folder / "sizes.json", sizes.to_dict())
    write_json(folder / "config.json", {"model": {"options_file": str(options_file)}})


def spread_folder(folder: Path, sizes: BiLMOptions) -> None:
    """Write the same as a model of ELMoForManyLangs with small vocabularies."""
    many_langs = load_checkpoint(write_folder(folder, config())).options.many_langs
    assert many_langs is not None
    lstm = {"name": "elmo", **sizes.lstm.to_dict()}
    write_json(folder / "sizes.json", {**config(), "encoder": lstm})
    shapes = {name: shape for row in many_langs_map(many_langs, sizes.lstm) for name, shape in row.theirs.items()}
    for file in ("encoder", "token_embedder"):
        own = {name.removeprefix(f"{file}."): spread(shape) for name, shape in shapes.items() if name.startswith(file)}
        torch.save(own, folder / f"{file}.pkl")


@pytest.mark.parametrize("write", [spread_run, spread_elmo, spread_folder])
def test_expanded_tensors_are_rejected_before_they_take_memory(
    tmp_path: Path, write: Callable[[Path, BiLMOptions], None]
) -> None:
    write(tmp_path, large())
    assert_rejected(tmp_path, f"'{tmp_path}", "9,66")


def described(folder: Path, **parts: Any) -> None:
    """Write a run of a language model with these tensors in its weights."""
    torch.save({**language_model_weights(pretrained()), **parts}, folder / "best.th")


def as_bytes(content: Any) -> Tensor:
    """Encode the extra state of a module."""
    return torch.tensor(list(json.dumps(content).encode()), dtype=torch.uint8)


@pytest.mark.parametrize("key", ["bilm._extra_state", "softmax._extra_state"])
@pytest.mark.parametrize(
    "value",
    [
        torch.zeros(1, dtype=torch.uint8).expand(10**12),
        torch.zeros(5, dtype=torch.uint8),
        torch.zeros(5) - 1,
        as_bytes([1]),
        [1, 2],
    ],
)
def test_a_malformed_extra_state_is_named(tmp_path: Path, key: str, value: Any) -> None:
    described(tmp_path, **{key: value})
    assert_rejected(tmp_path, f"'{tmp_path / 'best.th'}', '{key}'")


def test_options_in_an_archive_that_ask_for_too_much_are_rejected_at_once(tmp_path: Path) -> None:
    sizes = options().to_dict()
    sizes["lstm"]["dim"] = 10**12
    described(tmp_path, **{"bilm._extra_state": as_bytes({"options": sizes, "source": ""})})
    asked = "the options ask for 304,000,000,000,000 parameters"
    assert_rejected(tmp_path, f"'{tmp_path / 'best.th'}', 'bilm._extra_state'", asked)
    torch.save({"_elmo_lstm._token_embedder._char_embedding_weights": ZERO}, tmp_path / "best.th")
    options_file = write_json(tmp_path / "sizes.json", sizes)
    write_json(tmp_path / "config.json", {"options_file": str(options_file)})
    assert_rejected(tmp_path, f"'options_file' {options_file}", asked)


def test_weights_of_zeros_are_read_all_the_same(tmp_path: Path) -> None:
    """Zeros compress well, but the limit has an allowance for small files."""
    checkpoint = pretrained()
    zeros = {name: torch.zeros_like(value) for name, value in checkpoint.state_dict.items()}
    torch.save(language_model_weights(checkpoint._replace(state_dict=zeros)), tmp_path / "weights.th")
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "weights.th", "weights.th")
    assert AllenNlpArchive().read(tmp_path / "model.tar.gz").options == checkpoint.options
