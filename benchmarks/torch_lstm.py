"""The biLM's LSTM built from `torch.nn.LSTM(proj_size=P)`, which cannot clip."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmo_plugin.bilm import ElmoLstm


class TorchLstm(nn.Module):
    """An `nn.LSTM` for each layer and direction, with the weights and residual connections of `twin`."""

    def __init__(self, twin: ElmoLstm) -> None:
        super().__init__()
        self.residual = twin.options.use_skip_connections
        self.forward_layers = nn.ModuleList(as_torch(layer) for layer in twin.forward_layers)
        self.backward_layers = nn.ModuleList(as_torch(layer) for layer in twin.backward_layers)

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """Return all layers: (B, T, P) and (B, T), the longest sentence first, to (n_layers, B, T, 2P)."""
        lengths = mask.sum(dim=1)  # (B,)
        forward = self.run_direction(0, inputs, lengths)  # (n_layers, B, T, P)
        backward = self.run_direction(1, reverse_sentences(inputs, lengths), lengths)
        return torch.cat([forward, torch.stack([reverse_sentences(each, lengths) for each in backward])], dim=-1)

    def run_direction(self, direction: int, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Return the outputs of each layer, (n_layers, B, T, P), for sentences in the direction's reading order."""
        outputs: list[Tensor] = []
        for lstm in (self.forward_layers, self.backward_layers)[direction]:
            packed = pack_padded_sequence(outputs[-1] if outputs else inputs, lengths.cpu(), batch_first=True)
            output, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True)  # (B, T, P)
            outputs.append(output + outputs[-1] if outputs and self.residual else output)
        return torch.stack(outputs)


@torch.no_grad()
def as_torch(layer: Any) -> nn.LSTM:
    """Convert a `ProjectedLstm`, one layer of one direction. PyTorch has two biases; the second is set to 0."""
    cell_dim, projection_dim = layer.bias.numel() // 4, layer.weight_hh.size(1)
    lstm = nn.LSTM(layer.weight_ih.size(1), cell_dim, proj_size=0 if layer.weight_hr is None else projection_dim)
    weights = {"weight_ih_l0": layer.weight_ih, "weight_hh_l0": layer.weight_hh, "bias_ih_l0": layer.bias}
    if layer.weight_hr is not None:
        weights["weight_hr_l0"] = layer.weight_hr
    lstm.load_state_dict({**weights, "bias_hh_l0": torch.zeros_like(layer.bias)})
    return lstm.to(layer.bias)


def reverse_sentences(values: Tensor, lengths: Tensor) -> Tensor:
    """Reverse each sentence within its own length, (B, T, ·) to (B, T, ·). Padding stays in place."""
    steps = torch.arange(values.size(1), device=values.device)  # (T,)
    mirrored = lengths.unsqueeze(1) - 1 - steps  # (B, T)
    index = torch.where(mirrored >= 0, mirrored, steps)  # (B, T)
    return values.gather(1, index.unsqueeze(-1).expand_as(values))
