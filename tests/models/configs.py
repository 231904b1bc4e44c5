"""Configs that several test files share, and what they do with models of them."""

from typing import Any

import torch
from allennlp.data import Instance
from allennlp.models import Model

from tests.oracles import options
from tests.task_oracles import Config, D, as_tensors, lstm

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


def learn_by_heart(model: Model, data: list[Instance], steps: int) -> dict[str, Any]:
    """Train a model on one batch of its data, and return that batch."""
    batch = as_tensors(data, model.vocab)
    optimizer = torch.optim.Adam((parameter for parameter in model.parameters() if parameter.requires_grad), lr=0.03)
    for _ in range(steps):
        model.zero_grad()
        model(**batch)["loss"].backward()
        optimizer.step()
    model.get_metrics(reset=True)
    return batch
