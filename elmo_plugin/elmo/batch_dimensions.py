"""Token ids with any number of batch dimensions."""

import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor


def merge_batch_dimensions(ids: Tensor, input_dims: int) -> tuple[Tensor, torch.Size]:
    """Merge all dimensions before T into B. Return ids (B, T, C) or (B, T), and the sizes of the merged dimensions.

    `input_dims` is 3 for character ids and 2 for word ids. Raises `ConfigurationError` for ids with fewer dimensions.
    """
    if ids.dim() < input_dims and not ids.numel():
        ids = ids.unsqueeze(-1)  # AllenNLP's indexer gives a batch of empty sentences no C
    if ids.dim() < input_dims:
        raise ConfigurationError(
            "ELMo's token indexer: expected 'elmo_characters', or the indexer of its biLM, with ids (B, T, C), got ids "
            f"of shape {tuple(ids.shape)}"
        )
    batch = ids.shape[: ids.dim() - input_dims + 1]
    return ids.flatten(0, len(batch) - 1), batch
