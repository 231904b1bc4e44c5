"""Read PyTorch's pickles as tensors and plain values only: code in them never runs."""

import zipfile
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO, Union

import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor

Source = Union[Path, BinaryIO]


def read_weights(source: Source, name: str) -> dict[str, Any]:
    """Read the state dict in a file, which errors call `name`.

    The tensors of a path are memory-mapped, unless the file is from before PyTorch 1.6, which cannot be mapped.
    Raises `ConfigurationError` if the file holds no state dict, or anything but tensors and plain values.
    """
    try:
        mmap = isinstance(source, Path) and zipfile.is_zipfile(source)
        weights = torch.load(source, map_location="cpu", weights_only=True, mmap=mmap)
        if not isinstance(weights, dict) or not all(isinstance(key, str) for key in weights):
            raise TypeError(f"expected a state dict, got {type(weights).__name__}")
        tensors = [value for value in weights.values() if isinstance(value, Tensor)]
        if not all(map(_is_plain, tensors)):
            raise TypeError("expected dense tensors of real numbers, got others")
    except Exception as error:  # a damaged pickle may raise anything
        raise ConfigurationError(f"'{name}' holds no readable weights: {error}") from error
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    _check_size(sum(storages.values()), source, name)  # the old format may declare more numbers than it holds
    return weights


def check_sums(path: Path, name: str) -> None:
    """Raise `ConfigurationError` if the check sums of a file do not match. Files from before PyTorch 1.6 have none.

    PyTorch does not compress, so members that are together larger than their file are rejected too.
    """
    try:
        if not zipfile.is_zipfile(path):
            return
        with zipfile.ZipFile(path) as members:
            _check_size(sum(member.file_size for member in members.infolist()), path, name)
            damaged = members.testzip()
    except ConfigurationError:
        raise
    except Exception as error:  # a damaged zip file may raise anything
        raise ConfigurationError(f"'{name}' is damaged: {error}") from error
    if damaged is not None:
        raise ConfigurationError(f"'{name}' is damaged: the check sum of its member '{damaged}' does not match")


def _is_plain(tensor: Tensor) -> bool:
    """Return whether a tensor is one of real numbers in memory, as parameters are."""
    is_dense = tensor.layout == torch.strided and not tensor.is_nested
    return is_dense and tensor.device.type == "cpu" and not tensor.is_quantized and not tensor.is_complex()


def _check_size(unpacked: int, source: Source, name: str) -> None:
    """Raise `ConfigurationError` if the content of a file is larger than the file."""
    size = source.stat().st_size if isinstance(source, Path) else source.seek(0, SEEK_END)
    if unpacked > size:
        raise ConfigurationError(
            f"'{name}': expected at most {size:,} bytes of content, the size of the file, got {unpacked:,}"
        )
