"""AllenNLP archives and runs: the biLM inside the weights of a trained model, ours or AllenNLP's own.

Our biLM describes itself in the weights. For AllenNLP's own, the config of the model names the options file.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from os import fspath
from pathlib import Path
from typing import Any, NamedTuple, Optional, TypeVar

from allennlp.common.checks import ConfigurationError
from allennlp.data.vocabulary import DEFAULT_OOV_TOKEN
from torch import Tensor

from elmo_plugin.bilm import BiLMOptions, read_extra_state, tensor_to_description
from elmo_plugin.checkpoints.bilm_tf import read_options
from elmo_plugin.checkpoints.checkpoint_format import EXTRA_STATE, Checkpoint, CheckpointFormat, SavedSoftmax
from elmo_plugin.checkpoints.files import Location, local_file, names_in
from elmo_plugin.checkpoints.untrusted import (
    OPTIONS_FILE,
    PACKED,
    check_numbers,
    printable_errors,
    read_weights,
)
from elmo_plugin.checkpoints.vocabulary import UNKNOWN, read_words, with_vocabulary
from elmo_plugin.checkpoints.weight_map import allennlp_map, check_finite, read_tensors
from elmo_plugin.common import read_json

T = TypeVar("T")

ARCHIVED_WEIGHTS = "weights.th"
TRAINING_WEIGHTS = "best.th"
CONFIG = "config.json"
SOFTMAX = "softmax."
WORDS = "vocabulary/tokens.txt"
MARK = "_token_embedder._char_embedding_weights"
"""The name of a tensor that every `_ElmoBiLm` of AllenNLP has."""
WORD_CACHE = "_word_embedding.weight"
"""The vectors of the words in `vocab_to_cache`, which AllenNLP computes from the other weights."""
THEIR_BILM, THEIR_MIX = "_elmo_lstm", "scalar_mix_0"
"""The names of the biLM and of the first mix in `allennlp.modules.elmo.Elmo`."""


class SavedMix(NamedTuple):
    """Hold the learned parameters of the first mix of AllenNLP's `Elmo`, and whether it normalizes the layers."""

    scalar_parameters: list[float]
    gamma: float
    do_layer_norm: bool


@CheckpointFormat.register("allennlp")
class AllenNlpArchive(CheckpointFormat):
    """An unpacked `model.tar.gz`, or the folder of a run. Its model holds one biLM, ours or AllenNLP's own.

    For the language model `bilm`, the softmax and the vocabulary are read too. A run without best weights is read from
    its latest checkpoint.

    Registered as a `CheckpointFormat` with name `allennlp`.
    """

    looks_for = f"model.tar.gz, {ARCHIVED_WEIGHTS} or {TRAINING_WEIGHTS}"

    def recognises(self, location: Location) -> bool:
        """Return whether the folder holds the weights of a model."""
        return _model_weights(location) is not None

    def read(self, location: Location) -> Checkpoint:
        """Read only the biLM of the model. Raises `ConfigurationError` if there are more or none."""
        return self._read(location, None)

    def read_with(self, location: Location, options_file: Location) -> Checkpoint:
        """Read AllenNLP's own ELMo with the sizes in another file than the one that its config names."""
        return self._read(location, read_options(local_file(options_file, OPTIONS_FILE)))

    def _read(self, location: Location, options: Optional[BiLMOptions]) -> Checkpoint:
        folder = local_file(location, "pretrained")
        path = _model_weights(folder) or folder / TRAINING_WEIGHTS
        weights = read_weights(path, f"{path}")
        ours = list(_our_checkpoints(weights, path))
        if ours and options is not None:
            raise ConfigurationError(f"'options_file': expected none for '{fspath(location)}', which holds its sizes")
        found = [*ours, *_their_checkpoints(weights, path, options)]
        if len(found) != 1:
            sources = ", ".join(source for source, _ in found) or "none"
            raise ConfigurationError(f"'{fspath(location)}': expected a model with one biLM inside, got {sources}")
        return found[0][1]


@printable_errors()
def archived_checkpoint(serialization_dir: Optional[str], source: str, name: str) -> Optional[Checkpoint]:
    """Read the biLM called `source` from the weights in a serialization folder; `None` if it is not there.

    AllenNLP builds a model from its config before it loads the weights. Because of this function, the paths in the
    config need not exist any more: an archive is self-contained. `serialization_dir` is the folder of a run, or the one
    that AllenNLP unpacked an archive into, `source` the biLM's path, URL or name in the config, and `name` the file to
    read: `weights.th` of an archive or `best.th` of a run.
    """
    path = Path(serialization_dir or "") / name
    if serialization_dir is None or not path.exists():
        return None
    checkpoints = _our_checkpoints(read_weights(path, str(path)), path)
    return next((checkpoint for found, checkpoint in checkpoints if found == source), None)


def reject_override(serialization_dir: Optional[str], key: str, value: Any) -> None:
    """Raise `ConfigurationError` if the config of a trained model has another value of a key that its weights decide.

    AllenNLP builds a model from the config with the overrides, and then loads all weights of the archive or run. So an
    override of the biLM, or of the first weights of a mix, would have no effect.
    """
    folder = Path(serialization_dir or "")
    is_trained = any((folder / name).exists() for name in (ARCHIVED_WEIGHTS, TRAINING_WEIGHTS))
    if serialization_dir is None or not is_trained or not (folder / CONFIG).exists():
        return
    keys = ("bilm", "pretrained", "weight_file") if key == "bilm" else (key,)
    values = [found for each in keys for found in _values(_config(folder), each)]
    if value not in values:
        found = " or ".join(sorted({repr(each) for each in values if not isinstance(each, Mapping)})) or "none"
        raise ConfigurationError(
            f"'{key}': expected {found}, as the model was trained with, got {value!r}: the weights of a trained model "
            "include its ELMo, so leave this key out of the overrides; another biLM needs a training of its own"
        )


def allennlp_elmo(
    folder: Path, name: str, options_file: Optional[Location] = None
) -> Optional[tuple[Checkpoint, SavedMix]]:
    """Read the first of AllenNLP's own ELMos, its biLM and its mix, from an unpacked archive or the folder of a run.

    `options_file` has its sizes, instead of the file that the config names. Errors call the folder `name`. Returns
    `None` if the model has one of our ELMos, or none at all. Raises `ConfigurationError` if there is no mix beside the
    biLM.
    """
    path = _model_weights(folder)
    if path is None:
        return None
    weights = read_weights(path, f"{name}/{path.name}")
    if any(key.endswith(f"bilm.{EXTRA_STATE}") for key in weights):
        return None
    options = None if options_file is None else read_options(local_file(options_file, OPTIONS_FILE))
    for bilm, checkpoint in _their_checkpoints(weights, path, options):
        prefix = f"{bilm.removesuffix(THEIR_BILM)}{THEIR_MIX}."
        names = [key for key in weights if key.startswith(f"{prefix}scalar_parameters.")]
        if not names or f"{prefix}gamma" not in weights:
            raise ConfigurationError(f"'{name}': expected a mix of layers at '{prefix}' beside its ELMo, got none")
        by_layer = sorted(names, key=lambda key: int(key.rpartition(".")[2]))
        # The weights do not show whether the mix normalizes the layers.
        do_layer_norm = any(value is True for value in _values(_config(folder), "do_layer_norm"))
        mix = SavedMix([float(weights[key]) for key in by_layer], float(weights[f"{prefix}gamma"]), do_layer_norm)
        return checkpoint, mix
    return None


def allennlp_checkpoint(weights: Mapping[str, Any], prefix: str, options: BiLMOptions, name: str) -> Checkpoint:
    """Return the checkpoint of the `_ElmoBiLm` whose tensors begin with `prefix`. Errors call the model `name`.

    Raises `ConfigurationError` if the weights do not fit the options.
    """
    if options.char_cnn is None:
        raise ConfigurationError(
            f"'{OPTIONS_FILE}' of '{name}': expected a 'char_cnn', because its ELMo reads characters"
        )
    its_own = {key: value for key, value in weights.items() if key.startswith(prefix) and not key.endswith(WORD_CACHE)}
    rows = allennlp_map(options.char_cnn, options.lstm, prefix)
    return Checkpoint(options, read_tensors(rows, its_own, f"'{name}'", lambda _, value: value))


def _our_checkpoints(weights: Mapping[str, Any], path: Path) -> Iterator[tuple[str, Checkpoint]]:
    """Yield the source and the checkpoint of each of our biLMs in the weights of a model."""
    for key in [key for key in weights if key.endswith(f"bilm.{EXTRA_STATE}")]:
        options, source = _description(read_extra_state, weights[key], f"'{path}', '{key}'")
        check_numbers(options, path.stat().st_size, f"{path}")
        prefix = key.removesuffix(EXTRA_STATE)
        checkpoint = Checkpoint(options, _below(prefix, weights, path))
        if prefix == "bilm." and SOFTMAX + EXTRA_STATE in weights:
            checkpoint = _with_language_model(checkpoint, weights, path)
        yield source, checkpoint


def _with_language_model(checkpoint: Checkpoint, weights: Mapping[str, Any], path: Path) -> Checkpoint:
    """Add the softmax of the language model `bilm`, and the vocabulary if it lies beside the weights."""
    key = f"{SOFTMAX}{EXTRA_STATE}"
    config = _description(tensor_to_description, weights[key], f"'{path}', '{key}'")
    checkpoint = checkpoint._replace(softmax=SavedSoftmax(config, _below(SOFTMAX, weights, path)))
    file = path.parent / WORDS
    if not file.exists():
        return checkpoint
    words = [UNKNOWN if word == DEFAULT_OOV_TOKEN else word for word in read_words(file, f"{file}")]
    return with_vocabulary(checkpoint, words, f"{file}")


def _description(read: Callable[[Tensor], T], value: Any, name: str) -> T:
    """Decode the extra state of a module. Raises `ConfigurationError` for anything else."""
    try:
        return read(value)
    except (AttributeError, TypeError, ValueError, KeyError) as error:
        raise ConfigurationError(f"{name}: expected a description of the weights beside it: {error}") from error


def _below(prefix: str, weights: Mapping[str, Any], path: Path) -> dict[str, Tensor]:
    """Return the tensors of a module by their names in it. Raises `ConfigurationError` for other values."""
    found = {}
    for key, value in weights.items():
        if key.startswith(prefix) and key != prefix + EXTRA_STATE:
            if not isinstance(value, Tensor):
                raise ConfigurationError(f"'{path}', '{key}': expected a tensor, got a {type(value).__name__}")
            check_finite(value, f"'{path}', tensor '{key}'")
            found[key.removeprefix(prefix)] = value
    return found


def _their_checkpoints(
    weights: Mapping[str, Any], path: Path, given: Optional[BiLMOptions]
) -> Iterator[tuple[str, Checkpoint]]:
    """Yield the name and the checkpoint of each of AllenNLP's own `_ElmoBiLm` in the weights of a model.

    The sizes are `given`, or in the packed files or the config beside the weights. Raises `ConfigurationError` if they
    cannot be read or do not fit the weights.
    """
    for key in weights:
        if key.endswith(f"{THEIR_BILM}.{MARK}"):
            options = given or _read_sizes(path.parent)
            check_numbers(options, path.stat().st_size, f"{path}")
            prefix = key.removesuffix(MARK)
            yield prefix.removesuffix("."), allennlp_checkpoint(weights, prefix, options, f"{path}")


def _read_sizes(folder: Path) -> BiLMOptions:
    """Read the options file in the archive, or else the one that the config names."""
    packed = [str(path) for path in sorted((folder / PACKED).glob(f"*{OPTIONS_FILE}"))]
    named = {value for value in _values(_config(folder), OPTIONS_FILE) if isinstance(value, str)}
    found = packed or sorted(named)
    if len(found) != 1:
        got = ", ".join(found) or "none"
        raise ConfigurationError(
            f"'{folder / CONFIG}': expected one '{OPTIONS_FILE}' with the sizes of its ELMo, got {got}"
        )
    try:
        path = local_file(found[0], OPTIONS_FILE)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{error}; the options file of this ELMo may be elsewhere today: name it as 'options_file', and this model "
            "as 'weight_file'"
        ) from error
    return read_options(path)


def _config(folder: Path) -> Any:
    try:
        return read_json(folder / CONFIG)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"'{folder / CONFIG}', which names the sizes of its ELMo: {error}") from error


def _values(block: Any, key: str) -> Iterator[Any]:
    """Yield every value of a key in a config, at any depth."""
    if isinstance(block, Mapping):
        if key in block:
            yield block[key]
        block = list(block.values())
    if isinstance(block, list):
        for inner in block:
            yield from _values(inner, key)


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
