"""Configs that several test files share, and what they do with models of them."""

from tests.oracles import options
from tests.task_oracles import Config, D, lstm

ELMO: Config = {"bilm": {"options": options().to_dict(), "seed": 0}, "dropout": 0.0}
"""A biLM with random weights."""
ELMO_ONLY: Config = {"elmo": {"type": "elmo_characters"}}
"""The indexers of a text without word vectors."""


def pooling(width: int) -> Config:
    """Return the config of a mean over tokens."""
    return {"type": "boe", "embedding_dim": width, "averaged": True}


def stock_tagger(**elmo: Config) -> Config:
    """Return the config of AllenNLP's own tagger on one or more ELMos."""
    embedders = {name: {"type": "elmo", "dropout": 0.0, **keys} for name, keys in elmo.items()}
    embedder = {"type": "basic", "token_embedders": embedders}
    return {"type": "simple_tagger", "text_field_embedder": embedder, "encoder": lstm(D * len(elmo))}
