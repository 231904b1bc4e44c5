"""SIZES: the sizes of a biLM under the names of bilm-tf's `options.json`. Neither torch nor AllenNLP is imported."""

from elmo_plugin.options.encoders import N_CHARACTERS, CharCnnOptions, ManyLangsOptions
from elmo_plugin.options.sizes import BiLMOptions, LstmOptions
from elmo_plugin.options.values import MOST_LAYERS, OptionsError

__all__ = [
    "MOST_LAYERS",
    "N_CHARACTERS",
    "BiLMOptions",
    "CharCnnOptions",
    "LstmOptions",
    "ManyLangsOptions",
    "OptionsError",
]
