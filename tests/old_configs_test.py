"""The page about configs from before AllenNLP 1.0: its second config trains, and each old key in it fails as stated."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _jsonnet
import pytest
from allennlp.commands.train import train_model
from allennlp.common import Params

from tests.pages import blocks

pytest.importorskip("allennlp_models.tagging", reason="allennlp-models is not installed; `make setup` installs it")

PAGE = Path(__file__).resolve().parents[1] / "docs/guides/old-configs.md"
SENTENCES = "-DOCSTART- -X- -X- O\n\nMira NNP B-NP B-PER\nVale NNP I-NP I-PER\nwaves VBZ B-VP O\n\nIn IN B-PP O\n"
Config = dict[str, Any]


def config(index: int) -> Config:
    """Return the first or the second config of the page, with a bundled biLM and small sizes."""
    found = [block.text for block in blocks(PAGE) if block.language == "jsonnet"]
    keys: Config = json.loads(_jsonnet.evaluate_snippet("page", found[index]))
    embedders = keys["model"]["text_field_embedder"]
    embedders.get("token_embedders", embedders)["elmo"] = {"type": "elmo", "bilm": "english-tiny"}
    keys["model"]["encoder"] |= {"input_size": 50 + 512 + 128, "hidden_size": 5}
    keys["trainer"]["num_epochs"] = 1
    return keys


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Config], None]:
    monkeypatch.chdir(tmp_path)
    for name in ("train.txt", "dev.txt"):
        Path(name).write_text(SENTENCES, encoding="utf-8")
    return lambda keys: train_model(Params(keys), "run", return_model=False)


def test_the_config_after_trains(train: Callable[[Config], None]) -> None:
    train(config(1))
    assert "best_validation_f1-measure-overall" in json.loads(Path("run/metrics.json").read_text())


def put_back(key: str, old: Config, new: Config) -> None:
    """Change one key of the new config back to what it was."""
    model, embedders = new["model"], new["model"]["text_field_embedder"]["token_embedders"]
    if key == "iterator":
        new["iterator"] = old["iterator"]
    elif key == "text_field_embedder":
        model[key] = embedders
    elif key == "regularizer":
        model[key] = old["model"][key]
    elif key == "constraint_type":
        model[key] = model.pop("label_encoding")
    else:
        del embedders["token_characters"]["embedding"][key]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("iterator", "'iterator'"),
        ("text_field_embedder", "expected a key of BasicTextFieldEmbedder"),
        ("regularizer", "from_params was passed a `params` object that was not a `Params`"),
        ("constraint_type", "got an unexpected keyword argument 'constraint_type'"),
        ("vocab_namespace", "index out of range in self"),
    ],
)
def test_a_key_from_before_fails_as_the_page_says(key: str, message: str, train: Callable[[Config], None]) -> None:
    assert message in PAGE.read_text(encoding="utf-8")
    new = config(1)
    put_back(key, config(0), new)
    with pytest.raises(Exception) as raised:
        train(new)
    assert message in str(raised.value)
