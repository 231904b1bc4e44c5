"""Build a biLM from the sizes and the weights of a checkpoint."""

from os import fspath

import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import BiLM
from elmo_plugin.checkpoints.checkpoint_format import EXTRA_STATE, Checkpoint
from elmo_plugin.checkpoints.files import Location
from elmo_plugin.checkpoints.weight_map import unread_error


def build_bilm(checkpoint: Checkpoint, kernel: str = "auto", source: Location = "") -> BiLM:
    """Build a biLM with the sizes and a copy of the weights of a checkpoint.

    >>> from elmo_plugin.checkpoints import load_checkpoint
    >>> build_bilm(load_checkpoint("english-tiny")).options.num_layers
    3

    Raises `ConfigurationError`, which calls the file `source`, if the weights do not fit the sizes.
    """
    bilm = empty_bilm(checkpoint, kernel, source)
    if checkpoint.options.contextualizer is None:
        bilm.to_empty(device="cpu")
    else:  # it may hold more than its state dict, so it is built again with memory, which the shapes have bounded
        has_warm_state, bilm = bilm.warm_state is not None, BiLM(checkpoint.options, kernel, fspath(source))
        if has_warm_state:
            bilm.warm_state = bilm.zero_state(1, next(bilm.parameters()))
    bilm.load_state_dict(checkpoint.state_dict, strict=False)  # the names have been compared
    return bilm


def empty_bilm(checkpoint: Checkpoint, kernel: str = "auto", source: Location = "") -> BiLM:
    """Return the biLM of a checkpoint without memory for its weights, after comparing their names and shapes with it.

    Raises `ConfigurationError`, which calls the file `source`, for the first that differs.
    """
    shapes = {name: tuple(tensor.shape) for name, tensor in checkpoint.state_dict.items() if name != EXTRA_STATE}
    with torch.device("meta"):
        try:
            bilm = BiLM(checkpoint.options, kernel, fspath(source))
        except ConfigurationError as error:
            raise ConfigurationError(f"'{fspath(source)}': {error}") from error
        if "warm_hidden" in shapes or "warm_cell" in shapes:
            bilm.warm_state = bilm.zero_state(1, next(bilm.parameters()))
    expected = {name: tuple(tensor.shape) for name, tensor in bilm.state_dict().items() if name != EXTRA_STATE}
    for name, shape in expected.items():
        if shapes.get(name) != shape:
            got = shapes.get(name, "no such tensor")
            raise ConfigurationError(f"'{fspath(source)}', tensor '{name}': expected shape {shape}, got {got}")
    for name in shapes:
        if name not in expected:
            raise unread_error(name, f"'{fspath(source)}'")
    return bilm
