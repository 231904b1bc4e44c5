"""The ids of ELMoForManyLangs: code points, compared with its own package."""

from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Token, TokenIndexer, Vocabulary
from allennlp.data.batch import Batch
from allennlp.data.fields import TextField
from allennlp.data.instance import Instance
from elmoformanylangs.elmo import read_list
from elmoformanylangs.frontend import create_one_batch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_plugin.text import ManyLangsIndexer, batch_to_code_points, word_to_code_points
from elmo_plugin.text.ids import character_ids, spellings, word_ids
from tests.many_langs_oracle import CHARACTERS, SENTENCES, WORDS

WIDTH = 14
words = st.sampled_from([*WORDS, *CHARACTERS, ""]) | st.text(max_size=20)


def lexicon(entries: list[str]) -> dict[str, int]:
    """Return a vocabulary with our ids."""
    return {entry: id for id, entry in enumerate(entries, start=1)}


def indexer(**keys: Any) -> TokenIndexer:
    return TokenIndexer.from_params(Params({"type": "elmo_many_langs", **keys}))


@settings(max_examples=25)
@given(st.lists(words, min_size=1, max_size=8))
def test_ids_are_one_more_than_those_of_elmoformanylangs(sentence: list[str]) -> None:
    ours = spellings(batch_to_code_points([sentence], WIDTH)[0])
    lexicons = [{entry: id for id, entry in enumerate(entries)} for entries in (WORDS, CHARACTERS)]
    config = {"token_embedder": {"name": "cnn", "max_characters_per_token": WIDTH}}
    of_words, of_characters, _, _ = create_one_batch(read_list([sentence], WIDTH)[0], *lexicons, config)
    assert torch.equal(word_ids(ours, lexicon(WORDS)), of_words[0, 1:-1] + 1)
    assert torch.equal(character_ids(ours, lexicon(CHARACTERS), WIDTH), of_characters[0, 1:-1] + 1)


@given(st.lists(st.lists(words, max_size=4), min_size=1, max_size=4), st.integers(3, 30))
def test_code_points_hold_a_words_first_characters(sentences: list[list[str]], width: int) -> None:
    ids = batch_to_code_points(sentences, width)
    assert ids.shape == (len(sentences), max(map(len, sentences)), width - 1)
    for row, sentence in zip(ids, sentences, strict=True):
        assert spellings(row[: len(sentence)]) == [word[: width - 2] for word in sentence]
        assert bool((row[: len(sentence), 0] > 0).all()) and not bool(row[len(sentence) :].any())


def test_no_id_is_a_byte_id() -> None:
    assert min(id for id in word_to_code_points("\0a") if id) == 262


def test_the_indexer_makes_the_same_ids() -> None:
    fields = [TextField([Token(word) for word in sentence], {"elmo": indexer()}) for sentence in SENTENCES]
    batch = Batch([Instance({"text": field}) for field in fields])
    batch.index_instances(Vocabulary())
    found = batch.as_tensor_dict()["text"]["elmo"]["elmo_tokens"]
    assert torch.equal(found, batch_to_code_points(SENTENCES))


def test_a_batch_of_empty_sentences_has_its_width() -> None:
    made = indexer(max_characters_per_token=9)
    assert isinstance(made, ManyLangsIndexer)
    empty = made.as_padded_tensor_dict(made.get_empty_token_list(), {"elmo_tokens": 0})
    assert empty["elmo_tokens"].shape == (0, 8)
    assert made.tokens_to_indices([Token("a" * 20)], Vocabulary())["elmo_tokens"] == [word_to_code_points("a" * 7, 9)]


def test_a_width_without_room_for_a_character_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="'max_characters_per_token': expected 3 or more, got 2"):
        indexer(max_characters_per_token=2)
