"""A module's description in its state dict, as numbers that survive averaging and casting of weights."""

import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo_plugin.common import parse_json

SUM_BYTES = 4
"""The bytes of a CRC-32."""


def description_to_tensor(description: Mapping[str, Any]) -> Tensor:
    """Return the CRC-32 and the JSON text of a description as hexadecimal digits, one number each.

    Users average and cast state dicts, which fails for integers. Every floating-point type represents numbers up to 15
    exactly, and rounding restores them after an average of equal descriptions.
    """
    text = json.dumps(description).encode()
    octets = np.frombuffer(zlib.crc32(text).to_bytes(SUM_BYTES, "big") + text, dtype=np.uint8)
    digits = np.stack([octets >> 4, octets & 15], axis=-1)  # (bytes, 2)
    return torch.from_numpy(digits.reshape(-1).astype(np.float32))


def tensor_to_description(state: Tensor) -> dict[str, Any]:
    """Read a tensor of `description_to_tensor`.

    Raises `ValueError` for other numbers, such as the mean of two descriptions that differ.
    """
    digits = state.detach().cpu().double().round().clamp(0, 15).to(torch.uint8).flatten().numpy()
    pairs = digits[: len(digits) // 2 * 2].reshape(-1, 2)
    packed = (pairs[:, 0] << 4 | pairs[:, 1]).tobytes()
    expected_sum, text = packed[:SUM_BYTES], packed[SUM_BYTES:]
    if expected_sum != zlib.crc32(text).to_bytes(SUM_BYTES, "big") or not text:
        raise ValueError(
            "the description of the weights is damaged, or the mean of different descriptions: average only models "
            "of equal sizes that come from the same source"
        )
    return parse_json(text.decode())
