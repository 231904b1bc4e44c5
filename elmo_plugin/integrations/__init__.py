"""VECTORS → OTHER LIBRARIES: ELMo in models of scikit-learn, spaCy and flair, and in data engines such as Ray.

Each name is imported when it is used, because each needs another large library. Import `flair_embeddings` by its full
name: flair is an extra.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elmo_plugin.integrations.batch_embedder import BatchEmbedder
    from elmo_plugin.integrations.scikit_learn import ElmoVectorizer
    from elmo_plugin.integrations.spacy_pipeline import ElmoComponent, elmo_v1, make_elmo

__all__ = [
    "BatchEmbedder",
    "ElmoComponent",
    "ElmoVectorizer",
    "elmo_v1",
    "make_elmo",
]
MODULES = {
    "BatchEmbedder": "batch_embedder",
    "ElmoComponent": "spacy_pipeline",
    "ElmoVectorizer": "scikit_learn",
    "elmo_v1": "spacy_pipeline",
    "make_elmo": "spacy_pipeline",
}


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
