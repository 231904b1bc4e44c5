"""The memo of words: it never changes an answer, and saves the work."""

import pickle
from collections.abc import Callable
from copy import deepcopy
from threading import Thread

import pytest
import torch
from allennlp.nn.initializers import block_orthogonal, lstm_hidden_bias, uniform_unit_scaling
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmo_plugin.bilm import BiLM, CharacterEncoder
from elmo_plugin.bilm.word_cache import WordCache
from elmo_plugin.text import batch_to_ids
from tests.oracles import SENTENCES, lively, options

words = st.sampled_from(["a", "word", "日本語", "b" * 300, ""]) | st.text(max_size=60)
batches = st.lists(st.lists(words, max_size=5), min_size=1, max_size=4)


def make_encoder() -> CharacterEncoder:
    """A frozen one."""
    encoder = lively(BiLM(options())).requires_grad_(False).token_encoder
    assert isinstance(encoder, CharacterEncoder)
    return encoder


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many words the encoder was given, each time."""
    counts: list[int] = []
    plain = CharacterEncoder.encode_all

    def count(self: CharacterEncoder, ids: Tensor) -> Tensor:
        counts.append(len(ids))
        return plain(self, ids)

    monkeypatch.setattr(CharacterEncoder, "encode_all", count)
    return counts


def plainly(encoder: CharacterEncoder, ids: Tensor) -> Tensor:
    """The vectors of all words, one after the other, at full width."""
    return encoder.encode(ids.flatten(0, 1)).unflatten(0, ids.shape[:2])


@settings(max_examples=40)
@given(read=st.lists(batches, min_size=1, max_size=3), capacity=st.integers(1, 30))
def test_whatever_was_read_before_the_answer_is_the_plain_one(read: list[list[list[str]]], capacity: int) -> None:
    encoder, memo = make_encoder(), WordCache(capacity)
    answers = [(ids, memo.look_up(encoder, ids)) for ids in map(batch_to_ids, read) if ids.numel()]
    for ids, answer in answers:  # also those that were given out before the memo started anew
        torch.testing.assert_close(answer.dense(), plainly(encoder, ids), rtol=0, atol=1e-6)


def test_words_of_every_length_and_padding_are_the_plain_ones() -> None:
    encoder, ids = make_encoder(), batch_to_ids([["a" * length for length in range(1, 61)], ["b"], []])
    torch.testing.assert_close(WordCache().look_up(encoder, ids).dense(), plainly(encoder, ids), rtol=0, atol=1e-6)


def test_only_unseen_words_are_computed(computed: list[int]) -> None:
    encoder, memo = make_encoder(), WordCache()
    memo.look_up(encoder, batch_to_ids([["one", "two", "one"]]))
    memo.look_up(encoder, batch_to_ids([["two"], ["one"]]))
    memo.look_up(encoder, batch_to_ids([["three", "two", "four", "three"]]))
    assert computed == [2, 2] and len(memo) == 4


def write_in_place(encoder: CharacterEncoder) -> None:
    with torch.no_grad():
        encoder.char_embedding.weight.mul_(1.5)


def load_others(encoder: CharacterEncoder) -> None:
    encoder.load_state_dict({name: value * 1.5 for name, value in encoder.state_dict().items()})


def replace_one(encoder: CharacterEncoder) -> None:
    encoder.char_embedding.weight = torch.nn.Parameter(encoder.char_embedding.weight * 1.5, requires_grad=False)


def convert(encoder: CharacterEncoder) -> None:
    encoder.double()


@pytest.mark.parametrize("change", [write_in_place, load_others, replace_one, convert])
def test_weights_that_changed_make_it_forget(change: Callable[[CharacterEncoder], None]) -> None:
    encoder, memo, ids = make_encoder(), WordCache(), batch_to_ids(SENTENCES)
    before = memo.look_up(encoder, ids).dense()
    change(encoder)
    after = memo.look_up(encoder, ids).dense()
    torch.testing.assert_close(after, plainly(encoder, ids), rtol=0, atol=1e-6)
    assert after.dtype != before.dtype or not torch.allclose(after, before)


def write_through_data(weight: Tensor) -> None:
    weight.data.mul_(1.5)


def write_through_numpy(weight: Tensor) -> None:
    weight.numpy()[:] *= -1


def swap_two_numbers(weight: Tensor) -> None:
    weight.data.view(-1)[[0, -1]] = weight.data.view(-1)[[-1, 0]]


def flip_two_signs(weight: Tensor) -> None:
    weight.data.view(-1)[[1, 3]] *= -1


def initialize_blocks(weight: Tensor) -> None:
    rows, columns = weight.flatten(1).shape
    block_orthogonal(weight.data.view(rows, columns), [rows, columns])


UNCOUNTED = [write_through_data, write_through_numpy, swap_two_numbers, flip_two_signs, uniform_unit_scaling]


@pytest.mark.parametrize("write", [*UNCOUNTED, initialize_blocks])
@pytest.mark.parametrize(
    "name", ["char_embedding.weight", "convolutions.1.weight", "highways._layers.0.weight", "projection.weight"]
)
def test_writes_that_torch_does_not_count_make_it_forget(write: Callable[[Tensor], None], name: str) -> None:
    encoder, memo = make_encoder(), WordCache()
    memo.look_up(encoder, batch_to_ids(SENTENCES))
    with torch.no_grad():
        write(encoder.get_parameter(name))
    ids = batch_to_ids([*SENTENCES, ["new"]])  # a word of the old weights beside one of the new would be mixed
    torch.testing.assert_close(memo.look_up(encoder, ids).dense(), plainly(encoder, ids), rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("write", UNCOUNTED)
@pytest.mark.parametrize("part", ["token_encoder.projection.weight", "lstm.forward_layers.1.weight_hh"])
def test_a_bilm_whose_weights_were_written_to_uncounted_has_the_vectors_of_its_weights(
    part: str, write: Callable[[Tensor], None], dtype: torch.dtype
) -> None:
    bilm, ids = lively(BiLM(options())).requires_grad_(False).to(dtype), batch_to_ids(SENTENCES)
    before = bilm(ids).layers
    weight = bilm.get_parameter(part)
    as_float = weight.float() if write is write_through_numpy and dtype == torch.bfloat16 else weight
    write(as_float)
    weight.data.copy_(as_float)
    untouched = BiLM(options()).to(dtype)
    untouched.load_state_dict(bilm.state_dict())
    after = bilm(ids).layers
    torch.testing.assert_close(after, untouched.requires_grad_(False)(ids).layers, rtol=0, atol=1e-6)
    assert not torch.equal(after, before)


def test_a_bias_that_was_written_to_uncounted_makes_it_forget() -> None:
    bilm, ids = lively(BiLM(options())).requires_grad_(False), batch_to_ids(SENTENCES)
    bilm(ids)
    encoder = bilm.token_encoder
    assert isinstance(encoder, CharacterEncoder)
    lstm_hidden_bias(encoder.highways._layers[0].bias)
    torch.testing.assert_close(bilm.word_cache.look_up(encoder, ids).dense(), plainly(encoder, ids), rtol=0, atol=1e-6)


def test_it_serves_inference_mode_and_training_in_turn() -> None:
    encoder, memo = make_encoder(), WordCache()
    for word in ("one", "two"):
        with torch.inference_mode():
            memo.look_up(encoder, batch_to_ids([[word]]))
        vectors = memo.look_up(encoder, batch_to_ids([["one", word, "three"]])).dense()
        scale = torch.ones(1, requires_grad=True)
        (vectors * scale).sum().backward()  # refused for tensors of inference mode
        assert scale.grad is not None


def test_its_size_is_bounded_however_many_words_pass_through_and_a_larger_batch_is_answered() -> None:
    encoder, memo = make_encoder(), WordCache(capacity=100)
    for start in range(0, 4000, 40):
        ids = batch_to_ids([[f"w{number}" for number in range(start, start + 40)]])
        table = memo.look_up(encoder, ids)
        assert len(memo) <= len(table.vectors) <= 100
    torch.testing.assert_close(table.dense(), plainly(encoder, ids), rtol=0, atol=1e-6)
    ids = batch_to_ids([[f"v{number}" for number in range(300)]])  # more than it may keep
    torch.testing.assert_close(memo.look_up(encoder, ids).dense(), plainly(encoder, ids), rtol=0, atol=1e-6)
    memo.look_up(encoder, batch_to_ids([["one"]]))
    assert len(memo) == 1


@pytest.mark.parametrize("copy", [deepcopy, lambda memo: pickle.loads(pickle.dumps(memo))])
def test_a_copy_starts_empty(copy: Callable[[WordCache], WordCache]) -> None:
    memo = WordCache(capacity=7)
    memo.look_up(make_encoder(), batch_to_ids(SENTENCES))
    assert len(memo) and not len(copy(memo)) and copy(memo).capacity == 7


def test_a_bilm_that_trains_does_without_and_each_word_is_computed_once_a_batch(computed: list[int]) -> None:
    bilm = lively(BiLM(options()))
    for _ in range(2):
        bilm(batch_to_ids([["one", "two", "one"]])).layers.sum().backward()
    assert computed == [4, 4] and not len(bilm.word_cache)  # with <S> and </S>
    assert all(weight.grad is not None for weight in bilm.parameters())


def test_a_frozen_bilm_computes_a_word_once_and_for_all(computed: list[int]) -> None:
    bilm = lively(BiLM(options())).requires_grad_(False)
    first = bilm(batch_to_ids([["one", "two"]])).layers
    bilm(batch_to_ids([["three", "two", "one"]]))
    assert computed == [4, 1]
    assert torch.equal(bilm(batch_to_ids([["one", "two"]])).layers, first)


def test_threads_that_share_it_get_each_word_its_own_vector() -> None:
    encoder, memo = make_encoder(), WordCache()

    def serve(start: int) -> None:
        for number in range(start, start + 300):
            memo.look_up(encoder, batch_to_ids([[f"w{number}", f"w{number + 1}"]]))

    threads = [Thread(target=serve, args=(start,)) for start in (0, 3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = batch_to_ids([[f"w{number}" for number in range(305)]])
    torch.testing.assert_close(memo.look_up(encoder, ids).dense(), plainly(encoder, ids), rtol=0, atol=1e-6)
    assert len(memo) == 306


def test_autocast_and_its_end_make_it_forget() -> None:
    encoder, memo, ids = make_encoder(), WordCache(), batch_to_ids(SENTENCES)
    exact = memo.look_up(encoder, ids).dense()
    with torch.autocast("cpu", torch.bfloat16):
        assert not torch.equal(memo.look_up(encoder, ids).dense(), exact)
    assert torch.equal(memo.look_up(encoder, ids).dense(), exact)


def test_weights_of_inference_mode_whose_writes_go_unseen_are_not_remembered() -> None:
    one, other = (lively(BiLM.random(options(), seed)).requires_grad_(False) for seed in (1, 2))
    ids = batch_to_ids(SENTENCES)
    with torch.inference_mode():
        bilm = BiLM(options()).requires_grad_(False)
        for wanted in (one, other):
            bilm.load_state_dict(wanted.state_dict())
            torch.testing.assert_close(bilm(ids).layers, wanted(ids).layers)
