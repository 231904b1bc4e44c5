"""bilm-tf's format, which every ELMo tool reads: `options.json`, `weights.hdf5`, and a vocabulary beside them."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path

import h5py
import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm import BiLMOptions
from elmo_plugin.checkpoints.checkpoint_format import Checkpoint, CheckpointFormat
from elmo_plugin.checkpoints.files import (
    FileKind,
    Location,
    file_kind,
    is_missing,
    local_file,
    names_in,
    plain_location,
    reading_error,
)
from elmo_plugin.checkpoints.untrusted import check_numbers, printable_errors
from elmo_plugin.checkpoints.vocabulary import VOCABULARIES, VOCABULARY, read_words, with_vocabulary, write_words
from elmo_plugin.checkpoints.weight_map import bilm_tf_map, read_tensors, write_tensors
from elmo_plugin.common import atomic_folder, read_json

SUFFIXES = (".hdf5", ".h5")
OPTIONS = "*options*.json"
MOST_LEVELS = 10
"""The deepest path of a dataset. bilm-tf's have six parts."""
MOST_OBJECTS = 10_000
"""The most groups and datasets in a file. The original model has about a hundred."""
TRAINING = re.compile(
    "softmax|Adagrad|Adam|Momentum|RMSProp|ExponentialMovingAverage|global_step|beta[12]_power|train_perplexity"
)
"""Parts of the names of variables that only training needs."""
OTHER_INPUT = {True: ("embedding",), False: ("char_embed", "CNN")}
"""The beginnings of the names that a biLM does not read, by whether it reads characters: those of the other input."""


@CheckpointFormat.register("bilm-tf")
class BilmTf(CheckpointFormat):
    """A folder with one options file and one hdf5 file, or an hdf5 file, by path or URL, with its options beside it.

    A `vocabulary.txt` or `vocab.txt` beside the weights, or either of them with `.gz`, is the biLM's vocabulary. The
    files hold no softmax, because bilm-tf's `dump_weights` does not write it.

    Registered as a `CheckpointFormat` with name `bilm-tf`.
    """

    looks_for = f"*.hdf5 with {OPTIONS}"

    def recognises(self, location: Location) -> bool:
        """Return whether the name ends like an hdf5 file, or the folder holds one and its options."""
        names = names_in(location)
        has_pair = any(name.endswith(SUFFIXES) for name in names) and any(Path(name).match(OPTIONS) for name in names)
        return fspath(location).endswith(SUFFIXES) or has_pair

    def read(self, location: Location) -> Checkpoint:
        """Read the options and the weights, and the vocabulary if it lies beside them."""
        return self.read_pair(*_pair(plain_location(location)))

    def read_sizes(self, location: Location) -> BiLMOptions:
        """Read only the options file."""
        return read_options(local_file(_pair(plain_location(location))[0], "options_file"))

    def read_with(self, location: Location, options_file: Location) -> Checkpoint:
        """Read the weights at a location, or in a folder, with another options file."""
        return self.read_pair(options_file, _pair(plain_location(location))[1])

    @printable_errors()
    def read_pair(self, options_file: Location, weight_file: Location) -> Checkpoint:
        """Read an options file and a weight file, and the vocabulary if it lies beside the weights.

        Raises `ConfigurationError` if the options and the weights do not fit each other.
        """
        options_path, path = local_file(options_file, "options_file"), local_file(weight_file, "weight_file")
        options = read_options(options_path)
        try:
            with h5py.File(path, "r", locking=False) as file:
                checkpoint = _read_weights(_datasets(file), options, path)
        except ConfigurationError:
            raise
        except Exception as error:  # h5py raises errors of many types for a damaged file
            reason = reading_error(path, FileKind.HDF5, error)
            raise ConfigurationError(f"'weight_file' {path} is not a complete hdf5 file: {reason}") from error
        return _with_vocabulary_beside(plain_location(weight_file), checkpoint)

    def write(self, checkpoint: Checkpoint, folder: "PathLike[str]") -> list[str]:
        """Write `options.json`, `weights.hdf5` and, if there is a vocabulary, `vocabulary.txt`; return their names.

        Existing files stay as they are if writing fails. Raises `ConfigurationError` if the folder cannot be written,
        if the format cannot hold this biLM, or if the folder holds the vocabulary of another biLM, which readers would
        take for the vocabulary of this one.
        """
        _check_place(checkpoint.options)
        target = Path(folder)
        written = VOCABULARY if checkpoint.vocabulary is not None else None
        others = [name for name in VOCABULARIES if name != written and (target / name).exists()]
        if others:
            raise ConfigurationError(
                f"'{target}': expected no {others[0]}, which would be read as the vocabulary of this biLM; delete it "
                "or name another folder"
            )
        weights = BytesIO()  # on a full disk, HDF5 could not even close a file
        with h5py.File(weights, "w") as file:
            for name, value in write_tensors(bilm_tf_map(checkpoint.options), checkpoint.state_dict):
                file.create_dataset(name, data=value.numpy(), fletcher32=True)
        with atomic_folder(target, last="weights.hdf5") as partial:
            (partial / "weights.hdf5").write_bytes(weights.getvalue())
            options = json.dumps(checkpoint.options.to_dict(), indent=2) + "\n"
            (partial / "options.json").write_text(options, encoding="utf-8")
            if checkpoint.vocabulary is not None:
                write_words(checkpoint.vocabulary, partial / VOCABULARY)
            return sorted(path.name for path in partial.iterdir())


def _check_place(options: BiLMOptions) -> None:
    """Raise `ConfigurationError` for a biLM that other readers of the format would read as another one."""
    if options.many_langs is not None:
        raise ConfigurationError(
            "the format bilm-tf has no place for the vocabularies of characters and words of ELMoForManyLangs; use "
            "native"
        )
    if options.contextualizer is not None or options.token_encoder is not None:
        raise ConfigurationError("the format bilm-tf holds its own encoders and LSTMs only, expected native or hub")
    added = [*options.lstm.added(), *(options.char_cnn.added() if options.char_cnn is not None else [])]
    if added:
        raise ConfigurationError(f"the format bilm-tf has no place for the option '{added[0]}'; use native")


def read_options(path: Path) -> BiLMOptions:
    """Read an `options.json`. Raises `ConfigurationError` that names the file if it is anything else."""
    try:
        return BiLMOptions.from_dict(read_json(path))
    except ConfigurationError as error:
        raise ConfigurationError(f"'options_file' {path}: {error}") from error
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"'options_file' {path}: {reading_error(path, FileKind.JSON, error)}") from error


def _pair(name: str) -> tuple[Location, Location]:
    """Return the options file and the weight file of a folder or of a weight file."""
    if name.endswith(SUFFIXES) or not Path(name).is_dir():
        return _options_beside(name), name
    folder = Path(name)
    files = [folder / inner for inner in names_in(folder)]
    options = [path for path in files if path.match(OPTIONS)]
    weights = [path for path in files if path.suffix in SUFFIXES]
    if len(weights) > 1:
        weights = [path for path in weights if path.stem.endswith(("weights", "model"))]
    if len(options) != 1 or len(weights) != 1:
        got = ", ".join(path.name for path in files)
        raise ConfigurationError(f"'{folder}': expected one {OPTIONS} and one {' or '.join(SUFFIXES)} file, got {got}")
    return options[0], weights[0]


def _options_beside(weights: str) -> str:
    """Return the options beside a weight file or URL: `my_options.json` for `my_weights.hdf5`, else `options.json`."""
    folder, slash, name = weights.rpartition("/")
    stem = name.rpartition(".")[0] or name
    names = dict.fromkeys([f"{stem.removesuffix('weights')}options.json", "options.json"])
    for path in (f"{folder}{slash}{name}" for name in names):
        if not is_missing(path):
            return path
    kind = file_kind(local_file(weights, "weight_file"))
    if kind not in (FileKind.OTHER, FileKind.HDF5):
        raise ConfigurationError(f"'{weights}': expected an hdf5 file with the weights of a biLM; it is {kind.value}")
    raise ConfigurationError(
        f"'{weights}': expected the options of the same biLM beside its weights, in {' or '.join(names)}, got none"
    )


def _with_vocabulary_beside(weights: str, checkpoint: Checkpoint) -> Checkpoint:
    """Add the vocabulary in the folder of the weights, if there is one."""
    names = [] if "://" in weights else VOCABULARIES
    paths = [path for path in (Path(weights).parent / name for name in names) if path.exists()]
    if not paths:
        return checkpoint
    if len(paths) > 1 and checkpoint.options.reads_words:
        names = " and ".join(f"'{path}'" for path in paths)
        raise ConfigurationError(f"expected one vocabulary, got {names}; keep the one that the biLM was trained with")
    return with_vocabulary(checkpoint, read_words(paths[0], str(paths[0])), str(paths[0]))


def _datasets(file: h5py.File) -> dict[str, h5py.Dataset]:
    """Return the datasets of a file by path, without reading a number.

    Raises `ValueError` for what leads to other files: links, and datasets with external or virtual storage.
    """
    found, groups, count = {}, [("", file)], 0
    while groups:
        prefix, group = groups.pop()
        for key in group:
            name, count = f"{prefix}{key}", count + 1
            if count > MOST_OBJECTS or name.count("/") > MOST_LEVELS:
                raise ValueError(f"expected at most {MOST_OBJECTS:,} objects, in {MOST_LEVELS} levels, got more")
            link = group.get(key, getlink=True)
            if not isinstance(link, h5py.HardLink):
                target = f"{getattr(link, 'filename', '')} {link.path}".strip()
                raise ValueError(f"expected no links, got '{name}', which leads to {target}")
            part = group[key]
            if isinstance(part, h5py.Group):
                groups.append((f"{name}/", part))
            elif part.is_virtual or part.external:
                raise ValueError(f"the numbers of '{name}' are in another file")
            else:
                found[name] = part
    return found


def _read_weights(file: Mapping[str, h5py.Dataset], options: BiLMOptions, path: Path) -> Checkpoint:
    name = f"'weight_file' {path}"
    if options.reads_words and options.n_tokens_vocab is None:
        if "embedding" not in file or len(file["embedding"].shape) != 2:
            raise ConfigurationError(f"{name}: expected a table 'embedding', because the options have no 'char_cnn'")
        options = replace(options, n_tokens_vocab=file["embedding"].shape[0])
    check_numbers(options, path.stat().st_size, f"{path}")
    one_cell = options.lstm.n_layers == 1 and any(key.startswith("RNN_0/RNN/LSTMCell/") for key in file)
    other_input = OTHER_INPUT[not options.reads_words]
    needed = {key: value for key, value in file.items() if not (TRAINING.search(key) or key.startswith(other_input))}

    def load(key: str, dataset: h5py.Dataset) -> Tensor:
        if dataset.dtype.kind != "f" or dataset.dtype.itemsize > 8:
            raise ConfigurationError(f"{name}, tensor '{key}': expected floats of 64 bits or less, got {dataset.dtype}")
        return torch.from_numpy(dataset.astype(np.float32)[...])

    return Checkpoint(options, read_tensors(bilm_tf_map(options, one_cell), needed, name, load))
