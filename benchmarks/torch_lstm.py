"""The biLM's stack out of `torch.nn.LSTM(proj_size=P)`, which has no clips."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmo_plugin.bilm import ElmoLstm


class TorchLstm(nn.Module):
    """The same weights and residual connections, each layer of each direction an `nn.LSTM`.

    # Parameters

    twin : `ElmoLstm`
        Whose weights it takes.
    """

    def __init__(self, twin: ElmoLstm) -> None:
        super().__init__()
        self.residual = twin.options.use_skip_connections
        self.forward_layers = nn.ModuleList(as_torch(layer) for layer in twin.forward_layers)
        self.backward_layers = nn.ModuleList(as_torch(layer) for layer in twin.backward_layers)

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """(B, T, P) and (B, T), the longest sentence first, to (n_layers, B, T, 2P)."""
        lengths = mask.sum(dim=1)  # (B,)
        ahead = self.run_direction(0, inputs, lengths)
        behind = self.run_direction(1, reverse_sentences(inputs, lengths), lengths)
        pairs = zip(ahead, behind, strict=True)
        return torch.stack([torch.cat([one, reverse_sentences(other, lengths)], dim=-1) for one, other in pairs])

    def run_direction(self, direction: int, inputs: Tensor, lengths: Tensor) -> list[Tensor]:
        """Sentences in their reading order to the outputs of each layer, (B, T, P)."""
        outputs: list[Tensor] = []
        for lstm in (self.forward_layers, self.backward_layers)[direction]:
            packed = pack_padded_sequence(outputs[-1] if outputs else inputs, lengths.cpu(), batch_first=True)
            output, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True)  # (B, T, P)
            outputs.append(output + outputs[-1] if outputs and self.residual else output)
        return outputs


@torch.no_grad()
def as_torch(layer: Any) -> nn.LSTM:
    """A `ProjectedLstm`, one layer of one direction; torch has two biases, of which one stays 0."""
    cell_dim, projection_dim = layer.bias.numel() // 4, layer.weight_hh.size(1)
    has_projection = layer.weight_hr is not None
    lstm = nn.LSTM(layer.weight_ih.size(1), cell_dim, proj_size=projection_dim if has_projection else 0)
    named = {"weight_ih_l0": layer.weight_ih, "weight_hh_l0": layer.weight_hh, "bias_ih_l0": layer.bias}
    if layer.weight_hr is not None:
        named["weight_hr_l0"] = layer.weight_hr
    lstm.load_state_dict({**named, "bias_hh_l0": torch.zeros_like(layer.bias)})
    return lstm.to(layer.bias)


def reverse_sentences(values: Tensor, lengths: Tensor) -> Tensor:
    """Reverse each sentence within its own length: (B, T, ·) to (B, T, ·), padding stays where it is."""
    steps = torch.arange(values.size(1), device=values.device)  # (T,)
    mirrored = lengths.unsqueeze(1) - 1 - steps  # (B, T)
    index = torch.where(mirrored >= 0, mirrored, steps)  # (B, T)
    return values.gather(1, index.unsqueeze(-1).expand_as(values))
