"""What a biLM computes its products in, by the word that a config has for it."""

import torch
from allennlp.common.checks import ConfigurationError

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def dtype_of(precision: str) -> torch.dtype:
    """The type that a config's `precision` names. Raises `ConfigurationError` for any but these."""
    if precision not in PRECISIONS:
        raise ConfigurationError(f"'precision' is {precision!r}; wanted one of {', '.join(PRECISIONS)}")
    return PRECISIONS[precision]
