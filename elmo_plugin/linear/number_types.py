"""Number types, by their names in configs, on the command line and in Python."""

from collections.abc import Collection

import torch

NUMBER_TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def number_type(name: str, key: str = "precision", allowed: Collection[str] = tuple(NUMBER_TYPES)) -> torch.dtype:
    """Return PyTorch's type of that name. Raises a `ValueError` that names `key` if the name is not allowed."""
    if name not in allowed:
        *others, last = map(repr, allowed)
        raise ValueError(f"'{key}': expected {', '.join(others)} or {last}, got {name!r}")
    return NUMBER_TYPES[name]
