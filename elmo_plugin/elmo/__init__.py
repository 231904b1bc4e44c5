"""LAYERS → ONE VECTOR PER TOKEN: the mixes, `Elmo`, and the AllenNLP components that put it into a model."""

from elmo_plugin.elmo.elmo import Elmo, ElmoOutput, elmo_of, save, trained_elmo
from elmo_plugin.elmo.enhanced_encoder import ElmoEnhancedEncoder
from elmo_plugin.elmo.mixes import AverageMix, ConcatenateMix, LastMix, LayerMix, LearnedFunctionMix, ScalarMix
from elmo_plugin.elmo.sentence_cache import SentenceCache
from elmo_plugin.elmo.token_embedder import ElmoCharCnnEmbedder, ElmoTokenEmbedder

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
    "elmo_of",
    "save",
    "trained_elmo",
]
