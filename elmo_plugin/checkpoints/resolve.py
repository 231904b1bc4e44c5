"""From what a config says of a biLM to the biLM itself."""

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any, Optional, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary

from elmo_plugin.bilm import BiLM
from elmo_plugin.checkpoints import Checkpoint, archived_checkpoint, build_bilm, load_checkpoint, load_sizes
from elmo_plugin.checkpoints.allennlp_archive import ARCHIVED_WEIGHTS, TRAINING_WEIGHTS
from elmo_plugin.checkpoints.bilm_tf import BilmTf
from elmo_plugin.checkpoints.checkpoint_format import is_missing
from elmo_plugin.checkpoints.task_vocabulary import matching_namespaces, with_task_vocabulary
from elmo_plugin.checkpoints.word_table import in_order_of
from elmo_plugin.config_keys import check_value
from elmo_plugin.options import BiLMOptions, OptionsError

_PUBLISHED = (
    "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway/elmo_2x4096_512_2048cnn_2xhighway"
)
PUBLISHED_OPTIONS = f"{_PUBLISHED}_options.json"
PUBLISHED_WEIGHTS = f"{_PUBLISHED}_weights.hdf5"
FORMS = ({"options_file", "weight_file"}, {"weight_file"}, {"pretrained"}, {"options", "seed"}, {"options"})
PATHS = ("pretrained", "options_file", "weight_file")

BilmBlock = Union[str, dict[str, Any]]
"""What stands under `bilm` in a config: a source by itself, or keys."""


def bilm_keys(
    bilm: Optional[BilmBlock], options_file: Optional[str] = None, weight_file: Optional[str] = None
) -> dict[str, Any]:
    """Bring what a config says of the biLM into one of the forms that `resolve_bilm` takes.

    # Parameters

    bilm : `Optional[BilmBlock]`
        The block `bilm`. A string is what `pretrained` says.
    options_file, weight_file : `Optional[str]`
        In place of it, a pair in bilm-tf's files. Options are looked for beside weights that are named alone; without
        either the pair is the published one.

    Raises `ConfigurationError` for keys that contradict each other.
    """
    if bilm is not None:
        if options_file is not None or weight_file is not None:
            raise ConfigurationError("'bilm' stands in place of 'options_file' and 'weight_file'; found both")
        if not isinstance(bilm, (str, PathLike, Mapping)):
            raise ConfigurationError(
                f"'bilm': expected a source, or an object with 'pretrained' or 'options', got {bilm!r}"
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
    words: Optional[list[str]] = None,
) -> BiLM:
    """Build the biLM that a config describes.

    # Parameters

    keys : `dict[str, Any]`
        As `bilm_keys` gives them.
    kernel : `str`
    serialization_dir : `Optional[str]`
        Where AllenNLP trains, or has unpacked an archive; in an archive the biLM is taken from there.
    vocab : `Optional[Vocabulary]`
        The task's vocabulary. It must number the words as a biLM that reads words does.
    words : `Optional[list[str]]`
        In place of it, words by which the table of a biLM that reads words is put in order.

    Raises `ConfigurationError` for other keys and for files that cannot be read.
    """
    _check(keys)
    if "options" in keys:
        seed = keys.get("seed", 0)
        check_value("bilm.seed", seed, int)
        bilm = BiLM.random(_options(keys["options"]), seed, kernel)
        matching_namespaces(bilm.options, vocab)
        return bilm
    checkpoint = _archived(keys, serialization_dir)
    if checkpoint is None:
        checkpoint = _read(keys) if vocab is None else with_task_vocabulary(_read(keys), vocab)
    else:
        matching_namespaces(checkpoint.options, vocab)  # the ids of `<S>` and `</S>` stay as they were in training
    return build_bilm(checkpoint if words is None else in_order_of(words, checkpoint), kernel, _source(keys))


def find_checkpoint(keys: dict[str, Any], serialization_dir: Optional[str]) -> Checkpoint:
    """Read the files that `keys` name, or what an archive holds of them."""
    _check(keys)
    return _archived(keys, serialization_dir) or _read(keys)


def _archived(keys: dict[str, Any], serialization_dir: Optional[str]) -> Optional[Checkpoint]:
    """An archive's own weights, as its paths may lead nowhere. A run that is resumed reads its files if it can."""
    source = _source(keys)
    archived = archived_checkpoint(serialization_dir, source, ARCHIVED_WEIGHTS)
    if archived is None and is_missing(source):
        archived = archived_checkpoint(serialization_dir, source, TRAINING_WEIGHTS)
    return archived


def _read(keys: dict[str, Any]) -> Checkpoint:
    if "pretrained" in keys:
        return load_checkpoint(keys["pretrained"])
    if "options_file" in keys:
        return BilmTf().read_pair(keys["options_file"], keys["weight_file"])
    return BilmTf().read(keys["weight_file"])


def _check(keys: dict[str, Any]) -> None:
    if set(keys) not in FORMS:
        raise ConfigurationError(f"'bilm': expected the key 'pretrained', or 'options' and 'seed', got {sorted(keys)}")
    for key in PATHS:
        if key in keys and not (keys[key] and isinstance(keys[key], (str, PathLike))):
            raise ConfigurationError(
                f"'{key}': expected a path, a URL or the name of a bundled biLM, got {keys[key]!r}"
            )


def _source(keys: dict[str, Any]) -> str:
    return fspath(keys["pretrained"] if "pretrained" in keys else keys["weight_file"])


def _options(options: dict[str, Any]) -> BiLMOptions:
    try:
        return BiLMOptions.from_dict(options)
    except OptionsError as error:
        raise ConfigurationError(f"'bilm.options': {error}") from error


def bilm_sizes(bilm: BilmBlock, serialization_dir: Optional[str]) -> BiLMOptions:
    """Return the sizes of the biLM that a config's `bilm` names, without reading its weights where that can be avoided.

    As of the biLM itself, an archive's own come first. Raises `ConfigurationError` for other keys and unfit files.
    """
    keys = bilm_keys(bilm)
    _check(keys)
    if "options" in keys:
        return _options(keys["options"])
    archived = _archived(keys, serialization_dir)
    if archived is not None:
        return archived.options
    return load_sizes(_source(keys))
