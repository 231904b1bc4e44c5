"""CORPUS → VECTORS ON DISK: a text in windows, batches of similar length, and part files joined into the output."""

from elmo_plugin.embedding.corpus import SMALLEST_WINDOW, Corpus, Share
from elmo_plugin.embedding.corpus_embedder import CorpusEmbedder
from elmo_plugin.embedding.devices import find_device
from elmo_plugin.embedding.elmo_embedder import ElmoEmbedder
from elmo_plugin.embedding.embedder import ALIASES, MIXES, TRAINED, Embedder, load, load_by_keys
from elmo_plugin.embedding.forks import use_one_thread_in_forks
from elmo_plugin.embedding.hdf5 import Hdf5File, sentence_key
from elmo_plugin.embedding.npz import NpzFile
from elmo_plugin.embedding.parquet import ParquetFile
from elmo_plugin.embedding.part_folder import refuse_existing
from elmo_plugin.embedding.pooling import maximum, mean
from elmo_plugin.embedding.shards import check_processes
from elmo_plugin.embedding.vector_file import VectorFile

__all__ = [
    "ALIASES",
    "MIXES",
    "SMALLEST_WINDOW",
    "TRAINED",
    "Corpus",
    "CorpusEmbedder",
    "ElmoEmbedder",
    "Embedder",
    "Hdf5File",
    "NpzFile",
    "ParquetFile",
    "Share",
    "VectorFile",
    "check_processes",
    "find_device",
    "load",
    "load_by_keys",
    "maximum",
    "mean",
    "refuse_existing",
    "sentence_key",
]

use_one_thread_in_forks()
