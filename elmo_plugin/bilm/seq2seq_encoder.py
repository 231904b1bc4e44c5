"""The contextualizer: stacked LSTMPs in two directions that never meet."""

from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple, Optional, Union

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from torch import Tensor, nn

from elmo_plugin.bilm.projected_lstm import ProjectedLstm
from elmo_plugin.bilm.token_encoder import TokenTable
from elmo_plugin.config_keys import at_least, probability
from elmo_plugin.linear import linear
from elmo_plugin.lstm import LstmClips, LstmState, LstmWeights, Packing, kernel_by_name
from elmo_plugin.options import LstmOptions, OptionsError

TOKENS_PER_BLOCK = 512
"""Tokens whose input products are computed together without gradients: 32 MB at 4096 cells."""

CONFIG_KEYS = {
    "dim": "cell_size",
    "projection_dim": "hidden_size",
    "n_layers": "num_layers",
    "cell_clip": "memory_cell_clip_value",
    "proj_clip": "state_projection_clip_value",
}
"""What an options file and a config call the same size."""


class ElmoLstm(Seq2SeqEncoder):
    """The biLM's stacked bidirectional LSTM with projections, clips and residual connections (ELMo §3.1, §3.4).

    Forward layer k reads forward layer k − 1 only, and backward likewise, so that each half of the output may be
    asked to predict what the other one has read.

    Registered as a `Seq2SeqEncoder` with name `elmo_lstm`.

    # Parameters

    options : `LstmOptions`
    input_size : `Optional[int]`
        I, width of the input; P by default.
    kernel : `str`
        Name of the kernel, or `auto`.
    return_all_layers : `bool`
        Give every layer, (n_layers, B, T, 2P), and not only the last, (B, T, 2P).
    dropout : `float`
        In training, of each layer's input, and so of what is added to its output; upstream: `DropoutWrapper` around
        `ResidualWrapper` in bilm-tf's `training.py`.
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
        """Build it from the keys of a config, named as those of `allennlp.modules.elmo_lstm.ElmoLstm`."""
        at_least(1, input_size=input_size, hidden_size=hidden_size, cell_size=cell_size, num_layers=num_layers)
        at_least(
            0,
            memory_cell_clip_value=memory_cell_clip_value,
            state_projection_clip_value=state_projection_clip_value,
        )
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
        except OptionsError as error:
            keys = ", ".join(f"'lstm.{theirs}' '{ours}'" for theirs, ours in CONFIG_KEYS.items())
            raise ConfigurationError(f"'elmo_lstm': {error} (a config calls {keys})") from error
        return cls(options, input_size, kernel, return_all_layers, dropout)

    def get_input_dim(self) -> int:
        """Return the width of the token vectors that the encoder reads (I)."""
        return self.input_size

    def get_output_dim(self) -> int:
        """Return the width of both directions side by side (2P)."""
        return 2 * self.options.projection_dim

    def is_bidirectional(self) -> bool:
        """Return true: the halves of the output are the two directions."""
        return True

    def zero_state(self, batch_size: int, like: Tensor) -> LstmState:
        """Return an all-zero state for a batch of `batch_size` sentences, on the device and in the type of `like`."""
        n_layers, hidden_dim, cell_dim = self.options.n_layers, self.options.projection_dim, self.options.cell_dim
        return LstmState(
            hidden=like.new_zeros(n_layers, 2, batch_size, hidden_dim),
            cell=like.new_zeros(n_layers, 2, batch_size, cell_dim),
        )

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """(B, T, I) with its mask (B, T) to (B, T, 2P), or to (n_layers, B, T, 2P) if all layers were asked for."""
        layers, _ = self.run(inputs, mask.sum(dim=1), self.zero_state(inputs.size(0), inputs))
        return (layers if self.return_all_layers else layers[-1]).to(inputs.dtype)

    def run(self, tokens: Union[Tensor, TokenTable], lengths: Tensor, state: LstmState) -> tuple[Tensor, LstmState]:
        """Read left-aligned sentences in both directions, from a given state.

        # Parameters

        tokens : `Tensor` (B, T, I), or a `TokenTable`
        lengths : `Tensor` (B,)
        state : `LstmState` (n_layers, 2, B, P) and (n_layers, 2, B, H), forward before backward

        # Returns

        layers : `Tensor` (n_layers, B, T, 2P), zero beyond a sentence's length
        state : `LstmState`
            The state after the last token of each sentence; for the backward direction, after its first.
        """
        table = tokens if isinstance(tokens, TokenTable) else TokenTable.of(tokens)
        steps = table.where.size(1)
        forward, backward = (
            self._run_direction(direction, table, packing, LstmState(*(part[:, direction] for part in state)))
            for direction, packing in enumerate(Packing.both_directions(lengths, steps))
        )
        layers = torch.cat([forward.layers, backward.layers], dim=-1)  # (n_layers, B, T, 2P)
        both = (torch.stack(parts, dim=1) for parts in zip(forward.state, backward.state, strict=True))
        return layers, LstmState(*both)

    def run_direction(self, direction: int, tokens: Tensor, lengths: Tensor, state: LstmState) -> "DirectionOutput":
        """Read tokens (B, T, I), given in the reading order of a direction (0 forward, 1 backward), in that direction.

        `state` is (n_layers, B, P) and (n_layers, B, H).
        """
        packing, _ = Packing.both_directions(lengths, tokens.size(1))
        return self._run_direction(direction, TokenTable.of(tokens), packing, state)

    def _run_direction(
        self, direction: int, tokens: TokenTable, packing: Packing, state: LstmState
    ) -> "DirectionOutput":
        """Run one layer after the other over packed tokens. Dropout of a layer's input is also of the residual."""
        steps = tokens.where.size(1)
        where: Optional[Tensor] = tokens.where.flatten()[packing.positions]  # (N,)
        values = tokens.vectors  # (M, I), the token vectors of `where`; above the first layer, (N, P)
        layers, hiddens, cells = [], [], []
        for depth, layer in enumerate((self.forward_layers, self.backward_layers)[direction]):
            if self.input_dropout.training and self.input_dropout.p:
                values, where = self.input_dropout(values if where is None else values[where]), None
            before = LstmState(*(part[depth][packing.order] for part in state))  # (B, P), (B, H)
            weights: LstmWeights = layer.weights  # type: ignore[assignment]
            outputs, after = self._run_layer(weights, values, where, packing.sizes, before)  # (N, P)
            if depth and self.options.use_skip_connections:
                outputs = outputs + values
            values, where = outputs, None
            layers.append(packing.unpack(outputs, steps))  # (B, T, P)
            hiddens.append(packing.unsort(after.hidden))
            cells.append(packing.unsort(after.cell))
        return DirectionOutput(torch.stack(layers), LstmState(torch.stack(hiddens), torch.stack(cells)))

    def _run_layer(
        self, weights: LstmWeights, values: Tensor, where: Optional[Tensor], sizes: list[int], state: LstmState
    ) -> tuple[Tensor, LstmState]:
        """Run one layer over packed tokens: those of `values`, or its rows `where` (N,).

        Without gradients it goes block by block, in memory that does not grow with the text, and computes the input
        product of a word that occurs twice in a block once.
        """
        clips = LstmClips(self.options.cell_clip, self.options.projection_clip)
        recurrent, projection = weights.recurrent, weights.projection
        if torch.is_grad_enabled():
            tokens = (values if where is None else values[where]).to(weights.input.dtype)  # (N, I)
            gates = linear(tokens, weights.input, weights.bias)  # (N, 4H)
            return self.kernel(gates, sizes, recurrent, projection, state, clips)
        outputs = [values.new_empty(0, self.options.projection_dim, dtype=state.hidden.dtype)]
        for block, block_sizes in _blocks(sizes):
            if where is None:
                gates = linear(values[block], weights.input, weights.bias)  # (tokens of the block, 4H)
            else:
                rows, back = where[block].unique(return_inverse=True)  # (distinct,), (tokens of the block,)
                gates = linear(values[rows], weights.input, weights.bias)[back]
            output, state = self.kernel(gates, block_sizes, recurrent, projection, state, clips)
            outputs.append(output)
        return torch.cat(outputs), state


class DirectionOutput(NamedTuple):
    """The outputs of one direction: layers (n_layers, B, T, P), zero beyond a sentence's length, and the state after.

    Both are in reading order: for the backward direction, layers of `run` are in the order of the text again.
    """

    layers: Tensor
    state: LstmState


def _blocks(sizes: list[int]) -> Iterator[tuple[slice, list[int]]]:
    """Cut time steps into blocks of about `TOKENS_PER_BLOCK` tokens: the tokens of each, and its sizes."""
    start, first = 0, 0
    for step, end in enumerate(accumulate(sizes), 1):
        if end - start >= TOKENS_PER_BLOCK or step == len(sizes):
            yield slice(start, end), sizes[first:step]
            start, first = end, step


Seq2SeqEncoder.register("elmo_lstm", constructor="from_sizes")(ElmoLstm)
