"""Repairs that neither ELMo nor the commands of this package need.

They are for AllenNLP's other tools, such as transformers, callbacks, `multitask`, interpreters and attackers. Each
keeps a row of `docs/guides/allennlp-tools.md` true, and the last one helps to move code of AllenNLP 0.9.
"""

import importlib.util
import secrets
import sys
import types
from functools import partial
from typing import Any, Optional

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Token, fields, token_indexers
from allennlp.interpret.influence_interpreters import influence_interpreter, simple_influence
from allennlp.interpret.saliency_interpreters import (
    integrated_gradient,
    simple_gradient,
    smooth_gradient,
)
from allennlp.nn.util import move_to_device
from torch.optim.lr_scheduler import ReduceLROnPlateau

from elmo_plugin.compat.patching import Function, replaces


@replaces("allennlp.common.cached_transformers.get_tokenizer")
def get_tokenizer(original: Function, name: str, add_special_tokens: Optional[bool] = None, **kwargs: Any) -> Any:
    """Let the `pretrained_transformer*` tokenizers, indexers and vocabularies load their tokenizer.

    Symptom: `AttributeError: add_special_tokens conflicts with the method add_special_tokens in BertTokenizerFast`.
    Cause: transformers 4.44 rejects a setting that has the name of a method. AllenNLP does not need the setting: every
    call states whether it wants special tokens.
    Guard: none is needed.
    """
    return original(name, **kwargs)


@replaces(
    "allennlp.training.learning_rate_schedulers.pytorch_lr_schedulers.ReduceOnPlateauLearningRateScheduler.__init__"
)
def reduce_on_plateau(original: Function, self: Any, *args: Any, verbose: bool = False, **settings: Any) -> None:
    """Let the learning rate scheduler `reduce_on_plateau` be built. `verbose` is accepted and ignored.

    Symptom: `TypeError: ReduceLROnPlateau.__init__() got an unexpected keyword argument 'verbose'`. Cause: torch 2.7
    removed the argument, and AllenNLP always passes it.
    Guard: none is needed.
    """
    self.lr_scheduler = ReduceLROnPlateau(*args, **settings)


@replaces("allennlp.training.callbacks.wandb.WandBCallback.on_start")
def start_wandb(original: Function, self: Any, trainer: Any, is_primary: bool = True, **kwargs: Any) -> None:
    """Let the callback `wandb` start a run, and say how to install its package.

    Symptom: `AttributeError: module 'wandb.util' has no attribute 'generate_id'`. Cause: wandb 0.28 made the function
    private. A new run now gets eight random characters as its id, as before.
    Guard: a recovered run keeps its id. wandb is imported only when a run starts, because it may not be installed.
    """
    if "wandb" not in sys.modules and importlib.util.find_spec("wandb") is None:
        raise ConfigurationError("'trainer.callbacks': expected wandb to be installed: pip install wandb")
    if is_primary and self._run_id is None:
        self._run_id = secrets.token_hex(4)
    original(self, trainer, is_primary=is_primary, **kwargs)


@replaces("allennlp.training.moving_average.MovingAverage.load_state_dict")
def restore_moving_average(original: Function, self: Any, state_dict: dict[str, Any]) -> None:
    """Let a `moving_average` average the parameters of the model after `--recover`.

    Symptom: a recovered run validates, and saves as its best, the weights themselves instead of their average. Cause:
    `MovingAverage.load_state_dict` takes the parameters from the file, so it averages copies that no model uses.
    Guard: none is needed; the average keeps the parameters with which it was built.
    """
    original(self, {**state_dict, "parameters": self._parameters})


@replaces("allennlp.models.multitask.MultiTaskModel._get_arguments")
def texts_of_each_task(original: Function, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Let each head of a `multitask` model that reads a text field read the texts of its own task.

    Symptom: all heads but the first raise `IndexError: index out of range`, or silently read the texts of another task.
    Cause: the model replaces the tensors of a batch in place by those of the first head's task. Now each head gets its
    own dictionaries.
    Guard: only dictionaries are copied, of any depth; the tensors and everything else in them are the same objects.
    """

    def own(field: Any) -> Any:
        return {name: own(each) for name, each in field.items()} if type(field) is dict else field

    return own(original(self, *args, **kwargs))


@replaces("allennlp.interpret.saliency_interpreters.simple_gradient.SimpleGradient._aggregate_token_embeddings")
def vector_of_each_token(original: Function, self: Any, embeddings: list[torch.Tensor], offsets: Any) -> Any:
    """Let the saliency interpreters score each token by its own vector.

    Symptom: `simple-gradient` multiplies the gradient of every token by the vector of the first token. Cause: a hook
    drops the batch dimension, and the interpreter drops another one.
    Guard: vectors with a batch dimension are not changed.
    """
    return original([each.unsqueeze(0) if each.dim() == 2 else each for each in embeddings], offsets)


@replaces("allennlp.interpret.attackers.hotflip.Hotflip._make_embedder_input")
def index_all_words(original: Function, self: Any, all_tokens: list[str]) -> Any:
    """Let the attacker `hotflip` use any token indexer beside `single_id`, and report it if `single_id` is missing.

    Symptom: `RuntimeError: ('Unsupported token indexer:', …)`, for example with `elmo_many_langs`; with characters
    alone, `NotImplementedError: Our heuristic for guessing the right token ids failed`. Cause: AllenNLP supports only
    three indexers. Hotflip replaces words by other words of the vocabulary, so it needs their ids.
    Guard: none is needed; the indexers that AllenNLP supports give the same ids.
    """
    indexers = self.predictor._dataset_reader._token_indexers
    if not any(isinstance(indexer, token_indexers.SingleIdTokenIndexer) for indexer in indexers.values()):
        raise ConfigurationError(
            "'hotflip' swaps words of a vocabulary: expected the token indexer 'single_id' in the dataset reader, "
            f"got {[type(indexer).__name__ for indexer in indexers.values()]}"
        )
    field = fields.TextField([Token(token) for token in all_tokens], indexers)
    field.index(self.vocab)
    return move_to_device(field.batch_tensors([field.as_tensor(field.get_padding_lengths())]), self.cuda_device)


@replaces("allennlp.interpret.influence_interpreters.simple_influence._flatten_tensors")
def flatten(original: Function, tensors: Any) -> Any:
    """Let `simple-influence` compare gradients of any layout.

    Symptom: `RuntimeError: view size is not compatible with input tensor's size and stride` for a biLM. Cause: AllenNLP
    flattens gradients with `view`.
    Guard: other gradients are not changed.
    """
    return original([tensor.contiguous() for tensor in tensors])


# `simple-influence` computes for every text the gradients of the parameters that the first text used, and a text of one
# token does not use the transitions of a CRF. PyTorch raised an error; an unused parameter now has a gradient of 0.
for module in (influence_interpreter, simple_influence):
    module.autograd = types.SimpleNamespace(grad=partial(torch.autograd.grad, materialize_grads=True))  # type: ignore[attr-defined]

# The interpreters divide scores by their norm. It is 0 if all gradients are 0, for example for a model that is certain,
# and the scores were NaN.
LINALG = types.SimpleNamespace(norm=lambda scores, ord: np.linalg.norm(scores, ord=ord) or 1.0)
for module in (integrated_gradient, simple_gradient, smooth_gradient):
    module.numpy = types.SimpleNamespace(**{**vars(np), "linalg": LINALG})  # type: ignore[attr-defined]


class RemovedCommand:
    """Finds no module, but names the import that replaces `allennlp.commands.elmo`, which AllenNLP 1.0 removed.

    Symptom: `No module named 'allennlp.commands.elmo'`, in code that was written for AllenNLP 0.9. The error has the
    same type and says what to write. Guard: a module of this name that exists is found before.
    """

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Raise `ModuleNotFoundError` for `allennlp.commands.elmo`."""
        if name == "allennlp.commands.elmo":
            raise ModuleNotFoundError(
                f"No module named '{name}': AllenNLP 1.0 removed it; write `from elmo_plugin import ElmoEmbedder, "
                "batch_to_ids`",
                name=name,
            )


sys.meta_path.append(RemovedCommand)
