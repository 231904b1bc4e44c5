"""The softmax that a language model starts with: one that the config describes, or the one its biLM came with."""

from typing import Any, Optional

from allennlp.common import Lazy, Params
from allennlp.common.checks import ConfigurationError

from elmo_plugin.checkpoints import find_checkpoint
from elmo_plugin.pretraining.softmax import LmSoftmax


def resolve_softmax(
    softmax: Optional[Lazy[LmSoftmax]],
    keys: dict[str, Any],
    words: list[str],
    input_dim: int,
    serialization_dir: Optional[str],
) -> LmSoftmax:
    """The softmax over `words` on vectors of P dimensions.

    # Parameters

    softmax : `Optional[Lazy[LmSoftmax]]`
        The config's block; a new one is made of it. Without it a biLM goes on with the softmax that it was trained
        with, and one that came with none starts a `full` one.
    keys : `dict[str, Any]`
        The config's block `bilm`.
    words : `list[str]`
        Lines of the vocabulary.
    input_dim : `int`
        P.
    serialization_dir : `Optional[str]`
        See `resolve_bilm`.

    Raises `ConfigurationError` if the biLM's own softmax is over another vocabulary.
    """
    if softmax is not None:
        return softmax.construct(vocab_size=len(words), input_dim=input_dim)
    saved = None if "options" in keys else find_checkpoint(keys, serialization_dir)
    if saved is None or saved.softmax is None:
        return LmSoftmax.from_params(Params({}), vocab_size=len(words), input_dim=input_dim)
    if saved.vocabulary != words:
        raise ConfigurationError(
            f"'bilm': its softmax is over {len(saved.vocabulary or [])} words, which are not the {len(words)} of the "
            "vocabulary; wanted a vocabulary of type 'pretrained_bilm', or 'softmax' for a new one"
        )
    own = LmSoftmax.from_params(Params(dict(saved.softmax.config)), vocab_size=len(words), input_dim=input_dim)
    weights = dict(saved.softmax.state_dict)
    if "weight" in weights and len(weights["weight"]) == len(words) + 1:
        weights["weight"] = weights["weight"][1:]  # it was shared with a table of words, whose first row is padding
    own.load_state_dict({"_extra_state": own.get_extra_state(), **weights})
    return own
