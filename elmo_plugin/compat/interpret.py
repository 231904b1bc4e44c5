"""Repairs of AllenNLP's interpreters and attackers."""

import types
from functools import partial
from typing import Any

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Token, TokenIndexer
from allennlp.data.fields import TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer
from allennlp.interpret.attackers import Hotflip
from allennlp.interpret.influence_interpreters import influence_interpreter, simple_influence
from allennlp.interpret.saliency_interpreters import (
    SimpleGradient,
    integrated_gradient,
    simple_gradient,
    smooth_gradient,
)
from allennlp.nn.util import move_to_device

from elmo_plugin.compat.patching import Function, replace_name, replace_once


def repair_saliency() -> None:
    """Let the saliency interpreters score each token by its own vector, and by 0 where all gradients are 0.

    Symptom: `simple-gradient` multiplies the gradient of every token by the vector of the first token. All three
    interpreters return NaN for a text whose gradients are all 0, for example from a model that is certain. Cause: a
    hook drops the batch dimension, and the interpreter drops another one; scores are divided by their sum.
    Guard: vectors with a batch dimension, and sums other than 0, are not changed.
    """

    def aggregate(
        original: Function, self: SimpleGradient, embeddings: list[torch.Tensor], offsets: list[torch.Tensor]
    ) -> Any:
        return original([each.unsqueeze(0) if each.dim() == 2 else each for each in embeddings], offsets)

    for module in (integrated_gradient, simple_gradient, smooth_gradient):
        replace_name(module, "numpy", _NumpyWithSafeNorm())
    replace_once(SimpleGradient, "_aggregate_token_embeddings", aggregate)


class _NumpyWithSafeNorm:
    """Replace the module `numpy` in the interpreters, so that a norm of 0 becomes 1."""

    linalg = types.SimpleNamespace(norm=lambda scores, ord: np.linalg.norm(scores, ord=ord) or 1.0)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def repair_hotflip() -> None:
    """Let the attacker `hotflip` use any token indexer beside `single_id`, and report it if `single_id` is missing.

    Symptom: `RuntimeError: ('Unsupported token indexer:', …)`, for example with `elmo_many_langs`; with characters
    alone, `NotImplementedError: Our heuristic for guessing the right token ids failed`. Cause: AllenNLP supports only
    three indexers. Hotflip replaces words by other words of the vocabulary, so it needs their ids.
    Guard: the original handles the indexers that it supports.
    """

    def make_embedder_input(original: Function, self: Hotflip, all_tokens: list[str]) -> Any:
        indexers: dict[str, TokenIndexer] = self.predictor._dataset_reader._token_indexers  # type: ignore[attr-defined]
        if not any(isinstance(indexer, SingleIdTokenIndexer) for indexer in indexers.values()):
            raise ConfigurationError(
                "'hotflip' swaps words of a vocabulary: expected the token indexer 'single_id' in the dataset reader, "
                f"got {[type(indexer).__name__ for indexer in indexers.values()]}"
            )
        try:
            return original(self, all_tokens)
        except RuntimeError:
            field = TextField([Token(token) for token in all_tokens], indexers)
            field.index(self.vocab)
            tensors = field.batch_tensors([field.as_tensor(field.get_padding_lengths())])
            return move_to_device(tensors, self.cuda_device)

    replace_once(Hotflip, "_make_embedder_input", make_embedder_input)


def repair_influence() -> None:
    """Let `simple-influence` compare gradients of any layout, and of a text that does not use every parameter.

    Symptom: `RuntimeError: view size is not compatible with input tensor's size and stride` for a biLM; `One of the
    differentiated Tensors appears to not have been used in the graph` for a CRF, because a text of one token does not
    use its transitions. Cause: AllenNLP flattens gradients with `view`, and computes for every text the gradients of
    the parameters that the first text used. Now an unused parameter has a gradient of 0.
    Guard: other gradients are not changed.
    """

    def flatten(original: Function, tensors: Any) -> torch.Tensor:
        flat: torch.Tensor = original([tensor.contiguous() for tensor in tensors])
        return flat

    replace_once(simple_influence, "_flatten_tensors", flatten)
    autograd = types.SimpleNamespace(grad=partial(torch.autograd.grad, materialize_grads=True))
    for module in (influence_interpreter, simple_influence):
        replace_name(module, "autograd", autograd)
