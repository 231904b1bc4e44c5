"""AllenNLP's own ELMo inside trained models: the model holds the weights, and its config names the options file."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import BiLMOptions
from elmo_plugin.checkpoints.bilm_tf import read_options
from elmo_plugin.checkpoints.checkpoint_format import Checkpoint
from elmo_plugin.checkpoints.files import local_file
from elmo_plugin.checkpoints.limits import check_numbers
from elmo_plugin.checkpoints.weight_map import allennlp_map, read_tensors
from elmo_plugin.common import read_json

CONFIG = "config.json"
PACKED = "fta/"
"""The folder of an archive into which AllenNLP before 1.0 copied the files that a config names, under their keys."""
OPTIONS_FILE = "options_file"
MARK = "_token_embedder._char_embedding_weights"
"""The name of a tensor that every `_ElmoBiLm` has."""
BILM, MIX = "_elmo_lstm", "scalar_mix_0"
"""The names of the biLM and of the first mix in `allennlp.modules.elmo.Elmo`."""


class SavedMix(NamedTuple):
    """Hold the learned parameters of the first mix of AllenNLP's `Elmo`, and whether it normalizes the layers."""

    scalar_parameters: list[float]
    gamma: float
    do_layer_norm: bool


def allennlp_checkpoints(weights: Mapping[str, Any], path: Path, name: str) -> Iterator[tuple[str, Checkpoint]]:
    """Yield the name and the checkpoint of each `_ElmoBiLm` in the state dict of a model.

    # Parameters

    weights : `Mapping[str, Any]`
        The state dict.
    path : `Path`
        The file of the state dict. The config and the packed files lie beside it.
    name : `str`
        How errors name the folder, with a separator at its end.

    Raises `ConfigurationError` if the sizes cannot be read or do not fit the weights.
    """
    for key in weights:
        if key.endswith(f"{BILM}.{MARK}"):
            options = _read_sizes(path.parent, name)
            check_numbers(options, path.stat().st_size, f"{name}{path.name}")
            prefix = key.removesuffix(MARK)
            yield prefix.removesuffix("."), allennlp_checkpoint(weights, prefix, options, name)


def allennlp_checkpoint(weights: Mapping[str, Any], prefix: str, options: BiLMOptions, name: str) -> Checkpoint:
    """Return the checkpoint of the `_ElmoBiLm` whose tensors begin with `prefix`. Errors call the model `name`.

    Raises `ConfigurationError` if the weights do not fit the options.
    """
    if options.char_cnn is None:
        raise ConfigurationError(
            f"'{OPTIONS_FILE}' of '{name}': expected a 'char_cnn', because its ELMo reads characters"
        )
    rows = list(allennlp_map(options.char_cnn, options.lstm, prefix))
    # AllenNLP would apply a projection between equal sizes, so it must not be ignored.
    known = {key for row in rows for key in row.theirs}
    unread = [key for key in weights if key.startswith(prefix) and "_projection." in key and key not in known]
    if unread:
        raise ConfigurationError(f"'{name}': expected no projection between equal sizes, got '{unread[0]}'")
    return Checkpoint(options, read_tensors(rows, weights, f"'{name}'", lambda _, value: value.float()))


def saved_mix(weights: Mapping[str, Any], bilm: str, path: Path, name: str) -> SavedMix:
    """Read the first mix beside the biLM called `bilm`; see `allennlp_checkpoints` for the other parameters.

    Raises `ConfigurationError` if there is no mix.
    """
    do_layer_norm = any(value is True for value in _values(_config(path.parent, name), "do_layer_norm"))
    return mix_beside(weights, bilm, do_layer_norm, name)


def mix_beside(weights: Mapping[str, Any], bilm: str, do_layer_norm: bool, name: str) -> SavedMix:
    """Read the first mix beside the biLM called `bilm`. The weights do not show whether it normalizes the layers.

    Raises `ConfigurationError` if there is no mix.
    """
    prefix = f"{bilm.removesuffix(BILM)}{MIX}."
    names = [key for key in weights if key.startswith(f"{prefix}scalar_parameters.")]
    if not names or f"{prefix}gamma" not in weights:
        raise ConfigurationError(f"'{name}': expected a mix of layers at '{prefix}' beside its ELMo, got none")
    by_layer = sorted(names, key=lambda key: int(key.rpartition(".")[2]))
    return SavedMix([float(weights[key]) for key in by_layer], float(weights[f"{prefix}gamma"]), do_layer_norm)


def _read_sizes(folder: Path, name: str) -> BiLMOptions:
    """Read the options file in the archive, or else the one that the config names."""
    packed = [str(path) for path in sorted((folder / PACKED).glob(f"*{OPTIONS_FILE}"))]
    named = {value for value in _values(_config(folder, name), OPTIONS_FILE) if isinstance(value, str)}
    found = packed or sorted(named)
    if len(found) != 1:
        got = ", ".join(found) or "none"
        raise ConfigurationError(
            f"'{name}{CONFIG}': expected one '{OPTIONS_FILE}' with the sizes of its ELMo, got {got}"
        )
    return read_options(local_file(found[0], OPTIONS_FILE))


def _config(folder: Path, name: str) -> Any:
    try:
        return read_json(folder / CONFIG)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"'{name}{CONFIG}', which names the sizes of its ELMo: {error}") from error


def _values(block: Any, key: str) -> Iterator[Any]:
    """Yield every value of a key in a config, at any depth."""
    if isinstance(block, Mapping):
        if key in block:
            yield block[key]
        block = list(block.values())
    if isinstance(block, list):
        for inner in block:
            yield from _values(inner, key)
