"""`elmo_lstm` as a `Seq2SeqEncoder`, compared with AllenNLP's `ElmoLstm` on the same weights."""

from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from allennlp.modules.elmo_lstm import ElmoLstm as ReferenceLstm
from torch import Tensor

from elmo_plugin.bilm import ElmoLstm, elmo_lstm
from elmo_plugin.bilm.token_encoder import TokenTable
from elmo_plugin.lstm import LstmState

SIZES = {"input_size": 5, "hidden_size": 3, "cell_size": 7, "num_layers": 3}
LENGTHS = torch.tensor([6, 0, 1, 4, 0])
MASK = torch.arange(6) < LENGTHS.unsqueeze(1)  # (5, 6)


def make_lstm(**changes: Any) -> ElmoLstm:
    """Build an encoder from a config that returns all layers, with large random weights."""
    torch.manual_seed(0)
    lstm = Seq2SeqEncoder.from_params(Params({"type": "elmo_lstm", "return_all_layers": True, **SIZES, **changes}))
    assert isinstance(lstm, ElmoLstm)
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter.normal_(std=0.7)
    return lstm


def make_inputs(*shape: int) -> Tensor:
    return torch.randn(*(shape or (5, 6, 5)), generator=torch.Generator().manual_seed(1))


def make_reference(lstm: ElmoLstm) -> ReferenceLstm:
    """Return AllenNLP's module with the same sizes, clips and weights. It always has skip connections."""
    options = lstm.options
    reference = ReferenceLstm(
        lstm.input_size,
        options.projection_dim,
        options.cell_dim,
        options.n_layers,
        memory_cell_clip_value=options.cell_clip,
        state_projection_clip_value=options.projection_clip,
    )
    cells = [*reference.forward_layers, *reference.backward_layers]
    for theirs, ours in zip(cells, [*lstm.forward_layers, *lstm.backward_layers], strict=True):
        theirs.input_linearity.weight.data = ours.weight_ih.data
        theirs.state_linearity.weight.data = ours.weight_hh.data
        theirs.state_linearity.bias.data = ours.bias.data
        theirs.state_projection.weight.data = ours.weight_hr.data
    return reference


def test_without_its_last_token_each_direction_has_the_outputs_and_gradients_of_the_others() -> None:
    lstm, inputs = make_lstm(), make_inputs()
    is_last = torch.stack([MASK.cumsum(dim=1) == LENGTHS.unsqueeze(1), torch.arange(6) == torch.zeros(5, 1)], dim=-1)
    kept = (MASK.unsqueeze(-1) & ~is_last).repeat_interleave(3, dim=-1)  # (B, T, 2P): forward, then backward
    wanted, found = lstm(inputs, MASK) * kept, lstm(inputs, MASK, reads_last=False)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)
    assert found.any() and not found[:, ~kept].any()
    weights = list(lstm.parameters())
    gradients = [torch.autograd.grad(layers.square().sum(), weights) for layers in (found, wanted)]
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kernel", ["packed", "reference"])
@pytest.mark.parametrize("clips", [(None, None), (0.8, 0.5)])
def test_all_layers_and_the_final_state_equal_the_reference(kernel: str, clips: tuple[Any, Any]) -> None:
    lstm = make_lstm(memory_cell_clip_value=clips[0], state_projection_clip_value=clips[1], kernel=kernel)
    inputs, reference = make_inputs(), make_reference(lstm)
    layers = lstm(inputs, MASK)
    assert layers.shape == (3, 5, 6, 6)
    torch.testing.assert_close(layers, reference(inputs, MASK), rtol=0, atol=1e-5)
    assert not layers[:, ~MASK].any()
    assert reference._states is not None
    for ours, theirs in zip(lstm(inputs, MASK, lstm.zero_state(5, inputs))[1], reference._states, strict=True):
        torch.testing.assert_close(torch.cat([ours[:, 0], ours[:, 1]], dim=-1), theirs, rtol=0, atol=1e-5)


def test_without_skip_connections_each_layer_is_only_its_own_output() -> None:
    plain = make_lstm(use_skip_connections=False)
    skipping = make_lstm()
    skipping.load_state_dict(plain.state_dict())
    inputs = make_inputs()
    torch.testing.assert_close(plain(inputs, MASK)[0], skipping(inputs, MASK)[0])
    below = plain(inputs, MASK)[0]
    upper = make_lstm(num_layers=1, input_size=3)
    upper.forward_layers[0].load_state_dict(plain.forward_layers[1].state_dict())
    upper.backward_layers[0].load_state_dict(plain.backward_layers[1].state_dict())
    halves = [upper(half, MASK)[0].chunk(2, dim=-1)[d] for d, half in enumerate(below.chunk(2, dim=-1))]
    torch.testing.assert_close(plain(inputs, MASK)[1], torch.cat(halves, dim=-1))
    torch.testing.assert_close(skipping(inputs, MASK)[1], torch.cat(halves, dim=-1) + below)


def test_dropout_applies_to_the_residual_connection_too() -> None:
    """The upper layer has zero weights, so its output is zero and only the residual connection is left."""
    lstm = make_lstm(num_layers=2, dropout=0.5).train()
    for layer in (lstm.forward_layers[1], lstm.backward_layers[1]):
        for parameter in layer.parameters():
            torch.nn.init.zeros_(parameter)
    lower, upper = (layer[MASK] for layer in lstm(make_inputs(), MASK))
    kept = upper != 0
    assert 0.3 < kept.float().mean() < 0.7
    torch.testing.assert_close(upper[kept], 2 * lower[kept])


def test_only_the_last_layer_is_returned_unless_all_are_asked_for() -> None:
    every, inputs = make_lstm(), make_inputs()
    last = make_lstm(return_all_layers=False)
    last.load_state_dict(every.state_dict())
    assert torch.equal(last(inputs, MASK), every(inputs, MASK)[-1])


def test_inputs_of_another_width_are_an_error_that_names_both() -> None:
    with pytest.raises(ConfigurationError, match="'input_size': expected 4, the width of the inputs, got 5"):
        make_lstm()(make_inputs(5, 6, 4), MASK)


@pytest.mark.parametrize(("kernel", "tokens_per_block"), [("packed", 1), ("packed", 5), ("reference", 5)])
def test_without_gradients_blocks_and_repeated_words_do_not_change_the_result(
    kernel: str, tokens_per_block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lstm = make_lstm(kernel=kernel, memory_cell_clip_value=0.8, state_projection_clip_value=0.5)
    vectors, where = make_inputs(4, 5), torch.randint(4, (5, 6), generator=torch.Generator().manual_seed(2))
    state = LstmState(make_inputs(3, 2, 5, 3), make_inputs(3, 2, 5, 7))
    wanted = lstm(vectors[where], MASK, state)
    monkeypatch.setattr(elmo_lstm, "GATES_PER_BLOCK", tokens_per_block * 4 * lstm.options.cell_dim)
    with torch.no_grad():
        torch.testing.assert_close(lstm(TokenTable(vectors, where), MASK, state), wanted, rtol=0, atol=1e-6)
        torch.testing.assert_close(lstm(vectors[where], MASK, state), wanted, rtol=0, atol=1e-6)


def test_windows_in_reading_order_equal_the_text_and_each_direction_is_alone() -> None:
    lstm, inputs = make_lstm(return_all_layers=False), make_inputs()
    whole = lstm(inputs, MASK)  # (B, T, 2P)
    reading = inputs.clone()
    for row, length in enumerate(LENGTHS.tolist()):
        reading[row, :length] = inputs[row, :length].flip(0)
    state = lstm.zero_state(5, inputs)
    with torch.no_grad():
        forward, backward = lstm.read_windows(torch.stack([inputs, reading]), LENGTHS, state)[0]  # (B, T, P) each
    for row, length in enumerate(LENGTHS.tolist()):
        backward[row, :length] = backward[row, :length].flip(0)
    torch.testing.assert_close(torch.cat([forward, backward], dim=-1), whole)


def test_a_hidden_size_above_the_cell_size_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="'hidden_size': expected at most 'cell_size', 7, got 8"):
        make_lstm(hidden_size=8)
