"""VECTORS → OTHER LIBRARIES: ELMo in models of scikit-learn, spaCy and flair, and in data engines such as Ray.

Import `flair_embeddings` by its full name, because it needs flair.
"""

from elmo_plugin.integrations.batch_embedder import BatchEmbedder
from elmo_plugin.integrations.scikit_learn import ElmoVectorizer
from elmo_plugin.integrations.spacy_pipeline import ElmoComponent, elmo_v1

__all__ = [
    "BatchEmbedder",
    "ElmoComponent",
    "ElmoVectorizer",
    "elmo_v1",
]
