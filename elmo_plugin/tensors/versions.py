"""Whether tensors have changed since something was computed from them."""

from collections.abc import Callable, Iterable
from typing import Any, Optional

from torch import Tensor

from elmo_plugin.tensors.int8 import Int8Weight


class Versions:
    """Identifies what tensors hold: versions are equal if no tensor was replaced, moved or written to in between.

    PyTorch counts writes, but not those through `.data` and `.numpy()`. Versions keep the storages alive, so that no
    other tensor can get the same address.

    # Parameters

    tensors : `Iterable[Optional[Tensor]]`
    settings : `Any`
        What else must be equal.
    """

    is_frozen: bool = True
    """Whether no tensor is trained, nor was made in inference mode, where PyTorch counts no writes."""

    def __init__(self, tensors: Iterable[Optional[Tensor]], *settings: Any) -> None:
        self._versions: list[Any] = [*settings]
        for tensor in tensors:
            if tensor is None:
                continue
            if tensor.requires_grad or tensor.is_inference():
                self.is_frozen = False
            if isinstance(tensor, Int8Weight):  # every write quantizes it again
                self._versions.append((id(tensor.quantized), tensor.quantized))  # of which only the id is compared
            else:
                writes = 0 if tensor.is_inference() else tensor._version
                self._versions.append(
                    (tensor.untyped_storage(), tensor.data_ptr(), writes, tensor.dtype, tensor.device, tensor.shape)
                )

    def __eq__(self, other: object) -> bool:
        """Return whether the tensors hold the same numbers in the same places."""
        return isinstance(other, Versions) and self._versions == other._versions


class Kept:
    """A value that is made again when what it was made from has changed. A copied or unpickled one starts empty."""

    def __init__(self) -> None:
        self._kept: Any = None, None

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """Copy or unpickle without the value."""
        return type(self), ()

    def get(self, made_from: Any, make: Callable[[], Any]) -> Any:
        """Return the value, which `make` returns unless it is kept from a call with an equal `made_from`."""
        if self._kept[0] != made_from:
            self._kept = made_from, make()
        return self._kept[1]
