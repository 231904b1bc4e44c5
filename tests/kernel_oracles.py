"""The kernels' oracles: cases drawn at random, and all that two kernels are to have the same of them."""

from typing import Any, NamedTuple, Optional

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmo_plugin.lstm import (
    KeptProducts,
    Kernel,
    LstmClips,
    LstmInputs,
    LstmState,
    LstmWeights,
    Product,
    StepOrder,
    differentiable,
)
from elmo_plugin.tensors import linear

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
UNCLIPPED = LstmClips()


class Case(NamedTuple):
    """A layer of two directions and its padded inputs (2, B, T, I). The tensors are float64 and want gradients."""

    inputs: Tensor
    lengths: Tensor
    weights: list[LstmWeights]
    state: LstmState
    clips: LstmClips

    @property
    def leaves(self) -> dict[str, Tensor]:
        """Every tensor that has a gradient, by name."""
        named = {"inputs": self.inputs, **self.state._asdict()}
        for direction, weights in enumerate(self.weights):
            named |= {f"{name} {direction}": value for name, value in weights._asdict().items()}
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

    weights = [
        LstmWeights(
            input=draw(4 * cell_dim, input_dim),
            recurrent=draw(4 * cell_dim, output_dim),
            bias=draw(4 * cell_dim),
            projection=draw(output_dim, cell_dim) if projected else None,
        )
        for _ in range(2)
    ]
    state = LstmState(hidden=draw(2, len(lengths), output_dim), cell=draw(2, len(lengths), cell_dim))
    longest = max([0, *lengths]) if steps is None else steps
    counts = torch.tensor(lengths, dtype=torch.long, device=DEVICE)
    return Case(draw(2, len(lengths), longest, input_dim), counts, weights, state, clips)


def products_of(weights: list[LstmWeights], rows: int) -> tuple[Product, Optional[Product]]:
    """Return the products that `ElmoLstm` gives to a kernel."""
    if torch.is_grad_enabled():
        return differentiable(weights)
    products = KeptProducts()(weights, rows, times=9)
    return products["recurrent"], products.get("projection")


def layer(
    kernel: Kernel, inputs: Tensor, lengths: Tensor, weights: list[LstmWeights], state: LstmState, clips: LstmClips
) -> tuple[Tensor, LstmState]:
    """Run a layer over padded sentences, as a biLM does: outputs (2, B, T, P) and the state after each."""
    steps = inputs.size(2)
    order = StepOrder.of(lengths, steps)
    positions = order.positions[0]  # both directions read from left to right here
    tokens = inputs.flatten(1, 2)[:, positions].to(weights[0].input.dtype)  # (2, N, I)
    gates = torch.stack([linear(each, w.input, w.bias) for each, w in zip(tokens, weights, strict=True)])  # (2, N, 4H)
    before = LstmState(*(part[:, order.order] for part in state))
    recurrent, projection = products_of(weights, max(order.sizes, default=0))
    outputs, after = kernel(LstmInputs(gates, order.sizes, recurrent, projection, before, clips))
    padded = outputs.new_zeros(2, len(lengths) * steps, outputs.size(2))
    padded = padded.index_put((torch.arange(2).unsqueeze(1), positions), outputs)
    return padded.unflatten(1, (len(lengths), steps)), LstmState(*(part[:, order.inverse] for part in after))


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
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        both = [_run_torch(case, direction) for direction in range(2)]
        outputs, hidden, cell = (torch.stack(parts) for parts in zip(*both, strict=True))
        state = LstmState(hidden, cell)
        return Results(outputs, state, differentiate(outputs, state, case.leaves))


def _run_torch(case: Case, direction: int) -> tuple[Tensor, Tensor, Tensor]:
    input_dim, cell_dim, projection = case.inputs.size(-1), case.state.cell.size(-1), case.weights[0].projection
    proj_size, dtype = 0 if projection is None else projection.size(0), case.inputs.dtype
    lstm = torch.nn.LSTM(input_dim, cell_dim, batch_first=True, proj_size=proj_size, dtype=dtype, device=DEVICE)
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "weight_hr_l0")
    values = dict(zip(names, case.weights[direction], strict=True))
    weights = {name: value for name, value in values.items() if value is not None}
    weights["bias_hh_l0"] = torch.zeros(4 * cell_dim, dtype=dtype, device=DEVICE)
    inputs = case.inputs[direction]
    packed = pack_padded_sequence(inputs, case.lengths.cpu(), batch_first=True, enforce_sorted=False)
    start = (case.state.hidden[direction].unsqueeze(0), case.state.cell[direction].unsqueeze(0))
    sequence, (hidden, cell) = torch.func.functional_call(lstm, weights, (packed, start))
    outputs, _ = pad_packed_sequence(sequence, batch_first=True, total_length=inputs.size(1))
    return outputs, hidden.squeeze(0), cell.squeeze(0)


def assert_same(found: Any, wanted: Any) -> None:
    rtol, atol = (1e-10, 1e-10) if wanted.outputs.dtype == torch.float64 else (1e-4, 2e-5)
    torch.testing.assert_close(found._asdict(), wanted._asdict(), rtol=rtol, atol=atol)


def fit(kernel: str, case: Case) -> Case:
    """Return the case in float32 if the kernel has no float64 of its own."""
    return in_float32(case) if kernel == "fused" else case


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
    scales = {"input": 0.5, "recurrent": 0.3, "bias": 0.5, "projection": 0.5}
    leaves = {
        name: (scales.get(name.partition(" ")[0], 1.0) * value if name[-1].isdigit() else value).detach().float()
        for name, value in case.leaves.items()
    }
    for leaf in leaves.values():
        leaf.requires_grad_()
    weights = [LstmWeights(*(leaves.get(f"{name} {way}") for name in LstmWeights._fields)) for way in range(2)]  # type: ignore[arg-type]
    return case._replace(inputs=leaves["inputs"], weights=weights, state=LstmState(leaves["hidden"], leaves["cell"]))
