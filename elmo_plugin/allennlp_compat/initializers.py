"""Repair of how AllenNLP initializes a model that holds pretrained weights."""

import logging
from collections import defaultdict
from copy import copy
from functools import partial
from typing import Any

from allennlp.nn.initializers import InitializerApplicator, PretrainedModelInitializer
from torch import Tensor, nn

from elmo_plugin.allennlp_compat.patching import Function, replace_once

logger = logging.getLogger(__name__)


def spare_loaded_weights() -> None:
    """Let a model's `initializer` leave modules with `has_loaded_weights`, such as a biLM, as they are.

    Symptom: a regex for the RNN of a model, such as `.*weight_hh.*` in the published `esim_elmo.jsonnet`, also matches
    the LSTMs of its biLM, which become noise without any message. Cause: an `InitializerApplicator` overwrites each
    parameter whose name matches, even if it was loaded from a file.
    Guard: `pretrained` still loads weights into any parameter, and all other modules are initialized as before.
    """

    def initialize(original: Function, self: InitializerApplicator, module: nn.Module) -> None:
        loaded = {
            id(parameter)
            for part in module.modules()
            if getattr(part, "has_loaded_weights", False)
            for parameter in part.parameters()
        }
        spared = defaultdict[str, list[str]](list)

        def unless_loaded(regex: str, initializer: Function, parameter: Tensor, parameter_name: str) -> None:
            if id(parameter) in loaded:
                spared[regex].append(parameter_name)
            else:
                initializer(parameter, parameter_name=parameter_name)

        sparing: Any = copy(self)
        sparing._initializers = [
            (regex, initializer)
            if isinstance(initializer, PretrainedModelInitializer)
            else (regex, partial(unless_loaded, regex, initializer))
            for regex, initializer in self._initializers
        ]
        original(sparing, module)
        for regex, names in spared.items():
            logger.warning(
                "initializer '%s': %d pretrained parameters of the biLM match too and keep their values, such as %s",
                regex,
                len(names),
                names[0],
            )

    replace_once(InitializerApplicator, "__call__", initialize)
