"""CORPUS → VECTORS ON DISK: a text in windows, batches of similar length, and part files joined into the output."""

from elmo_plugin.embedding.corpus import Corpus, Window, read_conll, read_lines
from elmo_plugin.embedding.corpus_embedder import CorpusEmbedder, reject_existing
from elmo_plugin.embedding.elmo_embedder import ElmoEmbedder
from elmo_plugin.embedding.embedder import (
    ALL,
    TRAINED,
    Embedder,
    check_mix,
    find_device,
    load,
    load_by_keys,
    maximum,
    mean,
    use_one_thread_in_a_fork,
)
from elmo_plugin.embedding.vector_files import (
    Arrays,
    Hdf5File,
    Layout,
    NpzFile,
    ParquetFile,
    VectorFile,
    sentence_key,
)
from elmo_plugin.text import TableReader

__all__ = [
    "ALL",
    "TRAINED",
    "Arrays",
    "Corpus",
    "CorpusEmbedder",
    "ElmoEmbedder",
    "Embedder",
    "Hdf5File",
    "Layout",
    "NpzFile",
    "ParquetFile",
    "TableReader",
    "VectorFile",
    "Window",
    "check_mix",
    "find_device",
    "load",
    "load_by_keys",
    "maximum",
    "mean",
    "read_conll",
    "read_lines",
    "reject_existing",
    "sentence_key",
    "use_one_thread_in_a_fork",
]
