"""Initial states: zero, warm and carried. The last is compared with the state that the reference carries."""

from copy import deepcopy
from pathlib import Path

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from elmo_plugin.bilm import BiLM, BiLMOutput, CarriedState, InitialState, WarmState, warm_up
from elmo_plugin.elmo import Elmo, ScalarMix
from elmo_plugin.lstm import LstmState
from elmo_plugin.text import batch_to_ids
from tests.oracles import SENTENCES, lively, options, reference_elmo

Batch = list[list[str]]

batches = st.lists(st.lists(st.lists(st.sampled_from(["a", "bc", "déf", "."]), max_size=5), min_size=1, max_size=4))


@pytest.fixture(scope="module")
def bilm() -> BiLM:
    return lively(BiLM(options(cell_clip=0.8, proj_clip=0.6)), scale=1.5)


def read(bilm: BiLM, initial: InitialState, sentences: Batch) -> BiLMOutput:
    """Run one batch as `Elmo` does."""
    ids = batch_to_ids(sentences)
    output = bilm(ids, initial.before(bilm, len(ids), next(bilm.parameters())))
    initial.after(output.state)
    return output


@pytest.mark.slow
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sequence=batches)
@example([SENTENCES, SENTENCES[:2], [*SENTENCES[::-1], ["x"]], [[]], SENTENCES])
def test_carried_equals_the_reference_over_any_sequence_of_batches(
    bilm: BiLM, tmp_path: Path, sequence: list[Batch]
) -> None:
    reference, carried = reference_elmo(tmp_path, bilm), CarriedState()
    elmo = Elmo.from_parts(deepcopy(bilm), [ScalarMix(3, 16)], dropout=0.0, initial_state=CarriedState())
    for sentences in sequence:
        ids = batch_to_ids(sentences)
        wanted = reference._elmo_lstm(ids)
        torch.testing.assert_close(
            read(bilm, carried, sentences).layers, torch.stack(wanted["activations"]), rtol=0, atol=1e-5
        )
        mixed = reference.scalar_mix_0(wanted["activations"], wanted["mask"])[:, 1:-1] * wanted["mask"][:, 2:, None]
        torch.testing.assert_close(elmo(ids).representations[0], mixed, rtol=0, atol=1e-5)


def test_carried_states_are_detached_from_the_graph(bilm: BiLM) -> None:
    carried = CarriedState()
    assert read(bilm, carried, SENTENCES).state.cell.requires_grad
    assert not carried.before(bilm, 4, torch.zeros(1)).cell.requires_grad
    read(bilm, carried, SENTENCES).layers.sum().backward()
    read(bilm, carried, SENTENCES).layers.sum().backward()


def test_warm_starts_every_sentence_from_the_stored_state() -> None:
    bilm = lively(BiLM(options()))
    bilm.warm_state = warm_up(bilm, [batch_to_ids(SENTENCES)])
    hidden, cell = bilm.warm_state
    assert (hidden.shape, cell.shape) == ((2, 2, 1, 8), (2, 2, 1, 24))
    start = LstmState(hidden.expand(2, 2, 4, 8), cell.expand(2, 2, 4, 24))
    warm = read(bilm, WarmState(), SENTENCES).layers
    assert torch.equal(warm, bilm(batch_to_ids(SENTENCES), start).layers)
    assert not torch.allclose(warm[1:], bilm(batch_to_ids(SENTENCES)).layers[1:])
    assert torch.equal(read(bilm, WarmState(), SENTENCES).layers, warm)


def test_warming_up_takes_the_mean_over_all_sentences(bilm: BiLM) -> None:
    """Each batch starts from the mean of earlier ones, and is weighted by its sentences: here 3 and 1."""
    first, second = batch_to_ids(SENTENCES[:3]), batch_to_ids(SENTENCES[3:])
    mean = [part.mean(dim=2, keepdim=True) for part in bilm(first).state]
    ended = bilm(second, LstmState(*mean)).state
    wanted = LstmState(*((3 * old + new) / 4 for old, new in zip(mean, ended, strict=True)))
    found = warm_up(bilm, iter([first, second]))
    torch.testing.assert_close(found, wanted)
    assert not found.cell.requires_grad


def test_a_batch_without_sentences_changes_no_mean(bilm: BiLM) -> None:
    ids, empty = batch_to_ids(SENTENCES), batch_to_ids(SENTENCES)[:0]
    torch.testing.assert_close(warm_up(bilm, [empty, ids, empty]), warm_up(bilm, [ids]), rtol=0, atol=0)


def test_warming_up_without_sentences_is_rejected(bilm: BiLM) -> None:
    with pytest.raises(ConfigurationError, match="at least one sentence"):
        warm_up(bilm, [])
