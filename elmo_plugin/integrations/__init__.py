"""VECTORS → OTHER LIBRARIES: ELMo as a part of scikit-learn's, spaCy's and flair's models, and in engines for data.

`flair_embeddings`, which needs flair, is imported by its own name.
"""

from elmo_plugin.integrations.batch_embedder import BatchEmbedder
from elmo_plugin.integrations.scikit_learn import ElmoVectorizer
from elmo_plugin.integrations.spacy_architecture import elmo_v1
from elmo_plugin.integrations.spacy_component import ElmoComponent

__all__ = [
    "BatchEmbedder",
    "ElmoComponent",
    "ElmoVectorizer",
    "elmo_v1",
]
