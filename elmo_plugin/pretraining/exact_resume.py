"""Going on after a kill as if there had been none: what AllenNLP's checkpoints leave out."""

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

from elmo_plugin.pretraining.checkpointer import AtomicCheckpointer

State = dict[str, Any]
"""Tensors, numbers, strings, lists, tuples and dicts: what `torch.load` reads with `weights_only`."""


@runtime_checkable
class ResumableLoader(Protocol):
    """A data loader that can go on after the batch it gave last."""

    def state_dict(self) -> State:
        """Return the position after the batch that it gave last."""

    def load_state_dict(self, state: State) -> None:
        """Go there, and give as many empty batches as lie before it: the trainer skips them."""


@runtime_checkable
class ResumableModel(Protocol):
    """A model that carries something from batch to batch besides its state dict."""

    def training_state(self) -> State:
        """What training carries."""

    def restore_training_state(self, state: State) -> None:
        """Take it up again."""


@TrainerCallback.register("exact_resume")
class ExactResume(TrainerCallback):
    """Makes `allennlp train --recover` end with the weights and metrics of a run that was never stopped.

    A checkpoint then holds, of each process: the data loader's place, the states of the random number generators, what
    the model carries from batch to batch, and the loss of the epoch so far, which AllenNLP's trainer forgets.

    Registered as a `TrainerCallback` with name `exact_resume`. The checkpointer must be `atomic`.
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
        """All that this callback restores; called in the first process, after `gather`."""
        return {
            "processes": self._gathered if is_distributed() else [self._state_of_process()],
            "metrics": self._metrics,
            "is_best": self._is_best(),
        }

    def load_state_dict(self, state_dict: State) -> None:
        """Keep it for `on_start`, which gives the trainer."""
        self._restored = state_dict

    def gather(self) -> None:
        """Bring the states of all processes together; called in every one of them before a checkpoint is saved."""
        if is_distributed():
            self._gathered = [{} for _ in range(distributed.get_world_size())]
            distributed.all_gather_object(self._gathered, self._state_of_process())

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: Any) -> None:
        """Restore. Raises `ConfigurationError` for a loader, model, checkpointer or number of processes that cannot."""
        self.trainer = trainer
        _expect(trainer.data_loader, ResumableLoader, "data_loader", "'unrolled_streams' or 'sentence_batches'")
        _expect(trainer.model, ResumableModel, "model", "'bilm'")
        _expect(trainer._checkpointer, AtomicCheckpointer, "trainer.checkpointer", "'atomic'")
        trainer._checkpointer.before_saving.append(self.gather)  # type: ignore[union-attr]
        try:
            len(trainer.data_loader)
        except TypeError as error:
            raise ConfigurationError(f"'exact_resume' wants a 'data_loader' with 'shuffle': {error}") from error
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
        """Add up the loss, and show the mean of the whole epoch's."""
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
        """Put the loss of the whole epoch in the place of what the trainer has seen since it was started."""
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
        """Give a run that was killed after its last epoch the metrics of that epoch."""
        if metrics is not None:
            metrics.update({**self._metrics, **metrics})
        if self._hook is not None:
            self._hook.remove()

    def _restore(self, state: State, is_primary: bool) -> None:
        trainer = self.trainer
        n_found, n_wanted = len(state["processes"]), distributed.get_world_size() if is_distributed() else 1
        if n_found != n_wanted:
            raise ConfigurationError(
                f"the checkpoint in {self.serialization_dir} is of {n_found} processes and this run of {n_wanted}; "
                "wanted as many"
            )
        own = state["processes"][distributed.get_rank() if is_distributed() else 0]
        trainer.data_loader.load_state_dict(own["loader"])
        self._loss, self._metrics = own["loss"], state["metrics"]
        self._hook = trainer.model.register_forward_pre_hook(lambda module, inputs: self._before_first_batch(own))
        if state["is_best"]:
            self._keep_as_best(is_primary)
        if trainer._metric_tracker.should_stop_early():
            # The last epoch was the last: killed after its checkpoint, AllenNLP's trainer would begin another.
            trainer._num_epochs = trainer._start_after_epochs_completed

    def _state_of_process(self) -> State:
        device = self.trainer.cuda_device
        return {
            "loader": self.trainer.data_loader.state_dict(),
            "model": self.trainer.model.training_state(),
            "loss": self._loss,
            "python": random.getstate(),
            "numpy": _numpy_state(),
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        }

    def _before_first_batch(self, own: State) -> None:
        # Not earlier: the trainer first skips batches, and other callbacks start.
        assert self._hook is not None
        self._hook.remove()
        self.trainer.model.restore_training_state(own["model"])
        random.setstate(own["python"])
        np.random.set_state(("MT19937", *own["numpy"]))
        torch.set_rng_state(own["torch"])
        if own["cuda"] is not None and self.trainer.cuda_device.type == "cuda":
            torch.cuda.set_rng_state(own["cuda"], self.trainer.cuda_device)

    def _is_best(self) -> bool:
        """Whether the trainer is about to keep the weights of this checkpoint as `best.th`.

        It does so after saving, so a kill between the two leaves that undone.
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


def _expect(found: object, kind: type, key: str, wanted: str) -> None:
    if not isinstance(found, kind):
        raise ConfigurationError(f"'exact_resume' found a '{key}' of {type(found).__name__}; wanted {wanted}")


def _numpy_state() -> list[Any]:
    """The key and what follows it, as `weights_only` can read them."""
    _, key, *others = np.random.get_state()
    return [torch.from_numpy(np.asarray(key).astype(np.int64)), *others]
