"""AllenNLP archives: the biLM inside a trained model's `weights.th`, found by the description it left there."""

import gzip
import re
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from os import fspath
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
from elmo_plugin.checkpoints.checkpoint_format import (
    Checkpoint,
    CheckpointFormat,
    Location,
    SavedSoftmax,
    local_file,
)
from elmo_plugin.checkpoints.file_kind import GZIP, what_is_wrong
from elmo_plugin.checkpoints.limits import UnpackedStream, check_numbers
from elmo_plugin.checkpoints.pickled_weights import check_sums, read_weights
from elmo_plugin.checkpoints.vocabulary_file import read_words
from elmo_plugin.checkpoints.word_table import with_vocabulary

T = TypeVar("T")

DESCRIPTION = "_extra_state"
ARCHIVED_WEIGHTS = "weights.th"
TRAINING_WEIGHTS = "best.th"
SOFTMAX = "softmax."
WORDS = "vocabulary/tokens.txt"
UNKNOWN = {"@@UNKNOWN@@": "<UNK>"}
"""What AllenNLP calls the words that a vocabulary lacks, and what bilm-tf does."""


@CheckpointFormat.register("allennlp")
class AllenNlpArchive(CheckpointFormat):
    """A `model.tar.gz`, or the folder of a training run, whose model holds one biLM, ours or AllenNLP's own.

    Of the language model `bilm` the softmax and the vocabulary are read too. A run that has no best weights yet is read
    as its latest checkpoint left it.

    Registered as a `CheckpointFormat` with name `allennlp`.
    """

    def recognises(self, location: Location) -> bool:
        """By the ending of the name, or by what a folder holds."""
        return fspath(location).endswith(".tar.gz") or _run_weights(Path(location)) is not None

    def read(self, location: Location) -> Checkpoint:
        """Read the biLM; its task model is left alone."""
        path = local_file(location, "pretrained")
        if path.is_dir():
            weights = _run_weights(path) or path / TRAINING_WEIGHTS
            return _only(_all_checkpoints(weights, str(weights)), location)
        with tempfile.TemporaryDirectory() as folder:
            _unpack(path, folder)
            return _only(_all_checkpoints(Path(folder) / ARCHIVED_WEIGHTS, f"{path}!{ARCHIVED_WEIGHTS}"), location)


def archived_checkpoint(serialization_dir: Optional[str], source: str, name: str) -> Optional[Checkpoint]:
    """The biLM that was trained with from `source`, as the weights in a serialization folder hold it.

    AllenNLP builds a model from its config before it loads the weights. This lets the config's own paths lead
    nowhere then: an archive is self-contained.

    # Parameters

    serialization_dir : `Optional[str]`
        The folder of the run, or the one that AllenNLP unpacked an archive into.
    source : `str`
        What the config calls the biLM.
    name : `str`
        The file to look into: `weights.th` of an archive or `best.th` of a run.
    """
    path = Path(serialization_dir or "") / name
    if serialization_dir is None or not path.exists():
        return None
    return next((checkpoint for found, checkpoint in _checkpoints(path, str(path)) if found == source), None)


def allennlp_elmo(folder: Path, name: str) -> Optional[tuple[Checkpoint, SavedMix]]:
    """The biLM and the mix of the first of AllenNLP's own ELMos in an unpacked archive or in the folder of a run.

    `None` if its model has none, or one of ours. Errors call the folder by `name`.
    """
    path = folder / ARCHIVED_WEIGHTS if (folder / ARCHIVED_WEIGHTS).exists() else _run_weights(folder)
    if path is None:
        return None
    weights = read_weights(path, f"{name}!{path.name}")
    if any(key.endswith(f"bilm.{DESCRIPTION}") for key in weights):
        return None
    for place, checkpoint in allennlp_checkpoints(weights, path, f"{name}!"):
        return checkpoint, saved_mix(weights, place, path, f"{name}!")
    return None


def _all_checkpoints(path: Path, name: str) -> list[tuple[str, Checkpoint]]:
    """Source and checkpoint of each biLM, of ours and of AllenNLP's."""
    check_sums(path, name)
    theirs = allennlp_checkpoints(read_weights(path, name), path, name.removesuffix(path.name))
    return [*_checkpoints(path, name), *theirs]


def _checkpoints(path: Path, name: str) -> Iterator[tuple[str, Checkpoint]]:
    """Source and checkpoint of each biLM of ours in a model's state dict; errors call the file by `name`.

    The vocabulary lies beside the weights.
    """
    weights = read_weights(path, name)
    for key in [key for key in weights if key.endswith(f"bilm.{DESCRIPTION}")]:
        prefix = key.removesuffix(DESCRIPTION)
        options, source = _described(read_extra_state, weights[key], path, f"'{name}', '{key}'")
        check_numbers(options, path.stat().st_size, name)
        checkpoint = Checkpoint(options, _below(prefix, weights))
        if prefix == "bilm.":
            checkpoint = _with_language_model(checkpoint, weights, path, name)
        yield source, checkpoint


def _described(read: Callable[[Tensor], T], value: Any, path: Path, name: str) -> T:
    """What a module said of itself, in no more numbers than the file at `path` has bytes."""
    try:
        if value.numel() > path.stat().st_size:
            raise ValueError(f"found {value.numel():,} numbers")
        return read(value)
    except (AttributeError, TypeError, ValueError, KeyError) as error:
        raise ConfigurationError(f"{name}: {error}; wanted a description of the weights beside it") from error


def _with_language_model(checkpoint: Checkpoint, weights: dict[str, Tensor], path: Path, name: str) -> Checkpoint:
    """The checkpoint with softmax and vocabulary, if the model of these weights is the language model `bilm`."""
    key = SOFTMAX + DESCRIPTION
    if key not in weights:
        return checkpoint
    own = _below(SOFTMAX, weights)
    config = _described(tensor_to_description, own.pop(DESCRIPTION), path, f"'{name}', '{key}'")
    checkpoint = checkpoint._replace(softmax=SavedSoftmax(config, own))
    vocabulary = path.parent / WORDS
    if not vocabulary.exists():
        return checkpoint
    file = f"{name.removesuffix(path.name)}{WORDS}"
    words = [UNKNOWN.get(word, word) for word in read_words(vocabulary, file)]
    return with_vocabulary(checkpoint, words, file)


def _below(prefix: str, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def _run_weights(folder: Path) -> Optional[Path]:
    """The best weights of a run; while there are none, those of the latest checkpoint.

    AllenNLP writes a checkpoint's training state after its weights, which may be cut short where there is none.
    """
    if (folder / TRAINING_WEIGHTS).exists():
        return folder / TRAINING_WEIGHTS
    complete: dict[tuple[int, int], Path] = {}
    for path in folder.glob("model_state_e*_b*.th"):
        point = re.fullmatch(r"model_state_e(\d+)_b(\d+)\.th", path.name)
        if point and path.with_name(path.name.replace("model", "training")).exists():
            complete[int(point[1]), int(point[2])] = path
    return complete[max(complete)] if complete else None


def _is_read(name: str) -> bool:
    """Whether an archive's member of this name is of use."""
    return name in (ARCHIVED_WEIGHTS, WORDS, CONFIG) or (name.startswith(PACKED) and name.endswith(OPTIONS_FILE))


def _unpack(path: Path, folder: str) -> None:
    """Extract the weights of an archive and what lies beside them, in one pass over it."""
    try:
        with gzip.open(path) as content, tarfile.open(fileobj=_stream(content, path), mode="r:") as archive:
            wanted = (member for member in archive if _is_read(member.name))
            archive.extractall(folder, wanted, filter="data")
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        reason = what_is_wrong(path, GZIP, error)
        raise ConfigurationError(f"'{path}' is no archive with a {ARCHIVED_WEIGHTS}: {reason}") from error
    if not (Path(folder) / ARCHIVED_WEIGHTS).exists():
        raise ConfigurationError(f"'{path}' is no archive with a {ARCHIVED_WEIGHTS}: it holds none")


def _stream(content: gzip.GzipFile, path: Path) -> BinaryIO:
    """What tarfile reads, with all that it calls."""
    return cast(BinaryIO, UnpackedStream(content, path))


def _only(found: list[tuple[str, Checkpoint]], location: Location) -> Checkpoint:
    if len(found) != 1:
        sources = ", ".join(source for source, _ in found) or "none"
        raise ConfigurationError(f"'{fspath(location)}': wanted an archive with one biLM inside, found {sources}")
    return found[0][1]
