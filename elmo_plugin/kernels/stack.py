"""Layers on layers: what a kernel of a whole stack takes and returns, and the plain way, layer by layer."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import dropout

from elmo_plugin.kernels.signature import Inputs, Kernel, LstmClips, LstmState, LstmWeights, dense


class Stack(NamedTuple):
    """The layers of one direction, and what they are to read; for the backward direction, sentences turned round.

    *Shape:* inputs (B, T, I) · lengths (B,) · weights n_layers · state (n_layers, B, P) and (n_layers, B, H).
    """

    inputs: Inputs
    lengths: Tensor
    weights: Sequence[LstmWeights]
    state: LstmState


class StackOptions(NamedTuple):
    """What all layers have in common.

    `residual`: from the second layer on, a layer's input is added to its output (bilm-tf wraps every layer but the
    first: a token vector is not added). `dropout`: of each layer's input, so also of what is added to its output
    (bilm-tf's `DropoutWrapper` stands around its `ResidualWrapper`).
    """

    clips: LstmClips = LstmClips()
    residual: bool = True
    dropout: float = 0.0


class StackOutput(NamedTuple):
    """What one direction has said: of each layer (B, T, P), zero beyond a sentence's length, and the state after it."""

    layers: Sequence[Tensor]
    state: LstmState


class StackKernel(Protocol):
    """The recurrence of stacks that never meet, as the two directions of a biLM."""

    def __call__(self, stacks: Sequence[Stack], options: StackOptions) -> list[StackOutput]:
        """Run them, one output a stack."""


class LayerByLayer:
    """One direction after the other, each layer over whole sentences before the one above it: 2 · n_layers · T steps.

    # Parameters

    kernel : `Kernel`
        Runs a layer.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __call__(self, stacks: Sequence[Stack], options: StackOptions) -> list[StackOutput]:
        """See `StackKernel`."""
        return [self._run(stack, options) for stack in stacks]

    def _run(self, stack: Stack, options: StackOptions) -> StackOutput:
        outputs: list[Tensor] = []
        hiddens, cells = [], []
        for depth, weights in enumerate(stack.weights):
            read = _drop(outputs[-1] if outputs else stack.inputs, options.dropout)
            before = LstmState(stack.state.hidden[depth], stack.state.cell[depth])
            output, final = self.kernel(read, stack.lengths, weights, before, options.clips)  # (B, T, P)
            outputs.append(output + dense(read) if outputs and options.residual else output)
            hiddens.append(final.hidden)
            cells.append(final.cell)
        return StackOutput(outputs, LstmState(torch.stack(hiddens), torch.stack(cells)))


def _drop(inputs: Inputs, probability: float) -> Inputs:
    """Input dropout; the tokens of one word lose different numbers."""
    return dropout(dense(inputs), probability) if probability > 0 else inputs
