from copy import deepcopy
from typing import Any, Optional

import pytest
import torch
from allennlp.common import Lazy, Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.modules import Seq2SeqEncoder, TextFieldEmbedder

from elmo_plugin.elmo import AverageMix, LastMix
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.models import EnhancedText
from tests.models.configs import ELMO
from tests.oracles import SENTENCES
from tests.task_oracles import D, lstm, random_elmo, text_tensors, word_embedder

X, H = 5, 12
VOCAB = Vocabulary({"tokens": {"cat": 1, "one": 1}})
TENSORS = text_tensors(SENTENCES, VOCAB)
MASK = TENSORS["tokens"]["tokens"] > 0  # (4, 6)


def rnn(input_size: int) -> Seq2SeqEncoder:
    torch.manual_seed(4)
    return Seq2SeqEncoder.from_params(Params(lstm(input_size)))


def words() -> TextFieldEmbedder:
    torch.manual_seed(5)
    return TextFieldEmbedder.from_params(Params(word_embedder(X)), vocab=VOCAB)


def two_mixes() -> Elmo:
    """An Elmo whose two outputs are not alike."""
    elmo = random_elmo(num_output_representations=2)
    elmo.scalar_mix_0, elmo.scalar_mix_1 = AverageMix(3, D), LastMix(3, D)
    return elmo


def lazy_elmo(**keys: Any) -> Lazy[Elmo]:
    return Lazy(Elmo, Params(deepcopy({**ELMO, **keys})))


def from_config(elmo_at: Any, encoder: Seq2SeqEncoder, elmo: Optional[Lazy[Elmo]], x: bool = False) -> EnhancedText:
    return EnhancedText.from_config(encoder, elmo, elmo_at, words() if x else None)


def test_elmo_at_both_ends_is_two_mixes_of_one_pass() -> None:
    elmo = two_mixes()
    text = EnhancedText(rnn(X + D), elmo, text_field_embedder=words())
    passes: list[Any] = []
    elmo.bilm.register_forward_hook(lambda *_: passes.append(None))
    found, mask = text(TENSORS)
    assert len(passes) == 1 and torch.equal(mask, MASK)
    average, last = elmo(TENSORS["elmo"]["elmo_tokens"]).representations
    x = words()({"tokens": TENSORS["tokens"]})
    hidden = text.encoder(torch.cat([x, average], dim=-1), MASK)  # (B, T, H)
    torch.testing.assert_close(found, torch.cat([hidden, last], dim=-1))
    assert text.get_output_dim() == H + D == found.size(-1)


@pytest.mark.parametrize("place", ["input", "output"])
def test_elmo_at_one_end_is_one_mix(place: str) -> None:
    text = from_config([place], rnn(X + D * (place == "input")), lazy_elmo(mix="average"), x=True)
    assert text.elmo is not None and len(text.elmo.mixes) == 1
    found, _ = text(TENSORS)
    (average,) = text.elmo(TENSORS["elmo"]["elmo_tokens"]).representations
    x = words()({"tokens": TENSORS["tokens"]})
    if place == "input":
        wanted = text.encoder(torch.cat([x, average], dim=-1), MASK)
    else:
        wanted = torch.cat([text.encoder(x, MASK), average], dim=-1)
    torch.testing.assert_close(found, wanted)
    assert text.get_output_dim() == wanted.size(-1)


def test_without_elmo_it_is_the_encoder_over_x_from_the_same_text() -> None:
    text = from_config(["input", "output"], rnn(X), None, x=True)
    found, mask = text(TENSORS)
    torch.testing.assert_close(found, text.encoder(words()({"tokens": TENSORS["tokens"]}), MASK))
    assert torch.equal(mask, MASK) and text.get_output_dim() == H


def test_dropout_is_on_the_hidden_vectors_and_not_on_elmo() -> None:
    text = EnhancedText(rnn(D), two_mixes(), dropout=0.5)
    found, _ = text(TENSORS)
    plain, _ = text.eval()(TENSORS)
    hidden, elmo = found.split([H, D], dim=-1)
    kept = hidden != 0
    assert torch.equal(elmo, plain[..., H:])
    torch.testing.assert_close(hidden[kept], 2 * plain[..., :H][kept])
    assert 0.3 < kept[MASK].float().mean() < 0.7


@pytest.mark.parametrize("elmo_at", [["input", "ouput"], [], "inputs"])
def test_an_unknown_place_is_an_error_that_lists_the_choices(elmo_at: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"'elmo_at'.*\['input', 'output'\]") as caught:
        from_config(elmo_at, rnn(D), lazy_elmo())
    assert repr(elmo_at) in str(caught.value)


@pytest.mark.parametrize(
    ("elmo_at", "x", "facts"),
    [
        (["input", "output"], True, "21 (5 of the text field embedder and 16 of ELMo at the input)"),
        (["output"], False, "'text_field_embedder'"),
    ],
)
def test_an_encoder_of_another_width_is_an_error_that_says_the_right_one(elmo_at: Any, x: bool, facts: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        from_config(elmo_at, rnn(30), lazy_elmo(), x=x)
    assert facts in str(caught.value)


def test_a_text_without_elmos_indexer_is_an_error_that_names_its_indexers() -> None:
    text = EnhancedText(rnn(D), two_mixes())
    renamed = {"chars": TENSORS["elmo"], "tokens": TENSORS["tokens"]}
    with pytest.raises(ConfigurationError, match=r"'elmo_indexer'.*'elmo'.*\['chars', 'tokens'\]"):
        text(renamed)


def test_allennlps_character_ids_are_an_error_and_not_read_as_bytes() -> None:
    text = EnhancedText(rnn(D), two_mixes())
    with pytest.raises(ConfigurationError, match=r"'elmo_characters'.*got 'token_characters'"):
        text({"elmo": {"token_characters": TENSORS["elmo"]["elmo_tokens"]}})


def test_keeping_sentence_boundaries_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="'keep_sentence_boundaries'"):
        from_config(["input"], rnn(D), lazy_elmo(keep_sentence_boundaries=True))
