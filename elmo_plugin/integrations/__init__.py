"""VECTORS → OTHER LIBRARIES: what `load` gives, as a step of scikit-learn's and of spaCy's pipelines."""

from elmo_plugin.integrations.scikit_learn import ElmoVectorizer
from elmo_plugin.integrations.spacy_component import ElmoComponent

__all__ = [
    "ElmoComponent",
    "ElmoVectorizer",
]
