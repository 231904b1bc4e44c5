"""For runs that end with a real SIGKILL, where the environment says: the configuration stays the same."""

import os
import random
import signal
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from allennlp.common.util import is_distributed
from allennlp.training.callbacks import TrainerCallback
from torch import distributed


@TrainerCallback.register("kill")
class Kill(TrainerCallback):
    """Kills its own process after the batch `KILL_AFTER`, or before a file gets the name `KILL_BEFORE`."""

    def on_start(self, trainer: Any, is_primary: bool = True, **kwargs: Any) -> None:
        """Watch over what is renamed."""
        rename = os.replace

        def watched(source: str, target: str) -> None:
            if Path(target).name == os.environ["KILL_BEFORE"]:
                kill()
            rename(source, target)

        if "KILL_BEFORE" in os.environ:
            os.replace = watched  # type: ignore[assignment]

    def on_batch(self, trainer: Any, *args: Any, is_training: bool, **kwargs: Any) -> None:
        """Count the batches of training, and draw random numbers, as any callback may."""
        random.random()
        np.random.random()
        if is_training and str(trainer._total_batches_completed) == os.environ.get("KILL_AFTER"):
            kill()


@TrainerCallback.register("stop")
class Stop(TrainerCallback):
    """Sends SIGTERM to its own process after the batch that the file `stop_after` beside the run names.

    In a distributed run only the last process gets the signal.
    """

    def on_batch(self, trainer: Any, *args: Any, is_training: bool, **kwargs: Any) -> None:
        """Count the batches of training."""
        file = Path(self.serialization_dir).with_name("stop_after")
        is_last = not is_distributed() or distributed.get_rank() == distributed.get_world_size() - 1
        if is_training and is_last and file.exists() and file.read_text() == str(trainer._total_batches_completed):
            signal.raise_signal(signal.SIGTERM)


def kill() -> NoReturn:
    """At once, and with nothing tidied up."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a killed process goes on")
