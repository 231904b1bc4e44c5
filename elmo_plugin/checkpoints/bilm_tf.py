"""bilm-tf's own format, which every other ELMo tool reads: `options.json` and a vocabulary beside `weights.hdf5`."""

import json
import zlib
from dataclasses import replace
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path
from typing import Optional

import h5py
import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.atomic_write import atomic_folder
from elmo_plugin.checkpoints.checkpoint_format import (
    Checkpoint,
    CheckpointFormat,
    Location,
    is_missing,
    local_file,
    plain_location,
)
from elmo_plugin.checkpoints.file_kind import HDF5, JSON, kind_of, what_is_wrong
from elmo_plugin.checkpoints.limits import check_numbers
from elmo_plugin.checkpoints.vocabulary_file import VOCABULARIES, VOCABULARY, read_words, write_words
from elmo_plugin.checkpoints.weight_map import Link, Shape, bilm_tf_links
from elmo_plugin.checkpoints.word_table import with_vocabulary
from elmo_plugin.options import BiLMOptions, OptionsError

SUFFIXES = (".hdf5", ".h5")
SUM = "crc32"
"""Attribute of a dataset of ours, the check sum of its numbers as float32. HDF5's own leave out where they lie."""


@CheckpointFormat.register("bilm-tf")
class BilmTf(CheckpointFormat):
    """A folder with one options and one hdf5 file, or the path or URL of an hdf5 file whose options lie beside it.

    A `vocabulary.txt` or `vocab.txt` beside the weights is the biLM's vocabulary. Its softmax is in none of the files:
    bilm-tf's `dump_weights` leaves it out.

    Registered as a `CheckpointFormat` with name `bilm-tf`.
    """

    def recognises(self, location: Location) -> bool:
        """By the ending of the name, or by what a folder holds."""
        if fspath(location).endswith(SUFFIXES):
            return True
        return any(path.suffix in SUFFIXES for path in Path(location).glob("*")) if Path(location).is_dir() else False

    def read(self, location: Location) -> Checkpoint:
        """Read both files of the pair that `location` leads to, and the vocabulary if it lies beside them."""
        return self.read_pair(*_pair(plain_location(location)))

    def read_sizes(self, location: Location) -> BiLMOptions:
        """Read the options file alone."""
        return read_options(local_file(_pair(plain_location(location))[0], "options_file"))

    def read_pair(self, options_file: Location, weight_file: Location) -> Checkpoint:
        """Read the two files, wherever each is, and the vocabulary if it lies beside the weights.

        Raises `ConfigurationError` where they do not fit each other.
        """
        options_path, path = local_file(options_file, "options_file"), local_file(weight_file, "weight_file")
        _refuse_swapped(options_path, path)
        options = read_options(options_path)
        try:
            with h5py.File(path, "r") as file:
                _refuse_other_files(file, path)
                checkpoint = _read_weights(file, _with_vocabulary_size(options, file), path)
        except ConfigurationError:
            raise
        except Exception as error:  # of a file that was spoiled h5py may raise anything
            reason = what_is_wrong(path, HDF5, error)
            raise ConfigurationError(f"'weight_file' {path} is no complete hdf5 file: {reason}") from error
        return _with_vocabulary_beside(plain_location(weight_file), checkpoint)

    def write(self, checkpoint: Checkpoint, folder: "PathLike[str]") -> list[str]:
        """Write `options.json`, `weights.hdf5` and, if there is a vocabulary, `vocabulary.txt`; return their names.

        Files of these names that were there before are whole if it fails. Raises `ConfigurationError` if the folder
        cannot be written, or if the vocabulary of another biLM lies there, which would be taken for this one's.
        """
        target = Path(folder)
        if checkpoint.options.lexicon is not None:
            raise ConfigurationError(
                "bilm-tf's files have no place for lexicons, by which a biLM of ELMoForManyLangs reads characters and "
                "words; wanted many-langs or native"
            )
        _refuse_other_vocabularies(checkpoint, target)
        with atomic_folder(target) as partial:
            (partial / "weights.hdf5").write_bytes(_weights(checkpoint))
            options = json.dumps(checkpoint.options.to_dict(), indent=2) + "\n"
            (partial / "options.json").write_text(options, encoding="utf-8")
            if checkpoint.vocabulary is not None:
                write_words(checkpoint.vocabulary, partial / VOCABULARY)
            return sorted(path.name for path in partial.iterdir())


def read_options(path: Path) -> BiLMOptions:
    """Read an `options.json`. Raises `ConfigurationError` naming the file and what is wrong with it."""
    try:
        return BiLMOptions.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"'options_file' {path}: {what_is_wrong(path, JSON, error)}") from error
    except OptionsError as error:
        raise ConfigurationError(f"'options_file' {path}: {error}") from error


def _refuse_swapped(options: Path, weights: Path) -> None:
    if kind_of(options) == HDF5:
        other = "the two are swapped" if kind_of(weights) == JSON else "it belongs under 'weight_file'"
        raise ConfigurationError(f"'options_file' {options}: expected {JSON} with the sizes, got {HDF5}; {other}")


def _pair(name: str) -> tuple[Location, Location]:
    """The options and the weights that belong to a folder or to a file of weights."""
    if name.endswith(SUFFIXES) or not Path(name).is_dir():
        return _options_beside(name), name
    folder = Path(name)
    options = sorted(folder.glob("*options*.json"))
    weights = sorted(path for path in folder.glob("*") if path.suffix in SUFFIXES)
    if len(weights) > 1:
        weights = [path for path in weights if path.stem.endswith("weights")]
    if len(options) != 1 or len(weights) != 1:
        found = ", ".join(sorted(path.name for path in folder.iterdir()))
        raise ConfigurationError(f"'{folder}': wanted one *options*.json and one *weights.hdf5, found {found}")
    return options[0], weights[0]


def _options_beside(weights: str) -> str:
    """The options of a path or URL of weights: `my_options.json` of `my_weights.hdf5`, or `options.json`."""
    folder, slash, name = weights.rpartition("/")
    stem = name.rpartition(".")[0] or name
    names = [f"{stem.removesuffix('weights')}options.json", "options.json"]
    found = [path for path in (f"{folder}{slash}{name}" for name in names) if not is_missing(path)]
    if not found:
        path = local_file(weights, "weight_file")
        if kind_of(path) not in (None, HDF5):
            raise ConfigurationError(
                f"'{weights}': expected an hdf5 file with the weights of a biLM; it is {kind_of(path)}"
            )
        looked_for = " or ".join(dict.fromkeys(names))
        raise ConfigurationError(
            f"'{weights}': expected the sizes of these weights beside them, in {looked_for}; got neither"
        )
    return found[0]


def _with_vocabulary_beside(weights: str, checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with the vocabulary from the folder of its weights, if one is there."""
    if "://" in weights:
        return checkpoint
    paths = [path for path in (Path(weights).parent / name for name in VOCABULARIES) if path.exists()]
    vocabularies = [read_words(path, str(path)) for path in paths[: 2 if checkpoint.options.reads_words else 1]]
    if not paths:
        return checkpoint
    if vocabularies[0] != vocabularies[-1]:
        raise ConfigurationError(f"'{paths[0]}' and '{paths[1]}' differ; keep the one by which the biLM reads words")
    return with_vocabulary(checkpoint, vocabularies[0], str(paths[0]))


def _refuse_other_vocabularies(checkpoint: Checkpoint, folder: Path) -> None:
    """Raise `ConfigurationError` if a file in the folder would be taken for the vocabulary of what is written there."""
    for name in VOCABULARIES:
        path = folder / name
        if checkpoint.vocabulary is None and path.exists():
            raise ConfigurationError(f"'{folder}' holds a {name}, and the biLM to be written has no vocabulary")
        is_read = name != VOCABULARY and checkpoint.options.reads_words
        if is_read and path.exists() and read_words(path, str(path)) != checkpoint.vocabulary:
            raise ConfigurationError(
                f"'{folder}' holds a {name}, which is not the vocabulary of the biLM to be written"
            )


def _refuse_other_files(file: h5py.File, path: Path) -> None:
    """Raise `ConfigurationError` if a name of the file leads into another file, which is not opened."""
    links = file.id.links
    name = links.visit(lambda name, link: name if link.type == h5py.h5l.TYPE_EXTERNAL else None, info=True)
    if name is not None:
        target, _ = links.get_val(name)
        said = f"'{name.decode()}' is a link to another file, {target.decode()}"
        raise ConfigurationError(f"'weight_file' {path}: {said}")


def _with_vocabulary_size(options: BiLMOptions, file: h5py.File) -> BiLMOptions:
    """Word-input models may leave the size of their vocabulary to the file."""
    if options.char_cnn is not None or options.n_tokens_vocab is not None or "embedding" not in file:
        return options
    return replace(options, n_tokens_vocab=file["embedding"].shape[0])


def _read_weights(file: h5py.File, options: BiLMOptions, path: Path) -> Checkpoint:
    if options.char_cnn is None and options.n_tokens_vocab is None:
        raise ConfigurationError(
            f"'weight_file' {path} has no dataset 'embedding', which a biLM whose options hold no 'char_cnn' reads"
        )
    check_numbers(options, path.stat().st_size, f"{path}")
    one_cell = options.lstm.n_layers == 1 and "RNN_0/RNN/LSTMCell" in file
    state_dict: dict[str, Tensor] = {}
    links = bilm_tf_links(options, one_cell)
    _refuse_unread_projections(file, options, {name for link in links for name in link.datasets}, path)
    for link in links:
        if link.optional and not all(name in file for name in link.datasets):
            continue
        values = [_dataset(file, name, shape, path) for name, shape in link.datasets.items()]
        tensors = (tensor.contiguous() for tensor in link.read(*values))
        state_dict.update(zip(link.tensors, tensors, strict=True))
    return Checkpoint(options, state_dict)


def _refuse_unread_projections(file: h5py.File, options: BiLMOptions, read: set[str], path: Path) -> None:
    """Raise `ConfigurationError` for a projection between equal sizes: AllenNLP applies one, bilm-tf has none."""
    ends = ("/W_P_0",) if options.char_cnn is None else ("/W_P_0", "CNN_proj/W_proj")
    name = file.visit(lambda name: name if name.endswith(ends) and name not in read else None)
    if name is not None:
        raise ConfigurationError(f"'weight_file' {path}: found the projection '{name}'; the options' sizes want none")


def _dataset(file: h5py.File, name: str, wanted: Shape, path: Path) -> Tensor:
    dataset: Optional[h5py.Dataset] = file.get(name)
    if not isinstance(dataset, h5py.Dataset):
        raise ConfigurationError(f"'weight_file' {path}: dataset '{name}' is missing; wanted shape {wanted}")
    if dataset.shape != wanted:
        raise ConfigurationError(
            f"'weight_file' {path}: dataset '{name}' has shape {dataset.shape}; the options want {wanted}"
        )
    if dataset.external or dataset.is_virtual:
        raise ConfigurationError(f"'weight_file' {path}: the numbers of dataset '{name}' are in another file")
    values = np.asarray(dataset[...], dtype=np.float32)
    if dataset.attrs.get(SUM) not in (None, zlib.crc32(values.data)):
        raise ConfigurationError(f"'weight_file' {path}: dataset '{name}' is not what was written")
    if not np.isfinite(values).all():
        raise ConfigurationError(f"'weight_file' {path}: dataset '{name}' holds numbers that are not finite")
    return torch.from_numpy(values)


def _weights(checkpoint: Checkpoint) -> memoryview:
    """The hdf5 file, made in memory: where a disk is full, HDF5 itself cannot even close one."""
    content = BytesIO()
    with h5py.File(content, "w") as file:
        for link in bilm_tf_links(checkpoint.options):
            _write_link(file, link, checkpoint.state_dict)
    return content.getbuffer()


def _write_link(file: h5py.File, link: Link, state_dict: dict[str, Tensor]) -> None:
    if link.optional and not all(name in state_dict for name in link.tensors):
        return
    values = link.write(*(state_dict[name].detach().float().cpu() for name in link.tensors))
    for name, value in zip(link.datasets, values, strict=True):
        numbers = np.ascontiguousarray(value.numpy())
        file.create_dataset(name, data=numbers).attrs[SUM] = zlib.crc32(numbers.data)
