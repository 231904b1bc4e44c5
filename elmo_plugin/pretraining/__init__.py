"""TEXT SHARDS → TRAINED biLM: vocabulary, data loaders, language model, softmaxes, perplexity and exact resume."""

from elmo_plugin.pretraining.language_model import BidirectionalLanguageModel
from elmo_plugin.pretraining.loaders import SentenceBatches, TextShardsReader, UnrolledStreams
from elmo_plugin.pretraining.metrics import BidirectionalPerplexity
from elmo_plugin.pretraining.optimization import Muon, WarmUpCosine
from elmo_plugin.pretraining.predictor import (
    BiLMPredictor,
    evaluate_language_model,
    load_language_model,
    sentence_log_probabilities,
)
from elmo_plugin.pretraining.softmax import AdaptiveSoftmax, FullSoftmax, LmSoftmax, SampledSoftmax, WordVectorSoftmax
from elmo_plugin.pretraining.trainer import AtomicCheckpointer, ExactResume, check_processes
from elmo_plugin.pretraining.vocabulary import BiLMVocabulary
from elmo_plugin.text import HELDOUT, Prepared, find_shards, prepare_text

__all__ = [
    "HELDOUT",
    "AdaptiveSoftmax",
    "AtomicCheckpointer",
    "BiLMPredictor",
    "BiLMVocabulary",
    "BidirectionalLanguageModel",
    "BidirectionalPerplexity",
    "ExactResume",
    "FullSoftmax",
    "LmSoftmax",
    "Muon",
    "Prepared",
    "SampledSoftmax",
    "SentenceBatches",
    "TextShardsReader",
    "UnrolledStreams",
    "WarmUpCosine",
    "WordVectorSoftmax",
    "check_processes",
    "evaluate_language_model",
    "find_shards",
    "load_language_model",
    "prepare_text",
    "sentence_log_probabilities",
]
