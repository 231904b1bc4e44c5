"""TEXT → CHARACTER IDS: the bytes or the Unicode characters of a word as the numbers that a token encoder reads."""

from elmo_plugin.characters.byte_ids import (
    BEGIN_OF_SENTENCE,
    END_OF_SENTENCE,
    batch_to_ids,
    boundary_ids,
    fit_width,
    word_to_ids,
)
from elmo_plugin.characters.lexicon_ids import batch_to_code_points, word_to_code_points
from elmo_plugin.characters.questions import instance_words, read_question, without_lone_surrogates
from elmo_plugin.characters.token_indexer import ManyLangsIndexer

__all__ = [
    "BEGIN_OF_SENTENCE",
    "END_OF_SENTENCE",
    "ManyLangsIndexer",
    "batch_to_code_points",
    "batch_to_ids",
    "boundary_ids",
    "fit_width",
    "instance_words",
    "read_question",
    "without_lone_surrogates",
    "word_to_code_points",
    "word_to_ids",
]
