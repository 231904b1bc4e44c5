"""AllenNLP's own ELMo in other people's models: the weights are inside, the sizes in a file that the config names."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.checkpoints.bilm_tf import read_options
from elmo_plugin.checkpoints.checkpoint_format import Checkpoint, Location, local_file
from elmo_plugin.checkpoints.limits import check_numbers
from elmo_plugin.checkpoints.weight_map import Shape, allennlp_links
from elmo_plugin.options import BiLMOptions

CONFIG = "config.json"
PACKED = "fta/"
"""Where AllenNLP before 1.0 put the files that a config names into the archive, under the path of their key."""
OPTIONS_FILE = "options_file"
MARK = "_token_embedder._char_embedding_weights"
BILM = "_elmo_lstm"
"""What `allennlp.modules.elmo.Elmo` calls its biLM; its first mix is beside it."""
MIX = "scalar_mix_0"


class SavedMix(NamedTuple):
    """What the first mix of AllenNLP's `Elmo` has learned, and whether it normalizes the layers."""

    scalar_parameters: list[float]
    gamma: float
    do_layer_norm: bool


def allennlp_checkpoints(weights: Mapping[str, Any], path: Path, name: str) -> Iterator[tuple[str, Checkpoint]]:
    """Place and checkpoint of each `_ElmoBiLm` in a model's state dict.

    # Parameters

    weights : the state dict
    path : its file, with the config and the packed files beside it
    name : what errors call the folder, a separator at its end

    Raises `ConfigurationError` if the sizes cannot be had, or are not those of the weights.
    """
    for key in weights:
        if key.endswith(f"{BILM}.{MARK}"):
            prefix = key.removesuffix(MARK)
            options = _options(_options_file(path.parent, name), name)
            check_numbers(options, path.stat().st_size, f"{name}{path.name}")
            yield prefix.removesuffix("."), allennlp_checkpoint(weights, prefix, options, name)


def saved_mix(weights: Mapping[str, Any], place: str, path: Path, name: str) -> SavedMix:
    """Read the first mix beside the biLM at `place`; the other parameters are those of `allennlp_checkpoints`.

    Raises `ConfigurationError` if there is none.
    """
    do_layer_norm = any(value is True for value in _values(_config(path.parent, name), "do_layer_norm"))
    return mix_beside(weights, place, do_layer_norm, name)


def mix_beside(weights: Mapping[str, Any], place: str, do_layer_norm: bool, name: str) -> SavedMix:
    """The same where it is known whether the mix normalizes the layers, which weights do not say."""
    prefix = f"{place.removesuffix(BILM)}{MIX}."
    names = [key for key in weights if key.startswith(f"{prefix}scalar_parameters.")]
    if not names or f"{prefix}gamma" not in weights:
        raise ConfigurationError(f"'{name}': expected a mix of layers at '{prefix}' beside its ELMo, got none")
    by_layer = sorted(names, key=lambda key: int(key.rpartition(".")[2]))
    return SavedMix([float(weights[key]) for key in by_layer], float(weights[f"{prefix}gamma"]), do_layer_norm)


def _options(options_file: Location, name: str) -> BiLMOptions:
    options = read_options(local_file(options_file, OPTIONS_FILE))
    if options.char_cnn is None:
        raise ConfigurationError(
            f"'{OPTIONS_FILE}' {options_file} has no 'char_cnn', and the weights of '{name}' read characters"
        )
    return options


def allennlp_checkpoint(weights: Mapping[str, Any], prefix: str, options: BiLMOptions, name: str) -> Checkpoint:
    """The checkpoint of the `_ElmoBiLm` whose tensors begin with `prefix`. Raises `ConfigurationError` for others."""
    assert options.char_cnn is not None
    state_dict: dict[str, Tensor] = {}
    links = list(allennlp_links(options.char_cnn, options.lstm))
    read = {prefix + part for link in links for part in link.datasets}
    unread = [key for key in weights if key.startswith(prefix) and "_projection." in key and key not in read]
    if unread:
        raise ConfigurationError(f"'{name}': found the projection '{unread[0]}'; the '{OPTIONS_FILE}' wants none")
    for link in links:
        values = (
            _fitting(weights.get(prefix + part), prefix + part, shape, name) for part, shape in link.datasets.items()
        )
        state_dict.update(zip(link.tensors, link.read(*values), strict=True))
    return Checkpoint(options, state_dict)


def _fitting(value: Any, tensor: str, wanted: Shape, name: str) -> Tensor:
    found = tuple(value.shape) if isinstance(value, Tensor) else None
    if not isinstance(value, Tensor) or found != wanted:
        raise ConfigurationError(
            f"'{name}', tensor '{tensor}': found shape {found}, the '{OPTIONS_FILE}' wants {wanted}"
        )
    return value.float()


def _options_file(folder: Path, name: str) -> Location:
    """The file of the sizes: packed beside the weights, or where the config says."""
    packed = sorted((folder / PACKED).glob(f"*{OPTIONS_FILE}"))
    named = {value for value in _values(_config(folder, name), OPTIONS_FILE) if isinstance(value, str)}
    found = [str(path) for path in packed] or sorted(named)
    if len(found) != 1:
        names = ", ".join(found) or "none"
        raise ConfigurationError(
            f"'{name}{CONFIG}': wanted one '{OPTIONS_FILE}' with the sizes of its ELMo, found {names}"
        )
    return found[0]


def _config(folder: Path, name: str) -> Any:
    try:
        return json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"'{name}{CONFIG}', which names the sizes of its ELMo: {error}") from error


def _values(block: Any, key: str) -> Iterator[Any]:
    """Every value that stands under a key, however deep."""
    if isinstance(block, Mapping):
        if key in block:
            yield block[key]
        block = list(block.values())
    if isinstance(block, list):
        for inner in block:
            yield from _values(inner, key)
