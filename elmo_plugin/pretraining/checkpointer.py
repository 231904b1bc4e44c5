"""Checkpoints that a kill or a full disk leaves whole: written beside, renamed, and only then do old ones go."""

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

from elmo_plugin.atomic_write import atomic_file
from elmo_plugin.config_keys import at_least

Point = tuple[int, int]
"""Where a checkpoint was saved: epochs completed, and batches of the next one."""


@Checkpointer.register("atomic")
class AtomicCheckpointer(Checkpointer):
    """AllenNLP's checkpointer, of which each checkpoint is there as a whole or not at all.

    The state of training is written first and that of the model last, each beside its name and then renamed. A
    checkpoint counts when it has both. In a distributed run the first process decides for all when one is due.

    None is saved after an epoch's last batch, before validation: AllenNLP's trainer would not go on from there with
    the training metrics of that epoch. The one of the whole epoch comes next.

    Registered as a `Checkpointer` with name `atomic`.

    # Parameters

    serialization_dir : `Union[str, Path]`
        From the trainer.
    save_every_num_minutes : `Optional[float]`
        Save after the first batch that ends this long after the last checkpoint; in distributed training too.
    kwargs : `Any`
        The other keys of AllenNLP's `default`: `save_completed_epochs` (true), `save_every_num_batches`,
        `keep_most_recent_by_count` (2), `keep_most_recent_by_age`, `save_every_num_seconds`.
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
                raise ConfigurationError("wanted 'save_every_num_minutes' or 'save_every_num_seconds', found both")
            self._save_every_num_seconds = 60 * save_every_num_minutes
        self.before_saving: list[Callable[[], None]] = []
        """Called in every process before a checkpoint is saved, which then only the first one does."""

    def maybe_save_checkpoint(
        self, trainer: Trainer, num_epochs_completed: int, num_batches_in_epoch_completed: int
    ) -> bool:
        """Save a checkpoint if one is due; tell whether it was."""
        if num_batches_in_epoch_completed == _batches_per_epoch(trainer):
            return False
        due = torch.tensor(self._is_due(num_epochs_completed, num_batches_in_epoch_completed), dtype=torch.uint8)
        if is_distributed():
            due = due.to(trainer.cuda_device)
            distributed.broadcast(due, src=0)
        if due:
            self.save_checkpoint(trainer)
        return bool(due)

    def save_checkpoint(self, trainer: Trainer) -> None:
        """Save one, then remove those that are too many, and what killed runs have left.

        Raises `ConfigurationError` where the disk takes no more; earlier checkpoints are as they were then.
        """
        for call in self.before_saving:
            call()
        state = trainer.get_checkpoint_state()
        if state is not None:
            point = state.trainer_state["epochs_completed"], state.trainer_state["batches_in_epoch_completed"]
            self._write(state.trainer_state, self._training_state_path(*point))
            self._write(state.model_state, self._model_state_path(*point))
        # Finds both files there, notes the time and removes old checkpoints.
        super().save_checkpoint(trainer)
        if self._is_primary:
            for half in self._points("training") ^ self._points("model"):
                self._remove_checkpoint(*half)

    def load_checkpoint(self) -> Optional[TrainerCheckpoint]:
        """The latest one, if there is any; the next is due as long after it as in a run that never stopped."""
        checkpoint = super().load_checkpoint()
        if checkpoint is not None:
            self._last_save_num_epochs_completed = checkpoint.trainer_state["epochs_completed"]
            self._last_save_num_batches_in_epoch_completed = checkpoint.trainer_state["batches_in_epoch_completed"]
        return checkpoint

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
        # AllenNLP's own takes those of batches 50 to 59 away with that of batch 5.
        for kind in ("model", "training"):
            name = f"{kind}_state_e{epochs_completed}_b{batches_in_epoch_completed}"
            for path in Path(self._serialization_dir).glob(f"{name}[._]*th"):
                path.unlink()

    def _points(self, kind: str) -> set[Point]:
        parse = self._parse_training_state_path if kind == "training" else self._parse_model_state_path
        suffix = f"_w{self._rank}.th" if self.state_is_sharded else ".th"
        paths = Path(self._serialization_dir).glob(f"{kind}_state_e*_b*{suffix}")
        return {point for point in map(parse, paths) if point is not None}

    def _write(self, state: dict[str, Any], path: str) -> None:
        # One name for all, so that the next save writes over what a killed one left.
        partial = Path(self._serialization_dir, f"checkpoint_of_{self._rank}.partial")
        try:
            with atomic_file(Path(path), partial), open(partial, "wb") as file:
                torch.save(state, file)
        except ConfigurationError as error:
            raise ConfigurationError(f"{error}; earlier checkpoints are complete: --recover continues") from error


def _batches_per_epoch(trainer: Any) -> Optional[int]:
    """What the trainer counts as a batch: several of the loader's if gradients are accumulated."""
    try:
        return math.ceil(len(trainer.data_loader) / trainer._num_gradient_accumulation_steps)
    except TypeError:
        return None
