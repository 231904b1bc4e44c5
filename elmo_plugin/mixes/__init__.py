"""LAYERS → ONE VECTOR A TOKEN: the mixes, ELMo itself, and the two components that put it into other models."""

from elmo_plugin.mixes.char_cnn_embedder import ElmoCharCnnEmbedder
from elmo_plugin.mixes.elmo import Elmo, ElmoOutput
from elmo_plugin.mixes.enhanced_encoder import ElmoEnhancedEncoder
from elmo_plugin.mixes.layer_mix import AverageMix, ConcatenateMix, LastMix, LayerMix
from elmo_plugin.mixes.learned_function import LearnedFunctionMix
from elmo_plugin.mixes.scalar_mix import ScalarMix
from elmo_plugin.mixes.sentence_cache import SentenceCache
from elmo_plugin.mixes.token_embedder import ElmoTokenEmbedder

__all__ = [
    "AverageMix",
    "ConcatenateMix",
    "Elmo",
    "ElmoCharCnnEmbedder",
    "ElmoEnhancedEncoder",
    "ElmoOutput",
    "ElmoTokenEmbedder",
    "LastMix",
    "LayerMix",
    "LearnedFunctionMix",
    "ScalarMix",
    "SentenceCache",
]
