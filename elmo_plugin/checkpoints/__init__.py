"""FILES ↔ BiLM: every format of ELMo weights, read into sizes and a state dict. No other room opens a weight file."""

from elmo_plugin.checkpoints.allennlp_archive import AllenNlpArchive, allennlp_elmo, archived_checkpoint
from elmo_plugin.checkpoints.allennlp_elmo import BILM, SavedMix, allennlp_checkpoint, mix_beside
from elmo_plugin.checkpoints.bilm_tf import BilmTf
from elmo_plugin.checkpoints.checkpoint_format import (
    Checkpoint,
    CheckpointFormat,
    Location,
    SavedSoftmax,
    build_bilm,
    bundled_folder,
    bundled_names,
    load_checkpoint,
    load_sizes,
    local_file,
)
from elmo_plugin.checkpoints.conversion import DTYPES, NO_PLACE, Conversion, convert
from elmo_plugin.checkpoints.many_langs import ManyLangs
from elmo_plugin.checkpoints.native import Native
from elmo_plugin.checkpoints.pickled_weights import read_weights
from elmo_plugin.checkpoints.resolve import (
    PUBLISHED_OPTIONS,
    PUBLISHED_WEIGHTS,
    bilm_keys,
    bilm_sizes,
    find_checkpoint,
    resolve_bilm,
)
from elmo_plugin.checkpoints.vocabulary_file import read_words
from elmo_plugin.checkpoints.word_table import WordIds, in_order_of

__all__ = [
    "BILM",
    "DTYPES",
    "NO_PLACE",
    "PUBLISHED_OPTIONS",
    "PUBLISHED_WEIGHTS",
    "AllenNlpArchive",
    "BilmTf",
    "Checkpoint",
    "CheckpointFormat",
    "Conversion",
    "Location",
    "ManyLangs",
    "Native",
    "SavedMix",
    "SavedSoftmax",
    "WordIds",
    "allennlp_checkpoint",
    "allennlp_elmo",
    "archived_checkpoint",
    "bilm_keys",
    "bilm_sizes",
    "build_bilm",
    "bundled_folder",
    "bundled_names",
    "convert",
    "find_checkpoint",
    "in_order_of",
    "load_checkpoint",
    "load_sizes",
    "local_file",
    "mix_beside",
    "read_weights",
    "read_words",
    "resolve_bilm",
]
