"""Repairs of how AllenNLP applies the regexes of a config to a model that holds a biLM."""

import logging
import re
from collections import defaultdict
from copy import copy
from functools import partial
from typing import Any, Optional

from allennlp.models import Model
from allennlp.nn.initializers import InitializerApplicator, PretrainedModelInitializer
from allennlp.training import GradientDescentTrainer
from torch import Tensor, nn

from elmo_plugin.common import is_ours
from elmo_plugin.compat.patching import Function, replace_once

logger = logging.getLogger(__name__)


def keep_weights_of_bilms() -> None:
    """Let a model's `initializer` leave modules that `keeps_weights` marks, such as a biLM, as they are.

    Symptom: a regex for the RNN of a model, such as `.*weight_hh.*` in the published `esim_elmo.jsonnet`, also matches
    the LSTMs of its biLM, which become noise without any message. Cause: an `InitializerApplicator` overwrites each
    parameter whose name matches, even if its weights come from a file.
    Guard: `pretrained` still loads weights into any parameter, and modules of other packages are initialized as before,
    whatever their attributes are called.
    """

    def initialize(original: Function, self: InitializerApplicator, module: nn.Module) -> None:
        kept = {id(parameter) for part in module.modules() if _keeps_weights(part) for parameter in part.parameters()}
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


def warn_of_regexes_without_parameters() -> None:
    """Warn before training of each regex of `regularizer` and `no_grad` that has no effect.

    Symptom: with a name that the model does not have, the penalty is 0, or the parameters are trained, without any
    message. Cause: AllenNLP warns only of the regexes of initializers and parameter groups.
    Guard: there are no other warnings for a model without a biLM, and every model is trained as before.
    """

    def from_partial_objects(
        original: Function,
        cls: type[GradientDescentTrainer],
        model: Model,
        *args: Any,
        no_grad: Optional[list[str]] = None,
        **kwargs: Any,
    ) -> Any:
        if any(map(_keeps_weights, model.modules())):
            trained = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
            for regex, _ in getattr(model._regularizer, "_regularizers", []):  # there may be no regularizer
                if not any(re.search(regex, name) for name, is_trained in trained.items() if is_trained):
                    logger.warning("'regularizer': the regex '%s' matches no parameter that is trained", regex)
            for regex in no_grad or []:
                if not any(re.search(regex, name) for name in trained):
                    logger.warning("'no_grad': the regex '%s' matches no parameter", regex)
        return original(cls, model, *args, no_grad=no_grad, **kwargs)

    replace_once(GradientDescentTrainer, "from_partial_objects", from_partial_objects)


def _keeps_weights(module: nn.Module) -> bool:
    return is_ours(type(module)) and getattr(module, "keeps_weights", False)
