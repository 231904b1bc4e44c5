"""AllenNLP archives and runs: the biLM inside the weights of a trained model."""

import gzip
import re
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from os import fspath
from os.path import normpath
from pathlib import Path
from typing import Any, BinaryIO, Optional, TypeVar, cast

from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm import read_extra_state, tensor_to_description
from elmo_plugin.checkpoints.allennlp_elmo import (
    CONFIG,
    OPTIONS_FILE,
    PACKED,
    SavedMix,
    allennlp_checkpoints,
    saved_mix,
)
from elmo_plugin.checkpoints.checkpoint_format import EXTRA_STATE, Checkpoint, CheckpointFormat, SavedSoftmax
from elmo_plugin.checkpoints.files import GZIP, Location, local_file, names_in, reading_error
from elmo_plugin.checkpoints.limits import LimitedStream, check_numbers
from elmo_plugin.checkpoints.pickled_weights import check_sums, read_weights
from elmo_plugin.checkpoints.vocabulary import read_words, with_vocabulary

T = TypeVar("T")

ARCHIVED_WEIGHTS = "weights.th"
TRAINING_WEIGHTS = "best.th"
SOFTMAX = "softmax."
WORDS = "vocabulary/tokens.txt"
UNKNOWN = {"@@UNKNOWN@@": "<UNK>"}
"""AllenNLP's name for unknown words, and bilm-tf's."""


@CheckpointFormat.register("allennlp")
class AllenNlpArchive(CheckpointFormat):
    """A `model.tar.gz`, unpacked or not, or the folder of a run. Its model holds one biLM, ours or AllenNLP's own.

    For the language model `bilm`, the softmax and the vocabulary are read too. A run without best weights is read from
    its latest checkpoint.

    Registered as a `CheckpointFormat` with name `allennlp`.
    """

    looks_for = f"model.tar.gz, {ARCHIVED_WEIGHTS} or {TRAINING_WEIGHTS}"

    def recognises(self, location: Location) -> bool:
        """Return whether the name ends with `.tar.gz` or the folder holds the weights of a model."""
        return fspath(location).endswith(".tar.gz") or _model_weights(location) is not None

    def read(self, location: Location) -> Checkpoint:
        """Read only the biLM of the model."""
        path = local_file(location, "pretrained")
        if path.is_dir():
            weights = _model_weights(path) or path / TRAINING_WEIGHTS
            return _only_checkpoint(weights, str(weights), location)
        with tempfile.TemporaryDirectory() as folder:
            _unpack(path, folder)
            return _only_checkpoint(Path(folder) / ARCHIVED_WEIGHTS, f"{path}!{ARCHIVED_WEIGHTS}", location)


def archived_checkpoint(serialization_dir: Optional[str], source: str, name: str) -> Optional[Checkpoint]:
    """Read the biLM called `source` from the weights in a serialization folder; `None` if it is not there.

    AllenNLP builds a model from its config before it loads the weights. Because of this function, the paths in the
    config need not exist any more: an archive is self-contained.

    # Parameters

    serialization_dir : `Optional[str]`
        The folder of the run, or the folder that AllenNLP unpacked an archive into.
    source : `str`
        The biLM's path, URL or name in the config.
    name : `str`
        The file to read: `weights.th` of an archive or `best.th` of a run.
    """
    path = Path(serialization_dir or "") / name
    if serialization_dir is None or not path.exists():
        return None
    checkpoints = _checkpoints(read_weights(path, str(path)), path, str(path))
    return next((checkpoint for found, checkpoint in checkpoints if found == source), None)


def allennlp_elmo(folder: Path, name: str) -> Optional[tuple[Checkpoint, SavedMix]]:
    """Read the first of AllenNLP's own ELMos, its biLM and its mix, from an unpacked archive or the folder of a run.

    Errors call the folder `name`. Returns `None` if the model has one of our ELMos, or none at all.
    """
    path = _model_weights(folder)
    if path is None:
        return None
    weights = read_weights(path, f"{name}!{path.name}")
    if any(key.endswith(f"bilm.{EXTRA_STATE}") for key in weights):
        return None
    for bilm, checkpoint in allennlp_checkpoints(weights, path, f"{name}!"):
        return checkpoint, saved_mix(weights, bilm, path, f"{name}!")
    return None


def _only_checkpoint(path: Path, name: str, location: Location) -> Checkpoint:
    """Read the only biLM in the weights of a model. Raises `ConfigurationError` if there are more or none."""
    check_sums(path, name)
    weights = read_weights(path, name)
    theirs = allennlp_checkpoints(weights, path, name.removesuffix(path.name))
    found = [*_checkpoints(weights, path, name), *theirs]
    if len(found) != 1:
        sources = ", ".join(source for source, _ in found) or "none"
        raise ConfigurationError(f"'{fspath(location)}': expected a model with one biLM inside, got {sources}")
    return found[0][1]


def _checkpoints(weights: Mapping[str, Any], path: Path, name: str) -> Iterator[tuple[str, Checkpoint]]:
    """Yield the source and the checkpoint of each of our biLMs in a model's weights; errors call the file `name`."""
    for key in [key for key in weights if key.endswith(f"bilm.{EXTRA_STATE}")]:
        options, source = _description(read_extra_state, weights[key], path, f"'{name}', '{key}'")
        check_numbers(options, path.stat().st_size, name)
        prefix = key.removesuffix(EXTRA_STATE)
        checkpoint = Checkpoint(options, _below(prefix, weights))
        if prefix == "bilm." and SOFTMAX + EXTRA_STATE in weights:
            checkpoint = _with_language_model(checkpoint, weights, path, name)
        yield source, checkpoint


def _with_language_model(checkpoint: Checkpoint, weights: Mapping[str, Tensor], path: Path, name: str) -> Checkpoint:
    """Add the softmax of the language model `bilm`, and the vocabulary if it lies beside the weights."""
    softmax = _below(SOFTMAX, weights)
    key = f"'{name}', '{SOFTMAX}{EXTRA_STATE}'"
    config = _description(tensor_to_description, softmax.pop(EXTRA_STATE), path, key)
    checkpoint = checkpoint._replace(softmax=SavedSoftmax(config, softmax))
    if not (path.parent / WORDS).exists():
        return checkpoint
    file = f"{name.removesuffix(path.name)}{WORDS}"
    words = [UNKNOWN.get(word, word) for word in read_words(path.parent / WORDS, file)]
    return with_vocabulary(checkpoint, words, file)


def _description(read: Callable[[Tensor], T], value: Any, path: Path, name: str) -> T:
    """Decode the extra state of a module. Raises `ConfigurationError` for anything else."""
    try:
        if value.numel() > path.stat().st_size:
            raise ValueError(f"got {value.numel():,} numbers")
        return read(value)
    except (AttributeError, TypeError, ValueError, KeyError) as error:
        raise ConfigurationError(f"{name}: expected a description of the weights beside it: {error}") from error


def _below(prefix: str, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def _model_weights(folder: Location) -> Optional[Path]:
    """Return the weights of an unpacked archive, or else the best weights of a run, or else its latest ones.

    AllenNLP writes the training state of a checkpoint after its weights, so weights without it may be incomplete.
    """
    names = names_in(folder)
    complete: dict[tuple[int, int], str] = {}
    for name in names:
        point = re.fullmatch(r"model_state_e(\d+)_b(\d+)\.th", name)
        if point and name.replace("model", "training") in names:
            complete[int(point[1]), int(point[2])] = name
    latest = [complete[max(complete)]] if complete else []
    found = [name for name in (ARCHIVED_WEIGHTS, TRAINING_WEIGHTS, *latest) if name in names]
    return Path(folder) / found[0] if found else None


def _is_read(name: str) -> bool:
    """Return whether a file in an archive is read."""
    return name in (ARCHIVED_WEIGHTS, WORDS, CONFIG) or (name.startswith(PACKED) and name.endswith(OPTIONS_FILE))


def _unpack(path: Path, folder: str) -> None:
    """Extract the weights of an archive and the other files that are read, in one pass."""
    try:
        with gzip.open(path) as content:
            stream = cast(BinaryIO, LimitedStream(content, path))  # it has all methods that tarfile calls
            with tarfile.open(fileobj=stream, mode="r:") as archive:
                members = (
                    member
                    for member in archive
                    if member.isreg() and not member.issparse()  # a hole of any size takes no bytes in the archive
                    if _is_read(normpath(member.name))  # `tar -C run .` calls the weights `./weights.th`
                )
                archive.extractall(folder, members, filter="data")
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        reason = reading_error(path, GZIP, error)
        raise ConfigurationError(f"'{path}' is not an archive with a {ARCHIVED_WEIGHTS}: {reason}") from error
    if not (Path(folder) / ARCHIVED_WEIGHTS).exists():
        raise ConfigurationError(f"'{path}' is not an archive with a {ARCHIVED_WEIGHTS}: it holds no such file")
