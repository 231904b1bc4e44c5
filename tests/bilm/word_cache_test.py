"""The word cache never changes a vector, and computes each word only once."""

import pickle
from collections.abc import Callable
from copy import deepcopy
from threading import Thread

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmo_plugin.bilm import BiLM, CharacterEncoder
from elmo_plugin.bilm.token_encoder import TokenTable
from elmo_plugin.bilm.word_cache import WordCache
from elmo_plugin.text import batch_to_ids
from tests.oracles import SENTENCES, lively, options

words = st.sampled_from(["a", "word", "日本語", "b" * 300, ""]) | st.text(max_size=60)
batches = st.lists(st.lists(words, max_size=5), min_size=1, max_size=4)


def make_encoder() -> CharacterEncoder:
    """Return a frozen character encoder."""
    encoder = lively(BiLM(options())).requires_grad_(False).token_encoder
    assert isinstance(encoder, CharacterEncoder)
    return encoder


def look_up(cache: WordCache, encoder: CharacterEncoder, ids: Tensor) -> TokenTable:
    """Look up words as a biLM does."""
    table = cache.look_up(encoder, ids)
    assert table is not None
    return table


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of words in each call of the encoder."""
    counts: list[int] = []
    plain = CharacterEncoder.encode_all

    def count(self: CharacterEncoder, ids: Tensor) -> Tensor:
        counts.append(len(ids))
        return plain(self, ids)

    monkeypatch.setattr(CharacterEncoder, "encode_all", count)
    return counts


def plainly(encoder: CharacterEncoder, ids: Tensor) -> Tensor:
    """Compute the vectors of all tokens without a cache, at full width."""
    return encoder.encode(ids.flatten(0, 1)).unflatten(0, ids.shape[:2])


@settings(max_examples=20)
@given(read=st.lists(batches, min_size=1, max_size=3), capacity=st.integers(1, 30))
def test_vectors_do_not_depend_on_what_was_read_before(read: list[list[list[str]]], capacity: int) -> None:
    encoder, cache = make_encoder(), WordCache(capacity)
    answers = [(ids, look_up(cache, encoder, ids)) for ids in map(batch_to_ids, read) if ids.numel()]
    for ids, answer in answers:  # also tables returned before the cache was cleared
        torch.testing.assert_close(answer.dense(), plainly(encoder, ids), rtol=0, atol=1e-6)


@torch.no_grad()
def write_in_place(encoder: CharacterEncoder) -> None:
    encoder.char_embedding.weight.mul_(1.5)


def load_others(encoder: CharacterEncoder) -> None:
    encoder.load_state_dict({name: value * 1.5 for name, value in encoder.state_dict().items()})


def replace_one(encoder: CharacterEncoder) -> None:
    encoder.char_embedding.weight = torch.nn.Parameter(encoder.char_embedding.weight * 1.5, requires_grad=False)


def convert(encoder: CharacterEncoder) -> None:
    encoder.double()


def write_to_buffer(encoder: CharacterEncoder) -> None:
    encoder.projection.weight_mask.zero_()  # type: ignore[union-attr]


def replace_activation(encoder: CharacterEncoder) -> None:
    encoder.activation = torch.sigmoid


CHANGES = [write_in_place, load_others, replace_one, convert, write_to_buffer, replace_activation]


@pytest.mark.parametrize("change", CHANGES)
def test_the_cache_is_cleared_when_what_the_vectors_depend_on_changes(
    change: Callable[[CharacterEncoder], None],
) -> None:
    encoder, cache, ids = make_encoder(), WordCache(), batch_to_ids(SENTENCES)
    encoder.projection.register_buffer("weight_mask", torch.ones(3))  # type: ignore[union-attr]
    before = look_up(cache, encoder, ids)
    change(encoder)
    after = look_up(cache, encoder, ids)
    assert after.vectors.data_ptr() != before.vectors.data_ptr()
    torch.testing.assert_close(after.dense(), plainly(encoder, ids), rtol=0, atol=1e-6)


def test_inference_mode_and_training_can_alternate() -> None:
    encoder, cache = make_encoder(), WordCache()
    for word in ("one", "two"):
        with torch.inference_mode():
            look_up(cache, encoder, batch_to_ids([[word]]))
        vectors = look_up(cache, encoder, batch_to_ids([["one", word, "three"]])).dense()
        scale = torch.ones(1, requires_grad=True)
        (vectors * scale).sum().backward()  # PyTorch rejects this for tensors of inference mode
        assert scale.grad is not None


def test_the_size_is_bounded_but_a_larger_batch_is_answered() -> None:
    encoder, cache = make_encoder(), WordCache(capacity=100)
    for start in range(0, 400, 40):
        ids = batch_to_ids([[f"w{number}" for number in range(start, start + 40)]])
        table = look_up(cache, encoder, ids)
        assert len(cache) <= len(table.vectors) <= 100
    torch.testing.assert_close(table.dense(), plainly(encoder, ids), rtol=0, atol=1e-6)
    ids = batch_to_ids([[f"v{number}" for number in range(300)]])  # more than the capacity
    torch.testing.assert_close(look_up(cache, encoder, ids).dense(), plainly(encoder, ids), rtol=0, atol=1e-6)
    look_up(cache, encoder, batch_to_ids([["one"]]))
    assert len(cache) == 1


@pytest.mark.parametrize("copy", [deepcopy, lambda cache: pickle.loads(pickle.dumps(cache))])
def test_a_copy_starts_empty(copy: Callable[[WordCache], WordCache]) -> None:
    cache = WordCache(capacity=7)
    look_up(cache, make_encoder(), batch_to_ids(SENTENCES))
    assert len(cache) and not len(copy(cache)) and copy(cache).capacity == 7


def test_a_trained_bilm_has_no_cache_and_computes_each_word_once_per_batch(computed: list[int]) -> None:
    bilm = lively(BiLM(options()))
    for _ in range(2):
        bilm(batch_to_ids([["one", "two", "one"]])).layers.sum().backward()
    assert computed == [4, 4] and not len(bilm.word_cache)  # with <S> and </S>
    assert all(weight.grad is not None for weight in bilm.parameters())


def test_a_frozen_bilm_computes_a_word_only_once(computed: list[int]) -> None:
    bilm = lively(BiLM(options())).requires_grad_(False)
    first = bilm(batch_to_ids([["one", "two"]])).layers
    bilm(batch_to_ids([["three", "two", "one"]]))
    assert computed == [4, 1]
    assert torch.equal(bilm(batch_to_ids([["one", "two"]])).layers, first)


def test_threads_can_share_a_cache() -> None:
    encoder, cache = make_encoder(), WordCache()

    def serve(start: int) -> None:
        for number in range(start, start + 50):
            look_up(cache, encoder, batch_to_ids([[f"w{number}", f"w{number + 1}"]]))

    threads = [Thread(target=serve, args=(start,)) for start in (0, 3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = batch_to_ids([[f"w{number}" for number in range(55)]])
    torch.testing.assert_close(look_up(cache, encoder, ids).dense(), plainly(encoder, ids), rtol=0, atol=1e-6)
    assert len(cache) == 56


def test_the_cache_is_cleared_when_autocast_begins_and_ends() -> None:
    encoder, cache, ids = make_encoder(), WordCache(), batch_to_ids(SENTENCES)
    exact = look_up(cache, encoder, ids).dense()
    with torch.autocast("cpu", torch.bfloat16):
        assert not torch.equal(look_up(cache, encoder, ids).dense(), exact)
    assert torch.equal(look_up(cache, encoder, ids).dense(), exact)


def test_vectors_of_inference_mode_weights_are_not_cached() -> None:
    one, other = (lively(BiLM.random(options(), seed)).requires_grad_(False) for seed in (1, 2))
    ids = batch_to_ids(SENTENCES)
    with torch.inference_mode():
        bilm = BiLM(options()).requires_grad_(False)
        for wanted in (one, other):
            bilm.load_state_dict(wanted.state_dict())
            torch.testing.assert_close(bilm(ids).layers, wanted(ids).layers)
