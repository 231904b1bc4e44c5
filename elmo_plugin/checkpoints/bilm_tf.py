"""bilm-tf's format, which every ELMo tool reads: `options.json`, `weights.hdf5`, and a vocabulary beside them."""

import json
import re
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import h5py
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import BiLMOptions
from elmo_plugin.checkpoints.checkpoint_format import Checkpoint, CheckpointFormat
from elmo_plugin.checkpoints.confined import OPTIONS_FILE, confined
from elmo_plugin.checkpoints.files import (
    FileKind,
    Location,
    file_in,
    file_kind,
    local_file,
    names_in,
    plain_location,
)
from elmo_plugin.checkpoints.vocabulary import (
    VOCABULARIES,
    VOCABULARY,
    read_words,
    with_vocabulary,
    write_words,
)
from elmo_plugin.checkpoints.weight_map import BILM_TF, map_weights, read_tensors, write_tensors
from elmo_plugin.common import atomic_folder, read_json

SUFFIXES = (".hdf5", ".h5")
OPTIONS = "*options*.json"
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
        """Return whether the name ends like an hdf5 file, the file is one, or the folder holds one and its options."""
        names = names_in(location)
        has_pair = any(name.endswith(SUFFIXES) for name in names) and any(Path(name).match(OPTIONS) for name in names)
        return has_pair or fspath(location).endswith(SUFFIXES) or file_kind(Path(location)) is FileKind.HDF5

    def read(self, location: Location) -> Checkpoint:
        """Read the options and the weights, and the vocabulary if it lies beside them."""
        return _read(*_pair(location))

    def read_sizes(self, location: Location) -> BiLMOptions:
        """Read only the options file."""
        return read_options(_pair(location)[0])

    def read_with(self, location: Location, options_file: Location) -> Checkpoint:
        """Read the weights at a location, or in a folder, with another options file.

        Raises `ConfigurationError` if the options and the weights do not fit each other.
        """
        is_folder = Path(plain_location(location)).is_dir()
        return _read(local_file(options_file, "options_file"), _pair(location)[1] if is_folder else fspath(location))

    def write(self, checkpoint: Checkpoint, folder: "PathLike[str]") -> list[str]:
        """Write `options.json`, `weights.hdf5` and, if there is a vocabulary, `vocabulary.txt`; return their names.

        Existing files stay as they are if writing fails. Raises `ConfigurationError` if the folder cannot be written,
        if the format cannot hold this biLM, or if the folder holds the vocabulary of another biLM, which readers would
        take for the vocabulary of this one.
        """
        options, target = checkpoint.options, Path(folder)
        added = [*options.lstm.added(), *(options.char_cnn.added() if options.char_cnn is not None else [])]
        added += [key for key in ("lexicon", "contextualizer", "token_encoder") if key in options.added()]
        if added:  # other readers of the format would read it as another biLM
            raise ConfigurationError(f"the format bilm-tf has no place for '{added[0]}'; use native or hub")
        written = VOCABULARY if checkpoint.vocabulary is not None else None
        others = [name for name in VOCABULARIES if name != written and (target / name).exists()]
        if others:
            raise ConfigurationError(
                f"'{target}': expected no {others[0]}, which would be read as the vocabulary of this biLM; delete it "
                "or name another folder"
            )
        weights = {name: value.detach().float().cpu() for name, value in checkpoint.state_dict.items()}
        content = BytesIO()  # on a full disk, HDF5 could not even close a file
        with h5py.File(content, "w") as file:
            for name, value in write_tensors(map_weights(BILM_TF, weights), weights):
                file.create_dataset(name, data=value.numpy(), fletcher32=True)
        with atomic_folder(target, last="weights.hdf5") as partial:
            (partial / "weights.hdf5").write_bytes(content.getvalue())
            text = json.dumps(options.to_dict(), indent=2) + "\n"
            (partial / "options.json").write_text(text, encoding="utf-8")
            if checkpoint.vocabulary is not None:
                write_words(checkpoint.vocabulary, partial / VOCABULARY)
            return sorted(path.name for path in partial.iterdir())


def read_options(path: Path) -> BiLMOptions:
    """Read an `options.json`. Raises `ConfigurationError` that names the file if it is anything else."""
    try:
        return BiLMOptions.from_dict(read_json(path))
    except (ConfigurationError, OSError, ValueError) as error:
        kind = file_kind(path)
        reason = error if kind in (FileKind.JSON, FileKind.OTHER) else f"it is {kind.value}"
        raise ConfigurationError(f"'options_file' {path}: {reason}") from error


def _pair(location: Location) -> tuple[Path, str]:
    """Return the options file and the location of the weights of a folder, or of a weight file by its path or URL."""
    weights = plain_location(location)
    folder = Path(weights)
    if folder.is_dir():
        names = names_in(folder)
        options = [name for name in names if Path(name).match(OPTIONS)]
        found = [name for name in names if name.endswith(SUFFIXES)]
        if len(found) > 1:
            found = [name for name in found if Path(name).stem.endswith(("weights", "model"))]
        if len(options) != 1 or len(found) != 1:
            raise ConfigurationError(
                f"'{folder}': expected one {OPTIONS} and one {' or '.join(SUFFIXES)} file, got {', '.join(names)}"
            )
        return file_in(folder, options[0]), str(file_in(folder, found[0]))
    path = local_file(weights, "weight_file")  # before its options are looked for
    place, slash, name = weights.rpartition("/")
    stem = (name.rpartition(".")[0] or name).removesuffix("weights")
    guesses = dict.fromkeys([f"{stem}options.json", "options.json"])
    for guess in guesses:
        if "://" in weights:
            with suppress(ConfigurationError):
                return local_file(f"{place}{slash}{guess}", OPTIONS_FILE), weights
        elif (folder.parent / guess).exists():
            return file_in(folder.parent, guess), weights
    _check_kind(path, weights)
    raise ConfigurationError(
        f"'{weights}': expected the options of the same biLM beside its weights, in {' or '.join(guesses)}, got none"
    )


def _check_kind(path: Path, name: str) -> None:
    """Raise `ConfigurationError`, which calls the file `name`, for a file that begins like one of another kind."""
    kind = file_kind(path)
    if kind not in (FileKind.OTHER, FileKind.HDF5):
        raise ConfigurationError(
            f"'weight_file' {name} is not a complete hdf5 file with the weights of a biLM: it is {kind.value}"
        )


def _read(options_path: Path, weights: str) -> Checkpoint:
    """Read an options file and a weight file, and the vocabulary if it lies beside the weights."""
    options, path = read_options(options_path), local_file(weights, "weight_file")
    _check_kind(path, weights)
    name = f"'weight_file' {path}"
    try:
        tensors = confined(lambda: _datasets(h5py.File(path, "r", locking=False), options), path)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{name} is not a complete hdf5 file: {error}") from error
    if options.reads_words and "embedding" not in tensors:
        raise ConfigurationError(f"{name}: expected a table 'embedding', because the options have no 'char_cnn'")
    if options.reads_words and options.n_tokens_vocab is None:
        options = replace(options, n_tokens_vocab=tensors["embedding"].numel() // options.lstm.projection_dim)
    checkpoint = Checkpoint(options, read_tensors(BILM_TF, options, tensors, name))
    folder = Path(plain_location(weights)).parent
    beside = [] if "://" in weights else [each for each in VOCABULARIES if (folder / each).exists()]
    if len(beside) > 1 and options.reads_words:
        raise ConfigurationError(
            f"'{folder}': expected one vocabulary, got {' and '.join(beside)}; keep the one that the biLM was trained "
            "with"
        )
    if not beside:
        return checkpoint
    vocabulary = file_in(folder, beside[0])
    return with_vocabulary(checkpoint, read_words(vocabulary, f"{vocabulary}"), f"{vocabulary}")


def _datasets(file: h5py.File, options: BiLMOptions) -> dict[str, h5py.Dataset]:
    """Return the datasets of a file, without those that only training needs and those of the other input.

    A single layer gets its name among several ones. Links are not followed. Raises `ValueError` for a dataset whose
    numbers are in another file.
    """
    found: dict[str, h5py.Dataset] = {}
    unread = OTHER_INPUT[not options.reads_words]

    def visit(key: str, part: Any) -> None:
        if isinstance(part, h5py.Dataset) and not (TRAINING.search(key) or key.startswith(unread)):
            if part.is_virtual or part.external:
                raise ValueError(f"the numbers of '{key}' are in another file")
            found[key.replace("RNN/LSTMCell", "RNN/MultiRNNCell/Cell0/LSTMCell")] = part

    file.visititems(visit)
    return found
