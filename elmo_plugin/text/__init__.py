"""TEXT → IDS: text files, tokenizer, indexers, and the byte ids or code points that a token encoder reads."""

from elmo_plugin.text.byte_ids import (
    BEGIN_OF_SENTENCE,
    END_OF_SENTENCE,
    N_CHARACTERS,
    PADDING,
    batch_to_ids,
    boundary_ids,
    fit_width,
    word_to_ids,
)
from elmo_plugin.text.code_points import (
    BEGIN_OF_WORD,
    BOUNDARY_WORDS,
    ManyLangsIndexer,
    batch_to_code_points,
    character_ids,
    spellings,
    word_ids,
    word_to_code_points,
)
from elmo_plugin.text.languages import check_language, guess_language
from elmo_plugin.text.length_batches import BOUNDARIES, TOKENS_PER_BATCH, length_batches
from elmo_plugin.text.line_forms import FORMS, MEANINGS, SENTENCES, is_open
from elmo_plugin.text.looks_raw import raw_text_form
from elmo_plugin.text.predictor_input import LineReader, instance_words, read_question, without_lone_surrogates
from elmo_plugin.text.raw_text import RawText
from elmo_plugin.text.sentence_splitter import SentenceSplitter
from elmo_plugin.text.sentences import token_lists
from elmo_plugin.text.text_file import LONGEST_LINE, LONGEST_SENTENCE, TextFile, find_shards, read_ahead
from elmo_plugin.text.tokenizer import AsciiSpacesTokenizer, JustTabsTokenizer, SpacyBlankTokenizer, as_tokens
from elmo_plugin.text.training_text import HELDOUT, Prepared, prepare_text
from elmo_plugin.text.white_space import WHITE_SPACE, split_tokens

__all__ = [
    "BEGIN_OF_SENTENCE",
    "BEGIN_OF_WORD",
    "BOUNDARIES",
    "BOUNDARY_WORDS",
    "END_OF_SENTENCE",
    "FORMS",
    "HELDOUT",
    "LONGEST_LINE",
    "LONGEST_SENTENCE",
    "MEANINGS",
    "N_CHARACTERS",
    "PADDING",
    "SENTENCES",
    "TOKENS_PER_BATCH",
    "WHITE_SPACE",
    "AsciiSpacesTokenizer",
    "JustTabsTokenizer",
    "LineReader",
    "ManyLangsIndexer",
    "Prepared",
    "RawText",
    "SentenceSplitter",
    "SpacyBlankTokenizer",
    "TextFile",
    "as_tokens",
    "batch_to_code_points",
    "batch_to_ids",
    "boundary_ids",
    "character_ids",
    "check_language",
    "find_shards",
    "fit_width",
    "guess_language",
    "instance_words",
    "is_open",
    "length_batches",
    "prepare_text",
    "raw_text_form",
    "read_ahead",
    "read_question",
    "spellings",
    "split_tokens",
    "token_lists",
    "without_lone_surrogates",
    "word_ids",
    "word_to_code_points",
    "word_to_ids",
]
