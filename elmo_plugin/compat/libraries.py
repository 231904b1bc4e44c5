"""Repairs of what newer PyTorch, transformers, wandb and Python break in AllenNLP, and of AllenNLP's own bugs."""

import importlib.util
import inspect
import json
import logging
import secrets
import sys
import tarfile
import types
import zipfile
from collections.abc import Mapping
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
from allennlp.common import cached_transformers
from allennlp.common.checks import ConfigurationError
from allennlp.models import archival
from allennlp.models.multitask import MultiTaskModel
from allennlp.modules.encoder_base import _EncoderBase
from allennlp.nn import util as nn_util
from allennlp.training import GradientDescentTrainer
from allennlp.training.callbacks.confidence_checks import ConfidenceChecksCallback
from allennlp.training.callbacks.wandb import WandBCallback
from allennlp.training.checkpointer import Checkpointer
from allennlp.training.learning_rate_schedulers.learning_rate_scheduler import (
    _PyTorchLearningRateSchedulerWithMetricsWrapper,
)
from allennlp.training.learning_rate_schedulers.pytorch_lr_schedulers import ReduceOnPlateauLearningRateScheduler
from allennlp.training.moving_average import MovingAverage
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from elmo_plugin.compat.patching import Function, replace_name, replace_once

logger = logging.getLogger(__name__)


def trust_numpy_scalars() -> None:
    """Let `--recover` read NumPy numbers in a training state.

    Symptom: `UnpicklingError: Weights only load failed` on `--recover` with the scheduler `cosine`, with `combined`
    around it, or with a model whose metric is a NumPy number. Cause: torch 2.6 made `torch.load(weights_only=True)` the
    default, but `cosine` computes the learning rate with `np.cos`, and the metric tracker saves the best metrics. Only
    NumPy's number types are added to the types that may be read; the check stays on.
    Guard: adding a type twice has no effect.
    """
    rebuild_scalar: Any = np.float64(0).__reduce__()[0]  # NumPy 2 renamed its module; old runs have the old name
    modules = ("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar")
    dtypes = {type(np.dtype(code)) for code in "?bhilqBHILQefd"}
    torch.serialization.add_safe_globals([(rebuild_scalar, module) for module in modules])
    torch.serialization.add_safe_globals([np.dtype, *dtypes])


def say_where_elmo_embedder_is() -> None:
    """Name the import that replaces `allennlp.commands.elmo`, which AllenNLP 1.0 removed.

    Symptom: `No module named 'allennlp.commands.elmo'`, in code that was written for AllenNLP 0.9. Cause: AllenNLP 1.0
    removed the module. The error has the same type and says what to write.
    Guard: a module of this name that exists is found before.
    """
    if not any(isinstance(finder, _RemovedCommand) for finder in sys.meta_path):
        sys.meta_path.append(_RemovedCommand())


class _RemovedCommand(MetaPathFinder):
    """Finds no module, but explains where one is."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Raise `ModuleNotFoundError` for `allennlp.commands.elmo`."""
        if fullname == "allennlp.commands.elmo":
            raise ModuleNotFoundError(
                f"No module named '{fullname}': AllenNLP 1.0 removed it; write `from elmo_plugin import ElmoEmbedder, "
                "batch_to_ids`",
                name=fullname,
            )


def repair_reduce_on_plateau() -> None:
    """Let the learning rate scheduler `reduce_on_plateau` be built. `verbose` is accepted and ignored.

    Symptom: `TypeError: ReduceLROnPlateau.__init__() got an unexpected keyword argument 'verbose'`. Cause: torch 2.7
    removed the argument, and AllenNLP always passes it.
    Guard: none is needed.
    """

    def build(original: Function, self: ReduceOnPlateauLearningRateScheduler, *args: Any, **kwargs: Any) -> None:
        settings = dict(inspect.signature(original).bind(self, *args, **kwargs).arguments)
        del settings["self"]
        settings.pop("verbose", None)
        scheduler: Any = ReduceLROnPlateau(**settings)
        _PyTorchLearningRateSchedulerWithMetricsWrapper.__init__(self, scheduler)

    replace_once(ReduceOnPlateauLearningRateScheduler, "__init__", build)


def repair_wandb_callback() -> None:
    """Let the callback `wandb` start a run.

    Symptom: `AttributeError: module 'wandb.util' has no attribute 'generate_id'`. Cause: wandb 0.28 made the function
    private. A new run now gets eight random characters as its id, as before.
    Guard: an older wandb generates the id itself, and a recovered run keeps its id. wandb is imported only when a run
    starts, because it may not be installed.
    """

    def on_start(original: Function, self: WandBCallback, trainer: Any, is_primary: bool = True, **kwargs: Any) -> None:
        if is_primary and self._run_id is None and not hasattr(importlib.import_module("wandb").util, "generate_id"):
            self._run_id = secrets.token_hex(4)
        original(self, trainer, is_primary=is_primary, **kwargs)

    replace_once(WandBCallback, "on_start", on_start)


def repair_confidence_checks() -> None:
    """Let a run that `--recover` continues do without the checks of the first batch, which its start has passed.

    Symptom: a resumed run needs more memory with each batch, and a frozen biLM computes its words again for each batch.
    Cause: AllenNLP's callback `confidence_checks`, one of the default callbacks, hooks every module of the model, notes
    each call, and removes the hooks after the first batch of the first epoch, which a resumed run does not have.
    Guard: a run from the start is checked as before.
    """

    def on_start(original: Function, self: ConfidenceChecksCallback, trainer: Any, *args: Any, **kwargs: Any) -> None:
        original(self, trainer, *args, **kwargs)
        start = trainer._start_after_epochs_completed, trainer._start_after_batches_in_epoch_completed
        if hasattr(self, "_verification") and any(start):
            self._verification.destroy_hooks()

    replace_once(ConfidenceChecksCallback, "on_start", on_start)


def repair_pretrained_transformers() -> None:
    """Let the `pretrained_transformer*` tokenizers, indexers and vocabularies load their tokenizer.

    Symptom: `AttributeError: add_special_tokens conflicts with the method add_special_tokens in BertTokenizerFast`.
    Cause: transformers 4.44 rejects a setting that has the name of a method. AllenNLP does not need the setting: every
    call states whether it wants special tokens.
    Guard: if transformers accepts the setting, nothing is changed.
    """

    def get_tokenizer(
        original: Function, model_name: str, add_special_tokens: Optional[bool] = None, **kwargs: Any
    ) -> Any:
        return original(model_name, **kwargs)

    try:
        PreTrainedTokenizerBase(add_special_tokens=False)
    except AttributeError:
        replace_once(cached_transformers, "get_tokenizer", get_tokenizer)


def import_rouge() -> None:
    """Let allennlp-models be imported beside setuptools 82 or later.

    Symptom: `Plugin allennlp_models could not be loaded: No module named 'pkg_resources'`. Cause: `rouge`, which it
    imports, finds its files with that module of setuptools, which was removed. Now `rouge` is imported here, with a
    stand-in that no other package sees.
    Guard: nothing happens if `pkg_resources` exists or `rouge` does not.
    """
    if importlib.util.find_spec("pkg_resources") is not None or importlib.util.find_spec("rouge") is None:
        return
    stand_in: Any = types.ModuleType("pkg_resources")
    stand_in.resource_filename = lambda module, name: str(Path(sys.modules[module].__file__ or "").with_name(name))
    sys.modules["pkg_resources"] = stand_in
    try:
        importlib.import_module("rouge")
    finally:
        del sys.modules["pkg_resources"]


def repair_token_ids_of_elmo() -> None:
    """Let `basic_classifier` run on `elmo_characters` alone. Its readable output then has no `tokens`.

    Symptom: `NotImplementedError: Our heuristic for guessing the right token ids failed` on the first batch. Cause:
    AllenNLP 2 needs word ids for its output, but there are only character ids. Each sentence now has no ids.
    Guard: only for a batch (B, T, C) of `elmo_tokens` without another indexer. The original handles anything else, such
    as the single sentence of the attacker `hotflip`, which would use the ids.
    """

    def get_token_ids(original: Function, text_field_tensors: Mapping[str, Mapping[str, torch.Tensor]]) -> torch.Tensor:
        arguments = [pair for indexer in text_field_tensors.values() for pair in indexer.items()]
        if len(arguments) == 1:
            name, tensor = arguments[0]
            if name == "elmo_tokens" and tensor.dim() == 3:
                return tensor.new_empty((tensor.size(0), 0))  # (B, 0)
        ids: torch.Tensor = original(text_field_tensors)
        return ids

    replace_once(nn_util, "get_token_ids_from_text_field_tensors", get_token_ids)


def repair_archives() -> None:
    """Unpack a model archive only into its folder, name a file that is no archive, and pack archives quickly.

    Symptom: a `model.tar.gz` with a member `../name` or a link can write anywhere on the disk when it is loaded. Cause:
    AllenNLP unpacks without a filter, and Python has a default filter only since 3.14. Such an archive now raises
    `tarfile.FilterError`.
    Symptom: a training with `english-tiny` or `latin-tiny` packs its archive for 6 s. Cause: `tarfile` compresses at
    level 9, which is slow for numbers that were stored in half precision. Level 1 takes a tenth of the time, and the
    archive grows by 8 %.
    Symptom: `predict` with its two files in the wrong order says `not a gzip file`. Now it says which.
    Guard: an archive whose members and links stay inside is unpacked as before, whatever its level.
    """
    replace_name(archival, "tarfile", _ArchiveFile)


class _ArchiveFile(tarfile.TarFile):
    """Stands for the module `tarfile` in `archival`, which calls its `open`."""

    extraction_filter = staticmethod(tarfile.data_filter)

    @classmethod
    def gzopen(cls, name: Any, mode: Any = "r", fileobj: Any = None, compresslevel: int = 1, **options: Any) -> Any:
        try:
            return super().gzopen(name, mode, fileobj, compresslevel, **options)
        except tarfile.ReadError as error:
            raise tarfile.ReadError(f"{name}: {error}") from None


def repair_moving_average() -> None:
    """Let a `moving_average` average the parameters of the model after `--recover`.

    Symptom: a recovered run validates, and saves as its best, the weights themselves instead of their average. Cause:
    `MovingAverage.load_state_dict` takes the parameters from the file, so it averages copies that no model uses.
    Guard: none is needed; the average keeps the parameters with which it was built.
    """

    def load_state_dict(original: Function, self: MovingAverage, state_dict: dict[str, Any]) -> None:
        original(self, {**state_dict, "parameters": self._parameters})

    replace_once(MovingAverage, "load_state_dict", load_state_dict)


def check_width_of_rnns() -> None:
    """Reject the input of an RNN that has another width than its `input_size`.

    Symptom: with a wrong `input_size` a model learns noise, or the process crashes, without a message. Cause: PyTorch
    does not check the width for sentences of equal length on a CPU, and reads what lies behind the input.
    Guard: an input of the right width passes.
    """

    def run(
        original: Function, self: _EncoderBase, module: nn.Module, inputs: Tensor, *args: Any, **kwargs: Any
    ) -> Any:
        size = getattr(module, "input_size", None)
        if size is not None and inputs.size(-1) != size:
            raise ConfigurationError(
                f"an encoder's 'input_size': expected {inputs.size(-1)}, the width of what enters it, got {size}"
            )
        return original(self, module, inputs, *args, **kwargs)

    replace_once(_EncoderBase, "sort_and_run_forward", run)


def repair_recovery_after_the_last_epoch() -> None:
    """Let `--recover` finish a run that was killed after its last epoch as if it had not been killed.

    Symptom: `metrics.json` lacks the metrics of training and validation, and a run that ran out of patience trains for
    another epoch. Cause: the trainer has the metrics only of epochs that it trains, and checks its patience only after
    an epoch. The metrics are now read from the last `metrics_epoch_….json`.
    Guard: a run that has not run out of patience trains the same epochs, and the metrics of a run that trains an epoch
    are not changed.
    """

    def try_train(original: Function, self: Any) -> tuple[dict[str, Any], int]:
        if self._metric_tracker.should_stop_early():
            self._num_epochs = self._start_after_epochs_completed
        metrics, epoch = original(self)
        if "epoch" not in metrics and self._serialization_dir:
            last = Path(self._serialization_dir, f"metrics_epoch_{epoch}.json")
            if last.exists():
                metrics = {**json.loads(last.read_text(encoding="utf-8")), **metrics}
        return metrics, epoch

    replace_once(GradientDescentTrainer, "_try_train", try_train)


def repair_cut_off_checkpoints() -> None:
    """Let `--recover` continue from the newest checkpoint that is complete.

    Symptom: `[Errno 22] Invalid argument`, `PytorchStreamReader failed …` or `EOFError`, without the name of a file,
    after a run was killed, or the disk was full, while a checkpoint was written. Cause: AllenNLP writes its two files
    under their final names, one after the other, and reads only the newest. Now the newest is left out with a warning,
    and removed, because AllenNLP does not write a file that exists.
    Guard: a checkpoint that can be read is read as before. An error from a file that is complete is still raised.
    """

    def load_checkpoint(original: Function, self: Checkpointer) -> Any:
        try:
            return original(self)
        except Exception as error:  # torch raises errors of many types
            points = sorted(self._find_all_checkpoints(), reverse=True)
            cut_off = []
            for point in points:
                paths = map(Path, (self._model_state_path(*point), self._training_state_path(*point)))
                broken = next((path for path in paths if not (path.is_file() and zipfile.is_zipfile(path))), None)
                if broken is None:
                    break
                cut_off.append(broken)
            if not cut_off:
                raise
            if len(cut_off) == len(points):
                expected = "expected a complete file, got one that is cut off or missing"
                raise ConfigurationError(
                    f"'{cut_off[0]}': {expected}, and there is no checkpoint before it; start again with --force"
                ) from error
            for point, broken in zip(points, cut_off, strict=False):
                logger.warning("'%s' is cut off or missing; the run continues from the checkpoint before", broken)
                if self._is_primary:
                    self._remove_checkpoint(*point)
            return original(self)

    replace_once(Checkpointer, "load_checkpoint", load_checkpoint)


def repair_half_precision() -> None:
    """Let models with a masked softmax run after `model.bfloat16()`.

    Symptom: `TypeError: Does not support dtype torch.bfloat16` from `sequence_cross_entropy_with_logits`. Cause:
    `tiny_value_of_dtype` has no value for bfloat16. It now gets the tiny value of float32, which has the same range.
    Guard: every other type of number gets the value, or the error, that it got before.
    """

    def tiny_value_of_dtype(original: Function, dtype: torch.dtype) -> float:
        tiny: float = original(torch.float32 if dtype == torch.bfloat16 else dtype)
        return tiny

    replace_once(nn_util, "tiny_value_of_dtype", tiny_value_of_dtype)


def repair_multitask() -> None:
    """Let each head of a `multitask` model that reads a text field read the texts of its own task.

    Symptom: all heads but the first raise `IndexError: index out of range`, or silently read the texts of another task.
    Cause: the model replaces the tensors of a batch in place by those of the first head's task. Now each head gets its
    own dictionaries.
    Guard: only dictionaries are copied, of any depth; the tensors and everything else in them are the same objects.
    """

    def own(field: Any) -> Any:
        return {name: own(each) for name, each in field.items()} if type(field) is dict else field

    def get_arguments(original: Function, self: MultiTaskModel, *args: Any, **kwargs: Any) -> dict[str, Any]:
        fields: dict[str, Any] = own(original(self, *args, **kwargs))
        return fields

    replace_once(MultiTaskModel, "_get_arguments", get_arguments)
