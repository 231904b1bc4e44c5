"""Read torch's pickles as tensors and plain values only; code inside them is never run."""

import zipfile
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO, Union

import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor

Source = Union[Path, BinaryIO]


def read_weights(source: Source, name: str) -> dict[str, Any]:
    """Read the state dict in a file; `name` is how errors name the file.

    The tensors of a path are memory-mapped; files of torch before 1.6 cannot be mapped and are read.
    Raises `ConfigurationError` if the file holds no state dict, or anything but tensors and plain values.
    """
    try:
        mmap = isinstance(source, Path) and zipfile.is_zipfile(source)
        weights = torch.load(source, map_location="cpu", weights_only=True, mmap=mmap)
    except Exception as error:  # a damaged pickle may raise anything
        raise ConfigurationError(f"'{name}' holds no readable weights: {error}") from error
    if not isinstance(weights, dict) or not all(isinstance(key, str) for key in weights):
        raise ConfigurationError(
            f"'{name}' holds no readable weights: expected a state dict, got {type(weights).__name__}"
        )
    tensors = [value for value in weights.values() if isinstance(value, Tensor)]
    if not all(map(_is_plain, tensors)):
        raise ConfigurationError(
            f"'{name}' holds no readable weights: expected dense tensors of real numbers, got others"
        )
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    _check_size(sum(storages.values()), source, name)  # the old format allocates the memory before it reads the numbers
    return weights


def check_sums(source: Source, name: str) -> None:
    """Raise `ConfigurationError` if the check sums of a file do not match; files of torch before 1.6 have none.

    Torch does not compress, so members that are larger together than their file are rejected, too.
    """
    try:
        if not zipfile.is_zipfile(source):
            return
        with zipfile.ZipFile(source) as members:
            _check_size(sum(member.file_size for member in members.infolist()), source, name)
            damaged = members.testzip()
    except ConfigurationError:
        raise
    except Exception as error:  # a damaged zip file may raise anything
        raise ConfigurationError(f"'{name}' is damaged: {error}") from error
    if damaged is not None:
        raise ConfigurationError(f"'{name}' is damaged: the check sum of its member '{damaged}' does not match")


def _is_plain(tensor: Tensor) -> bool:
    """Return whether the numbers of a tensor are in memory, as they are in parameters."""
    is_dense = tensor.layout == torch.strided and not tensor.is_nested
    return is_dense and tensor.device.type == "cpu" and not tensor.is_quantized and not tensor.is_complex()


def _check_size(unpacked: int, source: Source, name: str) -> None:
    """Raise `ConfigurationError` if a file would take more memory than it has bytes."""
    size = source.stat().st_size if isinstance(source, Path) else source.seek(0, SEEK_END)
    if unpacked > size:
        raise ConfigurationError(
            f"'{name}': expected at most {size:,} bytes of content, the size of the file, got {unpacked:,}"
        )
