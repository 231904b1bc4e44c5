"""CORPUS → VECTORS ON DISK: a text in windows, batches of like length, and a file of arrays in the text's order."""

from elmo_plugin.bulk_embedding.corpus import Corpus, Share
from elmo_plugin.bulk_embedding.corpus_embedder import CorpusEmbedder
from elmo_plugin.bulk_embedding.elmo_embedder import ElmoEmbedder
from elmo_plugin.bulk_embedding.embedder import Embedder, load
from elmo_plugin.bulk_embedding.hdf5 import Hdf5File, sentence_key
from elmo_plugin.bulk_embedding.npz import NpzFile
from elmo_plugin.bulk_embedding.parquet import ParquetFile
from elmo_plugin.bulk_embedding.shards import ShardedCorpusEmbedder
from elmo_plugin.bulk_embedding.vector_file import EmbeddedSentence, VectorFile

__all__ = [
    "Corpus",
    "CorpusEmbedder",
    "ElmoEmbedder",
    "EmbeddedSentence",
    "Embedder",
    "Hdf5File",
    "NpzFile",
    "ParquetFile",
    "ShardedCorpusEmbedder",
    "Share",
    "VectorFile",
    "load",
    "sentence_key",
]
