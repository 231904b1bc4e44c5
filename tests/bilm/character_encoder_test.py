"""The parts of the character encoder. `bilm_test` compares the whole with the reference."""

import pytest
import torch

from elmo_plugin.bilm import CharacterEncoder
from elmo_plugin.bilm import token_encoder as module
from elmo_plugin.text import batch_to_ids
from tests.oracles import SENTENCES, options


def make_encoder(output_dim: int = 8, **changes: object) -> CharacterEncoder:
    char_cnn = options(**changes).char_cnn
    assert char_cnn is not None
    torch.manual_seed(0)
    return CharacterEncoder(char_cnn, output_dim)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_weights_start_as_in_bilm_tf(activation: str) -> None:
    encoder = make_encoder(activation=activation, filters=[[1, 64], [7, 512]], embedding={"dim": 16})
    characters = encoder.char_embedding.weight
    assert not characters[0].any()
    assert 0.95 < characters[1:].max() <= 1.0 and -1.0 <= characters[1:].min() < -0.95
    wide = encoder.convolutions[1].weight
    if activation == "relu":
        assert 0.049 < wide.max() <= 0.05 and -0.05 <= wide.min() < -0.049
    else:
        assert wide.std().item() == pytest.approx((7 * 16) ** -0.5, rel=0.02)
    assert not any(convolution.bias.any() for convolution in encoder.convolutions)
    for highway in encoder.highways._layers:
        transform, gate = highway.bias.chunk(2)
        assert not transform.any() and (gate == 2.0).all()  # bilm-tf's bias is −2, and AllenNLP's gate is its negative
        assert highway.weight.std().item() == pytest.approx(576**-0.5, rel=0.02)


@pytest.mark.parametrize(("longest", "activation"), [(7, "relu"), (47, "tanh"), (60, "relu")])
def test_encoding_each_distinct_word_trimmed_equals_encoding_every_token(
    longest: int, activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WORDS_AT_ONCE", 3)
    encoder = make_encoder(activation=activation).double()
    sentences = [["a" * length for length in range(1, longest + 1)], ["a", "b" * longest, "a"], []]
    ids = batch_to_ids(sentences)
    quick, plain = encoder(ids), encoder.encode(ids.flatten(0, 1)).unflatten(0, ids.shape[:2])
    torch.testing.assert_close(quick, plain, rtol=0, atol=1e-12)
    direction = torch.randn(quick.shape, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    parameters = list(encoder.parameters())
    gradients = (torch.autograd.grad((answer * direction).sum(), parameters) for answer in (quick, plain))
    for ours, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-10, atol=1e-10)


def test_a_words_vector_has_the_same_bits_beside_any_other_words() -> None:
    encoder = make_encoder(filters=[[1, 32], [2, 64], [3, 96]], embedding={"dim": 16}, output_dim=64)
    encoder.requires_grad_(False)
    words = batch_to_ids([["a", "be", "sea", "boat", "ship" * 4] * 9])
    together = encoder(words)[0]
    for first, last in [(0, 1), (3, 5), (4, 45)]:
        assert torch.equal(encoder(words[:, first:last])[0], together[first:last])


def test_vectors_are_the_same_with_and_without_gradients_and_autocast() -> None:
    encoder, ids = make_encoder(filters=[[1, 32], [2, 64]], output_dim=64), batch_to_ids(SENTENCES)
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            wanted = encoder(ids)
            with torch.no_grad():
                found = encoder(ids)
        assert found.dtype == wanted.dtype
        torch.testing.assert_close(found, wanted, rtol=0, atol=0.02 if enabled else 1e-6)


@pytest.mark.parametrize("multiplier", [module.MULTIPLIER, 0])
def test_distinct_words_are_found_even_if_their_hashes_are_equal(
    multiplier: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the multiplier 0, the hash of a word is its first id, which all words share."""
    monkeypatch.setattr(module, "MULTIPLIER", multiplier)
    ids = batch_to_ids([["a", "b", "a", "", "ab"], ["b"]]).flatten(0, 1)  # (10, C), four of them padding
    words, where = module.distinct_rows(ids)
    assert len(words) == 5 and torch.equal(words[where], ids)
    assert module.distinct_rows(ids[:0])[0].shape == (0, 50)
