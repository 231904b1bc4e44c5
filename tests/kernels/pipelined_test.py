"""The pipeline of layers and directions: the same as the reference layer by layer, in T + n_layers − 1 rounds."""

from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.modules import Seq2SeqEncoder
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from elmo_plugin.bilm import ElmoLstm
from elmo_plugin.bilm.seq2seq_encoder import split_directions
from elmo_plugin.kernels import (
    STACK_KERNELS,
    LayerByLayer,
    LstmClips,
    StackOptions,
    StackOutput,
    TokenTable,
    reference,
    stack,
)
from elmo_plugin.kernels import (
    pipelined as pipeline,
)
from elmo_plugin.kernels.pipelined import PipelinedRecurrence, pipelined
from tests.kernel_oracles import DEVICE, StackCase, make_stacks, run_stacks

CLIPPED = StackOptions(LstmClips(0.3, 0.2))
PLAIN = StackOptions(residual=False)
READS_ON_THE_HOST = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "equal")
oracle = LayerByLayer(reference)


def assert_same(found: Any, wanted: Any, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(tuple(found), tuple(wanted), rtol=tolerance, atol=tolerance)


both_lengths = st.integers(1, 3).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 5), min_size=n, max_size=n), min_size=1, max_size=2)
)
cases = st.builds(
    make_stacks,
    lengths=both_lengths,
    n_layers=st.integers(1, 4),
    sizes=st.sampled_from([(1, 1), (5, 3), (3, 4), (7, 7)]),
    options=st.builds(
        StackOptions,
        st.builds(LstmClips, st.sampled_from([None, 0.3, 2.0]), st.sampled_from([None, 0.2, 2.0])),
        residual=st.booleans(),
        dropout=st.just(0.0),
    ),
    projected=st.booleans(),
    seed=st.integers(0, 9),
)


@settings(max_examples=8)
@given(case=cases)
@example(case=make_stacks([[1], [1]]))
@example(case=make_stacks([[4], [4]], n_layers=1, options=CLIPPED))
@example(case=make_stacks([[3, 0, 5], [3, 0, 5]], options=CLIPPED))
@example(case=make_stacks([[3, 5, 1], [4, 0, 2]], n_layers=3, options=CLIPPED))
@example(case=make_stacks([[2, 1], [2, 1]], n_layers=4, options=PLAIN))  # fewer tokens than layers
@example(case=make_stacks([[2, 1], [1, 2]], sizes=(3, 4)))
@example(case=make_stacks([[2, 3]], n_layers=3, steps=5))  # one direction alone
@example(case=make_stacks([[3, 2], [3, 2]], projected=False, options=CLIPPED))
@example(case=make_stacks([[0, 0], [0, 0]], steps=2))
@example(case=make_stacks([[0, 0], [0, 0]], n_layers=3))
@example(case=make_stacks([[], []]))
@example(case=make_stacks([[3, 2], [3, 2]], sizes=(130, 67), options=CLIPPED))  # more numbers than one program computes
def test_pipelined_is_the_reference_in_all_layers_states_and_every_gradient(case: StackCase) -> None:
    assert_same(run_stacks(pipelined, case), run_stacks(oracle, case))


def test_clips_were_active_in_that() -> None:
    for output in pipelined(*make_stacks([[3, 2], [3, 2]], sizes=(130, 67), options=CLIPPED)):
        for values, bound in ((output.layers[0], 0.2), (output.state.hidden[1], 0.2), (output.state.cell, 0.3)):
            assert 0 < int((values.abs() == bound).sum()) < values.numel()


class Operators(TorchDispatchMode):
    """Notes each operator, and the shape of the first tensor that it takes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, Any]] = []

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        first = args[0].shape if args and isinstance(args[0], Tensor) else None
        self.seen.append((str(operator), first))
        return operator(*args, **(kwargs or {}))

    def products(self) -> list[int]:
        """Cells of each batched product into a buffer."""
        return [shape[0] for name, shape in self.seen if name == "aten.bmm.out"]


@pytest.mark.parametrize(
    ("n_layers", "active"),
    [(1, [2, 2, 2, 2, 2]), (2, [2, 4, 4, 4, 4, 2]), (3, [2, 4, 6, 6, 6, 4, 2])],
)
def test_t_tokens_take_t_plus_n_minus_1_rounds_of_two_products_and_two_launches(
    n_layers: int, active: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[str] = []
    launch = pipeline.launch

    def count(kernel: Any, *arguments: Any, **constants: Any) -> None:
        launched.append(kernel.fn.__name__)
        launch(kernel, *arguments, **constants)

    monkeypatch.setattr(pipeline, "launch", count)
    case = make_stacks([[5, 2], [5, 2]], n_layers=n_layers)
    with Operators() as forward:
        outputs = pipelined(*case)
    assert forward.products() == [cells for cells in active for _ in ("[x, h]", "projection")]
    assert launched == ["cell_forward", "stack_output_forward"] * (5 + n_layers - 1)
    launched.clear()
    with Operators() as backward:
        sum(output.layers[-1].sum() for output in outputs).backward()  # type: ignore[union-attr]
    assert backward.products() == [cells for cells in active for _ in ("projection", "[x, h]")]
    assert launched == ["stack_output_backward", "cell_backward"] * (5 + n_layers - 1)


def test_the_host_never_waits_for_a_number_so_that_a_graph_can_be_captured() -> None:
    case = make_stacks([[4, 0, 2], [4, 0, 2]], options=CLIPPED._replace(dropout=0.5))
    with Operators() as operators:
        outputs = pipelined(*case)
        sum(part.sum() for output in outputs for part in (*output.layers, *output.state)).backward()  # type: ignore
    assert operators.seen
    assert not [name for name, _ in operators.seen if any(read in name for read in READS_ON_THE_HOST)]


@pytest.mark.parametrize("residual", [True, False])
def test_dropout_is_of_what_layers_read_and_of_what_is_added(residual: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    n_layers, n_stacks, steps = 3, 2, 4
    case = make_stacks([[4, 2], [3, 4]], n_layers, options=StackOptions(residual=residual, dropout=0.5))
    generator = torch.Generator().manual_seed(0)
    factors = torch.randn(steps + 2 * n_layers - 1, n_layers * n_stacks, 2, 3, generator=generator).double().to(DEVICE)
    turns = [(depth, one) for one in range(n_stacks) for depth in range(n_layers)]

    def by_round(values: Tensor, probability: float) -> Tensor:
        """Of all that is read above the cells, in each round; the first layer reads all."""
        return factors if values.shape == factors.shape else values

    def by_layer(values: Tensor, probability: float) -> Tensor:
        """The same numbers for the input of one layer, (B, T, P)."""
        depth, one = turns.pop(0)
        cell = (depth - 1) * n_stacks + one
        return values if depth == 0 else values * factors[depth - 1 : depth - 1 + steps, cell].transpose(0, 1)

    monkeypatch.setattr(pipeline, "dropout", by_round)
    monkeypatch.setattr(stack, "dropout", by_layer)
    assert_same(run_stacks(pipelined, case), run_stacks(oracle, case))
    assert not turns


def test_dropout_is_drawn_anew_for_each_layer_and_token() -> None:
    case = make_stacks([[3], [3]], n_layers=3, options=StackOptions(dropout=0.5))
    torch.manual_seed(0)
    one, other = pipelined(*case), pipelined(*case)
    for now, then in zip(one, other, strict=True):
        assert not any(torch.equal(*layers) for layers in zip(now.layers, then.layers, strict=True))
    sure = StackOptions(dropout=1.0)
    assert_same(run_stacks(pipelined, case._replace(options=sure)), run_stacks(oracle, case._replace(options=sure)))


def in_float32(case: StackCase) -> StackCase:
    """The same numbers in another type, small enough that rounding does not grow from step to step."""
    return tree_map_only(
        Tensor, lambda one: (0.4 * one).detach().float().requires_grad_() if one.is_floating_point() else one, case
    )


def test_in_float32_it_is_the_reference_to_rounding() -> None:
    case = in_float32(make_stacks([[6, 3, 4], [6, 3, 4]], sizes=(21, 10), options=StackOptions(LstmClips(1.0, 0.6))))
    found = run_stacks(pipelined, case)
    assert_same(found, run_stacks(oracle, case), tolerance=1e-5)
    assert found.outputs[0].layers[0].dtype == torch.float32


def test_in_bfloat16_products_alone_are_rounded() -> None:
    case = in_float32(make_stacks([[6, 3, 4], [6, 3, 4]], sizes=(24, 12), options=StackOptions(LstmClips(1.0, 0.6))))
    wanted = run_stacks(oracle, case)
    with torch.autocast(DEVICE, torch.bfloat16):
        outputs = [StackOutput(list(layers), state) for layers, state in pipelined(*case)]
    found = run_stacks(lambda *_: outputs, case)
    assert not torch.equal(found.outputs[0].layers[-1], wanted.outputs[0].layers[-1])
    for part, right in zip(
        torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(wanted), strict=True
    ):
        assert part.dtype == torch.float32
        assert (part - right).norm() < 0.04 * right.norm()


def test_without_gradients_cells_are_written_over_and_the_answer_is_the_same() -> None:
    case = make_stacks([[4, 0, 2], [4, 0, 2]], n_layers=3, options=CLIPPED)
    start = case.stacks[0].state.cell.clone()
    wanted = pipelined(*case)
    with torch.no_grad():
        found = pipelined(*case)
    assert_same(found, wanted, tolerance=0.0)
    assert torch.equal(case.stacks[0].state.cell, start)


def test_what_lies_beyond_a_sentence_is_not_read() -> None:
    case = make_stacks([[2, 0, 4], [2, 0, 4]], steps=5)
    unclean = case._replace(stacks=[one._replace(inputs=one.inputs.detach().clone()) for one in case.stacks])  # type: ignore
    for one in unclean.stacks:
        assert isinstance(one.inputs, Tensor)
        one.inputs[0, 2:] = one.inputs[1] = one.inputs[2, 4:] = torch.nan
        one.inputs.requires_grad_()
    assert_same(run_stacks(pipelined, unclean), run_stacks(pipelined, case))


def test_a_table_of_words_is_its_tokens() -> None:
    (one,), options = make_stacks([[3, 2]])
    assert isinstance(one.inputs, Tensor)
    where = torch.tensor([[0, 1, 0], [2, 1, 0]], device=DEVICE)
    vectors = one.inputs[0]
    found = pipelined([one._replace(inputs=TokenTable(vectors, where))], options)
    assert_same(found, pipelined([one._replace(inputs=vectors[where])], options))


def test_inputs_of_another_width_are_refused() -> None:
    (one,), options = make_stacks([[3, 2]])
    assert isinstance(one.inputs, Tensor)
    wide = one._replace(inputs=torch.cat([one.inputs, one.inputs], dim=-1))
    with pytest.raises(ValueError, match="kernel 'pipelined' wants inputs as wide as the outputs, 3; found 6"):
        pipelined([wide], options)


def test_on_a_cpu_pipelined_says_what_it_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(pipeline, "check_device", lambda *arguments: asked.append(arguments))
    pipelined(*make_stacks([[1]]))
    assert asked == [(torch.zeros(1, device=DEVICE).device, "pipelined")]


def make_lstm(kernel: str, **changes: Any) -> ElmoLstm:
    """From a config, all layers wanted; the same weights for every kernel."""
    torch.manual_seed(0)
    sizes = {"input_size": 3, "hidden_size": 3, "cell_size": 7, "num_layers": 3, **changes}
    config = {"type": "elmo_lstm", "return_all_layers": True, "kernel": kernel, **sizes}
    lstm = Seq2SeqEncoder.from_params(Params(config)).to(DEVICE, torch.float64)
    assert isinstance(lstm, ElmoLstm)
    return lstm


@pytest.mark.parametrize("skip", [True, False])
def test_a_config_names_it_as_any_kernel(skip: bool) -> None:
    clips = {"memory_cell_clip_value": 0.1, "state_projection_clip_value": 0.05}
    inputs = torch.randn(4, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    lengths = torch.tensor([5, 0, 2, 4], device=DEVICE)
    found = []
    for kernel in ("pipelined", "reference"):
        lstm = make_lstm(kernel, use_skip_connections=skip, **clips)
        layers, state = lstm.run(inputs, lengths, lstm.zero_state(4, inputs))
        (layers.square().sum() + state.cell.sum()).backward()
        found.append([layers, *state, *(parameter.grad for parameter in lstm.parameters())])
    assert_same(*found)
    assert STACK_KERNELS["pipelined"] is make_lstm("pipelined").kernel


def test_directions_run_together_are_those_that_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    lstm, calls = make_lstm("pipelined"), []
    inputs = torch.randn(2, 4, 3, dtype=torch.float64).to(DEVICE)
    state = lstm.zero_state(2, inputs)
    apply = PipelinedRecurrence.apply
    monkeypatch.setattr(PipelinedRecurrence, "apply", lambda *arguments: calls.append(1) or apply(*arguments))
    whole, _ = lstm.run(inputs, torch.tensor([4, 4], device=DEVICE), state)
    assert len(calls) == 1
    before, _ = split_directions(state)
    (alone,) = lstm.run_stacks(lstm.stack(0, inputs, torch.tensor([4, 4], device=DEVICE), before))
    assert_same([torch.stack(list(alone.layers))], [whole[..., :3]])
