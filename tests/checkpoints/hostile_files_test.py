"""Malicious files, some found by `python -m tests.fuzz`: each raises an error that names the file."""

import gzip
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from elmo_plugin.bilm import BiLM
from elmo_plugin.checkpoints import Native, read_words
from elmo_plugin.checkpoints.files import local_file
from elmo_plugin.common import (
    parse_json,
    read_json,
)
from tests.checkpoint_oracles import assert_rejected, language_model_archive, language_model_weights, pretrained
from tests.many_langs_oracle import config, write_folder
from tests.oracles import lively, options, write_files, write_json

DEEP = '{"a":' * 5000 + "1" + "}" * 5000


def deep_options(folder: Path) -> Path:
    write_files(folder, lively(BiLM(options())))
    (folder / "options.json").write_text(DEEP, encoding="utf-8")
    return folder / "options.json"


def deep_sizes_of_many_langs(folder: Path) -> Path:
    write_folder(folder, config())
    (folder / "sizes.json").write_text(DEEP, encoding="utf-8")
    return folder / "sizes.json"


def deep_config_of_an_archive(folder: Path) -> Path:
    torch.save({"_elmo_lstm._token_embedder._char_embedding_weights": torch.zeros(1)}, folder / "best.th")
    (folder / "config.json").write_text(DEEP, encoding="utf-8")
    return folder / "config.json"


def deep_description(folder: Path) -> Path:
    text = torch.tensor(list(DEEP.encode()), dtype=torch.uint8)
    torch.save({**language_model_weights(pretrained()), "bilm._extra_state": text}, folder / "best.th")
    return folder / "best.th"


def deep_metadata(folder: Path) -> Path:
    path = folder / "bilm.safetensors"
    Native().write(pretrained(), path)
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header["__metadata__"] = {**header["__metadata__"], "sums": DEEP}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])
    return path


@pytest.mark.parametrize(
    "write",
    [deep_options, deep_sizes_of_many_langs, deep_config_of_an_archive, deep_description, deep_metadata],
)
def test_json_that_is_too_deep_is_rejected(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    """Python's own parser raises `RecursionError`."""
    assert_rejected(tmp_path, write(tmp_path), "100 levels")


@pytest.mark.parametrize("levels", [101, 900])
def test_json_that_python_reads_may_be_too_deep_to_be_printed(levels: int) -> None:
    with pytest.raises(ValueError, match="100 levels"):
        parse_json("[" * levels + "]" * levels)
    assert parse_json("[" * 100 + "]" * 100)


def test_json_is_not_read_from_a_device_and_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The config of an archive can name any file."""
    with pytest.raises(ValueError, match="device"):
        read_json(Path("/dev/zero"))
    monkeypatch.setattr("elmo_plugin.common.json_text.MOST_BYTES", 9)
    with pytest.raises(ValueError, match="9 bytes"):
        read_json(write_json(tmp_path / "options.json", [0] * 9))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "vocabulary.txt")
    for read in (lambda path: local_file(path, "weight_file"), lambda path: read_words(path, str(path))):
        with pytest.raises(Exception, match=f"{tmp_path}.*pipe"):
            read(tmp_path / "vocabulary.txt")
    folder = write_folder(tmp_path / "144", config())
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    assert_rejected(folder, f"'{folder}/config.json'", "device")


@pytest.mark.parametrize(
    "odd",
    [
        lambda value: value.to_sparse(),
        lambda value: value.to("meta"),
        lambda value: value.to(torch.complex64),
    ],
    ids=["sparse", "meta", "complex"],
)
def test_weights_that_are_no_plain_numbers_are_rejected(tmp_path: Path, odd: Callable[[Any], Any]) -> None:
    weights = language_model_weights(pretrained())
    key = "bilm.token_encoder.projection.weight"
    torch.save({**weights, key: odd(weights[key])}, tmp_path / "best.th")
    assert_rejected(tmp_path, tmp_path / "best.th", "readable weights")


def without_data(kind: bytes, target: str = "") -> Callable[[tarfile.TarInfo], bytes]:
    """Return a function that turns the header of a file into the header of a link or a device."""

    def header(info: tarfile.TarInfo) -> bytes:
        info.type, info.linkname, info.size = kind, target, 0
        return info.tobuf(tarfile.GNU_FORMAT)

    return header


def as_sparse(info: tarfile.TarInfo) -> bytes:
    """Return the header of a sparse file of a terabyte, of which the archive holds only the end."""
    info.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[386:410] = f"{0o777777777777 - info.size:011o}\0{info.size:011o}\0".encode()
    header[483:495] = f"{0o777777777777:012o}".encode()
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    return bytes(header)


@pytest.mark.parametrize(
    "write",
    [
        without_data(tarfile.LNKTYPE, "another.th"),
        without_data(tarfile.SYMTYPE, "vocabulary/tokens.txt"),
        without_data(tarfile.CHRTYPE),
        as_sparse,
    ],
    ids=["link", "symbolic link", "device", "sparse"],
)
def test_members_of_an_archive_that_are_no_plain_files_are_not_unpacked(
    tmp_path: Path, write: Callable[[tarfile.TarInfo], bytes]
) -> None:
    path = language_model_archive(tmp_path / "model.tar.gz", pretrained())
    content = b""
    with tarfile.open(path) as archive:
        for info in archive:
            member = archive.extractfile(info)
            data = member.read() if member else b""
            if info.name == "weights.th":
                header = write(info)
                data = data[: info.size]
            else:
                header = info.tobuf(tarfile.GNU_FORMAT)
            content += header + data + bytes(-len(data) % 512)
    path.write_bytes(gzip.compress(content + bytes(1024)))
    assert_rejected(path, path, "holds no such file")
