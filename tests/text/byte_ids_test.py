"""Byte ids equal AllenNLP's character ids, with which the published models were trained."""

from typing import Any

import numpy as np
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Token, Vocabulary
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer
from allennlp.modules.elmo import batch_to_ids as allennlp_batch_to_ids
from hypothesis import example, given
from hypothesis import strategies as st

from elmo_plugin.text import (
    BEGIN_OF_SENTENCE,
    END_OF_SENTENCE,
    batch_to_ids,
    boundary_ids,
    fit_width,
    word_to_ids,
)

words = st.text(st.characters(exclude_categories=()), max_size=60)  # every script, and lone surrogates
scripts = st.sampled_from(["naïve", "Москва", "नमस्ते", "日本語", "🙂", "é", "�", "<S>", "</S>", "<s>"])
lengths = st.sampled_from(["", "a" * 47, "a" * 48, "a" * 49, "a" * 300, "é" * 150, "日" * 100, "x" + "🙂" * 75])
texts = scripts | lengths | words


def allennlp_ids(word: str) -> list[int]:
    """Return the ids of a word by AllenNLP's `elmo_characters` indexer."""
    return ELMoTokenCharactersIndexer().tokens_to_indices([Token(word)], Vocabulary())["elmo_tokens"][0]


@given(texts)
@example("é" * 24 + "x")
@example("a" * 47 + "é")  # a character cut in two
@example("a\udc80b")
def test_a_word_has_the_ids_of_allennlps_indexer(word: str) -> None:
    assert word_to_ids(word) == allennlp_ids(word)


@given(st.lists(st.lists(texts, max_size=4), min_size=1, max_size=4).filter(any))
@example([["a"], [], ["b", "c"]])
def test_a_batch_has_the_ids_of_allennlps_batch_to_ids(sentences: list[list[str]]) -> None:
    assert torch.equal(batch_to_ids(sentences), allennlp_batch_to_ids(sentences))


@pytest.mark.parametrize("sentences", [[], [[]], [[], []]])
def test_a_batch_without_words_keeps_its_dimensions(sentences: list[list[str]]) -> None:
    assert batch_to_ids(sentences, 20).shape == (len(sentences), 0, 20)


def test_a_width_without_room_for_a_byte_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="'max_characters': expected 3 or more, got 2"):
        batch_to_ids([["a"]], 2)


def test_a_word_is_framed_and_padded() -> None:
    assert word_to_ids("ab", 6) == [259, 98, 99, 260, 261, 261]
    assert word_to_ids("abcdef", 6) == [259, 98, 99, 100, 101, 260]
    assert word_to_ids("", 3) == [259, 260, 261]
    assert boundary_ids(BEGIN_OF_SENTENCE, 4) == word_to_ids("<S>", 4) == [259, 257, 260, 261]
    assert boundary_ids(END_OF_SENTENCE, 3) == word_to_ids("</S>", 3) == [259, 258, 260]


@given(texts, st.integers(3, 50))
@example("a" * 48, 49)
@example("a" * 47, 49)
def test_ids_of_50_are_cut_to_what_a_narrower_model_reads(word: str, width: int) -> None:
    assert fit_width(torch.tensor([[word_to_ids(word)]]), width).tolist() == [[word_to_ids(word, width)]]


@given(texts.filter(lambda word: len(word.encode("utf-8", "ignore")) <= 48), st.integers(50, 90))
@example("a" * 48, 51)
def test_ids_of_50_are_widened_to_what_a_wider_model_reads(word: str, width: int) -> None:
    assert fit_width(torch.tensor([[word_to_ids(word)]]), width).tolist() == [[word_to_ids(word, width)]]


@pytest.mark.parametrize("width", [20, 60])
def test_masked_tokens_stay_masked_and_the_input_does_not_change(width: int) -> None:
    ids = batch_to_ids([["a" * 60, "b"], [], ["c"]])  # (3, 2, 50)
    before = ids.clone()
    assert torch.equal(fit_width(ids, width), batch_to_ids([["a" * 48, "b"], [], ["c"]], width)) or width == 60
    assert torch.equal((fit_width(ids, width) > 0).any(dim=-1), (ids > 0).any(dim=-1))
    assert torch.equal(ids, before)


@pytest.mark.parametrize(
    ("sentences", "got"),
    [
        ("Two words", "'Two words'"),
        ([["One"], "Two words"], "'Two words'"),
        ([[["Two", "words"]]], r"\['Two', 'words'\]"),
        ([[b"One"]], "b'One'"),
        (None, "None"),
    ],
)
def test_anything_but_lists_of_tokens_is_an_error_with_an_example(sentences: Any, got: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"expected a list of .*'Two', 'words'\].*, got {got}"):
        batch_to_ids(sentences)


def test_sentences_may_be_any_sequences_of_any_strings() -> None:
    wanted = batch_to_ids([["Two", "words"], []])
    assert torch.equal(batch_to_ids((("Two", "words"), ())), wanted)
    assert torch.equal(batch_to_ids([np.array(["Two", "words"]), []]), wanted)
    assert torch.equal(batch_to_ids(map(str.split, ["Two words", ""])), wanted)
