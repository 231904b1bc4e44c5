"""Repair of how AllenNLP initializes a model that holds a biLM."""

import logging
from collections import defaultdict
from copy import copy
from functools import partial
from typing import Any

from allennlp.nn.initializers import InitializerApplicator, PretrainedModelInitializer
from torch import Tensor, nn

from elmo_plugin.compat.patching import Function, replace_once

logger = logging.getLogger(__name__)


def keep_weights_of_bilms() -> None:
    """Let a model's `initializer` leave modules that `keeps_weights` marks, such as a biLM, as they are.

    Symptom: a regex for the RNN of a model, such as `.*weight_hh.*` in the published `esim_elmo.jsonnet`, also matches
    the LSTMs of its biLM, which become noise without any message. Cause: an `InitializerApplicator` overwrites each
    parameter whose name matches, even if its weights come from a file.
    Guard: `pretrained` still loads weights into any parameter, and all other modules are initialized as before.
    """

    def initialize(original: Function, self: InitializerApplicator, module: nn.Module) -> None:
        kept = {
            id(parameter)
            for part in module.modules()
            if getattr(part, "keeps_weights", False)
            for parameter in part.parameters()
        }
        skipped = defaultdict[str, list[str]](list)

        def unless_kept(regex: str, initializer: Function, parameter: Tensor, parameter_name: str) -> None:
            if id(parameter) in kept:
                skipped[regex].append(parameter_name)
            else:
                initializer(parameter, parameter_name=parameter_name)

        sparing: Any = copy(self)
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

    replace_once(InitializerApplicator, "__call__", initialize)
