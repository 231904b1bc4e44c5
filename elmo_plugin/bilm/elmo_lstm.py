"""The contextualizer of a biLM: stacked LSTMPs in two independent directions."""

from itertools import accumulate
from typing import Optional, Union

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from torch import Tensor, nn

from elmo_plugin.bilm.sizes import LstmOptions
from elmo_plugin.bilm.token_encoder import TokenTable, check_padding
from elmo_plugin.common import at_least, probability
from elmo_plugin.lstm import (
    KERNELS,
    KeptProducts,
    LstmClips,
    LstmInputs,
    LstmState,
    LstmWeights,
    StepOrder,
    differentiable,
)
from elmo_plugin.tensors import Prepared, linear, outside_of_graphs

GATES_PER_BLOCK = 3 * 2**20
"""The numbers that each direction computes together when it multiplies tokens by its input weights, without gradients.

Those of both directions take 24 MB. From 32 MB on, `malloc` requests memory from the operating system each time, which
takes longer than computing the numbers.
"""
TOKENS_PER_BLOCK_ON_GPU = 320
"""The tokens that each direction multiplies together on a GPU, repeated words too: the GPU would have to wait for
`unique`.
"""


@Seq2SeqEncoder.register("elmo_lstm", constructor="from_config")
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
        if kernel not in KERNELS:
            raise ConfigurationError(f"'kernel': expected one of {', '.join(sorted(KERNELS))}, got {kernel!r}")
        self.kernel = KERNELS[kernel]
        sizes = [self.input_size] + [options.projection_dim] * (options.n_layers - 1)
        self.forward_layers = nn.ModuleList(ProjectedLstm(size, options) for size in sizes)
        self.backward_layers = nn.ModuleList(ProjectedLstm(size, options) for size in sizes)
        self.products = [KeptProducts() for _ in sizes]

    @classmethod
    def from_config(
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
        at_least(1, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        at_least(
            0,
            memory_cell_clip_value=memory_cell_clip_value,
            state_projection_clip_value=state_projection_clip_value,
        )
        if hidden_size > cell_size:
            raise ConfigurationError(f"'hidden_size': expected at most 'cell_size', {cell_size}, got {hidden_size}")
        options = LstmOptions(
            cell_dim=cell_size,
            projection_dim=hidden_size,
            n_layers=num_layers,
            cell_clip=memory_cell_clip_value or None,
            projection_clip=state_projection_clip_value or None,
            use_skip_connections=use_skip_connections,
        )
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
        return LstmState(
            hidden=like.new_zeros(self.options.n_layers, 2, batch_size, self.options.projection_dim),
            cell=like.new_zeros(self.options.n_layers, 2, batch_size, self.options.cell_dim),
        )

    @outside_of_graphs  # the LSTMs run their own kernels
    def forward(
        self,
        inputs: Union[Tensor, TokenTable],
        mask: Tensor,
        state: Optional[LstmState] = None,
        reads_last: bool = True,
    ) -> Union[Tensor, tuple[list[Tensor], LstmState]]:
        """Read left-aligned sentences in both directions.

        # Parameters

        inputs : `Tensor` (B, T, I), or a `TokenTable`
        mask : `Tensor` (B, T), on any device
            Padding is at the end of a row.
        state : `Optional[LstmState]` (n_layers, 2, B, P) and (n_layers, 2, B, H), forward before backward
            The state before each sentence; zeros by default.
        reads_last : `bool`
            Whether forward reads the last token of a sentence, and backward the first. If not, the output there is 0.

        # Returns

        Without `state`, as any `Seq2SeqEncoder`, (B, T, 2P), or all layers (n_layers, B, T, 2P).

        With `state`, a list of all layers (B, T, 2P), zero beyond a sentence's end, and the state after a sentence's
        last token (forward) and after its first (backward).
        """
        mask = mask.cpu()
        if isinstance(inputs, Tensor):  # a biLM has checked its own
            check_padding(mask, "the mask of 'elmo_lstm'")
            inputs = TokenTable.of(inputs)
        if inputs.vectors.size(-1) != self.input_size:
            raise ConfigurationError(
                f"'input_size': expected {inputs.vectors.size(-1)}, the width of the inputs, got {self.input_size}"
            )
        batch_size, steps = mask.shape
        order = StepOrder.of(mask.sum(dim=1), steps, inputs.vectors.device, reads_last)
        where = inputs.where.flatten()[order.positions]  # (2, N)
        before = self.zero_state(batch_size, inputs.vectors) if state is None else state
        outputs, after = self._read(inputs.vectors, where, order, before)  # (2, N, P) each
        directions = torch.arange(2, device=where.device).unsqueeze(1)  # (2, 1)
        halves = 2 * order.positions + directions  # (2, N): the row of each output in (B·T·2, P)
        layers = _padded(outputs, halves, (batch_size, steps, 2 * self.options.projection_dim))
        if state is not None:
            return layers, after
        return (torch.stack(layers) if self.return_all_layers else layers[-1]).to(inputs.vectors.dtype)

    @outside_of_graphs  # the LSTMs run their own kernels
    def read_windows(self, windows: Tensor, lengths: Tensor, state: LstmState) -> tuple[Tensor, LstmState]:
        """Read windows over streams, whose tokens are in the reading order of their direction.

        Hooks on this module do not fire, but those on its layers do.

        *Shape:* windows (2, S, U, I) to the last layer (2, S, U, P) · lengths (S,), the same for both directions ·
        state (n_layers, 2, S, P) and (n_layers, 2, S, H).
        """
        _, streams, steps, _ = windows.shape
        order = StepOrder.of(lengths, steps, windows.device)
        forward = order.positions[0]  # (N,)
        rows = torch.stack([forward, forward + streams * steps])  # (2, N)
        outputs, after = self._read(windows.flatten(0, 2), rows, order, state)
        return _padded(outputs[-1:], rows, (2, streams, steps, self.options.projection_dim))[0], after

    def _read(
        self, values: Tensor, where: Optional[Tensor], order: StepOrder, state: LstmState
    ) -> tuple[list[Tensor], LstmState]:
        """Run one layer after the other over tokens in step order: the rows `where` (2, N) of `values` (M, I).

        Without gradients, the tokens are read in blocks of whole steps, so the memory of the gates does not grow with
        the text.
        """
        clips = LstmClips(self.options.cell_clip, self.options.projection_clip)
        gates_per_token, is_cpu = 4 * self.options.cell_dim, values.device.type == "cpu"
        tokens_per_block = GATES_PER_BLOCK // gates_per_token if is_cpu else TOKENS_PER_BLOCK_ON_GPU
        blocks = _blocks(order.sizes, tokens_per_block)
        layers, states = [], []
        for depth, directions in enumerate(zip(self.forward_layers, self.backward_layers, strict=True)):
            if self.input_dropout.training and self.input_dropout.p:  # drops from the residual connection too
                values, where = self.input_dropout(values if where is None else values[where]), None  # (2, N, I)
            weights: list[LstmWeights] = [layer() for layer in directions]
            after = LstmState(state.hidden[depth][:, order.order], state.cell[depth][:, order.order])
            if torch.is_grad_enabled():
                tokens = values if where is None else values[where]  # (2, N, I)
                pairs = zip(tokens.to(weights[0].input.dtype), weights, strict=True)
                gates = torch.stack([linear(each, w.input, w.bias) for each, w in pairs])  # (2, N, 4H)
                outputs, after = self.kernel(LstmInputs(gates, order.sizes, *differentiable(weights), after, clips))
            else:
                products, read = self.products[depth](weights, max(order.sizes, default=0), len(order.sizes)), []
                for start, stop, sizes in blocks:
                    gates = values.new_empty(2, stop - start, gates_per_token, dtype=products["input"].dtype)
                    _multiply_tokens(products["input"], values, where, slice(start, stop), gates)
                    outputs, after = self.kernel(
                        LstmInputs(gates, sizes, products["recurrent"], products.get("projection"), after, clips)
                    )
                    read.append(outputs)  # (2, tokens, P)
                    del gates  # or else the next gates would need memory of their own
                outputs = read[0] if len(read) == 1 else torch.cat(read, dim=1)  # (2, N, P)
            values = outputs + values if depth and self.options.use_skip_connections else outputs  # (2, N, P)
            where = None
            layers.append(values)
            states.append(after)
        hiddens, cells = zip(*states, strict=True)
        return layers, LstmState(torch.stack(hiddens)[:, :, order.inverse], torch.stack(cells)[:, :, order.inverse])


def _padded(outputs: list[Tensor], rows: Tensor, shape: tuple[int, ...]) -> list[Tensor]:
    """Return outputs (2, N, P) in tensors of this shape: at their `rows` (2, N), of P numbers each, and else zeros."""
    padding = outputs[0].new_zeros(shape).view(-1, outputs[0].size(2))  # (rows, P)
    return [padding.index_put((rows.flatten(),), values.flatten(0, 1)).view(shape) for values in outputs]


def _blocks(sizes: list[int], most: int) -> list[tuple[int, int, list[int]]]:
    """Return the first token, the token after the last one, and the `sizes` of blocks of about `most` tokens."""
    blocks, start, first = [], 0, 0
    for step, stop in enumerate([*accumulate(sizes)] or [0], 1):
        if stop - start >= most or step >= len(sizes):
            blocks.append((start, stop, sizes[first:step]))
            start, first = stop, step
    return blocks


def _multiply_tokens(product: Prepared, values: Tensor, where: Optional[Tensor], some: slice, out: Tensor) -> None:
    """Write W x + b of some tokens to `out` (2, tokens, 4H): of `values` (2, N, I), or of their rows `where` (2, N).

    On a CPU a row that occurs more than once is multiplied only once.
    """
    for direction, to in enumerate(out):
        if where is not None and values.device.type == "cpu":
            words, back = where[direction, some].unique(return_inverse=True)  # (words,), (tokens,)
            torch.index_select(product.one(direction, values[words]), 0, back, out=to)
        else:
            tokens = values[direction, some] if where is None else values[where[direction, some]]  # (tokens, I)
            product.one(direction, tokens, to)


class ProjectedLstm(nn.Module):
    """An LSTM whose output is projected to P and clipped, as in TensorFlow's `LSTMCell(num_proj=P)`.

    A call returns its weights. Hooks and parametrizations, such as those of `torch.nn.utils.prune`, compute them anew.

    # Parameters

    input_size : `int`
        The width of the input (I).
    options : `LstmOptions`
    """

    def __init__(self, input_size: int, options: LstmOptions) -> None:
        super().__init__()
        cell_dim, projection_dim = options.cell_dim, options.projection_dim
        self.weight_ih = nn.Parameter(torch.empty(4 * cell_dim, input_size))  # (4H, I)
        self.weight_hh = nn.Parameter(torch.empty(4 * cell_dim, projection_dim))  # (4H, P)
        self.bias = nn.Parameter(torch.empty(4 * cell_dim))  # (4H,)
        self.weight_hr = nn.Parameter(torch.empty(projection_dim, cell_dim)) if options.has_projection else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialize as TensorFlow's `LSTMCell` does: Glorot over the stacked [x, h] kernel, forget bias 1."""
        bound = (6 / (self.weight_ih.size(1) + self.weight_hh.size(1) + self.bias.numel())) ** 0.5
        nn.init.uniform_(self.weight_ih, -bound, bound)
        nn.init.uniform_(self.weight_hh, -bound, bound)
        _, forget, _, _ = self.bias.zero_().chunk(4)
        forget.fill_(1.0)
        if self.weight_hr is not None:
            nn.init.xavier_uniform_(self.weight_hr)

    def forward(self) -> LstmWeights:
        """Return the weights in the form that kernels take."""
        return LstmWeights(self.weight_ih, self.weight_hh, self.bias, self.weight_hr)
