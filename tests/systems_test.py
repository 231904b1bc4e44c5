"""The systems of training_configs/systems, from raw corpora to archives: text, biLM and classifiers, one step each."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.predictors import Predictor

from experiments.text_of import texts

pytestmark = pytest.mark.slow  # three biLMs and their classifiers are trained

ROOT = Path(__file__).parent.parent
SYSTEMS = ROOT / "training_configs/systems"
TASKS = {
    "ag_news_words": ROOT / "training_configs/classify/ag_news.jsonnet",
    "ag_news_characters": ROOT / "training_configs/classify/ag_news.jsonnet",
    "imdb_characters": ROOT / "training_configs/classify/imdb.jsonnet",
}
"""The config whose reader writes the text of a system."""
CLASSIFIERS = [path for path in sorted(SYSTEMS.rglob("*.jsonnet")) if path.stem != "pretrain"]
NEWS = [
    ("1", "Ferry late again, says mayor"),
    ("2", 'Harrow "win" the cup'),
    ("1", "Mayor of Calder wins again"),
    ("2", "The cup is late"),
]
LONG = " ".join(f"scene {number} is dull, the next is lovely;" for number in range(150))
"""A review that is too long for a batch of sentences."""
REVIEWS = [("pos", "Lovely.<br />Go."), ("neg", "Dull and long."), ("pos", "So lovely!"), ("neg", LONG)]
FEW: dict[str, dict[str, Any]] = {
    "unrolled_streams": {"streams": 2, "window": 30},
    "sentence_batches": {"max_tokens": 40, "max_sentence_length": 30},
    "sampled": {"n_samples": 5},
    "adaptive": {"cutoffs": [4, 8]},
}
"""Sizes of loaders and softmaxes for a text of a few lines."""


def read_config(path: Path, folder: Path, **changes: Any) -> dict[str, Any]:
    """Return a config over the corpora in `folder`."""
    own = folder / path.parent.name
    text = str(own / "text.txt")
    ext_vars = {"AG_NEWS": str(folder), "IMDB": str(folder), "LM_TRAIN": text, "LM_HELDOUT": text}
    ext_vars |= {"ELMO_BILM": str(own / "bilm"), "SEED": "1"}
    return Params.from_file(str(path), json.dumps(changes), ext_vars).as_dict(quiet=True)


def pretrain(folder: Path, system: str) -> None:
    """Train a system's biLM for one step on the text of its task."""
    few = {"data_loader.batches_per_epoch": 1, "trainer.num_epochs": 1}
    config = read_config(SYSTEMS / system / "pretrain.jsonnet", folder, **few)
    del config["trainer"]["learning_rate_scheduler"]
    for block in (config["data_loader"], config["validation_data_loader"], config["model"]["softmax"]):
        block.update(FEW[block["type"]])
    train_model(Params(config), str(folder / system / "bilm"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with both corpora and, for each system, the text of its task and a biLM pretrained on it."""
    folder = tmp_path_factory.mktemp("systems")
    for part in ("train", "dev"):
        with (folder / f"{part}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(NEWS)
        lines = [json.dumps({"label": label, "text": text}) + "\n" for label, text in REVIEWS]
        (folder / f"{part}.jsonl").write_text("".join(lines), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AG_NEWS", "IMDB"):
            patch.setenv(name, str(folder))
        for system, config in TASKS.items():
            (folder / system).mkdir()
            lines = [f"{line}\n" for line in texts(str(config))]
            (folder / system / "text.txt").write_text("".join(lines), encoding="utf-8")
            pretrain(folder, system)
    return folder


def train(path: Path, folder: Path, run: Path, **changes: Any) -> None:
    """Train a classifier for one epoch of its few texts."""
    few = {"trainer.num_epochs": 1, "trainer.patience": None, **changes}
    train_model(Params(read_config(path, folder, **few)), str(run))


@pytest.fixture(scope="module")
def classifiers(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the runs of all classifiers. The corpora and biLMs that they were trained with no longer exist."""
    runs = tmp_path_factory.mktemp("classifiers")
    folder = shutil.copytree(trained, tmp_path_factory.mktemp("copy") / "systems")
    for path in CLASSIFIERS:
        train(path, folder, runs / name_of(path))
    shutil.rmtree(folder)
    return runs


def name_of(path: Path) -> str:
    """Return the system and the classifier of a config."""
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("name", [name_of(path) for path in CLASSIFIERS])
def test_a_classifier_is_trained_and_needs_its_bilm_no_more(name: str, classifiers: Path) -> None:
    metrics = json.loads((classifiers / name / "metrics.json").read_text())
    assert metrics["training_loss"] > 0
    assert {"best_validation_accuracy", "best_validation_macro_f1"} <= set(metrics)
    predictor = Predictor.from_path(str(classifiers / name / "model.tar.gz"))
    assert predictor.predict("Mayor wins.")["label"] in {"1", "2", "pos", "neg"}


def test_the_text_is_read_by_the_reader_of_the_task(trained: Path) -> None:
    news = (trained / "ag_news_words/text.txt").read_text(encoding="utf-8").splitlines()
    assert news[:2] == ["Ferry late again , says mayor", 'Harrow " win " the cup']
    reviews = (trained / "imdb_characters/text.txt").read_text(encoding="utf-8").splitlines()
    assert len(reviews) == len(REVIEWS) and len(reviews[-1].split()) == 1500
