"""Time systems in turn, A B A B, in one process."""

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter
from typing import NamedTuple

import torch
from tqdm import tqdm


class Call(NamedTuple):
    """A function to time, and a function to call before each run, which is not timed."""

    name: str
    run: Callable[[], object]
    prepare: Callable[[], object] = lambda: None


class Times(NamedTuple):
    """The seconds that each round took."""

    seconds: list[float]

    @property
    def median(self) -> float:
        return median(self.seconds)

    def times_faster_than(self, other: "Times") -> float:
        """Return the median of the ratios within each round, because a disturbance slows both systems in a round."""
        return median(theirs / ours for theirs, ours in zip(other.seconds, self.seconds, strict=True))


def seconds(run: Callable[[], object], device: torch.device) -> float:
    """Return the seconds that one call takes, until the device has finished."""
    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    synchronize()
    start = perf_counter()
    run()
    synchronize()
    return perf_counter() - start


def interleave(calls: Sequence[Call], rounds: int, device: torch.device, warm_up: bool = True) -> dict[str, Times]:
    """Time every call once per round, in order. With `warm_up`, there is a first round that does not count."""
    times = {call.name: Times([]) for call in calls}
    total = (rounds + warm_up) * len(calls)
    with tqdm(total=total, unit="call", leave=False, disable=None) as progress:  # on stderr, if it is a terminal
        for number in range(-warm_up, rounds):
            for call in calls:
                progress.set_description(f"round {max(0, number + 1)} of {rounds}: {call.name}")
                call.prepare()
                elapsed = seconds(call.run, device)
                if number >= 0:
                    times[call.name].seconds.append(elapsed)
                progress.update()
    return times
