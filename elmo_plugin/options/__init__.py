"""SIZES: the sizes of a biLM, by their names in bilm-tf's `options.json`. Imports neither torch nor AllenNLP."""

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
