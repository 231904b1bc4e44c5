"""Repairs of what newer versions of PyTorch, transformers, wandb and Python break in AllenNLP, and of its own bugs."""

import importlib
import inspect
import secrets
import tarfile
import warnings
from collections.abc import Mapping
from typing import Any, Optional

import numpy as np
import torch
from allennlp.common import cached_transformers
from allennlp.data.data_loaders import multiprocess_data_loader
from allennlp.data.data_loaders.multiprocess_data_loader import MultiProcessDataLoader
from allennlp.models import archival
from allennlp.modules.seq2vec_encoders import BagOfEmbeddingsEncoder
from allennlp.nn import util as nn_util
from allennlp.training.callbacks.wandb import WandBCallback
from allennlp.training.learning_rate_schedulers.learning_rate_scheduler import (
    _PyTorchLearningRateSchedulerWithMetricsWrapper,
)
from allennlp.training.learning_rate_schedulers.pytorch_lr_schedulers import ReduceOnPlateauLearningRateScheduler
from allennlp.training.moving_average import MovingAverage
from torch.optim.lr_scheduler import ReduceLROnPlateau
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from elmo_plugin.allennlp_compat.patching import Function, wrap_once

# (category, start of the message, module that warns), the latter two regular expressions.
NOISE = (
    # `torch.cuda.amp.autocast` and `GradScaler` are deprecated since torch 2.4; the trainer enters the first on every
    # batch, also on a CPU, and Python shows it once for training and once for validation, in the middle of the bar.
    (FutureWarning, r"`torch\.cuda\.amp\.", r"allennlp\.(training\.gradient_descent_trainer|nn\.parallel\.\w+)$"),
    # PyTorch says so at each `pytorch_transformer` encoder, as AllenNLP never builds it `batch_first`.
    (UserWarning, "enable_nested_tensor is True", r"allennlp\.modules\.seq2seq_encoders\.pytorch_transformer_wrapper$"),
)


def trust_numpy_scalars() -> None:
    """Let `--recover` read NumPy numbers in a training state.

    Symptom: `UnpicklingError: Weights only load failed` on `--recover` with the scheduler `cosine`, or `combined` with
    it inside, or a model whose metric is a NumPy number. Cause: torch 2.6 made `torch.load(weights_only=True)` the
    default; `cosine` computes with `np.cos`, so the optimizer's learning rate is an `np.float64`, and the metric
    tracker keeps the best metrics. Only NumPy's numbers are added to what may be read; the check stays on.
    Guard: none is needed, a type listed twice is listed once.
    """
    rebuild_scalar: Any = np.float64(0).__reduce__()[0]  # its home was renamed in NumPy 2, and a run may outlive that
    homes = ("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar")
    dtypes = {type(np.dtype(code)) for code in "?bhilqBHILQefd"}
    torch.serialization.add_safe_globals([(rebuild_scalar, home) for home in homes])
    torch.serialization.add_safe_globals([np.dtype, *dtypes])


def repair_reduce_on_plateau() -> None:
    """Let the learning rate scheduler `reduce_on_plateau` be built; `verbose` is accepted and means nothing.

    Symptom: `TypeError: ReduceLROnPlateau.__init__() got an unexpected keyword argument 'verbose'`. Cause: torch 2.7
    removed the argument, AllenNLP passes it always.
    Guard: where PyTorch's scheduler still takes `verbose`, nothing is changed.
    """
    if "verbose" in inspect.signature(ReduceLROnPlateau).parameters:
        return
    wrap_once(ReduceOnPlateauLearningRateScheduler, "__init__", _without_verbose)


def _without_verbose(original: Function) -> Function:
    signature = inspect.signature(original)

    def build(self: ReduceOnPlateauLearningRateScheduler, *args: Any, **kwargs: Any) -> None:
        settings = dict(signature.bind(self, *args, **kwargs).arguments)
        del settings["self"]
        settings.pop("verbose", None)
        scheduler: Any = ReduceLROnPlateau(**settings)
        _PyTorchLearningRateSchedulerWithMetricsWrapper.__init__(self, scheduler)

    return build


def repair_spawned_workers() -> None:
    """Let the `multiprocess` data loader start workers with `start_method: "spawn"` (or `"forkserver"`).

    Symptom: `RuntimeError: A SemLock created in a fork context is being shared with a process in a spawn context`.
    Cause: Python 3.11.5 began to check that; the loader hands its workers, of the context asked for, the progress
    bar's lock, of the default context. The two are now of the same.
    Guard: none is needed, with the default start method the contexts are the same already.
    """
    for name in ("_start_instance_workers", "_start_batch_workers"):
        wrap_once(MultiProcessDataLoader, name, _with_lock_of_context)


def _with_lock_of_context(original: Function) -> Function:
    def start_workers(self: MultiProcessDataLoader, queue: Any, ctx: Any) -> Any:
        # `mp` is where the original gets its lock, `mp.RLock()`; a context offers all that the module does.
        multiprocess_data_loader.mp = ctx
        try:
            return original(self, queue, ctx)
        finally:
            multiprocess_data_loader.mp = torch.multiprocessing

    return start_workers


def repair_wandb_callback() -> None:
    """Let the callback `wandb` start a run.

    Symptom: `AttributeError: module 'wandb.util' has no attribute 'generate_id'`. Cause: wandb 0.28 moved the function
    out of its public reach. A new run now gets an id of the same kind, eight random characters, from us.
    Guard: looked up when a run starts, as wandb need not be installed; an older wandb makes the id itself, and a
    recovered run keeps its own.
    """
    wrap_once(WandBCallback, "on_start", _with_run_id)


def _with_run_id(original: Function) -> Function:
    def on_start(self: WandBCallback, trainer: Any, is_primary: bool = True, **kwargs: Any) -> None:
        if is_primary and self._run_id is None and not hasattr(importlib.import_module("wandb").util, "generate_id"):
            self._run_id = secrets.token_hex(4)
        original(self, trainer, is_primary=is_primary, **kwargs)

    return on_start


def repair_pretrained_transformers() -> None:
    """Let the `pretrained_transformer*` tokenizers, indexers and vocabularies load their tokenizer.

    Symptom: `AttributeError: add_special_tokens conflicts with the method add_special_tokens in BertTokenizerFast`.
    Cause: transformers 4.44 refuses to keep a setting named like a method. As a setting it never did anything: AllenNLP
    asks for special tokens, or for none, on every call.
    Guard: where transformers keeps the setting, nothing is changed.
    """
    try:
        PreTrainedTokenizerBase(add_special_tokens=False)
    except AttributeError:
        wrap_once(cached_transformers, "get_tokenizer", _without_special_tokens)


def _without_special_tokens(original: Function) -> Function:
    def get_tokenizer(model_name: str, add_special_tokens: Optional[bool] = None, **kwargs: Any) -> Any:
        return original(model_name, **kwargs)

    return get_tokenizer


def repair_token_ids_of_elmo() -> None:
    """Let `basic_classifier` run on `elmo_characters` alone; its readable output then holds no `tokens`.

    Symptom: `NotImplementedError: Our heuristic for guessing the right token ids failed` on the first batch. Cause:
    AllenNLP 2 wants word ids for its output, and characters are none. The answer is now that each sentence has no ids.
    Guard: only for a batch (B, T, C) of `elmo_tokens` with no other indexer beside it; anything else, such as the lone
    sentence of the attacker `hotflip`, which would use the ids, goes to the original. AllenNLP's callers all look the
    function up in `nn.util`.
    """
    wrap_once(nn_util, "get_token_ids_from_text_field_tensors", _or_no_ids)


def _or_no_ids(original: Function) -> Function:
    def get_token_ids(text_field_tensors: Mapping[str, Mapping[str, torch.Tensor]]) -> torch.Tensor:
        arguments = [pair for indexer in text_field_tensors.values() for pair in indexer.items()]
        if len(arguments) == 1:
            name, tensor = arguments[0]
            if name == "elmo_tokens" and tensor.dim() == 3:
                return tensor.new_empty((tensor.size(0), 0))  # (B, 0)
        return original(text_field_tensors)

    return get_token_ids


def repair_extracted_archives() -> None:
    """Let no archive of a model write outside the folder that it is unpacked into; `tarfile.FilterError` says which.

    Symptom: a `model.tar.gz` with a member `../name` or a link writes anywhere on the disk when it is loaded. Cause:
    AllenNLP unpacks without a filter, and Python has one by default since 3.14 only.
    Guard: none is needed, what is harmless is unpacked as before.
    """
    archival.tarfile = _FilteredTarFiles  # type: ignore[assignment]


class _FilteredTarFiles(tarfile.TarFile):
    """What `archival` opens archives with, in place of the module `tarfile`."""

    extraction_filter = staticmethod(tarfile.data_filter)


def repair_moving_average() -> None:
    """Let a `moving_average` go on averaging the model after `--recover`.

    Symptom: a run that was stopped and recovered validates, and keeps as its best, the weights themselves and not their
    average. Cause: `MovingAverage.load_state_dict` takes the parameters from the file, copies that no model has; it
    averages those, and writes averages into them.
    Guard: none is needed, the parameters that it was built with are kept.
    """
    wrap_once(MovingAverage, "load_state_dict", _with_own_parameters)


def _with_own_parameters(original: Function) -> Function:
    def load_state_dict(self: MovingAverage, state_dict: dict[str, Any]) -> None:
        original(self, {**state_dict, "parameters": self._parameters})

    return load_state_dict


def repair_half_precision() -> None:
    """Let models run after `model.half()` and `model.bfloat16()`: those with `boe`, and those that mask a softmax.

    Symptom: `RuntimeError: mat1 and mat2 must have the same dtype, but got Float and Half` behind the encoder `boe`,
    and `TypeError: Does not support dtype torch.bfloat16` from `sequence_cross_entropy_with_logits`. Cause: `boe`
    divides by lengths in float32, and `tiny_value_of_dtype` does not know bfloat16. Its tiny value is that of float32,
    as it reaches as far.
    Guard: none is needed, what has a type of its own keeps it.
    """
    wrap_once(BagOfEmbeddingsEncoder, "forward", _in_type_of_input)
    wrap_once(nn_util, "tiny_value_of_dtype", _with_bfloat16)


def _in_type_of_input(original: Function) -> Function:
    def forward(self: BagOfEmbeddingsEncoder, tokens: torch.Tensor, mask: Any = None) -> torch.Tensor:
        pooled: torch.Tensor = original(self, tokens, mask)
        return pooled.to(tokens.dtype)

    return forward


def _with_bfloat16(original: Function) -> Function:
    def tiny_value_of_dtype(dtype: torch.dtype) -> float:
        tiny: float = original(torch.float32 if dtype == torch.bfloat16 else dtype)
        return tiny

    return tiny_value_of_dtype


def silence_noise() -> None:
    """Hide the warnings of `NOISE`, which AllenNLP's own lines raise and no config of a user's can end.

    Guard: category, message and module must all match. A filter listed twice is listed once; `warnings.catch_warnings`
    takes at its end what was listed inside it, so a second call may be needed after one.
    """
    for category, message, module in NOISE:
        warnings.filterwarnings("ignore", message=message, category=category, module=module)
