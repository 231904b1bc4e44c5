"""The device that an embedder computes on."""

from typing import Optional

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import int_to_device


def find_device(cuda_device: int = -1, device: Optional[str] = None) -> torch.device:
    """Return the device that is named by a GPU's number, with −1 for the processor, or by PyTorch's name for it.

    Raises `ConfigurationError` for a device that this machine does not have.
    """
    if device is not None:
        if cuda_device != -1:
            raise ConfigurationError(f"expected 'cuda_device' or 'device', got both, {cuda_device!r} and {device!r}")
        return _named(device)
    if not isinstance(cuda_device, int) or cuda_device < -1:
        raise ConfigurationError(
            f"'cuda_device': expected the number of a GPU, or -1 for the processor, got {cuda_device!r}"
        )
    count = torch.cuda.device_count()
    if cuda_device >= count:
        known = f"a number below {count}, the number of GPUs here, or -1" if count else "-1, because no GPU was found"
        raise ConfigurationError(f"'cuda_device': expected {known}, got {cuda_device}")
    return int_to_device(cuda_device)


def _named(device: str) -> torch.device:
    """Return the device of this name, after a test that it computes."""
    try:
        torch.ones(1, device=device).tolist()
    except (AssertionError, RuntimeError, TypeError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise ConfigurationError(
            f"'device': expected a device of this machine, such as 'cpu', got {device!r}: {reason}"
        ) from error
    return torch.device(device)
