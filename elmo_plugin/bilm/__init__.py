"""CHARACTER IDS → LAYERS: the token encoder, the stacked bidirectional LSTM, and the biLM made of the two."""

from elmo_plugin.bilm.bilm import BiLM, BiLMOutput
from elmo_plugin.bilm.character_encoder import CharacterEncoder
from elmo_plugin.bilm.initial_state import CarriedState, InitialState, WarmState, ZeroState, warm_up
from elmo_plugin.bilm.lexicon_encoder import LexiconEncoder
from elmo_plugin.bilm.projected_lstm import ProjectedLstm
from elmo_plugin.bilm.seq2seq_encoder import ElmoLstm
from elmo_plugin.bilm.spelling_encoder import SpellingEncoder
from elmo_plugin.bilm.token_encoder import TokenEncoder
from elmo_plugin.bilm.word_encoder import WordEncoder

__all__ = [
    "BiLM",
    "BiLMOutput",
    "CarriedState",
    "CharacterEncoder",
    "ElmoLstm",
    "InitialState",
    "LexiconEncoder",
    "ProjectedLstm",
    "SpellingEncoder",
    "TokenEncoder",
    "WarmState",
    "WordEncoder",
    "ZeroState",
    "warm_up",
]
