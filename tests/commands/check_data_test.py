"""The page of `check-data`, for data with each of the problems that it finds."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from allennlp.common import Params

from elmo_plugin.models import check_data
from tests.commands.alone import run
from tests.task_oracles import Config

Page = Callable[..., str]


@pytest.fixture
def page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Page:
    """Check a classifier on these rows of `label,text`, and return the page."""

    def check(train: str, dev: str, **model: object) -> str:
        (tmp_path / "train.csv").write_text(train, encoding="utf-8")
        (tmp_path / "dev.csv").write_text(dev, encoding="utf-8")
        config: Config = {
            "dataset_reader": {
                "type": "text_classification_csv",
                "token_indexers": {"elmo": {"type": "elmo_characters"}},
                "tokenizer": "just_spaces",
            },
            "train_data_path": str(tmp_path / "train.csv"),
            "validation_data_path": str(tmp_path / "dev.csv"),
            "model": {
                "type": "elmo_classifier",
                "elmo": {"bilm": "english-tiny"},
                "elmo_at": ["input"],
                "encoder": {"type": "pass_through", "input_dim": 512},
                "seq2vec_encoder": {"type": "boe", "embedding_dim": 512},
                **model,
            },
        }
        (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
        try:
            run("check-data", tmp_path / "config.json")
        except SystemExit as end:
            assert end.code == 1
        return capsys.readouterr().out

    return check


def to_do(page: str) -> list[str]:
    return page.split("## What to do\n\n")[1].splitlines()


def test_each_fault_is_named(page: Page) -> None:
    train = ["1,The ferry left .", "2,The ferry left .", f"1,{'x' * 49} .", "1,Good<br />film", "2,a " + "b " * 400]
    found = to_do(page("\n".join(train), "1,The ferry left .\n3,It returned ."))
    for fact in (
        "1 of 5 texts have more than 400 tokens",
        "1 of 5 texts have words that are cut",
        "1 of 5 texts contain markup",
        "1 texts occur with different labels",
        "2 labels of 'label' have fewer than 5",
        "1 of 2 texts are also in train",
        "1 label of 'label' does not occur in train (3)",
    ):
        assert any(fact in line for line in found), fact


def test_good_data_give_no_advice(page: Page) -> None:
    train = "\n".join(f"{label},The {thing} went {label} times ." for label in (1, 2) for thing in "abcde")
    checked = page(train, "1,He went to the door .\n2,She went to the window .")
    assert to_do(checked) == ["Nothing: no problem was found."]
    assert "| train | 10 | 10 |" in checked and "| 1 | 5 | 1 |" in checked


def test_a_config_that_cannot_train_says_why(page: Page) -> None:
    found = to_do(page("1,a b\n2,c d", '1,"a\n2,b', encoder={"type": "lstm", "input_size": 7, "hidden_size": 3}))
    assert "Cannot train" in found[0] and "validation_data_path" in found[0] and "dev.csv" in found[0]
    assert "Cannot train" in found[1] and "7" in found[1] and "512" in found[1]


def test_memory_does_not_grow_with_a_corpus(tmp_path: Path) -> None:
    """As instances the texts would take more than 4 MB."""
    (tmp_path / "corpus.txt").write_text("The ferry left the harbour before the storm .\n" * 2000)
    params = {"dataset_reader": {"type": "text_shards"}, "train_data_path": str(tmp_path / "corpus.txt")}
    tracemalloc.start()
    (part,) = check_data(Params(params)).parts
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert part.n_texts == 2000 and peak < 2 * 2**20


def test_doubtful_columns_are_named(page: Page) -> None:
    found = to_do(page("Rubrik,Text\n" + "\n".join(f"{day % 2},On day {day} it rained" for day in range(12)), "1,a b"))
    assert any("train.csv: line 1 looks like a header, 'Rubrik'" in line for line in found)
