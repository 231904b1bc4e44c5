"""Conversion of words to ids, compared with AllenNLP's own indexers."""

import pytest
from allennlp.common.util import END_SYMBOL
from allennlp.data import Token
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer, SingleIdTokenIndexer

from elmo_plugin.pretraining.vocabulary import WordIds, vocabulary_of
from tests.loader_oracles import SENTENCES, WORDS

VOCAB = vocabulary_of(WORDS)
IDS = WordIds(VOCAB)


def test_every_script_and_long_words_are_indexed_as_by_allennlp() -> None:
    batch = IDS.of_sentences(SENTENCES)
    words, characters = batch["words"]["tokens"], batch["characters"]["elmo_tokens"]  # (B, T), (B, T, C)
    for row, spelled, sentence in zip(words, characters, SENTENCES, strict=True):
        tokens, n_tokens = list(map(Token, sentence)), len(sentence)
        assert row[:n_tokens].tolist() == SingleIdTokenIndexer().tokens_to_indices(tokens, VOCAB)["tokens"]
        expected = ELMoTokenCharactersIndexer().tokens_to_indices(tokens, VOCAB)["elmo_tokens"]
        assert spelled[:n_tokens].tolist() == expected
        assert not row[n_tokens:].any() and not spelled[n_tokens:].any()


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("<S>", 1),
        ("</S>", 2),
        ("<UNK>", 3),
        ("@@UNKNOWN@@", 3),
        ("@@PADDING@@", 3),
        ("a@@NEWLINE@@b", 3),
        (END_SYMBOL, 3),
        ("never-seen", 3),
        (WORDS[3], 4),
        (WORDS[-1], len(WORDS)),
    ],
)
def test_a_literal_mark_has_the_id_of_the_mark_and_no_word_is_masked(word: str, wanted: int) -> None:
    assert IDS.words([[word]], 2).tolist() == [[wanted, 0]]
    assert (IDS.characters([[word]], 1) > 0).all()


def test_literal_boundaries_are_spelled_as_boundaries() -> None:
    assert IDS.characters([["<S>", "</S>", "<UNK>"]], 3)[0, :, :3].tolist() == [
        [259, 257, 260],
        [259, 258, 260],
        [259, 61, 86],
    ]
