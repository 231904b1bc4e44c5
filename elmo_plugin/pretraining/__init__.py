"""TEXT SHARDS → TRAINED biLM: vocabulary, data loaders, language model, softmaxes, perplexity and exact resume."""

from elmo_plugin.pretraining.checkpointer import AtomicCheckpointer
from elmo_plugin.pretraining.exact_resume import ExactResume
from elmo_plugin.pretraining.language_model import BidirectionalLanguageModel
from elmo_plugin.pretraining.muon import Muon
from elmo_plugin.pretraining.perplexity import BidirectionalPerplexity
from elmo_plugin.pretraining.predictor import BiLMPredictor
from elmo_plugin.pretraining.pretrained import load_language_model, sentence_log_probabilities
from elmo_plugin.pretraining.sampled_softmax import SampledSoftmax
from elmo_plugin.pretraining.schedule import WarmUpCosine
from elmo_plugin.pretraining.sentence_batches import SentenceBatches
from elmo_plugin.pretraining.shards import TextShardsReader, find_shards
from elmo_plugin.pretraining.softmax import AdaptiveSoftmax, FullSoftmax, LmSoftmax
from elmo_plugin.pretraining.stop_and_recover import stop_and_recover
from elmo_plugin.pretraining.unrolled_streams import UnrolledStreams
from elmo_plugin.pretraining.vocabulary import BiLMVocabulary

__all__ = [
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
    "SampledSoftmax",
    "SentenceBatches",
    "TextShardsReader",
    "UnrolledStreams",
    "WarmUpCosine",
    "find_shards",
    "load_language_model",
    "sentence_log_probabilities",
]

stop_and_recover()
