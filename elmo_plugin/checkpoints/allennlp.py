"""AllenNLP archives and runs: the biLM inside the weights of a trained model, a `BiLM` or AllenNLP's `_ElmoBiLm`.

A `BiLM` describes itself in the weights. For an `_ElmoBiLm`, the config of the model names the options file.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data.vocabulary import DEFAULT_OOV_TOKEN
from torch import Tensor

from elmo_plugin.bilm import BiLMOptions, read_extra_state, tensor_to_description
from elmo_plugin.checkpoints.bilm_tf import read_options
from elmo_plugin.checkpoints.confined import OPTIONS_FILE, PACKED, read_weights
from elmo_plugin.checkpoints.files import (
    Checkpoint,
    CheckpointFormat,
    Location,
    SavedSoftmax,
    file_in,
    local_file,
    names_in,
    read_object,
)
from elmo_plugin.checkpoints.vocabulary import UNKNOWN, read_words, with_vocabulary
from elmo_plugin.checkpoints.weight_map import ALLENNLP, BILM, EXTRA_STATE, OWN, SOFTMAX, plain_tensors, read_tensors
from elmo_plugin.common import named_errors

ARCHIVED_WEIGHTS = "weights.th"
TRAINING_WEIGHTS = "best.th"
CONFIG = "config.json"
WORDS = "vocabulary/tokens.txt"
MARK = "_token_embedder._char_embedding_weights"
"""The name of a tensor that every `_ElmoBiLm` of AllenNLP has."""
WORD_CACHE = "_word_embedding.weight"
"""The vectors of the words in `vocab_to_cache`, which AllenNLP computes from the other weights."""
ALLENNLP_BILM, ALLENNLP_MIX = "_elmo_lstm", "scalar_mix_0"
"""The names of the biLM and of the first mix in `allennlp.modules.elmo.Elmo`."""


class SavedMix(NamedTuple):
    """Hold the state dict of the first mix of AllenNLP's `Elmo`, and whether it normalizes the layers."""

    state_dict: Mapping[str, Tensor]
    do_layer_norm: bool


@CheckpointFormat.register("allennlp")
class AllenNlpArchive(CheckpointFormat):
    """An unpacked `model.tar.gz`, or the folder of a run. Its model holds one biLM, a `BiLM` or AllenNLP's own.

    For the language model `bilm`, the softmax and the vocabulary are read too. A run without best weights is read from
    its latest checkpoint.

    Registered as a `CheckpointFormat` with name `allennlp`.
    """

    looks_for = f"model.tar.gz, {ARCHIVED_WEIGHTS} or {TRAINING_WEIGHTS}"

    def recognises(self, location: Location) -> bool:
        """Return whether the folder holds the weights of a model."""
        return _weights_in(location) is not None

    def read(self, location: Location, options_file: Optional[Location] = None) -> Checkpoint:
        """Read only the biLM of the model. AllenNLP's own ELMo may have its sizes in another file than the config says.

        Raises `ConfigurationError` if there are more biLMs or none.
        """
        folder = local_file(location, "pretrained")
        path = file_in(folder, _weights_in(folder) or TRAINING_WEIGHTS)
        weights = read_weights(path, f"{path}")
        described = list(_described_bilms(weights, path))
        if described and options_file is not None:
            raise ConfigurationError(f"'options_file': expected none for '{location}', which holds its sizes")
        found = [*described, *_allennlp_bilms(weights, path, options_file)]
        if len(found) != 1:
            sources = ", ".join(source for source, _ in found) or "none"
            raise ConfigurationError(f"'{location}': expected a model with one biLM inside, got {sources}")
        return found[0][1]

    read_with = read


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
    checkpoints = _described_bilms(read_weights(path, str(path)), path)
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
    values = [found for each in keys for found in _values(read_object(file_in(folder, CONFIG)), each)]
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
    `None` if the model has an ELMo of this package, or none at all. Raises `ConfigurationError` if there is no mix
    beside the biLM.
    """
    file = _weights_in(folder)
    if file is None:
        return None
    path = file_in(folder, file)
    weights = read_weights(path, f"{name}/{file}")
    if any(key.endswith(f"bilm.{EXTRA_STATE}") for key in weights):
        return None
    for bilm, checkpoint in _allennlp_bilms(weights, path, options_file):
        prefix = f"{bilm.removesuffix(ALLENNLP_BILM)}{ALLENNLP_MIX}."
        mix = {key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)}
        if not mix:
            raise ConfigurationError(f"'{name}': expected a mix of layers at '{prefix}' beside its ELMo, got none")
        # The weights do not show whether the mix normalizes the layers.
        do_layer_norm = any(value is True for value in _values(read_object(file_in(folder, CONFIG)), "do_layer_norm"))
        return checkpoint, SavedMix(mix, do_layer_norm)
    return None


def allennlp_checkpoint(weights: Mapping[str, Any], prefix: str, options: BiLMOptions, name: str) -> Checkpoint:
    """Return the checkpoint of the `_ElmoBiLm` whose tensors begin with `prefix`. Errors call the model `name`.

    Raises `ConfigurationError` if the weights do not fit the options.
    """
    if options.char_cnn is None:
        raise ConfigurationError(
            f"'{OPTIONS_FILE}' of '{name}': expected a 'char_cnn', because its ELMo reads characters"
        )
    found = {key: value for key, value in weights.items() if key.startswith(prefix) and not key.endswith(WORD_CACHE)}
    return Checkpoint(options, read_tensors(ALLENNLP, options, found, f"'{name}'", prefix))


def _described_bilms(weights: Mapping[str, Tensor], path: Path) -> Iterator[tuple[str, Checkpoint]]:
    """Yield the source and the checkpoint of each `BiLM` in the weights of a model.

    For the language model `bilm`, the checkpoint has its softmax, and the vocabulary if it lies beside the weights.
    """
    for key in [key for key in weights if key.endswith(f"bilm.{EXTRA_STATE}")]:
        with named_errors(
            f"'{path}', '{key}': expected a description of the weights beside it",
            *(ConfigurationError, TypeError, ValueError, KeyError),
        ):
            options, source = read_extra_state(weights[key])
        prefix, softmax = key.removesuffix(EXTRA_STATE), None
        if prefix == BILM and SOFTMAX + EXTRA_STATE in weights:
            with named_errors(f"'{path}', '{SOFTMAX}{EXTRA_STATE}'", ValueError):
                config = tensor_to_description(weights[SOFTMAX + EXTRA_STATE])
                softmax = SavedSoftmax(config, plain_tensors(weights, f"'{path}'", SOFTMAX))
        own = {name: value for name, value in weights.items() if name.startswith(prefix)}
        checkpoint = Checkpoint(options, read_tensors(OWN, options, own, f"'{path}'", prefix), softmax)
        if softmax is not None and (path.parent / WORDS).exists():
            file = file_in(path.parent, WORDS)
            words = [UNKNOWN if word == DEFAULT_OOV_TOKEN else word for word in read_words(file, f"{file}")]
            checkpoint = with_vocabulary(checkpoint, words, f"{file}")
        yield source, checkpoint


def _allennlp_bilms(
    weights: Mapping[str, Tensor], path: Path, options_file: Optional[Location]
) -> Iterator[tuple[str, Checkpoint]]:
    """Yield the name and the checkpoint of each `_ElmoBiLm` in the weights of a model.

    The sizes are in the options file that is given, packed beside the weights, or named by the config there. Raises
    `ConfigurationError` if they cannot be read or do not fit the weights.
    """
    for key in weights:
        if key.endswith(f"{ALLENNLP_BILM}.{MARK}"):
            options = read_options(
                _options_of(path.parent) if options_file is None else local_file(options_file, OPTIONS_FILE)
            )
            prefix = key.removesuffix(MARK)
            yield prefix.removesuffix("."), allennlp_checkpoint(weights, prefix, options, f"{path}")


def _options_of(folder: Path) -> Path:
    """Return the options file in the archive, or else the one that the config names."""
    packed = [file_in(folder, f"{PACKED}{name}") for name in names_in(folder / PACKED) if name.endswith(OPTIONS_FILE)]
    named = {value for value in _values(read_object(file_in(folder, CONFIG)), OPTIONS_FILE) if isinstance(value, str)}
    found = [str(path) for path in packed] or sorted(named)
    if len(found) != 1:
        got = ", ".join(found) or "none"
        raise ConfigurationError(
            f"'{folder / CONFIG}': expected one '{OPTIONS_FILE}' with the sizes of its ELMo, got {got}"
        )
    try:
        return local_file(found[0], OPTIONS_FILE)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"{error}; the options file of this ELMo may be elsewhere today: name it as 'options_file', and this model "
            "as 'weight_file'"
        ) from error


def _values(block: Any, key: str) -> Iterator[Any]:
    """Yield every value of a key in a config, at any depth."""
    if isinstance(block, Mapping):
        if key in block:
            yield block[key]
        block = list(block.values())
    if isinstance(block, list):
        for inner in block:
            yield from _values(inner, key)


def _weights_in(folder: Location) -> Optional[str]:
    """Return the name of the weights of an unpacked archive, or of the best weights of a run, or of its latest ones.

    AllenNLP writes the training state of a checkpoint after its weights, so weights without it may be incomplete.
    """
    names = names_in(folder)
    points = [name for name in names if re.fullmatch(r"model_state_e\d+_b\d+\.th", name)]
    complete = [name for name in points if name.replace("model", "training") in names]
    complete.sort(key=lambda name: [int(number) for number in re.findall(r"\d+", name)])  # by epoch and batch
    return next((name for name in (ARCHIVED_WEIGHTS, TRAINING_WEIGHTS, *complete[-1:]) if name in names), None)
