"""Time: contestants in turn, A B A B, in one process."""

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter
from typing import NamedTuple

import torch


def nothing() -> None:
    """What most calls need done before them."""


class Call(NamedTuple):
    """Something to time, and what is done before each time without being timed."""

    name: str
    run: Callable[[], object]
    prepare: Callable[[], object] = nothing


class Timed(NamedTuple):
    """Seconds of each round."""

    seconds: list[float]

    @property
    def median(self) -> float:
        """The round in the middle."""
        return median(self.seconds)

    def times_faster_than(self, other: "Timed") -> float:
        """The median of the rounds' own ratios: what slows a whole round down slows both."""
        return median(theirs / ours for theirs, ours in zip(other.seconds, self.seconds, strict=True))


def seconds(run: Callable[[], object], device: torch.device) -> float:
    """Of one call, until the device is done."""
    synchronize(device)
    start = perf_counter()
    run()
    synchronize(device)
    return perf_counter() - start


def synchronize(device: torch.device) -> None:
    """Wait for a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def interleave(calls: Sequence[Call], rounds: int, device: torch.device, warm_up: bool = True) -> dict[str, Timed]:
    """Time every call once a round, in their order, after a round that does not count unless `warm_up` is false."""
    timed: dict[str, Timed] = {call.name: Timed([]) for call in calls}
    for number in range(-warm_up, rounds):
        for call in calls:
            call.prepare()
            elapsed = seconds(call.run, device)
            if number >= 0:
                timed[call.name].seconds.append(elapsed)
    return timed
