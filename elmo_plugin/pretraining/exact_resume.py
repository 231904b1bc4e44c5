"""Exact resume: adds to AllenNLP's checkpoints what a killed run needs to continue as if it had never stopped."""

import os
import random
import signal
from contextlib import ExitStack
from typing import Any, Optional

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import dump_metrics, is_distributed
from allennlp.data import TensorDict
from allennlp.nn.util import dist_reduce_sum
from allennlp.training import GradientDescentTrainer
from allennlp.training.callbacks import TrainerCallback
from torch import distributed, multiprocessing
from torch.utils.hooks import RemovableHandle

from elmo_plugin.common import on_stop_signal
from elmo_plugin.pretraining.checkpointer import AtomicCheckpointer
from elmo_plugin.pretraining.language_model import BidirectionalLanguageModel
from elmo_plugin.pretraining.shards_loader import ShardsLoader, Split, check_splits

State = dict[str, Any]
"""Plain values and tensors that `torch.load` reads with `weights_only`."""


@TrainerCallback.register("exact_resume")
class ExactResume(TrainerCallback):
    """Makes `allennlp train --recover` end with the weights and metrics of a run that was never stopped.

    For each process, a checkpoint then contains the position of the data loader, the states of the random number
    generators, the state that the model carries from batch to batch, and the loss of the epoch so far, which AllenNLP's
    trainer does not save.

    On SIGTERM or Ctrl-C the run saves a checkpoint after the current batch, also during validation, and stops with exit
    code 143 or 130. Another number of processes can resume it: see `docs/guides/machines.md`.

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
        self._stop_handlers = ExitStack()
        self._loss = 0.0
        self._training_metrics: dict[str, Any] = {}

    def state_dict(self) -> State:
        """Return everything that this callback restores. The trainer calls it in the first process, after `gather`."""
        return {
            "processes": self._gathered,
            "totals": {key: value * processes for key, (value, processes) in self._splits().items()},
        }

    def load_state_dict(self, state_dict: State) -> None:
        """Keep the state until `on_start`, which has the trainer."""
        self._restored = state_dict

    def gather(self) -> None:
        """Collect the states of all processes. Every process calls it before a checkpoint is saved.

        During validation the states after the last training batch are kept, because validation resets the training
        metrics; the model gets back its own weights, which a moving average has replaced.
        """
        in_validation = not self.trainer.model.training and self.trainer._batches_in_epoch_completed
        if not in_validation:
            self._gather(self._state_of_process())
        elif self.trainer._moving_average is not None:
            self.trainer._moving_average.restore()

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: Any) -> None:
        """Restore the state of a checkpoint.

        Raises `ConfigurationError` if the data loader, the model or the checkpointer cannot resume, or if the streams
        or batches of the checkpoint cannot be divided among the processes.
        """
        self.trainer = trainer
        parts: list[tuple[str, object, type, str]] = [
            ("data_loader", trainer.data_loader, ShardsLoader, "'unrolled_streams' or 'sentence_batches'"),
            ("model", trainer.model, BidirectionalLanguageModel, "'bilm'"),
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
        own = None if self._restored is None else self._restore(self._restored)
        self._hook = trainer.model.register_forward_pre_hook(lambda module, inputs: self._before_first_batch(own))
        if is_distributed():  # if the process that started this one is killed, this one saves a checkpoint and stops
            multiprocessing._prctl_pr_set_pdeathsig(signal.SIGTERM)  # type: ignore[attr-defined]

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
        """In training, report the mean loss of the whole epoch; in validation, stop if a signal asks for it."""
        if is_training:
            self._loss += batch_metrics["batch_loss"]
            batch_metrics["loss"] = self._loss / batch_number
        else:
            trainer._checkpointer.save_if(trainer, due=False)  # type: ignore[union-attr]

    def on_epoch(
        self,
        trainer: GradientDescentTrainer,
        metrics: dict[str, Any],
        epoch: int,
        is_primary: bool = True,
        **kwargs: Any,
    ) -> None:
        """Report the loss of the whole epoch; the trainer reports that of the batches since it was started."""
        loss = dist_reduce_sum(self._loss) / dist_reduce_sum(trainer._batches_in_epoch_completed)
        if metrics.get("training_loss") != loss:
            metrics.update(self._training_metrics, training_loss=loss)
            if is_primary:
                dump_metrics(os.path.join(self.serialization_dir, f"metrics_epoch_{epoch}.json"), metrics)
        self._loss, self._training_metrics = 0.0, {}

    def on_end(
        self,
        trainer: GradientDescentTrainer,
        metrics: Optional[dict[str, Any]] = None,
        epoch: Optional[int] = None,
        is_primary: bool = True,
        **kwargs: Any,
    ) -> None:
        """Restore the signal handlers, and discard the state of the checkpoint if no batch was trained."""
        if self._hook is not None:
            self._hook.remove()
        self._stop_handlers.close()

    def _gather(self, own: State) -> None:
        self._gathered = [own]
        if is_distributed():
            self._gathered *= distributed.get_world_size()
            distributed.all_gather_object(self._gathered, own)

    def _restore(self, state: State) -> State:
        """Restore a checkpoint, and return what this process restores before its first batch."""
        trainer, states = self.trainer, state["processes"]
        rank, world_size = (distributed.get_rank(), distributed.get_world_size()) if is_distributed() else (0, 1)
        check_splits(state.get("totals", {}), self._splits(), world_size)
        own = states[rank % len(states)]
        if len(states) != world_size:
            of_model = trainer.model.split_training_state([each["model"] for each in states], rank, world_size)
            own = {**own, "model": of_model, "loss": sum(each["loss"] for each in states) / len(states)}
        self._gather(own)
        trainer.data_loader.load_state_dict(own["loader"])
        self._loss = own["loss"]
        return own

    def _splits(self) -> dict[str, Split]:
        """Return the config keys whose totals the processes share."""
        trainer = self.trainer
        steps = trainer._num_gradient_accumulation_steps, trainer.data_loader.batches_at_once
        loaders = {"data_loader": trainer.data_loader, "validation_data_loader": trainer._validation_data_loader}
        of_loaders = {
            f"{name}.{key}": split
            for name, loader in loaders.items()
            if isinstance(loader, ShardsLoader)
            for key, split in loader.splits().items()
        }
        return {"trainer.num_gradient_accumulation_steps": steps, **of_loaders}

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

    def _before_first_batch(self, own: Optional[State]) -> None:
        """Handle signals from here on, because an exception inside a batch could crash PyTorch. Then restore."""
        assert self._hook is not None
        self._hook.remove()
        model, checkpointer = self.trainer.model, self.trainer._checkpointer
        self._stop_handlers.enter_context(on_stop_signal(lambda number: setattr(checkpointer, "stop_signal", number)))
        if own is None:
            return
        # Not earlier, because skipped batches and other callbacks may draw random numbers.
        model.restore_training_state(own["model"])
        if not model.training:  # the checkpoint was saved during validation: of its epoch only the metrics are missing
            metrics = model.train().get_metrics(reset=True)
            model.eval()
            self._training_metrics = {f"training_{name}": value for name, value in metrics.items()}
        random.setstate(own["python"])
        np.random.set_state(("MT19937", *own["numpy"]))
        torch.set_rng_state(own["torch"])
        if own["cuda"] is not None and self.trainer.cuda_device.type == "cuda":
            torch.cuda.set_rng_state(own["cuda"], self.trainer.cuda_device)
