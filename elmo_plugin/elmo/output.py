"""The value that `Elmo` returns."""

from typing import Any, NamedTuple

from torch import Tensor


class ElmoOutput(NamedTuple):
    """One representation (B, T, output dim) per mix, and the mask (B, T).

    Like the dictionary that AllenNLP's `Elmo` returns, it also has the keys `elmo_representations` and `mask`.
    """

    representations: list[Tensor]
    mask: Tensor

    def __getitem__(self, key: Any) -> Any:
        """Return a field by AllenNLP's key or by its position."""
        if not isinstance(key, str):
            return tuple.__getitem__(self, key)
        return {"elmo_representations": self.representations, "mask": self.mask}[key]

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def keys(self) -> list[str]:
        """Return AllenNLP's keys."""
        return ["elmo_representations", "mask"]
