"""The sizes of a biLM, as bilm-tf's `options.json` names them. No torch, no AllenNLP."""

from elmo_plugin.options.encoders import CharCnnOptions, LexiconOptions
from elmo_plugin.options.sizes import BiLMOptions, LstmOptions
from elmo_plugin.options.values import OptionsError

__all__ = ["BiLMOptions", "CharCnnOptions", "LexiconOptions", "LstmOptions", "OptionsError"]
