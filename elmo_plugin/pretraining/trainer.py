"""What AllenNLP's trainer does otherwise in pretraining: exact resume, the loss of tokens, and an end if it diverges.

Exact resume is what a checkpoint holds, when it is saved, and how a run stops and continues.
"""

import math
import random
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import is_distributed
from allennlp.data import TensorDict
from allennlp.modules.encoder_base import _EncoderBase
from allennlp.nn.util import dist_reduce_sum
from allennlp.training import GradientDescentTrainer
from allennlp.training.callbacks import TrainerCallback
from allennlp.training.checkpointer import Checkpointer
from allennlp.training.trainer import Trainer, TrainerCheckpoint
from torch import distributed

from elmo_plugin.bilm import BiLM, CarriedState
from elmo_plugin.common import Stopped, at_least, atomic_file, is_ours, on_stop_signal
from elmo_plugin.compat import replaces
from elmo_plugin.pretraining.language_model import BidirectionalLanguageModel
from elmo_plugin.pretraining.loaders import ShardsLoader

VERSION = 1
"""The version of what a training state holds beside AllenNLP's own."""
MOST_NATS_OF_TOKEN, MOST_NATS_OF_SENTENCE = 700, 1e6
"""Losses are means of tokens or sentences. From 700 nats on, no float holds a perplexity."""


@Checkpointer.register("atomic")
class AtomicCheckpointer(Checkpointer):
    """AllenNLP's checkpointer, with checkpoints that are complete or do not exist.

    The training state is written first and the model state last, each to a temporary file that is then renamed. A
    checkpoint counts only if both files exist. In distributed training the first process decides when to save.

    The checkpoint of an epoch is saved after its last batch, before the validation. A run that is killed later
    validates again, and so writes `best.th` and the metrics as if it had not been killed.

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
        When to save, as in AllenNLP's `default`: at the end of each epoch (true), or at intervals. An interval of
        batches may be longer than an epoch.
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
        # With a count or an age of 0, each checkpoint would be removed as soon as it is saved.
        at_least(
            1,
            save_every_num_batches=kwargs.get("save_every_num_batches"),
            keep_most_recent_by_count=kwargs.get("keep_most_recent_by_count"),
            keep_most_recent_by_age=kwargs.get("keep_most_recent_by_age"),
        )
        super().__init__(serialization_dir, **kwargs)
        at_least(0, save_every_num_minutes=save_every_num_minutes, save_every_num_seconds=self._save_every_num_seconds)
        if save_every_num_minutes is not None:
            self._save_every_num_seconds = 60 * save_every_num_minutes
        self.stop_signal = 0
        """The number of the signal, if one has asked this process to save a checkpoint and stop; 0 if none has."""
        self.training_metrics: dict[str, Any] = {}
        """The metrics of training of the epoch that has ended, maybe before it was resumed; empty within one."""
        self._batches_since_save = 0
        self._saved_at = time.monotonic()  # AllenNLP uses the time of day, which may be set back

    def maybe_save_checkpoint(
        self, trainer: Any, num_epochs_completed: int, num_batches_in_epoch_completed: int
    ) -> bool:
        """Save a checkpoint if one is due or a signal asks for it, and return whether one was saved.

        Raises `Stopped` if any process has received a signal.
        """
        if num_batches_in_epoch_completed == 0:  # `save_trained_epoch` has saved it before the validation
            return self.save_or_stop(trainer, saves=False)
        self.training_metrics = {}
        self._batches_since_save += 1
        with suppress(TypeError):  # a loader without a length
            # The trainer counts the batches over which it accumulates gradients as one.
            last = math.ceil(len(trainer.data_loader) / trainer._num_gradient_accumulation_steps)
            if num_batches_in_epoch_completed == last:  # `save_trained_epoch` follows, which has the metrics
                return False
        return self.save_or_stop(trainer)

    def save_or_stop(self, trainer: Any, saves: bool = True, ends_epoch: bool = False) -> bool:
        """Save a checkpoint if the first process says that one is due, or if any process has received a signal.

        Returns whether one is saved, and raises `Stopped` after a signal. Without `saves` none is saved.
        """
        seconds, every = self._save_every_num_seconds, self._save_every_num_batches
        is_due = (
            (ends_epoch and self._save_completed_epochs)
            or (seconds is not None and time.monotonic() - self._saved_at >= seconds)
            or (every is not None and self._batches_since_save >= every)
        )
        asked = torch.tensor([saves and self._is_primary and is_due, self.stop_signal])  # (2,)
        if is_distributed():  # all processes save and stop after the same batch
            asked = asked.to(trainer.cuda_device)
            distributed.all_reduce(asked, distributed.ReduceOp.MAX)
        is_due, stop_signal = asked.tolist()
        if saves and (is_due or stop_signal):
            self.save_checkpoint(trainer)
            self._batches_since_save = 0
            self._saved_at = time.monotonic()
        if stop_signal:
            if is_distributed():  # the first process is still saving
                distributed.barrier()
            raise Stopped(stop_signal)
        return bool(is_due)

    def save_checkpoint(self, trainer: Trainer) -> None:
        """Save a checkpoint, then remove surplus checkpoints.

        Raises `ConfigurationError` if the disk is full. Earlier checkpoints then stay as they are.
        """
        for callback in getattr(trainer, "_callbacks", ()):
            if isinstance(callback, ExactResume):
                callback.gather()
        state = trainer.get_checkpoint_state()
        if state is not None:
            point = state.trainer_state["epochs_completed"], state.trainer_state["batches_in_epoch_completed"]
            state.trainer_state.update(version=VERSION, training_metrics=self.training_metrics)
            try:
                for path, content in (
                    (self._training_state_path(*point), state.trainer_state),
                    (self._model_state_path(*point), state.model_state),
                ):
                    with atomic_file(Path(path)) as partial, partial.open("wb") as file:
                        torch.save(content, file)
            except ConfigurationError as error:
                left = (
                    "earlier checkpoints are complete" if self._find_all_checkpoints() else "there is no checkpoint yet"
                )
                raise ConfigurationError(f"{error}; {left}: free space and use --recover") from error
        # AllenNLP's method finds both files written and removes old checkpoints.
        super().save_checkpoint(trainer)

    def load_checkpoint(self) -> Optional[TrainerCheckpoint]:
        """Load the latest checkpoint, if any, and remove what a killed run has left of another.

        Raises `ConfigurationError` for a checkpoint of another version of the format.
        """
        if self._is_primary:
            for path in Path(self._serialization_dir).glob("training_state_e*_b*.th"):
                if self._parse_training_state_path(path) not in {None, *self._find_all_checkpoints()}:
                    path.unlink()
        checkpoint = super().load_checkpoint()
        if checkpoint is not None:
            version = checkpoint.trainer_state.get("version")
            if version != VERSION:
                raise ConfigurationError(
                    f"a checkpoint in '{self._serialization_dir}': expected version {VERSION}, got {version!r}; "
                    "continue with the elmo_plugin that wrote it"
                )
            self.training_metrics = checkpoint.trainer_state.get("training_metrics", {})
        return checkpoint

    def _remove_checkpoint(self, epochs_completed: int, batches_in_epoch_completed: int) -> None:
        # AllenNLP's method would remove the checkpoints of batches 50 to 59 along with that of batch 5.
        for path in (self._model_state_path, self._training_state_path):
            Path(path(epochs_completed, batches_in_epoch_completed)).unlink(missing_ok=True)


@TrainerCallback.register("exact_resume")
class ExactResume(TrainerCallback):
    """Makes `elmo-plugin train --recover` end with the weights and metrics of a run that was never stopped.

    For each process, a checkpoint then contains the position of the data loader, the states of the random number
    generators, the state that the model carries from batch to batch, and the loss of the epoch so far, which AllenNLP's
    trainer does not save. As many processes must resume a run as have started it.

    Any other model, such as `elmo_tagger`, ends with the same weights too, with any data loader that has no workers.
    These loaders have no position: AllenNLP reads the epochs so far again, and skips their batches. So each epoch
    starts Python's and NumPy's generators, which order the data, from a seed of its own. If a run is resumed within an
    epoch, the metrics of training of that epoch, other than the loss, are those of its batches since then. The loader
    `simple` shuffles its data in place, so if it shuffles those of the validation too, a resumed run forms other
    batches of them, and the validation's loss differs in its last digits.

    On SIGTERM or Ctrl-C the run saves a checkpoint after the current batch and stops with exit code 143 or 130. During
    the validation it stops without a new checkpoint, and validates again when it is resumed.

    Registered as a `TrainerCallback` with name `exact_resume`. The checkpointer must be `atomic`.

    ```jsonnet
    trainer: { callbacks: [{ type: 'exact_resume' }], checkpointer: { type: 'atomic' }, … },
    ```
    """

    def __init__(self, serialization_dir: str) -> None:
        super().__init__(serialization_dir)
        self.trainer: Any = None
        self.loss = 0.0
        """The sum of the losses of the batches of the epoch so far."""
        self._restored: Optional[list[dict[str, Any]]] = None
        self._gathered: list[dict[str, Any]] = []
        self._until_end = ExitStack()
        """What `on_end` takes back: before the first batch a hook that waits for it, and then the signal handlers."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything that this callback restores. The trainer calls it in the first process, after `gather`."""
        return {"processes": self._gathered}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep the state until `on_start`, which has the trainer."""
        self._restored = state_dict["processes"]

    def gather(self) -> None:
        """Collect the states of all processes, and let the biLM forget its words, as a resumed run starts without them.

        The last bits of a word's vector may depend on the words that it was computed with. Every process calls this
        before a checkpoint is saved.
        """
        for module in self.trainer.model.modules():
            if isinstance(module, BiLM):
                module.word_cache.clear()
        device = self.trainer.cuda_device
        _, key, *others = np.random.get_state()
        own = {
            "loader": self.trainer.data_loader.state_dict() if self._has_position else None,
            "model": self.trainer.model.training_state() if self._is_language_model else None,
            "loss": self.loss,
            "seed": self._seed,
            "python": random.getstate(),
            "numpy": [torch.from_numpy(np.asarray(key).astype(np.int64)), *others],
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        }
        self._gathered = [own] * self.trainer._world_size
        if is_distributed():
            distributed.all_gather_object(self._gathered, own)

    def on_start(self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: Any) -> None:
        """Restore the state of a checkpoint.

        Raises `ConfigurationError` if the data loader, the model or the checkpointer cannot resume, or if the
        checkpoint is of another number of processes.
        """
        self.trainer = trainer
        loader: Any = trainer.data_loader
        self._has_position = isinstance(loader, ShardsLoader)
        self._is_language_model = isinstance(trainer.model, BidirectionalLanguageModel)
        checkpointer: Any = trainer._checkpointer
        workers = getattr(loader, "num_workers", 0)
        is_atomic = isinstance(checkpointer, AtomicCheckpointer)
        # Whether a part of another model starts a batch from the state after the batch before.
        carries = not self._is_language_model and any(
            isinstance(getattr(part, "initial_state", None), CarriedState)
            or (isinstance(part, _EncoderBase) and part.stateful)
            for part in trainer.model.modules()
        )
        loaders = "'unrolled_streams' or 'sentence_batches'"
        no_state = "no state that it carries from batch to batch ('initial_state' carried, or 'stateful' true)"
        for is_met, key, expected, got in (
            (is_atomic, "trainer.checkpointer", "'atomic'", type(checkpointer).__name__),
            (self._has_position or not self._is_language_model, "data_loader", loaders, type(loader).__name__),
            (not self._has_position or loader.endless, "data_loader.shuffle", "true", "false"),
            (not workers, "data_loader.num_workers", "0", workers),  # each orders its data by a generator of its own
            (not carries, "model", no_state, "one"),
        ):
            if not is_met:
                raise ConfigurationError(f"'{key}': expected {expected} for 'exact_resume', got {got}")
        own = None
        if self._restored is not None:
            check_processes(len(self._restored), trainer._world_size)
            own = self._restored[checkpointer._rank]
            self.loss = own["loss"]
            self._seed = own.get("seed", 0)
            if self._has_position:
                loader.load_state_dict(own["loader"])
        else:
            self._seed = random.getrandbits(31)
        self._until_end.enter_context(
            trainer.model.register_forward_pre_hook(lambda module, inputs: self._before_first_batch(own))
        )

    def seed(self, epoch: int) -> None:
        """Let a data loader without a position order the data of an epoch as if the run had not been stopped."""
        random.seed(self._seed + epoch)
        np.random.seed(self._seed + epoch)

    def on_batch(
        self,
        trainer: GradientDescentTrainer,
        batch_inputs: list[TensorDict],
        batch_outputs: list[dict[str, Any]],
        batch_metrics: dict[str, Any],
        epoch: int,
        batch_number: int,
        is_training: bool,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """In training, report the mean loss of the whole epoch; in validation, stop if a signal asks for it."""
        if is_training:
            self.loss = batch_metrics["batch_loss"] + (self.loss if batch_number > 1 else 0.0)
            batch_metrics["loss"] = self.loss / batch_number
        else:
            trainer._checkpointer.save_or_stop(trainer, saves=False)  # type: ignore[union-attr]

    def on_end(self, *args: Any, **kwargs: Any) -> None:
        """Restore the signal handlers, and discard the state of the checkpoint if no batch was trained."""
        self._until_end.close()

    def _before_first_batch(self, own: Optional[dict[str, Any]]) -> None:
        """Handle signals from here on, because an exception inside a batch could crash PyTorch. Then restore."""
        self._until_end.close()
        checkpointer = self.trainer._checkpointer
        self._until_end.enter_context(on_stop_signal(lambda number: setattr(checkpointer, "stop_signal", number)))
        if own is None:
            return
        # Not earlier, because skipped batches and other callbacks may draw random numbers.
        if self._is_language_model:
            self.trainer.model.restore_training_state(own["model"])
        if self._has_position:  # other loaders have drawn from these for this epoch
            random.setstate(own["python"])
            np.random.set_state(("MT19937", *own["numpy"]))
        torch.set_rng_state(own["torch"])
        if own["cuda"] is not None and self.trainer.cuda_device.type == "cuda":
            torch.cuda.set_rng_state(own["cuda"], self.trainer.cuda_device)


def check_processes(before: int, now: int) -> None:
    """Raise `ConfigurationError` if a run is resumed with another number of processes than before."""
    if now != before:
        raise ConfigurationError(f"--recover: expected {before} processes as before, got {now}; resume with {before}")


@replaces("allennlp.training.gradient_descent_trainer.GradientDescentTrainer._train_epoch")
def save_trained_epoch(original: Any, trainer: GradientDescentTrainer, epoch: int) -> dict[str, Any]:
    """Train an epoch, let an `AtomicCheckpointer` save it, and return the metrics of training.

    Replaces the method `_train_epoch` of the trainer, which forgets these metrics if it resumes after the last batch.
    Other checkpointers save as before.
    """
    resumes = [callback for callback in trainer._callbacks if isinstance(callback, ExactResume)]
    for callback in resumes:
        callback.seed(epoch)
    metrics: dict[str, Any] = original(trainer, epoch)
    for callback in resumes:
        callback.seed(epoch)  # for the validation
        if "loss" in metrics:  # AllenNLP has only the losses since the run was started
            metrics["loss"] = dist_reduce_sum(callback.loss) / dist_reduce_sum(trainer._batches_in_epoch_completed)
    checkpointer = trainer._checkpointer
    if isinstance(checkpointer, AtomicCheckpointer):
        done = trainer._epochs_completed, trainer._batches_in_epoch_completed
        start = trainer._start_after_epochs_completed, trainer._start_after_batches_in_epoch_completed
        if done == start:
            return {**checkpointer.training_metrics, **metrics}
        if done > start:
            checkpointer.training_metrics = metrics
            checkpointer.save_or_stop(trainer, ends_epoch=True)
    return metrics


@replaces("allennlp.training.gradient_descent_trainer.GradientDescentTrainer.batch_outputs")
def stop_if_diverged(
    original: Any, trainer: GradientDescentTrainer, batch: dict[str, Any], for_training: bool
) -> dict[str, Any]:
    """Raise `ConfigurationError` if the loss of a batch of a model of this package is out of all bounds.

    Replaces the method `batch_outputs` of the trainer, which knows the number of the batch and the learning rate. Other
    models, whose losses may be in any unit, are trained as before.
    """
    outputs: dict[str, Any] = original(trainer, batch, for_training)
    if "loss" in outputs and is_ours(type(trainer.model)):
        nats = outputs["loss"].item() - (outputs["reg_loss"].item() if "reg_loss" in outputs else 0.0)
        most = MOST_NATS_OF_TOKEN if isinstance(trainer.model, BidirectionalLanguageModel) else MOST_NATS_OF_SENTENCE
        if not nats < most:
            epoch, done = trainer._epochs_completed + 1, trainer._batches_in_epoch_completed
            where = f"batch {done + 1} of epoch {epoch}" if for_training else f"the validation of epoch {epoch}"
            rate = max(group["lr"] for group in trainer.optimizer.param_groups)
            raise ConfigurationError(
                f"training diverged: the loss in {where} is {nats:.3g} at the learning rate {rate:.3g}; start again "
                "with a lower rate, or with a smaller 'grad_norm'"
            )
    return outputs


@replaces("allennlp.training.gradient_descent_trainer.GradientDescentTrainer._validation_loss")
def loss_of_tokens(original: Any, trainer: GradientDescentTrainer, epoch: int) -> tuple[float, Any, int]:
    """Validate, and return the loss of a language model as the mean of all tokens, as in its perplexity.

    Replaces the method `_validation_loss` of the trainer, which returns the sum of the losses of the batches, and their
    number. Other models are validated as before.
    """
    loss, reg_loss, n_batches = original(trainer, epoch)
    if isinstance(trainer.model, BidirectionalLanguageModel):
        loss = n_batches * trainer.model.perplexity.nats()
    return loss, reg_loss, n_batches
