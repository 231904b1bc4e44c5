"""From what a config says of a biLM to the biLM itself."""

from typing import Any, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary

from elmo_plugin.bilm import BiLM, WordEncoder
from elmo_plugin.checkpoints import Checkpoint, archived_checkpoint, build_bilm, load_checkpoint
from elmo_plugin.checkpoints.allennlp_archive import ARCHIVED_WEIGHTS, TRAINING_WEIGHTS
from elmo_plugin.checkpoints.bilm_tf import BilmTf
from elmo_plugin.checkpoints.checkpoint_format import is_missing
from elmo_plugin.config_keys import check_value
from elmo_plugin.options import BiLMOptions, OptionsError

_PUBLISHED = (
    "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway/elmo_2x4096_512_2048cnn_2xhighway"
)
PUBLISHED_OPTIONS = f"{_PUBLISHED}_options.json"
PUBLISHED_WEIGHTS = f"{_PUBLISHED}_weights.hdf5"
FORMS = ({"options_file", "weight_file"}, {"pretrained"}, {"options", "seed"}, {"options"})


def resolve_bilm(keys: dict[str, Any], kernel: str, serialization_dir: Optional[str]) -> BiLM:
    """The biLM that a config describes.

    # Parameters

    keys : `dict[str, Any]`
        `options_file` and `weight_file`, or `pretrained`, or `options` and `seed`.
    kernel : `str`
    serialization_dir : `Optional[str]`
        Where AllenNLP trains, or has unpacked an archive; in an archive the biLM is taken from there.

    Raises `ConfigurationError` for other keys and for files that cannot be read.
    """
    if set(keys) not in FORMS:
        raise ConfigurationError(f"'bilm' has the keys {sorted(keys)}; wanted 'pretrained', or 'options' and 'seed'")
    if "options" in keys:
        seed = keys.get("seed", 0)
        check_value("bilm.seed", seed, int)
        return BiLM.random(_options(keys["options"]), seed, kernel)
    for key, value in keys.items():
        check_value(f"bilm.{key}", value, str)
    return build_bilm(find_checkpoint(keys, serialization_dir), kernel, _source(keys))


def check_vocabulary(bilm: BiLM, vocab: Optional[Vocabulary]) -> None:
    """Raise `ConfigurationError` where a biLM reads words, and no namespace can be the vocabulary that it has."""
    if vocab is None or not isinstance(bilm.token_encoder, WordEncoder):
        return
    wanted = bilm.token_encoder.embedding.num_embeddings
    sizes = {namespace: vocab.get_vocab_size(namespace) for namespace in vocab.get_namespaces()}
    if sizes and wanted not in sizes.values():
        raise ConfigurationError(
            f"the biLM reads words, by a vocabulary of {wanted - 1} lines; found namespaces of other sizes, padding "
            f"included: {sizes}; wanted its own vocabulary file, see the README"
        )


def find_checkpoint(keys: dict[str, Any], serialization_dir: Optional[str]) -> Checkpoint:
    """The files that `keys` name.

    An archive's own weights first; its paths may lead nowhere. A run that is resumed reads its files if it can.
    """
    source = _source(keys)
    archived = archived_checkpoint(serialization_dir, source, ARCHIVED_WEIGHTS)
    if archived is None and is_missing(source):
        archived = archived_checkpoint(serialization_dir, source, TRAINING_WEIGHTS)
    if archived is not None:
        return archived
    if "pretrained" in keys:
        return load_checkpoint(source)
    return BilmTf().read_pair(keys["options_file"], keys["weight_file"])


def _source(keys: dict[str, Any]) -> str:
    return str(keys.get("pretrained", keys.get("weight_file")))


def _options(options: dict[str, Any]) -> BiLMOptions:
    try:
        return BiLMOptions.from_dict(options)
    except OptionsError as error:
        raise ConfigurationError(f"'bilm.options': {error}") from error
