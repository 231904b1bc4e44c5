"""Checkpoints that survive a kill or a full disk: each is written atomically before an old one is removed."""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional, Union

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import is_distributed
from allennlp.training.checkpointer import Checkpointer
from allennlp.training.trainer import Trainer, TrainerCheckpoint
from torch import distributed

from elmo_plugin.common import Stopped, at_least, atomic_file

Point = tuple[int, int]
"""When a checkpoint was saved: the number of completed epochs, and of completed batches in the next epoch."""


@Checkpointer.register("atomic")
class AtomicCheckpointer(Checkpointer):
    """AllenNLP's checkpointer, with checkpoints that are complete or do not exist.

    The training state is written first and the model state last, each to a temporary file that is then renamed. A
    checkpoint counts only if both files exist. In distributed training the first process decides when to save.

    No checkpoint is saved between the last batch of an epoch and its validation, because AllenNLP's trainer would lose
    the training metrics of the epoch when it resumes there. `exact_resume` restores them, so a run that it stops during
    validation does save such a checkpoint.

    Registered as a `Checkpointer` with name `atomic`.

    ```jsonnet
    trainer: { checkpointer: { type: 'atomic', save_every_num_minutes: 10 }, … },
    ```

    # Parameters

    serialization_dir : `Union[str, Path]`
        From the trainer.
    save_every_num_minutes : `Optional[float]`
        Save after the first batch that ends this long after the last checkpoint, also in distributed training.
    save_completed_epochs, save_every_num_batches, save_every_num_seconds
        When to save, as in AllenNLP's `default`: after each epoch (true), or at intervals.
    keep_most_recent_by_count, keep_most_recent_by_age
        How many checkpoints to keep (2), or for how many seconds.
    kwargs : `Any`
        The keys of AllenNLP's `default`, named above.
    """

    def __init__(
        self,
        serialization_dir: Union[str, Path],
        save_every_num_minutes: Optional[float] = None,
        **kwargs: Any,
    ) -> None:
        at_least(1, save_every_num_batches=kwargs.get("save_every_num_batches"))
        not_negative = ("save_every_num_seconds", "keep_most_recent_by_count", "keep_most_recent_by_age")
        at_least(0, save_every_num_minutes=save_every_num_minutes, **{key: kwargs.get(key) for key in not_negative})
        super().__init__(serialization_dir, **kwargs)
        if save_every_num_minutes is not None:
            if self._save_every_num_seconds is not None:
                raise ConfigurationError("expected 'save_every_num_minutes' or 'save_every_num_seconds', got both")
            self._save_every_num_seconds = 60 * save_every_num_minutes
        self.before_saving: list[Callable[[], None]] = []
        """Functions that every process calls after an epoch's last batch, and before a checkpoint is saved."""
        self.stop_signal = 0
        """The number of the signal, if one has asked this process to save a checkpoint and stop; 0 if none has."""

    def maybe_save_checkpoint(
        self, trainer: Trainer, num_epochs_completed: int, num_batches_in_epoch_completed: int
    ) -> bool:
        """Save a checkpoint if one is due or a signal asks for it, and return whether one was saved.

        Raises `Stopped` after saving if any process has received a signal.
        """
        any_trainer: Any = trainer
        try:  # the trainer counts the batches over which it accumulates gradients as one
            last = math.ceil(len(any_trainer.data_loader) / any_trainer._num_gradient_accumulation_steps)
        except TypeError:
            last = None
        if num_batches_in_epoch_completed == last:
            self._prepare()
            return False
        return self.save_if(trainer, self._is_due(num_epochs_completed, num_batches_in_epoch_completed))

    def save_if(self, trainer: Trainer, due: bool) -> bool:
        """Save a checkpoint if the first process says that one is due, or if any process has received a signal.

        Returns and raises the same as `maybe_save_checkpoint`.
        """
        asked = torch.tensor([due and self._is_primary, self.stop_signal])  # (2,)
        if is_distributed():  # all processes stop after the same batch
            asked = asked.to(trainer.cuda_device)
            distributed.all_reduce(asked, distributed.ReduceOp.MAX)
        is_due, stop_signal = asked.tolist()
        if is_due or stop_signal:
            self.save_checkpoint(trainer)
        if stop_signal:
            if is_distributed():  # the first process is still saving
                distributed.barrier()
            raise Stopped(stop_signal)
        return bool(is_due)

    def save_checkpoint(self, trainer: Trainer) -> None:
        """Save a checkpoint, then remove surplus checkpoints and the files that killed runs have left.

        Raises `ConfigurationError` if the disk is full. Earlier checkpoints then stay as they are.
        """
        self._prepare()
        state = trainer.get_checkpoint_state()
        if state is not None:
            point = state.trainer_state["epochs_completed"], state.trainer_state["batches_in_epoch_completed"]
            state.trainer_state["is_best"] = point[1] == 0 and _is_best(trainer) and not self.state_is_sharded
            self._write(state.trainer_state, self._training_state_path(*point))
            self._write(state.model_state, self._model_state_path(*point))
        # AllenNLP's method finds both files written, notes the time and removes old checkpoints.
        super().save_checkpoint(trainer)
        self._remove_what_killed_saves_left()

    def load_checkpoint(self) -> Optional[TrainerCheckpoint]:
        """Load the latest checkpoint, if any. The next one is due at the same time as in an uninterrupted run.

        If the checkpoint is the best one, it is also written to `best.th`: the trainer does that only after saving a
        checkpoint, and may have been killed in between.
        """
        self._remove_what_killed_saves_left()
        checkpoint = super().load_checkpoint()
        if checkpoint is not None:
            if checkpoint.trainer_state.get("is_best"):
                best = checkpoint.trainer_state["best_model_filename"] = str(Path(self._serialization_dir, "best.th"))
                average = checkpoint.trainer_state.get("moving_average", {"shadows": {}})
                if self._is_primary:
                    # The trainer's temporary name, so that this overwrites what a killed copy has left.
                    with atomic_file(Path(best)) as partial, partial.open("wb") as file:
                        torch.save({**checkpoint.model_state, **average["shadows"]}, file)
            self._last_save_num_epochs_completed = checkpoint.trainer_state["epochs_completed"]
            self._last_save_num_batches_in_epoch_completed = checkpoint.trainer_state["batches_in_epoch_completed"]
        return checkpoint

    def _prepare(self) -> None:
        for call in self.before_saving:
            call()

    def _is_due(self, epochs: int, batches: int) -> bool:
        if batches == 0 and self._save_completed_epochs:
            return True
        seconds, every = self._save_every_num_seconds, self._save_every_num_batches
        if seconds is not None and time.time() - self._last_save_time >= seconds:
            return True
        same_epoch = epochs == self._last_save_num_epochs_completed
        last = self._last_save_num_batches_in_epoch_completed if same_epoch else 0
        return every is not None and batches - last >= every

    def _find_all_checkpoints(self) -> set[Point]:
        return self._points("training") & self._points("model")

    def _remove_checkpoint(self, epochs_completed: int, batches_in_epoch_completed: int) -> None:
        # AllenNLP's method would remove the checkpoints of batches 50 to 59 along with that of batch 5.
        for kind in ("model", "training"):
            name = f"{kind}_state_e{epochs_completed}_b{batches_in_epoch_completed}"
            for path in Path(self._serialization_dir).glob(f"{name}[._]*th"):
                path.unlink()

    def _remove_what_killed_saves_left(self) -> None:
        """Remove incomplete checkpoints, and complete ones beyond the number to keep."""
        if not self._is_primary:
            return
        surplus = self._points("training") ^ self._points("model")
        if self._keep_most_recent_by_count is not None and self._keep_most_recent_by_age is None:
            surplus.update(sorted(self._find_all_checkpoints(), reverse=True)[self._keep_most_recent_by_count :])
        for point in surplus:
            self._remove_checkpoint(*point)

    def _points(self, kind: str) -> set[Point]:
        """Return the points for which there is a file of a kind, "training" or "model"."""
        parse = self._parse_training_state_path if kind == "training" else self._parse_model_state_path
        suffix = f"_w{self._rank}.th" if self.state_is_sharded else ".th"
        paths = Path(self._serialization_dir).glob(f"{kind}_state_e*_b*{suffix}")
        return {point for point in map(parse, paths) if point is not None}

    def _write(self, state: dict[str, Any], path: str) -> None:
        # All checkpoints use the same temporary name, so that the next save overwrites what a killed run has left.
        partial = Path(self._serialization_dir, f"checkpoint_of_{self._rank}.partial")
        try:
            with atomic_file(Path(path), partial), open(partial, "wb") as file:
                torch.save(state, file)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"{error}; earlier checkpoints are complete: free space and use --recover"
            ) from error


def _is_best(trainer: Any) -> bool:
    """Return whether the trainer will copy the checkpoint of this epoch to `best.th`."""
    return trainer._should_validate_this_epoch and trainer._metric_tracker.is_best_so_far()
