"""bilm-tf's format, which every ELMo tool reads: `options.json`, `weights.hdf5`, and a vocabulary beside them."""

import json
import re
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any, Optional

import h5py
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import BiLMOptions
from elmo_plugin.checkpoints.confined import OPTIONS_FILE, confined
from elmo_plugin.checkpoints.files import (
    Checkpoint,
    CheckpointFormat,
    FileKind,
    Location,
    file_in,
    file_kind,
    local_file,
    names_in,
    plain_location,
    why_unread,
)
from elmo_plugin.checkpoints.vocabulary import VOCABULARIES, VOCABULARY, read_words, with_vocabulary
from elmo_plugin.checkpoints.weight_map import BILM_TF, map_weights, read_tensors, write_tensors
from elmo_plugin.common import atomic_folder, read_json

HDF5_SUFFIXES = (".hdf5", ".h5")
OPTIONS = "*options*.json"
TRAINING = re.compile(
    "softmax|Adagrad|Adam|Momentum|RMSProp|ExponentialMovingAverage|global_step|beta[12]_power|train_perplexity"
)
"""Parts of the names of variables that only training needs."""


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
        has_pair = any(name.endswith(HDF5_SUFFIXES) for name in names) and any(
            Path(name).match(OPTIONS) for name in names
        )
        return has_pair or str(location).endswith(HDF5_SUFFIXES) or file_kind(Path(location)) is FileKind.HDF5

    def read_sizes(self, location: Location) -> BiLMOptions:
        """Read only the options file."""
        return read_options(_pair(location, None)[0])

    def read(self, location: Location, options_file: Optional[Location] = None) -> Checkpoint:
        """Read the weights at a location, or in a folder, with the options given or beside them, and the vocabulary.

        Raises `ConfigurationError` if the options and the weights do not fit each other.
        """
        options_path, path = _pair(location, options_file)
        options, name = read_options(options_path), f"'weight_file' {path}"
        try:
            tensors = confined(lambda: _datasets(h5py.File(path, "r", locking=False), options), path)
        except (OSError, ValueError) as error:
            why = why_unread(path, error, FileKind.HDF5)
            raise ConfigurationError(f"{name} is not a complete hdf5 file: {why}") from error
        if options.reads_words and "embedding" not in tensors:
            raise ConfigurationError(f"{name}: expected a table 'embedding', because the options have no 'char_cnn'")
        if options.reads_words and options.n_tokens_vocab is None:
            options = replace(options, n_tokens_vocab=tensors["embedding"].numel() // options.lstm.projection_dim)
        checkpoint = Checkpoint(options, read_tensors(BILM_TF, options, tensors, name))
        is_local = "://" not in plain_location(location)
        beside = [each for each in VOCABULARIES if is_local and (path.parent / each).exists()]
        if len(beside) > 1 and options.reads_words:
            raise ConfigurationError(
                f"'{path.parent}': expected one vocabulary, got {' and '.join(beside)}; keep the one that the biLM was "
                "trained with"
            )
        if not beside:
            return checkpoint
        vocabulary = file_in(path.parent, beside[0])
        return with_vocabulary(checkpoint, read_words(vocabulary, f"{vocabulary}"), f"{vocabulary}")

    read_with = read

    def write(self, checkpoint: Checkpoint, folder: Location) -> list[str]:
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
                words = "".join(f"{word}\n" for word in checkpoint.vocabulary)
                (partial / VOCABULARY).write_bytes(words.encode())
            return sorted(path.name for path in partial.iterdir())


def read_options(path: Path) -> BiLMOptions:
    """Read an `options.json`. Raises `ConfigurationError` that names the file if it is anything else."""
    try:
        return BiLMOptions.from_dict(read_json(path))
    except (ConfigurationError, OSError, ValueError) as error:
        raise ConfigurationError(f"'options_file' {path}: {why_unread(path, error, FileKind.JSON)}") from error


def _pair(location: Location, options_file: Optional[Location]) -> tuple[Path, Path]:
    """Return the options file and the weights of a folder, or of a weight file by its path or URL.

    The options are those in the folder, or beside the file, if there is no `options_file`.
    """
    weights = plain_location(location)
    folder = Path(weights)
    given = None if options_file is None else local_file(options_file, OPTIONS_FILE)
    if folder.is_dir():
        names = names_in(folder)
        options = [name for name in names if Path(name).match(OPTIONS)]
        found = [name for name in names if name.endswith(HDF5_SUFFIXES)]
        if len(found) > 1:
            found = [name for name in found if Path(name).stem.endswith(("weights", "model"))]
        if len(found) != 1 or (given is None and len(options) != 1):
            raise ConfigurationError(
                f"'{folder}': expected one {OPTIONS} and one {' or '.join(HDF5_SUFFIXES)} file, got {', '.join(names)}"
            )
        return given or file_in(folder, options[0]), local_file(file_in(folder, found[0]), "weight_file")
    path = local_file(weights, "weight_file")  # before its options are looked for
    if given is not None:
        return given, path
    place, slash, name = weights.rpartition("/")
    stem = (name.rpartition(".")[0] or name).removesuffix("weights")
    guesses = dict.fromkeys([f"{stem}options.json", "options.json"])
    for guess in guesses:
        if "://" in weights:
            with suppress(ConfigurationError):
                return local_file(f"{place}{slash}{guess}", OPTIONS_FILE), path
        elif (folder.parent / guess).exists():
            return file_in(folder.parent, guess), path
    raise ConfigurationError(
        f"'{weights}': expected the options of the same biLM beside its weights, in {' or '.join(guesses)}, got "
        f"{file_kind(path).value} without them"
    )


def _datasets(file: h5py.File, options: BiLMOptions) -> dict[str, h5py.Dataset]:
    """Return the datasets of a file, without those that only training needs.

    The input that the biLM does not read, words or characters, is left out too. A single layer gets its name among
    several ones. Links are not followed. Raises `ValueError` for a dataset whose numbers are in another file.
    """
    found: dict[str, h5py.Dataset] = {}
    unread = ("char_embed", "CNN") if options.reads_words else ("embedding",)

    def visit(key: str, part: Any) -> None:
        if isinstance(part, h5py.Dataset) and not (TRAINING.search(key) or key.startswith(unread)):
            if part.is_virtual or part.external:
                raise ValueError(f"the numbers of '{key}' are in another file")
            found[key.replace("RNN/LSTMCell", "RNN/MultiRNNCell/Cell0/LSTMCell")] = part

    file.visititems(visit)
    return found
