"""Helpers for tests of mixes and models: a small biLM, configs around it, and AllenNLP's commands in-process."""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from allennlp.commands import parse_args
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.data import Batch, DatasetReader, Instance, Token, Vocabulary
from allennlp.data.fields import TextField
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer, SingleIdTokenIndexer
from allennlp.models import Model
from torch import Tensor

from elmo_plugin.bilm import BiLM, warm_up
from elmo_plugin.elmo import Elmo
from elmo_plugin.text import batch_to_ids
from tests.oracles import lively, options, write_files

FIXTURES = Path(__file__).parent / "fixtures" / "tasks"
TOWNS = FIXTURES / "towns.txt"
OPINIONS = FIXTURES / "opinions.csv"
WORDS = FIXTURES / "words.txt"
L, D = 3, 16
"""Layers and width of the biLM of `options()`."""

Config = dict[str, Any]


def small_bilm(**changes: Any) -> BiLM:
    """A small biLM with large weights."""
    return lively(BiLM.random(options(**changes), seed=0))


def bilm_files(folder: Path, **changes: Any) -> Config:
    """Write the small biLM in the format of bilm-tf. Return the two keys of a config."""
    folder.mkdir(parents=True, exist_ok=True)
    options_file, weight_file = write_files(folder, small_bilm(**changes))
    return {"options_file": options_file, "weight_file": weight_file}


def build_elmo(**keys: Any) -> Elmo:
    """Build an `Elmo` from the keys of a config."""
    return Elmo.from_params(Params(keys))


def random_elmo(**keys: Any) -> Elmo:
    """Build an `Elmo` with random weights and without dropout."""
    return build_elmo(**{"bilm": {"options": options().to_dict(), "seed": 0}, "dropout": 0.0, **keys})


def text_field(words: Sequence[str]) -> TextField:
    """Return words with the indexers `elmo` and `tokens`."""
    indexers = {"elmo": ELMoTokenCharactersIndexer(), "tokens": SingleIdTokenIndexer()}
    return TextField([Token(word) for word in words], indexers)


def text_tensors(sentences: Sequence[Sequence[str]], vocab: Vocabulary) -> dict[str, dict[str, Tensor]]:
    """Return the tensors of sentences."""
    batch = Batch([Instance({"tokens": text_field(words)}) for words in sentences])
    batch.index_instances(vocab)
    return batch.as_tensor_dict()["tokens"]


def vocabulary_folder(folder: Path) -> Path:
    """Write a vocabulary in AllenNLP's format with the words of a biLM's vocabulary file."""
    folder.mkdir()
    (folder / "tokens.txt").write_bytes(WORDS.read_bytes())
    (folder / "non_padded_namespaces.txt").write_text("*labels\n*tags\n", encoding="utf-8")
    return folder


def lstm(input_size: int, hidden_size: int = 6, **keys: Any) -> Config:
    """Return the config of a task RNN, an LSTM unless `type` is given."""
    return {"type": "lstm", "input_size": input_size, "hidden_size": hidden_size, "bidirectional": True, **keys}


def tags_reader(**keys: Any) -> Config:
    """Return the config of a reader of `TOWNS` with the indexers `elmo` and `tokens`."""
    indexers = {"elmo": {"type": "elmo_characters"}, "tokens": {"type": "single_id"}}
    return {"type": "column_tags", "coding_scheme": "BIO", "token_indexers": indexers, **keys}


def csv_reader(**keys: Any) -> Config:
    """Return the config of a reader of `OPINIONS` with the indexers `elmo` and `tokens`, and the fastest tokenizer."""
    indexers = {"elmo": {"type": "elmo_characters"}, "tokens": {"type": "single_id"}}
    return {"type": "text_classification_csv", "tokenizer": "just_spaces", "token_indexers": indexers, **keys}


def experiment(model: Config, reader: Config, data: Path, **trainer: Any) -> Config:
    """Return a whole config, for two epochs by default, which validates on its training data."""
    return {
        "dataset_reader": reader,
        "train_data_path": str(data),
        "validation_data_path": str(data),
        "model": model,
        "data_loader": {"batch_size": 4, "shuffle": True},
        "trainer": {"num_epochs": 2, "optimizer": {"type": "adam", "lr": 0.01}, "cuda_device": -1, **trainer},
    }


def opinions_as_json(folder: Path) -> Path:
    """Write `OPINIONS` in the format of AllenNLP's `text_classification_json`."""
    path = folder / "opinions.jsonl"
    rows = [line.split(",", 1) for line in OPINIONS.read_text(encoding="utf-8").splitlines()]
    lines = [json.dumps({"label": label, "text": text.strip('"')}) for label, text in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def tagger(elmo: Any, **keys: Any) -> Config:
    """Return the config of an `elmo_tagger` with ELMo, D wide, at both places."""
    return {"type": "elmo_tagger", "elmo": elmo, "encoder": lstm(D), "label_encoding": "BIO", **keys}


def classifier(elmo: Any, **keys: Any) -> Config:
    """Return the config of an `elmo_classifier` with ELMo, D wide, at both places."""
    pooling = {"type": "boe", "embedding_dim": 12 + D, "averaged": True}
    return {"type": "elmo_classifier", "elmo": elmo, "encoder": lstm(D), "seq2vec_encoder": pooling, **keys}


def word_embedder(width: int = 5, **others: Config) -> Config:
    """Return the config of a text field embedder of word vectors and others."""
    words = {"type": "embedding", "embedding_dim": width}
    return {"type": "basic", "token_embedders": {"tokens": words, **others}}


def train(config: Config, folder: Path, **keys: Any) -> Model:
    """Train a model as `allennlp train` does."""
    model = train_model(Params(deepcopy(config)), str(folder), **keys)
    assert model is not None
    return model


def build_model(config: Config) -> tuple[Model, list[Instance]]:
    """Return the untrained model of an experiment and its data."""
    data = read_data(config)
    vocab = Vocabulary.from_instances(data)
    torch.manual_seed(3)
    return Model.from_params(Params(deepcopy(config["model"])), vocab=vocab).eval(), data


def read_data(config: Config) -> list[Instance]:
    """Read the data of an experiment with its reader."""
    reader = DatasetReader.from_params(Params(deepcopy(config["dataset_reader"])))
    return list(reader.read(config["train_data_path"]))


def as_tensors(instances: Sequence[Instance], vocab: Vocabulary) -> dict[str, Any]:
    """Return one batch of instances."""
    batch = Batch(instances)
    batch.index_instances(vocab)
    return batch.as_tensor_dict()


def same(found: Any, wanted: Any) -> bool:
    """Return whether two answers are equal, numbers up to rounding."""
    if isinstance(wanted, float):
        return bool(abs(found - wanted) < 1e-5)
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    return bool(found == wanted)


@cache
def allennlp_parser() -> ArgumentParser:
    """Return AllenNLP's parser, which takes longer to build than most commands take to run."""
    with patch.object(sys, "argv", ["allennlp", "test-install"]):
        return parse_args()[0]


def allennlp(*arguments: Any) -> None:
    """Run the command line in this process."""
    with patch.object(sys, "argv", ["allennlp", *map(str, arguments)]):
        parsed = allennlp_parser().parse_args()
        parsed.func(parsed)


def warm_bilm() -> BiLM:
    """Return the small biLM with a warm state."""
    bilm = small_bilm()
    bilm.warm_state = warm_up(bilm, [batch_to_ids([["The", "boat", "leaks", "."], ["It", "sinks"]])])
    return bilm
