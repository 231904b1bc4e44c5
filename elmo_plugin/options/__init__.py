"""The sizes of a biLM, as bilm-tf's `options.json` names them. No torch, no AllenNLP."""

from elmo_plugin.options.encoders import N_CHARACTERS, CharCnnOptions, ManyLangsOptions
from elmo_plugin.options.sizes import BiLMOptions, LstmOptions
from elmo_plugin.options.values import OptionsError

__all__ = [
    "N_CHARACTERS",
    "BiLMOptions",
    "CharCnnOptions",
    "LstmOptions",
    "ManyLangsOptions",
    "OptionsError",
]
