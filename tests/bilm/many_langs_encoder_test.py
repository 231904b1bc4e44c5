"""The token encoder of ELMoForManyLangs in our biLM: the same vectors, cached or not, and errors for other ids."""

from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import BiLM, BiLMOptions, ManyLangsEncoder
from elmo_plugin.text import batch_to_code_points, batch_to_ids
from tests.many_langs_oracle import CHARACTERS, SENTENCES, WORDS
from tests.oracles import lively, options

LEXICON: dict[str, Any] = {
    "max_characters_per_token": 14,
    "word_dim": 5,
    "words": WORDS,
    "characters": CHARACTERS,
    "char_cnn": {"embedding": {"dim": 4}, "filters": [[1, 4], [3, 8]], "n_highway": 1},
}


def make_bilm(**changes: Any) -> BiLM:
    lexicon = {**LEXICON, **changes}
    return lively(BiLM(BiLMOptions.from_dict({"lstm": options().lstm.to_dict(), "lexicon": lexicon})))


def make_encoder(**changes: Any) -> ManyLangsEncoder:
    encoder = make_bilm(**changes).token_encoder
    assert isinstance(encoder, ManyLangsEncoder)
    return encoder


def test_a_frozen_encoder_caches_words_and_gives_the_same_layers() -> None:
    bilm = make_bilm()
    alike = ["\U0001f642", "\uf642"]  # equal in their last 16 bits
    ids = batch_to_code_points([["Weg", "Weg", "道", *alike, "cat"]], 14)
    wanted = bilm(ids).layers
    bilm.requires_grad_(False)
    for _ in range(2):
        torch.testing.assert_close(bilm(ids).layers, wanted, rtol=0, atol=1e-6)
    assert len(bilm.word_cache) == 7  # five words and two boundaries


def test_ids_of_any_width_are_fitted_to_the_model() -> None:
    encoder = make_encoder(max_characters_per_token=9)
    wanted = encoder(batch_to_code_points(SENTENCES, 9))
    for width in (9, 12, 50):
        assert torch.equal(encoder(encoder.fit(batch_to_code_points(SENTENCES, width))), wanted)
    short = [["cat", "The"]]
    narrow, wide = (encoder.fit(batch_to_code_points(short, width)) for width in (5, 9))
    assert torch.equal(narrow, wide)


def test_byte_ids_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"'elmo_many_langs'.*'elmo_characters'"):
        make_bilm()(batch_to_ids([["The", "cat"]]))
