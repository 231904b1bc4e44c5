"""FILES ↔ BiLM: every format of ELMo weights, read into sizes and a state dict. No other package opens weight files.

Start with `load_checkpoint`, which reads any format, and `resolve_bilm`, which builds the biLM that a config describes.
"""

from elmo_plugin.checkpoints.allennlp import (
    ALLENNLP_BILM,
    AllenNlpArchive,
    SavedMix,
    allennlp_checkpoint,
    allennlp_elmo,
    archived_checkpoint,
    reject_override,
)
from elmo_plugin.checkpoints.bilm_tf import BilmTf
from elmo_plugin.checkpoints.confined import read_weights, unpacked
from elmo_plugin.checkpoints.conversion import FORMATS, Conversion, convert, save_bilm
from elmo_plugin.checkpoints.files import (
    Checkpoint,
    CheckpointFormat,
    Location,
    SavedSoftmax,
    bundled_folder,
    bundled_names,
    local_file,
    unfinished_run,
)
from elmo_plugin.checkpoints.loading import (
    PUBLISHED_OPTIONS,
    PUBLISHED_WEIGHTS,
    bilm_keys,
    bilm_sizes,
    build_bilm,
    find_checkpoint,
    load_checkpoint,
    load_sizes,
    resolve_bilm,
    trained_model,
)
from elmo_plugin.checkpoints.many_langs import ManyLangs
from elmo_plugin.checkpoints.native import Native
from elmo_plugin.checkpoints.vocabulary import BEGIN, END, MARKS, WordLookup, in_order_of, read_words

THEIR_BILM = ALLENNLP_BILM
"""Its name before."""

__all__ = [
    "ALLENNLP_BILM",
    "BEGIN",
    "END",
    "FORMATS",
    "MARKS",
    "PUBLISHED_OPTIONS",
    "PUBLISHED_WEIGHTS",
    "THEIR_BILM",
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
    "WordLookup",
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
    "read_weights",
    "read_words",
    "reject_override",
    "resolve_bilm",
    "save_bilm",
    "trained_model",
    "unfinished_run",
    "unpacked",
]
