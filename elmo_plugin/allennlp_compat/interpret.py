"""Repairs of AllenNLP 2.10.1's saliency interpreters and attackers."""

import types
from typing import Any

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Token, TokenIndexer
from allennlp.data.fields import TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer
from allennlp.interpret.attackers import Hotflip
from allennlp.interpret.saliency_interpreters import (
    SimpleGradient,
    integrated_gradient,
    simple_gradient,
    smooth_gradient,
)
from allennlp.nn.util import move_to_device

from elmo_plugin.allennlp_compat.patching import Function, wrap_once


def repair_interpreters() -> None:
    """Apply the repairs of this module, any number of times with the effect of one."""
    repair_saliency()
    repair_hotflip()


def repair_saliency() -> None:
    """Let the saliency interpreters score each token by its own vector, and by 0 where all gradients are 0.

    Symptom: `simple-gradient` multiplies every token's gradient by the first token's vector. All three give NaN for a
    text whose gradients are 0, as those of a model that is certain. Cause: a hook drops the batch dimension, and later
    it is dropped again; scores are divided by their sum.
    Guard: none is needed, vectors with a batch dimension and sums other than 0 stay as they are.
    """
    for module in (integrated_gradient, simple_gradient, smooth_gradient):
        module.numpy = _NumpyOfScores()  # type: ignore[attr-defined]
    wrap_once(SimpleGradient, "_aggregate_token_embeddings", _of_a_batch)


class _NumpyOfScores:
    """What the interpreters compute with, in place of the module `numpy`."""

    linalg = types.SimpleNamespace(norm=lambda scores, ord: np.linalg.norm(scores, ord=ord) or 1.0)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def _of_a_batch(original: Function) -> Function:
    def aggregate(self: SimpleGradient, embeddings: list[torch.Tensor], offsets: list[torch.Tensor]) -> Any:
        return original([each.unsqueeze(0) if each.dim() == 2 else each for each in embeddings], offsets)

    return aggregate


def repair_hotflip() -> None:
    """Let the attacker `hotflip` use any token indexer beside `single_id`, and say so where that is missing.

    Symptom: `RuntimeError: ('Unsupported token indexer:', …)`, as of `elmo_many_langs`; for characters alone
    `NotImplementedError: Our heuristic for guessing the right token ids failed`. Cause: AllenNLP lists three indexers.
    It replaces words by words of the vocabulary, so without their ids it cannot work.
    Guard: the indexers that AllenNLP lists go to the original.
    """
    wrap_once(Hotflip, "_make_embedder_input", _by_any_indexer)


def _by_any_indexer(original: Function) -> Function:
    def make_embedder_input(self: Hotflip, all_tokens: list[str]) -> Any:
        indexers: dict[str, TokenIndexer] = self.predictor._dataset_reader._token_indexers  # type: ignore[attr-defined]
        if not any(isinstance(indexer, SingleIdTokenIndexer) for indexer in indexers.values()):
            raise ConfigurationError(
                "'hotflip' swaps words of a vocabulary: expected the token indexer 'single_id' among those of the "
                f"dataset reader, got {[type(indexer).__name__ for indexer in indexers.values()]}"
            )
        try:
            return original(self, all_tokens)
        except RuntimeError:
            field = TextField([Token(token) for token in all_tokens], indexers)
            field.index(self.vocab)
            tensors = field.batch_tensors([field.as_tensor(field.get_padding_lengths())])
            return move_to_device(tensors, self.cuda_device)

    return make_embedder_input
