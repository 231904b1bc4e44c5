"""Repairs of AllenNLP's models and modules that read the vectors of ELMo."""

import logging
from collections import defaultdict
from collections.abc import Mapping
from copy import copy
from functools import partial
from typing import Any

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.nn.initializers import PretrainedModelInitializer
from torch import Tensor, nn

from elmo_plugin.common import installed, is_ours
from elmo_plugin.compat.patching import Function, replaces

logger = logging.getLogger(__name__)


@replaces("allennlp.nn.util.get_token_ids_from_text_field_tensors")
def find_token_ids(original: Function, text_field_tensors: Mapping[str, Mapping[str, Tensor]]) -> Any:
    """Let `basic_classifier` run on `elmo_characters` alone. Its readable output then has no `tokens`.

    Symptom: `NotImplementedError: Our heuristic for guessing the right token ids failed` on the first batch. Cause:
    AllenNLP 2 needs word ids for its output, but there are only character ids. Each sentence now has no ids.
    Guard: only for a batch (B, T, C) of `elmo_tokens` without another indexer. The original handles anything else, such
    as the single sentence of the attacker `hotflip`, which would use the ids.
    """
    tensors = {name: tensor for indexer in text_field_tensors.values() for name, tensor in indexer.items()}
    if [*tensors] == ["elmo_tokens"] and tensors["elmo_tokens"].dim() == 3:
        return tensors["elmo_tokens"].new_empty((tensors["elmo_tokens"].size(0), 0))  # (B, 0)
    return original(text_field_tensors)


@replaces("allennlp.modules.encoder_base._EncoderBase.sort_and_run_forward")
def check_width_of_rnn(
    original: Function, self: Any, module: nn.Module, inputs: Tensor, *args: Any, **kwargs: Any
) -> Any:
    """Reject the input of an RNN that has another width than its `input_size`.

    Symptom: with a wrong `input_size` a model learns noise, or the process crashes, without a message. Cause: PyTorch
    does not check the width for sentences of equal length on a CPU, and reads what lies behind the input.
    Guard: an input of the right width passes.
    """
    size = getattr(module, "input_size", None)
    if size is not None and inputs.size(-1) != size:
        raise ConfigurationError(
            f"an encoder's 'input_size': expected {inputs.size(-1)}, the width of what enters it, got {size}"
        )
    return original(self, module, inputs, *args, **kwargs)


@replaces("allennlp.predictors.predictor.Predictor._json_to_instance")
def say_which_predictor_reads_json(original: Function, self: Any, json_dict: Any) -> None:
    """Say what to do about a model whose default predictor reads no JSON. Without it, the error has no message."""
    raise NotImplementedError(
        "the model: expected a predictor that reads JSON, got none; name one with --predictor, or in the model's "
        f"`default_predictor`, such as elmo_tagger; see {installed('docs/extend.md')}"
    )


@replaces("allennlp.nn.util.tiny_value_of_dtype")
def tiny_value_of_dtype(original: Function, dtype: torch.dtype) -> Any:
    """Let models with a masked softmax run after `model.bfloat16()`.

    Symptom: `TypeError: Does not support dtype torch.bfloat16` from `sequence_cross_entropy_with_logits`. Cause:
    `tiny_value_of_dtype` has no value for bfloat16. It now gets the tiny value of float32, which has the same range.
    Guard: every other type of number gets the value, or the error, that it got before.
    """
    return original(torch.float32 if dtype == torch.bfloat16 else dtype)


@replaces("allennlp.nn.initializers.InitializerApplicator.__call__")
def keep_weights_of_bilms(original: Function, self: Any, module: nn.Module) -> None:
    """Let a model's `initializer` leave modules that `keeps_weights` marks, such as a biLM, as they are.

    Symptom: a regex for the RNN of a model, such as `.*weight_hh.*` in the published `esim_elmo.jsonnet`, also matches
    the LSTMs of its biLM, which become noise without any message. Cause: an `InitializerApplicator` overwrites each
    parameter whose name matches, even if its weights come from a file.
    Guard: `pretrained` still loads weights into any parameter, and modules of other packages are initialized as before,
    whatever their attributes are called.
    """
    kept = {id(parameter) for part in module.modules() if keeps_weights(part) for parameter in part.parameters()}
    skipped = defaultdict[str, list[str]](list)

    def unless_kept(regex: str, initializer: Function, parameter: Tensor, parameter_name: str) -> None:
        if id(parameter) in kept:
            skipped[regex].append(parameter_name)
        else:
            initializer(parameter, parameter_name=parameter_name)

    sparing = copy(self)
    sparing._initializers = [
        (regex, initializer)
        if isinstance(initializer, PretrainedModelInitializer)
        else (regex, partial(unless_kept, regex, initializer))
        for regex, initializer in self._initializers
    ]
    original(sparing, module)
    for regex, names in skipped.items():
        logger.warning(
            "initializer '%s': %d parameters of a biLM match too and keep their values, such as %s",
            regex,
            len(names),
            names[0],
        )


def keeps_weights(module: nn.Module) -> bool:
    """Return whether the weights of a module, such as a biLM, are never initialized."""
    return is_ours(type(module)) and getattr(module, "keeps_weights", False)
