"""FILES ↔ BiLM: every format of ELMo weights, read into sizes and a state dict. No other room opens a weight file."""

from elmo_plugin.checkpoints.allennlp_archive import AllenNlpArchive, archived_checkpoint
from elmo_plugin.checkpoints.bilm_tf import BilmTf
from elmo_plugin.checkpoints.checkpoint_format import (
    Checkpoint,
    CheckpointFormat,
    SavedSoftmax,
    build_bilm,
    load_checkpoint,
    load_sizes,
)
from elmo_plugin.checkpoints.many_langs import ManyLangs
from elmo_plugin.checkpoints.native import Native

__all__ = [
    "AllenNlpArchive",
    "BilmTf",
    "Checkpoint",
    "CheckpointFormat",
    "ManyLangs",
    "Native",
    "SavedSoftmax",
    "archived_checkpoint",
    "build_bilm",
    "load_checkpoint",
    "load_sizes",
]
