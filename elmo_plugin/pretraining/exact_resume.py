"""Exact resume: what AllenNLP's checkpoints lack to continue a killed run as if it had never stopped."""

import os
import random
from pathlib import Path
from typing import Any, Optional, Protocol, runtime_checkable

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import hardlink_or_copy
from allennlp.common.util import dump_metrics, is_distributed
from allennlp.data import TensorDict
from allennlp.nn.util import dist_reduce_sum
from allennlp.training import GradientDescentTrainer
from allennlp.training.callbacks import TrainerCallback
from torch import distributed
from torch.utils.hooks import RemovableHandle

from elmo_plugin.made_with import check_made_with
from elmo_plugin.pretraining.checkpointer import AtomicCheckpointer

State = dict[str, Any]
"""Plain values and tensors that `torch.load` reads with `weights_only`."""


@runtime_checkable
class ResumableLoader(Protocol):
    """A data loader that can resume after its last batch."""

    def state_dict(self) -> State:
        """Return the position after the last batch."""

    def load_state_dict(self, state: State) -> None:
        """Resume at a position. Give an empty batch for each one before it, because the trainer skips those."""


@runtime_checkable
class ResumableModel(Protocol):
    """A model that carries a state from batch to batch besides its state dict."""

    def training_state(self) -> State:
        """Return that state."""

    def restore_training_state(self, state: State) -> None:
        """Restore that state."""


@TrainerCallback.register("exact_resume")
class ExactResume(TrainerCallback):
    """Makes `allennlp train --recover` end with the weights and metrics of a run that was never stopped.

    For each process, a checkpoint then contains the data loader's position, the states of the random number
    generators, the state that the model carries from batch to batch, and the loss of the epoch so far, which AllenNLP's
    trainer forgets.

    Registered as a `TrainerCallback` with name `exact_resume`. The checkpointer must be `atomic`.

    ```jsonnet
    trainer: { callbacks: [{ type: 'exact_resume' }], checkpointer: { type: 'atomic' }, … },
    ```
    """

    def __init__(self, serialization_dir: str) -> None:
        super().__init__(serialization_dir)
        self.trainer: Any = None
        self._restored: Optional[State] = None
        self._hook: Optional[RemovableHandle] = None
        self._gathered: list[State] = []
        self._loss = 0.0
        self._metrics: dict[str, Any] = {}

    def state_dict(self) -> State:
        """Return everything that this callback restores. The first process calls it, after `gather`."""
        return {
            "processes": self._gathered if is_distributed() else [self._state_of_process()],
            "metrics": self._metrics,
            "is_best": self._is_best(),
        }

    def load_state_dict(self, state_dict: State) -> None:
        """Keep the state until `on_start`, which has the trainer."""
        self._restored = state_dict

    def gather(self) -> None:
        """Collect the states of all processes. Every process calls it before a checkpoint is saved."""
        if is_distributed():
            self._gathered = [{} for _ in range(distributed.get_world_size())]
            distributed.all_gather_object(self._gathered, self._state_of_process())

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: Any) -> None:
        """Restore the state of a checkpoint.

        Raises `ConfigurationError` if the data loader, the model or the checkpointer cannot resume, or if the number of
        processes has changed.
        """
        self.trainer = trainer
        parts: list[tuple[str, object, type, str]] = [
            ("data_loader", trainer.data_loader, ResumableLoader, "'unrolled_streams' or 'sentence_batches'"),
            ("model", trainer.model, ResumableModel, "'bilm'"),
            ("trainer.checkpointer", trainer._checkpointer, AtomicCheckpointer, "'atomic'"),
        ]
        for key, part, kind, expected in parts:
            if not isinstance(part, kind):
                raise ConfigurationError(f"'{key}': expected {expected} for 'exact_resume', got {type(part).__name__}")
        trainer._checkpointer.before_saving.append(self.gather)  # type: ignore[union-attr]
        try:
            len(trainer.data_loader)
        except TypeError as error:
            raise ConfigurationError(
                f"'data_loader': expected 'shuffle' for 'exact_resume', got none: {error}"
            ) from error
        if self._restored is not None:
            self._restore(self._restored, is_primary)

    def on_batch(
        self,
        trainer: GradientDescentTrainer,
        batch_inputs: list[TensorDict],
        batch_outputs: list[dict[str, Any]],
        batch_metrics: dict[str, Any],
        epoch: int,
        batch_number: int,
        is_training: bool,
        is_primary: bool = True,
        batch_grad_norm: Optional[float] = None,
        **kwargs: Any,
    ) -> None:
        """Add the loss of a batch, and show the mean over the whole epoch."""
        if is_training:
            self._loss += batch_metrics["batch_loss"]
            batch_metrics["loss"] = self._loss / batch_number

    def on_epoch(
        self,
        trainer: GradientDescentTrainer,
        metrics: dict[str, Any],
        epoch: int,
        is_primary: bool = True,
        **kwargs: Any,
    ) -> None:
        """Report the loss of the whole epoch; the trainer's covers only the batches since it was started."""
        loss = dist_reduce_sum(self._loss) / dist_reduce_sum(trainer._batches_in_epoch_completed)
        if metrics["training_loss"] != loss:
            metrics["training_loss"] = loss
            if is_primary:
                dump_metrics(os.path.join(self.serialization_dir, f"metrics_epoch_{epoch}.json"), metrics)
        self._loss = 0.0
        self._metrics = dict(metrics)

    def on_end(
        self,
        trainer: GradientDescentTrainer,
        metrics: Optional[dict[str, Any]] = None,
        epoch: Optional[int] = None,
        is_primary: bool = True,
        **kwargs: Any,
    ) -> None:
        """Add the metrics of the last epoch, which a run that was killed after it lacks."""
        if metrics is not None:
            metrics.update({**self._metrics, **metrics})
        if self._hook is not None:
            self._hook.remove()

    def _restore(self, state: State, is_primary: bool) -> None:
        trainer = self.trainer
        world_size = distributed.get_world_size() if is_distributed() else 1
        check_made_with(
            self.serialization_dir,
            {"processes": len(state["processes"])},
            {"processes": world_size},
            "--recover needs as many processes as the run was started with",
        )
        own = state["processes"][distributed.get_rank() if is_distributed() else 0]
        trainer.data_loader.load_state_dict(own["loader"])
        self._loss, self._metrics = own["loss"], state["metrics"]
        self._hook = trainer.model.register_forward_pre_hook(lambda module, inputs: self._before_first_batch(own))
        if state["is_best"]:
            self._keep_as_best(is_primary)
        if trainer._metric_tracker.should_stop_early():
            # AllenNLP's trainer would begin another epoch if it was killed after the checkpoint of the last one.
            trainer._num_epochs = trainer._start_after_epochs_completed

    def _state_of_process(self) -> State:
        device = self.trainer.cuda_device
        _, key, *others = np.random.get_state()
        return {
            "loader": self.trainer.data_loader.state_dict(),
            "model": self.trainer.model.training_state(),
            "loss": self._loss,
            "python": random.getstate(),
            "numpy": [torch.from_numpy(np.asarray(key).astype(np.int64)), *others],
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        }

    def _before_first_batch(self, own: State) -> None:
        # Before that, skipped batches and other callbacks may draw random numbers.
        assert self._hook is not None
        self._hook.remove()
        self.trainer.model.restore_training_state(own["model"])
        random.setstate(own["python"])
        np.random.set_state(("MT19937", *own["numpy"]))
        torch.set_rng_state(own["torch"])
        if own["cuda"] is not None and self.trainer.cuda_device.type == "cuda":
            torch.cuda.set_rng_state(own["cuda"], self.trainer.cuda_device)

    def _is_best(self) -> bool:
        """Return whether the trainer will copy this checkpoint to `best.th`.

        It does so after saving, and may be killed in between.
        """
        trainer = self.trainer
        end_of_epoch = trainer._batches_in_epoch_completed == 0 and trainer._should_validate_this_epoch
        return end_of_epoch and trainer._metric_tracker.is_best_so_far()

    def _keep_as_best(self, is_primary: bool) -> None:
        self.trainer._best_model_filename = best = os.path.join(self.serialization_dir, "best.th")
        if not is_primary:
            return
        Path(best).unlink(missing_ok=True)
        average = self.trainer._moving_average
        if average is None:
            model_state, _ = self.trainer._checkpointer.find_latest_checkpoint()
            hardlink_or_copy(model_state, best)
        else:
            average.assign_average_value()
            self.trainer._save_model_state(best)
            average.restore()
