"""Torch's pickles, read as tensors and nothing else: code inside is never run."""

import zipfile
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO, Union

import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor

Source = Union[Path, BinaryIO]


def read_weights(source: Source, name: str) -> dict[str, Any]:
    """Read the state dict of a file, which errors call by `name`.

    The tensors of a path are mapped and read when they are used; files of torch before 1.6 cannot be mapped.
    Raises `ConfigurationError` if there is none, or if more than tensors and plain values would be made from it.
    """
    try:
        mmap = isinstance(source, Path) and zipfile.is_zipfile(source)
        weights = torch.load(source, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:  # a pickle that was spoiled may raise anything
        raise ConfigurationError(f"'{name}' holds no readable weights: {error}") from error
    if not isinstance(weights, dict) or not all(isinstance(key, str) for key in weights):
        raise ConfigurationError(f"'{name}' holds no readable weights: found no tensors by name")
    tensors = [value for value in weights.values() if isinstance(value, Tensor) and value.layout == torch.strided]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    unpacked, size = sum(storages.values()), _size(source)
    if unpacked > size:  # the old form makes the memory that a file asks for before it looks for the numbers
        raise ConfigurationError(f"'{name}' has {size:,} bytes and asks for {unpacked:,} bytes of numbers")
    return weights


def check_sums(source: Source, name: str) -> None:
    """Raise `ConfigurationError` if a file is not what was written, as far as it can tell: older ones have no sums.

    Torch packs nothing. Members that are larger together than their file would grow in memory.
    """
    try:
        if not zipfile.is_zipfile(source):
            return
        with zipfile.ZipFile(source) as members:
            unpacked = sum(member.file_size for member in members.infolist())
            size = _size(source)
            spoiled = None if unpacked > size else members.testzip()
    except Exception as error:  # a zip file that was spoiled may raise anything
        raise ConfigurationError(f"'{name}' is spoiled: {error}") from error
    if unpacked > size:
        raise ConfigurationError(f"'{name}' has {size:,} bytes and would be unpacked to {unpacked:,}; wanted no more")
    if spoiled is not None:
        raise ConfigurationError(f"'{name}' is spoiled: its member '{spoiled}' is not what was written")


def _size(source: Source) -> int:
    return source.stat().st_size if isinstance(source, Path) else source.seek(0, SEEK_END)
