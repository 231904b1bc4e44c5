"""The page about configs from before AllenNLP 1.0: the config that it arrives at trains."""

import json
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


def test_the_config_after_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train.txt", "dev.txt"):
        Path(name).write_text(SENTENCES, encoding="utf-8")
    _, after = (block.text for block in blocks(PAGE) if block.language == "jsonnet")
    config: dict[str, Any] = json.loads(_jsonnet.evaluate_snippet("page", after))
    embedders = config["model"]["text_field_embedder"]["token_embedders"]
    embedders["elmo"] = {"type": "elmo", "bilm": "english-tiny"}
    config["model"]["encoder"] |= {"input_size": 50 + 512 + 128, "hidden_size": 5}
    config["trainer"]["num_epochs"] = 1
    train_model(Params(config), "run", return_model=False)
    assert "best_validation_f1-measure-overall" in json.loads(Path("run/metrics.json").read_text())
