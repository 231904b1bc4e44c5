"""Build a biLM from a checkpoint, or from the keys of a config that name one."""

from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary

from elmo_plugin.bilm import BiLM, BiLMOptions
from elmo_plugin.checkpoints.allennlp import ARCHIVED_WEIGHTS, TRAINING_WEIGHTS, archived_checkpoint, reject_override
from elmo_plugin.checkpoints.bilm_tf import BilmTf, read_options
from elmo_plugin.checkpoints.checkpoint_format import EXTRA_STATE, Checkpoint, load_checkpoint, load_sizes
from elmo_plugin.checkpoints.files import Location, is_missing, local_file
from elmo_plugin.checkpoints.untrusted import printable_errors
from elmo_plugin.checkpoints.vocabulary import with_task_vocabulary
from elmo_plugin.checkpoints.weight_map import unread_error
from elmo_plugin.common import check_value, with_memory, without_memory

_PUBLISHED = (
    "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway/elmo_2x4096_512_2048cnn_2xhighway"
)
PUBLISHED_OPTIONS = f"{_PUBLISHED}_options.json"
PUBLISHED_WEIGHTS = f"{_PUBLISHED}_weights.hdf5"
FORMS = ({"options_file", "weight_file"}, {"weight_file"}, {"pretrained"}, {"options", "seed"}, {"options"})
PATHS = ("pretrained", "options_file", "weight_file")

BilmBlock = Union[str, dict[str, Any]]
"""The value of `bilm` in a config: a location, or an object."""


def build_bilm(checkpoint: Checkpoint, kernel: str = "auto", source: Location = "") -> BiLM:
    """Build a biLM with the sizes and a copy of the weights of a checkpoint.

    >>> from elmo_plugin.checkpoints import load_checkpoint
    >>> build_bilm(load_checkpoint("english-tiny")).options.num_layers
    3

    Raises `ConfigurationError`, which calls the file `source`, if the weights do not fit the sizes.
    """
    bilm = empty_bilm(checkpoint, kernel, source)
    if checkpoint.options.contextualizer is None and checkpoint.options.token_encoder is None:
        with_memory(bilm)
    else:  # it may hold more than its state dict, so it is built again with memory, which the shapes have bounded
        has_warm_state, bilm = bilm.warm_state is not None, BiLM(checkpoint.options, kernel, fspath(source))
        if has_warm_state:
            bilm.warm_state = bilm.zero_state(1, next(bilm.parameters()))
    bilm.load_state_dict(checkpoint.state_dict, strict=False)  # the names have been compared
    return bilm


@printable_errors()
def empty_bilm(checkpoint: Checkpoint, kernel: str = "auto", source: Location = "") -> BiLM:
    """Return the biLM of a checkpoint without memory for its weights, after comparing their names and shapes with it.

    Raises `ConfigurationError`, which calls the file `source`, for the first that differs.
    """
    shapes = {name: tuple(tensor.shape) for name, tensor in checkpoint.state_dict.items() if name != EXTRA_STATE}
    with without_memory():
        try:
            bilm = BiLM(checkpoint.options, kernel, fspath(source))
        except ConfigurationError as error:
            raise ConfigurationError(f"'{fspath(source)}': {error}") from error
        if "warm_hidden" in shapes or "warm_cell" in shapes:
            bilm.warm_state = bilm.zero_state(1, next(bilm.parameters()))
    expected = {name: tuple(tensor.shape) for name, tensor in bilm.state_dict().items() if name != EXTRA_STATE}
    for name, shape in expected.items():
        if shapes.get(name) != shape:
            got = shapes.get(name, "no such tensor")
            raise ConfigurationError(f"'{fspath(source)}', tensor '{name}': expected shape {shape}, got {got}")
    for name in shapes:
        if name not in expected:
            raise unread_error(name, f"'{fspath(source)}'")
    return bilm


def bilm_keys(
    bilm: Optional[BilmBlock], options_file: Optional[str] = None, weight_file: Optional[str] = None
) -> dict[str, Any]:
    """Bring the keys of a config that name a biLM into one of the forms that `resolve_bilm` takes.

    >>> bilm_keys("english-tiny")
    {'pretrained': 'english-tiny'}

    `bilm` is the block; a string is short for `pretrained`. `options_file` and `weight_file` are a pair of bilm-tf's
    files instead. Without `options_file`, the options beside the weights are used; without all three, the published
    pair. Raises `ConfigurationError` for keys that contradict each other.
    """
    if bilm is not None:
        if options_file is not None or weight_file is not None:
            raise ConfigurationError("'bilm': expected either 'bilm' or 'options_file' and 'weight_file', got both")
        if not isinstance(bilm, (str, PathLike, Mapping)):
            raise ConfigurationError(
                f"'bilm': expected a location, or an object with 'pretrained' or 'options', got {bilm!r}"
            )
        return dict(bilm) if isinstance(bilm, Mapping) else {"pretrained": fspath(bilm)}
    if weight_file is None:
        if options_file is None:
            return {"options_file": PUBLISHED_OPTIONS, "weight_file": PUBLISHED_WEIGHTS}
        raise ConfigurationError(
            f"'weight_file': expected the weights that belong to 'options_file' {options_file}, got none"
        )
    return {"weight_file": weight_file} | ({} if options_file is None else {"options_file": options_file})


def resolve_bilm(
    keys: dict[str, Any],
    kernel: str,
    serialization_dir: Optional[str],
    vocab: Optional[Vocabulary] = None,
) -> BiLM:
    """Build the biLM that a config describes.

    >>> resolve_bilm({"pretrained": "english-tiny"}, kernel="auto", serialization_dir=None).source
    'english-tiny'

    # Parameters

    keys : `dict[str, Any]`
        The keys, as `bilm_keys` returns them.
    kernel : `str`
        The name of the LSTM kernel, or `auto`.
    serialization_dir : `Optional[str]`
        The folder that AllenNLP trains in or has unpacked an archive into; an archive's own biLM takes precedence.
    vocab : `Optional[Vocabulary]`
        The vocabulary of the task. It must give the words of a word-input biLM the ids that the biLM expects.

    Raises `ConfigurationError` for other keys and for files that cannot be read.
    """
    _check(keys)
    if "options" in keys:
        seed = keys.get("seed", 0)
        check_value("bilm.seed", seed, int)
        if "seed" in keys:
            reject_override(serialization_dir, "seed", seed)
        return BiLM.random(_options(keys), seed, kernel)
    checkpoint = _archived(keys, serialization_dir)  # in which `<S>` and `</S>` keep the ids that they had in training
    if checkpoint is None:
        checkpoint = _read(keys) if vocab is None else with_task_vocabulary(_read(keys), vocab)
    return build_bilm(checkpoint, kernel, _source(keys))


def find_checkpoint(keys: dict[str, Any], serialization_dir: Optional[str]) -> Checkpoint:
    """Read the biLM that `keys` name, from the archive in `serialization_dir` if it holds one.

    See `resolve_bilm` for the arguments.
    """
    _check(keys)
    return _archived(keys, serialization_dir) or _read(keys)


def bilm_sizes(bilm: BilmBlock, serialization_dir: Optional[str]) -> BiLMOptions:
    """Return the sizes of the biLM that a config's `bilm` block names, without reading its weights if possible.

    As in `resolve_bilm`, an archive's own biLM takes precedence. Raises `ConfigurationError` for other keys and for
    files that cannot be read.
    """
    keys = bilm_keys(bilm)
    _check(keys)
    if "options" in keys:
        return _options(keys)
    archived = _archived(keys, serialization_dir)
    if archived is not None:
        return archived.options
    if "options_file" in keys:
        return read_options(local_file(keys["options_file"], "options_file"))
    return load_sizes(_source(keys))


def _check(keys: dict[str, Any]) -> None:
    """Raise `ConfigurationError` for keys that name no biLM."""
    if set(keys) not in FORMS:
        raise ConfigurationError(f"'bilm': expected the key 'pretrained', or 'options' and 'seed', got {sorted(keys)}")
    for key in PATHS:
        if key in keys and not (keys[key] and isinstance(keys[key], (str, PathLike))):
            raise ConfigurationError(
                f"'{key}': expected a path, a URL or the name of a bundled biLM, got {keys[key]!r}"
            )


def _options(keys: dict[str, Any]) -> BiLMOptions:
    try:
        options = BiLMOptions.from_dict(keys["options"])
    except ConfigurationError as error:
        raise ConfigurationError(f"'bilm.options': {error}") from error
    for key, block in BiLMOptions.blocks().items():  # keys beside these blocks may be bilm-tf's training options
        block.reject_unknown(keys["options"].get(key) or {}, f"bilm.options.{key}")
    return options


def _source(keys: dict[str, Any]) -> str:
    """Return the location of the weights as the config has it: the name of the biLM in an archive."""
    return fspath(keys["pretrained"] if "pretrained" in keys else keys["weight_file"])


def _archived(keys: dict[str, Any], serialization_dir: Optional[str]) -> Optional[Checkpoint]:
    """Read the biLM from an archive, or from a run if its original files no longer exist; `None` otherwise."""
    source = _source(keys)
    reject_override(serialization_dir, "bilm", source)
    archived = archived_checkpoint(serialization_dir, source, ARCHIVED_WEIGHTS)
    if archived is None and is_missing(source):
        archived = archived_checkpoint(serialization_dir, source, TRAINING_WEIGHTS)
    return archived


def _read(keys: dict[str, Any]) -> Checkpoint:
    if "pretrained" in keys:
        return load_checkpoint(keys["pretrained"])
    if "options_file" in keys:
        weights = keys["weight_file"]
        if fspath(weights).endswith((".tar.gz", ".tgz")) or Path(weights).is_dir():
            return load_checkpoint(weights, keys["options_file"])
        return BilmTf().read_pair(keys["options_file"], weights)
    return BilmTf().read(keys["weight_file"])
