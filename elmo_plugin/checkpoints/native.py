"""The format of this package: one safetensors file with the biLM, its softmax and its vocabulary."""

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional, Union

import torch
from allennlp.common.checks import ConfigurationError
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from elmo_plugin.bilm import BiLMOptions
from elmo_plugin.checkpoints.files import (
    Checkpoint,
    CheckpointFormat,
    Location,
    SavedSoftmax,
    file_in,
    local_file,
    names_in,
    why_unread,
)
from elmo_plugin.checkpoints.vocabulary import split_lines, with_vocabulary
from elmo_plugin.checkpoints.weight_map import BILM, EXTRA_STATE, OWN, SOFTMAX, plain_tensors, read_tensors
from elmo_plugin.common import atomic_file, named_errors, parse_json

LANGUAGE = re.compile(r"\A---\n(?:.+\n)*?language: ([a-z]{2,3})\n")
"""The language in the metadata of a model card."""
SUFFIX = ".safetensors"
FORMAT, VERSION = "elmo_plugin", "1"
MOST_OF_CARD = 2**16
"""The characters of a model card that are searched for its language, which stands at its top."""


@CheckpointFormat.register("native")
class Native(CheckpointFormat):
    """One file `NAME.safetensors`, given by its path, its URL or its folder.

    The tensors are named `bilm.` or `softmax.` plus the name in the module. The metadata are:

    - `format` and `version`
    - `options`, and `softmax`, its block of the config, as JSON
    - `vocabulary`, one word per line
    - `sums`: the CRC-32 of each text and tensor, as JSON

    Registered as a `CheckpointFormat` with name `native`.
    """

    looks_for = f"*{SUFFIX}"

    def recognises(self, location: Location) -> bool:
        """Return whether the name ends with `.safetensors`, or the folder holds such a file."""
        return any(name.endswith(SUFFIX) for name in (str(location), *names_in(location)))

    def read(self, location: Location) -> Checkpoint:
        """Read a file. The numbers become float32, whatever type they have in the file."""
        with _opened(location) as (path, file):
            options, config, words, sums = _read_metadata(file.metadata() or {}, path)
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118, it is no mapping
            for key, tensor in tensors.items():
                _check_sum(key, _bytes(tensor), sums, path)
            softmax = None
            if config is not None:
                softmax = SavedSoftmax(config, plain_tensors(tensors, f"'{path}'", SOFTMAX))
                tensors = {key: tensor for key, tensor in tensors.items() if not key.startswith(SOFTMAX)}
            checkpoint = Checkpoint(options, read_tensors(OWN, options, tensors, f"'{path}'", BILM), softmax)
        return checkpoint if words is None else with_vocabulary(checkpoint, words, f"{path}")

    def read_sizes(self, location: Location) -> BiLMOptions:
        """Read only the metadata."""
        with _opened(location) as (path, file):
            return _read_metadata(file.metadata() or {}, path)[0]

    def write(self, checkpoint: Checkpoint, path: Location, dtype: torch.dtype = torch.float32) -> None:
        """Write a checkpoint into one file `NAME.safetensors`. An existing file is replaced atomically.

        `torch.float16` and `torch.bfloat16` halve the size of the file, which is read as float32 again. Raises
        `ConfigurationError` if the file cannot be written.
        """
        target = check_target(Path(path))
        weights = {BILM + name: tensor for name, tensor in checkpoint.state_dict.items()}
        texts = {"options": json.dumps(checkpoint.options.to_dict())}
        if checkpoint.softmax is not None:
            weights |= {SOFTMAX + name: tensor for name, tensor in checkpoint.softmax.state_dict.items()}
            texts["softmax"] = json.dumps(checkpoint.softmax.config)
        if checkpoint.vocabulary is not None:
            texts["vocabulary"] = "\n".join(checkpoint.vocabulary)
        tensors = {
            name: _to_write(tensor, dtype, f"'{target}', tensor '{name}'")
            for name, tensor in weights.items()
            if not name.endswith(EXTRA_STATE)  # the metadata hold it
        }
        sums = {key: zlib.crc32(text.encode()) for key, text in texts.items()}
        sums |= {name: zlib.crc32(_bytes(tensor)) for name, tensor in tensors.items()}
        header = {"format": FORMAT, "version": VERSION, **texts, "sums": json.dumps(sums, sort_keys=True)}
        with atomic_file(target) as partial, partial.open("wb") as file:
            file.writelines(_with_sorted_metadata(save(tensors, header)))


def check_target(path: Path) -> Path:
    """Return the path of a file to write. Raises `ConfigurationError` if it does not end with `.safetensors`."""
    if path.suffix != SUFFIX:
        raise ConfigurationError(f"'{path}': expected a name NAME{SUFFIX} for the native format")
    return path


def _to_write(tensor: Tensor, dtype: torch.dtype, name: str) -> Tensor:
    """Return a copy in `dtype`: tied weights share memory, which safetensors does not allow. Errors call it `name`."""
    values = tensor.detach().cpu().flatten()
    converted = values.to(dtype if values.is_floating_point() else values.dtype, copy=True)
    if not torch.equal(converted.isfinite(), values.isfinite()):
        most, got = torch.finfo(dtype).max, values.abs().max()
        raise ConfigurationError(f"{name}: expected at most {most:,.0f} for {dtype}, got {got:,.0f}; use bfloat16")
    return converted.view(tensor.shape)


def _with_sorted_metadata(content: bytes) -> list[Union[bytes, memoryview]]:
    """Return the parts of a safetensors file with its metadata sorted, because safetensors writes them in random order.

    A file begins with the length of its header in 8 bytes. The header is padded with spaces to a multiple of 8.
    """
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, memoryview(content)[end:]]


@contextmanager
def _opened(location: Location) -> Iterator[tuple[Path, safe_open]]:
    """Open the safetensors file at a location, or the only one in its folder, and give its local path too.

    Raises `ConfigurationError` if it cannot be read, also while it is open.
    """
    path = local_file(location, "pretrained")
    if path.is_dir():
        names = [name for name in names_in(path) if name.endswith(SUFFIX)]
        if len(names) != 1:
            raise ConfigurationError(
                f"'{path}': expected one *{SUFFIX} in the folder, got {', '.join(names) or 'none'}"
            )
        path = local_file(file_in(path, names[0]), "pretrained")
    try:
        with safe_open(path, framework="pt") as file:
            yield path, file
    except ConfigurationError:
        raise
    except Exception as error:  # torch raises errors of many types for shapes that it cannot represent
        raise ConfigurationError(f"'{path}' is not a complete safetensors file: {why_unread(path, error)}") from error


def _read_metadata(
    metadata: dict[str, str], path: Path
) -> tuple[BiLMOptions, Optional[dict[str, Any]], Optional[list[str]], dict[str, int]]:
    """Return the sizes, the block of the softmax, the vocabulary, and the check sums of the tensors."""
    if metadata.get("format") != FORMAT:
        got = metadata.get("format", "none")
        raise ConfigurationError(f"'{path}' holds another model: expected the format '{FORMAT}', got '{got}'")
    if metadata.get("version") != VERSION:
        raise ConfigurationError(
            f"'{path}': expected version {VERSION} of the native format, got {metadata.get('version')}; install a "
            "newer elmo_plugin to read it"
        )
    blocks: dict[str, dict[str, Any]] = {"sums": {}, "options": {}}
    for key in ("sums", "options", "softmax"):
        if key in metadata:
            with named_errors(f"'{path}', metadata '{key}'", ValueError):
                blocks[key] = parse_json(metadata[key])
    for key in metadata.keys() - {"format", "version", "sums"}:
        _check_sum(key, metadata[key].encode(), blocks["sums"], path)
    with named_errors(f"'{path}', metadata 'options'", ConfigurationError):
        options = BiLMOptions.from_dict({"language": _language_on_card(path), **blocks["options"]})
    vocabulary = split_lines(metadata["vocabulary"], f"{path}") if "vocabulary" in metadata else None
    return options, blocks.get("softmax"), vocabulary, blocks["sums"]


def _language_on_card(path: Path) -> Optional[str]:
    """Return the language that the model card beside a file names, as on the Hugging Face Hub, or `None`."""
    card = path.with_name("README.md")
    if not card.is_file():
        return None
    with card.open(encoding="utf-8", errors="replace") as file:
        found = LANGUAGE.search(file.read(MOST_OF_CARD))
    return found and found[1]


def _check_sum(name: str, content: Union[bytes, memoryview], sums: Mapping[str, int], path: Path) -> None:
    """Raise `ConfigurationError` if a check sum does not match."""
    if sums.get(name) != zlib.crc32(content):
        raise ConfigurationError(f"'{path}' is damaged: the check sum of '{name}' does not match")


def _bytes(tensor: Tensor) -> memoryview:
    """Return the memory of a contiguous tensor."""
    return tensor.reshape(-1).view(torch.uint8).numpy().data
