"""The contextualizer of a biLM: stacked LSTMPs in two independent directions."""

from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple, Optional, Union

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from torch import Tensor, nn

from elmo_plugin.bilm.projected_lstm import ProjectedLstm
from elmo_plugin.bilm.sizes import LstmOptions
from elmo_plugin.bilm.token_encoder import TokenTable
from elmo_plugin.common import at_least, probability
from elmo_plugin.lstm import (
    KERNELS,
    LstmClips,
    LstmState,
    LstmWeights,
    Packing,
    kernel_by_name,
    linear,
    prepack,
)

TOKENS_PER_BLOCK = 384
"""Tokens that are multiplied by the input weights together, without gradients. The result takes 24 MB at 4096 cells.

From 32 MB on, `malloc` requests memory from the operating system each time, which takes longer than computing it.
"""

CONFIG_KEYS = {
    "lstm.dim": "cell_size",
    "lstm.projection_dim": "hidden_size",
    "lstm.n_layers": "num_layers",
    "lstm.cell_clip": "memory_cell_clip_value",
    "lstm.proj_clip": "state_projection_clip_value",
}
"""The keys of a config, by their names in an options file."""


class ElmoLstm(Seq2SeqEncoder):
    """The biLM's stacked bidirectional LSTM with projections, clips and residual connections (ELMo §3.1, §3.4).

    Forward layer k reads only forward layer k − 1, and likewise backward. So each half of the output can be trained to
    predict tokens that only the other half has read.

        >>> lstm = ElmoLstm(LstmOptions(cell_dim=64, projection_dim=16))
        >>> lstm(torch.randn(2, 5, 16), torch.ones(2, 5, dtype=torch.bool)).shape
        torch.Size([2, 5, 32])

    Registered as a `Seq2SeqEncoder` with name `elmo_lstm`.

    # Parameters

    options : `LstmOptions`
    input_size : `Optional[int]`
        The width of the input (I); P by default.
    kernel : `str`
        The name of the kernel, or `auto`.
    return_all_layers : `bool`
        Return every layer (n_layers, B, T, 2P) instead of only the last (B, T, 2P).
    dropout : `float`
        The dropout rate of each layer's input in training. It also applies to the residual connection, as in bilm-tf,
        whose `training.py` puts `DropoutWrapper` around `ResidualWrapper`.
    """

    def __init__(
        self,
        options: LstmOptions,
        input_size: Optional[int] = None,
        kernel: str = "auto",
        return_all_layers: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        probability(dropout=dropout)
        self.options = options
        self.input_size = input_size or options.projection_dim
        self.return_all_layers = return_all_layers
        self.input_dropout = nn.Dropout(dropout)
        try:
            self.kernel = kernel_by_name(kernel)
        except ValueError as error:
            raise ConfigurationError(f"'kernel': {error}") from error
        sizes = [self.input_size] + [options.projection_dim] * (options.n_layers - 1)
        self.forward_layers = nn.ModuleList(ProjectedLstm(size, options) for size in sizes)
        self.backward_layers = nn.ModuleList(ProjectedLstm(size, options) for size in sizes)

    @classmethod
    def from_sizes(
        cls,
        input_size: int,
        hidden_size: int,
        cell_size: int,
        num_layers: int,
        memory_cell_clip_value: Optional[float] = None,
        state_projection_clip_value: Optional[float] = None,
        use_skip_connections: bool = True,
        kernel: str = "auto",
        return_all_layers: bool = False,
        dropout: float = 0.0,
    ) -> "ElmoLstm":
        """Build the encoder from the keys of a config, which `allennlp.modules.elmo_lstm.ElmoLstm` has too.

        # Parameters

        input_size : the width of the input (I)
        hidden_size : the width of one direction's output (P)
        cell_size : the number of cells (H)
        num_layers : the number of LSTM layers
        memory_cell_clip_value : the bound on the cells; null for none
        state_projection_clip_value : the bound on the projected output; null for none
        use_skip_connections : whether to add a layer's input to its output, from the second layer on
        """
        at_least(1, input_size=input_size)
        lstm = {
            "dim": cell_size,
            "projection_dim": hidden_size,
            "n_layers": num_layers,
            "cell_clip": memory_cell_clip_value,
            "proj_clip": state_projection_clip_value,
            "use_skip_connections": use_skip_connections,
        }
        try:
            options = LstmOptions.from_dict(lstm)
        except ConfigurationError as error:
            message = str(error)
            for in_options, in_config in CONFIG_KEYS.items():
                message = message.replace(in_options, in_config)
            raise ConfigurationError(f"'elmo_lstm': {message}") from error
        return cls(options, input_size, kernel, return_all_layers, dropout)

    def get_input_dim(self) -> int:
        """Return the width of the token vectors that the encoder reads (I)."""
        return self.input_size

    def get_output_dim(self) -> int:
        """Return the width of both directions side by side (2P)."""
        return 2 * self.options.projection_dim

    def is_bidirectional(self) -> bool:
        """Return true, because the output is two directions side by side."""
        return True

    def zero_state(self, batch_size: int, like: Tensor) -> LstmState:
        """Return an all-zero state for a batch of `batch_size` sentences, on the device and in the type of `like`."""
        n_layers, hidden_dim, cell_dim = self.options.n_layers, self.options.projection_dim, self.options.cell_dim
        return LstmState(
            hidden=like.new_zeros(n_layers, 2, batch_size, hidden_dim),
            cell=like.new_zeros(n_layers, 2, batch_size, cell_dim),
        )

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """Map inputs (B, T, I) with their mask (B, T) to (B, T, 2P), or to all layers (n_layers, B, T, 2P)."""
        if inputs.size(-1) != self.input_size:
            raise ConfigurationError(
                f"'input_size': expected {inputs.size(-1)}, the width of the inputs, got {self.input_size}"
            )
        layers, _ = self.run(inputs, mask.sum(dim=1), self.zero_state(inputs.size(0), inputs))
        return (layers if self.return_all_layers else layers[-1]).to(inputs.dtype)

    @torch.compiler.disable(reason="the LSTMs run their own kernels")
    def run(self, tokens: Union[Tensor, TokenTable], lengths: Tensor, state: LstmState) -> tuple[Tensor, LstmState]:
        """Read left-aligned sentences in both directions, starting from a given state.

        # Parameters

        tokens : `Tensor` (B, T, I), or a `TokenTable`
        lengths : `Tensor` (B,)
        state : `LstmState` (n_layers, 2, B, P) and (n_layers, 2, B, H), forward before backward

        # Returns

        layers : `Tensor` (n_layers, B, T, 2P), zero beyond a sentence's length
        state : `LstmState`
            The state after a sentence's last token (forward), and after its first (backward).
        """
        table = tokens if isinstance(tokens, TokenTable) else TokenTable.of(tokens)
        outputs = []
        for direction, packing in enumerate(Packing.both_directions(lengths, table.where.size(1))):
            before = LstmState(*(part[:, direction] for part in state))
            outputs.append(self._read(direction, table, packing, before))
        layers, states = zip(*outputs, strict=True)
        both = (torch.stack(parts, dim=1) for parts in zip(*states, strict=True))
        return torch.cat(layers, dim=-1), LstmState(*both)

    def run_direction(self, direction: int, tokens: Tensor, lengths: Tensor, state: LstmState) -> "DirectionOutput":
        """Read sentences in one direction (0 forward, 1 backward). The tokens are in that direction's reading order.

        *Shape:* tokens (B, T, I) · lengths (B,) · state (n_layers, B, P) and (n_layers, B, H).
        """
        packing, _ = Packing.both_directions(lengths, tokens.size(1))
        return self._read(direction, TokenTable.of(tokens), packing, state)

    def _read(self, direction: int, tokens: TokenTable, packing: Packing, state: LstmState) -> "DirectionOutput":
        """Run one layer after the other over packed tokens."""
        clips = LstmClips(self.options.cell_clip, self.options.projection_clip)
        # The first layer reads the rows `where` of `values` (M, I). Higher layers read all rows of `values` (N, P).
        values = tokens.vectors
        where: Optional[Tensor] = tokens.where.flatten()[packing.positions]  # (N,)
        layers, hiddens, cells = [], [], []
        for depth, layer in enumerate((self.forward_layers, self.backward_layers)[direction]):
            if self.input_dropout.training and self.input_dropout.p:  # drops from the residual connection too
                values, where = self.input_dropout(values if where is None else values[where]), None
            weights: LstmWeights = layer.weights  # type: ignore[assignment]
            recurrent, projection = weights.recurrent, weights.projection
            if self.kernel is not KERNELS["reference"] and not torch.is_grad_enabled():
                recurrent, projection = prepack(recurrent, projection, packing.sizes)  # once for all blocks
            after = LstmState(*(part[depth][packing.order] for part in state))  # (B, P), (B, H)
            blocks = []
            for gates, sizes in _input_products(weights, values, where, packing.sizes):
                block, after = self.kernel(gates, sizes, recurrent, projection, after, clips)
                blocks.append(block)
            outputs = torch.cat(blocks)  # (N, P)
            values = outputs + values if depth and self.options.use_skip_connections else outputs  # (N, P)
            where = None
            layers.append(packing.unpack(values, tokens.where.size(1)))  # (B, T, P)
            hiddens.append(packing.unsort(after.hidden))
            cells.append(packing.unsort(after.cell))
        return DirectionOutput(torch.stack(layers), LstmState(torch.stack(hiddens), torch.stack(cells)))


class DirectionOutput(NamedTuple):
    """The outputs of one direction: layers (n_layers, B, T, P), zero beyond a sentence's length, and the final state.

    `run_direction` returns the layers in reading order; inside `run`, both directions are in text order.
    """

    layers: Tensor
    state: LstmState


def _input_products(
    weights: LstmWeights, values: Tensor, where: Optional[Tensor], sizes: list[int]
) -> Iterator[tuple[Tensor, list[int]]]:
    """Yield W x + b (tokens, 4H) of packed tokens, and their `sizes`. The tokens are `values`, or its rows `where`.

    With gradients, all tokens are one block. Without, blocks have about `TOKENS_PER_BLOCK` tokens, so memory does not
    grow with the text, and a word that occurs more than once in a block is multiplied only once.
    """
    if torch.is_grad_enabled() or not sizes:
        tokens = (values if where is None else values[where]).to(weights.input.dtype)  # (N, I)
        yield linear(tokens, weights.input, weights.bias), sizes
        return
    start, first = 0, 0
    for step, end in enumerate(accumulate(sizes), 1):
        if end - start >= TOKENS_PER_BLOCK or step == len(sizes):
            back = None
            if where is None:
                tokens = values[start:end]
            else:
                rows, back = where[start:end].unique(return_inverse=True)  # (distinct words,), (tokens,)
                if len(rows) == len(back):  # no word occurs twice
                    rows, back = where[start:end], None
                tokens = values[rows]
            gates = linear(tokens, weights.input, weights.bias)  # (tokens, 4H), or (distinct words, 4H)
            yield gates if back is None else gates.index_select(0, back), sizes[first:step]
            start, first = end, step


Seq2SeqEncoder.register("elmo_lstm", constructor="from_sizes")(ElmoLstm)
