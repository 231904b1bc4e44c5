"""The kernels' oracles: cases drawn at random, and all that two kernels are to have the same of them."""

from typing import Any, NamedTuple, Optional

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmo_plugin.lstm import Kernel, LstmClips, LstmState, LstmWeights, Packing, linear

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
UNCLIPPED = LstmClips()


class Case(NamedTuple):
    """All that a kernel takes; the tensors are float64 and want gradients."""

    inputs: Tensor
    lengths: Tensor
    weights: LstmWeights
    state: LstmState
    clips: LstmClips

    @property
    def leaves(self) -> dict[str, Tensor]:
        """Every tensor that has a gradient, by name."""
        named = {"inputs": self.inputs, **self.weights._asdict(), **self.state._asdict()}
        return {name: tensor for name, tensor in named.items() if tensor is not None}


class Results(NamedTuple):
    """All that is to be the same."""

    outputs: Tensor
    state: LstmState
    gradients: dict[str, Tensor]


def make_case(
    lengths: list[int],
    steps: Optional[int] = None,
    sizes: tuple[int, int, int] = (5, 7, 3),
    clips: LstmClips = UNCLIPPED,
    projected: bool = True,
    seed: int = 0,
) -> Case:
    """Random values; `sizes` are I, H and P, and P is H where nothing is projected."""
    generator = torch.Generator().manual_seed(seed)
    input_dim, cell_dim, output_dim = sizes
    output_dim = output_dim if projected else cell_dim

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(DEVICE).requires_grad_()

    weights = LstmWeights(
        input=draw(4 * cell_dim, input_dim),
        recurrent=draw(4 * cell_dim, output_dim),
        bias=draw(4 * cell_dim),
        projection=draw(output_dim, cell_dim) if projected else None,
    )
    state = LstmState(hidden=draw(len(lengths), output_dim), cell=draw(len(lengths), cell_dim))
    longest = max([0, *lengths]) if steps is None else steps
    counts = torch.tensor(lengths, dtype=torch.long, device=DEVICE)
    return Case(draw(len(lengths), longest, input_dim), counts, weights, state, clips)


def layer(
    kernel: Kernel, inputs: Tensor, lengths: Tensor, weights: LstmWeights, state: LstmState, clips: LstmClips
) -> tuple[Tensor, LstmState]:
    """Run a layer over padded sentences (B, T, I), as a biLM does: outputs (B, T, P) and the state after each."""
    packing, _ = Packing.both_directions(lengths, inputs.size(1))
    tokens = inputs.flatten(0, 1)[packing.positions].to(weights.input.dtype)  # (N, I)
    gates = linear(tokens, weights.input, weights.bias)  # (N, 4H)
    before = LstmState(*(part[packing.order] for part in state))
    outputs, after = kernel(gates, packing.sizes, weights.recurrent, weights.projection, before, clips)
    return packing.unpack(outputs, inputs.size(1)), LstmState(*map(packing.unsort, after))


def differentiate(outputs: Tensor, state: LstmState, leaves: dict[str, Tensor]) -> dict[str, Tensor]:
    """Gradients of a sum in which each number that came out has a weight of its own."""
    generator = torch.Generator().manual_seed(1)
    drawn = [torch.randn(part.shape, generator=generator, dtype=part.dtype).to(DEVICE) for part in (outputs, *state)]
    loss = sum((part * weight).sum() for part, weight in zip((outputs, *state), drawn, strict=True))
    assert isinstance(loss, Tensor)
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(leaves, found, strict=True))


def run(kernel: Kernel, case: Case) -> Results:
    """Outputs, final state and every gradient of a kernel."""
    outputs, state = layer(kernel, *case)
    return Results(outputs, state, differentiate(outputs, state, case.leaves))


def run_torch(case: Case) -> Results:
    """The same of `torch.nn.LSTM`, which has no clips and reads no empty sentence."""
    input_dim, cell_dim, projection = case.inputs.size(-1), case.state.cell.size(-1), case.weights.projection
    proj_size = 0 if projection is None else projection.size(0)
    lstm = torch.nn.LSTM(input_dim, cell_dim, batch_first=True, proj_size=proj_size, dtype=torch.float64, device=DEVICE)
    values = dict(zip(("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "weight_hr_l0"), case.weights, strict=True))
    weights = {name: value for name, value in values.items() if value is not None}
    weights["bias_hh_l0"] = torch.zeros(4 * cell_dim, dtype=torch.float64, device=DEVICE)
    packed = pack_padded_sequence(case.inputs, case.lengths.cpu(), batch_first=True, enforce_sorted=False)
    start = (case.state.hidden.unsqueeze(0), case.state.cell.unsqueeze(0))
    sequence, (hidden, cell) = torch.func.functional_call(lstm, weights, (packed, start))
    outputs, _ = pad_packed_sequence(sequence, batch_first=True, total_length=case.inputs.size(1))
    state = LstmState(hidden.squeeze(0), cell.squeeze(0))
    return Results(outputs, state, differentiate(outputs, state, case.leaves))


def assert_same(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found._asdict(), wanted._asdict(), rtol=1e-10, atol=1e-10)


cases = st.builds(
    make_case,
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    steps=st.just(6) | st.none(),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 7), st.integers(1, 7)),
    clips=st.builds(LstmClips, st.sampled_from([None, 0.3, 2.0]), st.sampled_from([None, 0.2, 2.0])),
    projected=st.booleans(),
    seed=st.integers(0, 9),
)


def in_float32(case: Case) -> Case:
    """The same numbers in the type that autocast takes notice of, weights as large as those of a trained layer."""
    scale = {"input": 0.5, "recurrent": 0.3, "bias": 0.5, "projection": 0.5}
    leaves = {name: (scale.get(name, 1.0) * value).detach().float() for name, value in case.leaves.items()}
    for leaf in leaves.values():
        leaf.requires_grad_()
    weights = LstmWeights(*(leaves.get(name) for name in LstmWeights._fields))  # type: ignore[arg-type]
    return case._replace(inputs=leaves["inputs"], weights=weights, state=LstmState(leaves["hidden"], leaves["cell"]))
