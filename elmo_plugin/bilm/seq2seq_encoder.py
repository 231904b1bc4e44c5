"""The contextualizer: stacked LSTMPs in two directions that never meet."""

from typing import Optional

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from torch import Tensor, nn

from elmo_plugin.bilm.projected_lstm import ProjectedLstm
from elmo_plugin.config_keys import at_least, probability
from elmo_plugin.kernels import (
    Inputs,
    LstmClips,
    LstmState,
    Stack,
    StackOptions,
    StackOutput,
    TokenTable,
    stack_kernel_by_name,
)
from elmo_plugin.options import LstmOptions, OptionsError

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
            self.kernel = stack_kernel_by_name(kernel)
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
        """I."""
        return self.input_size

    def get_output_dim(self) -> int:
        """2P."""
        return 2 * self.options.projection_dim

    def is_bidirectional(self) -> bool:
        """True: the halves of the output are the two directions."""
        return True

    def zero_state(self, batch_size: int, like: Tensor) -> LstmState:
        """The state of having read nothing, on the device and in the type of `like`."""
        n_layers, hidden_dim, cell_dim = self.options.n_layers, self.options.projection_dim, self.options.cell_dim
        return LstmState(
            hidden=like.new_zeros(n_layers, 2, batch_size, hidden_dim),
            cell=like.new_zeros(n_layers, 2, batch_size, cell_dim),
        )

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """(B, T, I) with its mask (B, T) to (B, T, 2P), or to (n_layers, B, T, 2P) if all layers were asked for."""
        layers, _ = self.run(inputs, mask.sum(dim=1), self.zero_state(inputs.size(0), inputs))
        return (layers if self.return_all_layers else layers[-1]).to(inputs.dtype)

    def run(self, inputs: Inputs, lengths: Tensor, state: LstmState) -> tuple[Tensor, LstmState]:
        """Read left-aligned sentences from a given state.

        # Parameters

        inputs : `Tensor` (B, T, I), or a `TokenTable`
        lengths : `Tensor` (B,)
        state : `LstmState` (n_layers, 2, B, P) and (n_layers, 2, B, H), forward before backward

        # Returns

        layers : `Tensor` (n_layers, B, T, 2P), zero beyond a sentence's length
        state : `LstmState`
            The state after the last token of each sentence; for the backward direction, after its first.
        """
        forward_before, backward_before = split_directions(state)
        forward, backward = self.run_stacks(
            self.stack(0, inputs, lengths, forward_before),
            self.stack(1, reverse_inputs(inputs, lengths), lengths, backward_before),
        )
        layers = [
            torch.cat([ahead, reverse_sentences(behind, lengths)], dim=-1)  # (B, T, 2P)
            for ahead, behind in zip(forward.layers, backward.layers, strict=True)
        ]
        return torch.stack(layers), join_directions(forward.state, backward.state)

    def stack(self, direction: int, inputs: Inputs, lengths: Tensor, state: LstmState) -> Stack:
        """The layers of one direction, and what they are to read.

        # Parameters

        direction : `int`
            0 forward, 1 backward.
        inputs : `Tensor` (B, T, I), or a `TokenTable`
            For the backward direction, sentences turned round.
        lengths : `Tensor` (B,)
        state : `LstmState` (n_layers, B, P) and (n_layers, B, H)
        """
        layers = (self.forward_layers, self.backward_layers)[direction]
        return Stack(inputs, lengths, [layer.weights for layer in layers], state)  # type: ignore[misc]

    def run_stacks(self, *stacks: Stack) -> list[StackOutput]:
        """Run directions of equal sizes, side by side where the kernel can; layers are in each one's reading order."""
        clips = LstmClips(self.options.cell_clip, self.options.projection_clip)
        dropout = self.input_dropout.p if self.input_dropout.training else 0.0
        return self.kernel(stacks, StackOptions(clips, self.options.use_skip_connections, dropout))


def reverse_inputs(inputs: Inputs, lengths: Tensor) -> Inputs:
    """Inputs in either form, each sentence turned round within its own length."""
    if isinstance(inputs, TokenTable):
        return inputs._replace(where=reverse_sentences(inputs.where, lengths))
    return reverse_sentences(inputs, lengths)


def reverse_sentences(values: Tensor, lengths: Tensor) -> Tensor:
    """Turn each sentence round within its own length: (B, T, …) to (B, T, …), padding stays where it is."""
    steps = torch.arange(values.size(1), device=values.device)  # (T,)
    mirrored = lengths.unsqueeze(1) - 1 - steps  # (B, T)
    index = torch.where(mirrored >= 0, mirrored, steps)  # (B, T)
    return values.gather(1, index.view(*index.shape, *[1] * (values.dim() - 2)).expand_as(values))


def split_directions(state: LstmState) -> tuple[LstmState, LstmState]:
    """(n_layers, 2, B, ·) to forward and backward, (n_layers, B, ·) each."""
    return tuple(LstmState(state.hidden[:, way], state.cell[:, way]) for way in (0, 1))  # type: ignore[return-value]


def join_directions(forward: LstmState, backward: LstmState) -> LstmState:
    """Forward and backward, (n_layers, B, ·) each, to (n_layers, 2, B, ·)."""
    return LstmState(*(torch.stack(parts, dim=1) for parts in zip(forward, backward, strict=True)))


Seq2SeqEncoder.register("elmo_lstm", constructor="from_sizes")(ElmoLstm)
