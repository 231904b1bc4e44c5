"""Our own format: one safetensors file with the biLM, the softmax and the vocabulary it was trained with."""

import json
import zlib
from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Optional, Union

import torch
from allennlp.common.checks import ConfigurationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from elmo_plugin.atomic_write import atomic_file
from elmo_plugin.bilm import BiLM
from elmo_plugin.checkpoints.checkpoint_format import (
    Checkpoint,
    CheckpointFormat,
    Location,
    SavedSoftmax,
    bundled_folder,
    local_file,
)
from elmo_plugin.checkpoints.file_kind import what_is_wrong
from elmo_plugin.checkpoints.word_table import with_vocabulary
from elmo_plugin.options import BiLMOptions, OptionsError

SUFFIX = ".safetensors"
FORMAT, VERSION = "elmo_plugin", "1"
BILM, SOFTMAX = "bilm.", "softmax."
DESCRIPTION = "_extra_state"
TEXTS = {"options", "softmax", "about", "vocabulary"}
"""Metadata that differ from file to file."""


@CheckpointFormat.register("native")
class Native(CheckpointFormat):
    """One file `NAME.safetensors`, by its path, its URL, its folder or its name if it comes with the package.

    Its tensors are `bilm.` or `softmax.` and the module's own name. Its metadata are `format`, `version`, as JSON
    `options`, `softmax` (its block of the config), `about` (texts for people) and `sums`, the CRC-32 of each text and
    tensor, and `vocabulary`, a word a line.

    Registered as a `CheckpointFormat` with name `native`.
    """

    def recognises(self, location: Location) -> bool:
        """By the ending of the name, by what a folder holds, or as a bundled name."""
        if fspath(location).endswith(SUFFIX) or bundled_folder(location) is not None:
            return True
        return any(Path(location).glob(f"*{SUFFIX}"))

    def read(self, location: Location) -> Checkpoint:
        """Read it, in float32 whatever the file has."""
        path = _file(location)
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                checkpoint = _described(metadata, path)
                sums = _parsed(metadata, "sums", path)
                for name in file.keys():  # noqa: SIM118, it is no mapping
                    tensor = file.get_tensor(name)
                    _check_sum(name, _bytes(tensor), sums, path)
                    _place(checkpoint, name, _as_float(tensor, torch.float32), path)
        except (SafetensorError, OSError) as error:
            reason = what_is_wrong(path, None, error)
            raise ConfigurationError(f"'{path}' is no complete safetensors file: {reason}") from error
        _check_shapes(checkpoint, path)
        words = checkpoint.vocabulary
        return checkpoint if words is None else with_vocabulary(checkpoint, words, f"{path}")

    def read_sizes(self, location: Location) -> BiLMOptions:
        """Read the metadata alone."""
        path = _file(location)
        try:
            with safe_open(path, framework="pt") as file:
                return _described(file.metadata() or {}, path).options
        except (SafetensorError, OSError) as error:
            raise ConfigurationError(f"'{path}' is no complete safetensors file: {error}") from error

    def write(
        self,
        checkpoint: Checkpoint,
        path: "PathLike[str]",
        dtype: torch.dtype = torch.float32,
        metadata: Optional[Mapping[str, str]] = None,
    ) -> None:
        """Write everything into one file, beside its name and then renamed.

        # Parameters

        checkpoint : `Checkpoint`
        path : `PathLike[str]`
            Ends with `.safetensors`.
        dtype : `torch.dtype`
            `torch.float16` and `torch.bfloat16` halve the file; reading gives float32 again.
        metadata : `Optional[Mapping[str, str]]`
            Texts for people, such as a licence, kept as `about`.

        Raises `ConfigurationError` if it cannot be written; a file that was there before is still whole then.
        """
        target = Path(path)
        if target.suffix != SUFFIX:
            raise ConfigurationError(f"'{target}' is no name for the native format; wanted NAME{SUFFIX}")
        tensors = dict(_tensors(checkpoint, dtype))
        with atomic_file(target) as partial:
            partial.write_bytes(save(tensors, _with_sums(_metadata(checkpoint, metadata or {}), tensors)))


def _file(location: Location) -> Path:
    path = local_file(bundled_folder(location) or location, "pretrained")
    if not path.is_dir():
        return path
    files = sorted(path.glob(f"*{SUFFIX}"))
    if len(files) != 1:
        found = ", ".join(file.name for file in files) or "none"
        raise ConfigurationError(f"'{path}': wanted a folder with one *{SUFFIX}, found {found}")
    return files[0]


def _described(metadata: dict[str, str], path: Path) -> Checkpoint:
    """A checkpoint as the metadata tell it, still without tensors."""
    if metadata.get("format") != FORMAT:
        found = metadata.get("format", "none")
        raise ConfigurationError(f"'{path}' holds another model: wanted the format '{FORMAT}' in it, found '{found}'")
    if metadata.get("version") != VERSION:
        raise ConfigurationError(
            f"'{path}' is of version {metadata.get('version')} of the native format; this elmo_plugin reads "
            f"version {VERSION}, a newer one may read it"
        )
    for key in metadata.keys() - TEXTS - {"format", "version", "sums"}:
        raise ConfigurationError(f"'{path}' is spoiled: nothing writes '{key}' into its metadata")
    sums = _parsed(metadata, "sums", path)
    for key in TEXTS & metadata.keys():
        _check_sum(key, metadata[key].encode(), sums, path)
    try:
        options = BiLMOptions.from_dict(_parsed(metadata, "options", path))
    except OptionsError as error:
        raise ConfigurationError(f"'{path}', 'options' of its metadata: {error}") from error
    softmax = _parsed(metadata, "softmax", path)
    vocabulary = metadata["vocabulary"].split("\n") if "vocabulary" in metadata else None
    return Checkpoint(options, {}, None if softmax is None else SavedSoftmax(softmax, {}), vocabulary)


def _parsed(metadata: dict[str, str], key: str, path: Path) -> Any:
    """The object that a key holds as JSON; `None` without the key."""
    if key not in metadata:
        return None
    try:
        value = json.loads(metadata[key])
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"'{path}', '{key}' of its metadata: {error}") from error
    if not isinstance(value, dict):
        raise ConfigurationError(f"'{path}', '{key}' of its metadata is a {type(value).__name__}; wanted an object")
    return value


def _place(checkpoint: Checkpoint, name: str, tensor: Tensor, path: Path) -> None:
    """Put a tensor of the file where its name says."""
    if name.startswith(BILM):
        checkpoint.state_dict[name.removeprefix(BILM)] = tensor
    elif name.startswith(SOFTMAX) and checkpoint.softmax is not None:
        checkpoint.softmax.state_dict[name.removeprefix(SOFTMAX)] = tensor
    else:
        raise ConfigurationError(f"'{path}' holds a tensor '{name}', which is no part of what its metadata describe")


def _check_shapes(checkpoint: Checkpoint, path: Path) -> None:
    """Raise `ConfigurationError` for the first tensor that a biLM of these options has not, lacks or has otherwise."""
    found = {name: tuple(tensor.shape) for name, tensor in checkpoint.state_dict.items()}
    with torch.device("meta"):
        bilm = BiLM(checkpoint.options)
        if "warm_hidden" in found or "warm_cell" in found:
            bilm.warm_state = bilm.lstm.zero_state(1, next(bilm.parameters()))
    wanted = {name: tuple(tensor.shape) for name, tensor in bilm.state_dict().items() if name != DESCRIPTION}
    for name in sorted(wanted.keys() | found.keys()):
        if found.get(name) != wanted.get(name):
            shapes = f"found shape {found.get(name)}, the options want {wanted.get(name)}"
            raise ConfigurationError(f"'{path}', tensor '{BILM}{name}': {shapes}")


def _tensors(checkpoint: Checkpoint, dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    """The file's tensors by name: copies, as tied weights share their memory and a file may not."""
    parts = {BILM: checkpoint.state_dict, SOFTMAX: checkpoint.softmax.state_dict if checkpoint.softmax else {}}
    for prefix, state_dict in parts.items():
        for name, tensor in state_dict.items():
            if name != DESCRIPTION:  # the metadata say it
                copy = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
                yield prefix + name, _as_float(copy, dtype)


def _metadata(checkpoint: Checkpoint, about: Mapping[str, str]) -> dict[str, str]:
    contents = {
        "options": checkpoint.options.to_dict(),
        "softmax": None if checkpoint.softmax is None else checkpoint.softmax.config,
        "about": dict(about) or None,
    }
    said = {key: json.dumps(value) for key, value in contents.items() if value is not None}
    words = {} if checkpoint.vocabulary is None else {"vocabulary": "\n".join(checkpoint.vocabulary)}
    return {"format": FORMAT, "version": VERSION, **said, **words}


def _with_sums(metadata: dict[str, str], tensors: Mapping[str, Tensor]) -> dict[str, str]:
    texts = {key: zlib.crc32(metadata[key].encode()) for key in TEXTS & metadata.keys()}
    numbers = {name: zlib.crc32(_bytes(tensor)) for name, tensor in tensors.items()}
    return {**metadata, "sums": json.dumps({**texts, **numbers}, sort_keys=True)}


def _check_sum(name: str, found: Union[bytes, memoryview], sums: Optional[Mapping[str, int]], path: Path) -> None:
    """Raise `ConfigurationError` if a part is not what was written; files of earlier versions have no sums."""
    if sums is not None and sums.get(name) != zlib.crc32(found):
        raise ConfigurationError(f"'{path}' is spoiled: '{name}' is not what was written")


def _bytes(tensor: Tensor) -> memoryview:
    """What a tensor is in memory."""
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def _as_float(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """In this precision; counts stay counts."""
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
