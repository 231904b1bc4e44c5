"""VECTORS → OTHER LIBRARIES: ELMo as a step of scikit-learn's and spaCy's pipelines."""

from elmo_plugin.integrations.scikit_learn import ElmoVectorizer
from elmo_plugin.integrations.spacy_component import ElmoComponent

__all__ = [
    "ElmoComponent",
    "ElmoVectorizer",
]
