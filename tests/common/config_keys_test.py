"""Which configs name a component of this package."""

from typing import Any

import pytest

from elmo_plugin.common import names_our_components

STOCK: dict[str, Any] = {
    "dataset_reader": {"type": "sequence_tagging", "token_indexers": {"elmo": {"type": "elmo_characters"}}},
    "train_data_path": "elmo",
    "model": {
        "type": "simple_tagger",
        "text_field_embedder": {"token_embedders": {"elmo": {"type": "embedding", "embedding_dim": 4}}},
        "encoder": {"type": "lstm", "input_size": 4, "hidden_size": 4},
    },
    "data_loader": {"batch_size": 2},
    "trainer": {
        "num_epochs": 1,
        "callbacks": [{"type": "wandb", "project": "elmo", "tags": ["elmo", "bilm"], "group": "elmo_tagger"}],
        "optimizer": {"type": "adam", "name": "muon"},
        "project": "elmo",
    },
    "evaluation": "elmo",
    "notes": {"model": "elmo"},
}


def test_a_stock_config_is_not_ours_whatever_its_other_values_are() -> None:
    assert not names_our_components(STOCK)


@pytest.mark.parametrize(
    ("block", "key", "value"),
    [
        ("dataset_reader", "type", "column_tags"),
        ("model", "type", "elmo_tagger"),
        ("model", "encoder", {"type": "elmo_enhanced", "encoder": "lstm"}),
        ("model", "text_field_embedder", {"token_embedders": {"elmo": {"type": "elmo"}}}),
        ("model", "type", "elmo_plugin.models.ElmoTagger"),
        ("data_loader", "type", "sentence_batches"),
        ("trainer", "callbacks", ["exact_resume"]),
        ("trainer", "checkpointer", "atomic"),
        ("trainer", "optimizer", {"type": "muon"}),
        ("notes", "model", {"type": "bilm"}),
    ],
)
def test_a_type_or_a_name_in_the_place_of_a_component_is_ours(block: str, key: str, value: Any) -> None:
    assert names_our_components({**STOCK, block: {**STOCK[block], key: value}})


@pytest.mark.parametrize("reader", ["column_tags", {"type": "text_classification_json", "tokenizer": "spacy_blank"}])
def test_a_name_alone_is_enough_for_a_component(reader: Any) -> None:
    for block in ("dataset_reader", "validation_dataset_reader"):
        assert names_our_components({**STOCK, block: reader})


def test_what_is_no_config_is_not_ours() -> None:
    assert not any(map(names_our_components, (None, [], "elmo", {"model": None, "trainer": {"callbacks": None}})))
