"""The systems of training_configs/systems, from raw corpora to archives: text, biLM, classifiers, a step each."""

import csv
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import load_archive
from allennlp.predictors import Predictor

from elmo_plugin.bilm import BiLM
from elmo_plugin.checkpoints import build_bilm, load_checkpoint
from elmo_plugin.elmo import Elmo
from elmo_plugin.options import BiLMOptions
from elmo_plugin.text import batch_to_ids
from experiments.text_of import texts
from tests.task_oracles import allennlp

ROOT = Path(__file__).parent.parent
SYSTEMS = ROOT / "training_configs/systems"
CONFIGS = sorted(SYSTEMS.rglob("*.jsonnet"))
TASKS = {
    "ag_news_words": ROOT / "training_configs/classify/ag_news.jsonnet",
    "ag_news_characters": ROOT / "training_configs/classify/ag_news.jsonnet",
    "imdb_characters": ROOT / "training_configs/classify/imdb.jsonnet",
}
"""The config whose reader makes the text of a system."""
CLASSIFIERS = [path for path in CONFIGS if path.stem != "pretrain"]
NEWS = [
    ("1", "Ferry late again, says mayor"),
    ("2", 'Harrow "win" the cup'),
    ("1", "Mayor of Calder wins again"),
    ("2", "The cup is late"),
]
LONG = " ".join(f"scene {number} is dull, the next is lovely;" for number in range(150))
"""Three of the blocks that inference reads, and more than a batch of sentences takes whole."""
N_LONG = 1500
REVIEWS = [("pos", "Lovely.<br />Go."), ("neg", "Dull and long."), ("pos", "So lovely!"), ("neg", LONG)]
FEW: dict[str, dict[str, Any]] = {
    "unrolled_streams": {"streams": 2, "window": 30},
    "sentence_batches": {"max_tokens": 40, "max_sentence_length": 30},
    "sampled": {"n_samples": 5},
    "adaptive": {"cutoffs": [4, 8]},
}
"""Of loaders and softmaxes, sizes that a text of a few lines has enough for."""


def variables(folder: Path, system: str) -> dict[str, str]:
    """What the configs of a system ask the environment for."""
    text = str(folder / system / "text.txt")
    corpora = {"AG_NEWS": str(folder), "IMDB": str(folder), "SEED": "1"}
    return {**corpora, "LM_TRAIN": text, "LM_HELDOUT": text, "ELMO_BILM": str(folder / system / "bilm")}


def read_config(path: Path, folder: Path, **changes: Any) -> dict[str, Any]:
    """A config over the corpora in `folder`."""
    params = Params.from_file(str(path), json.dumps(changes), variables(folder, path.parent.name))
    content: dict[str, Any] = params.as_dict(quiet=True)
    return content


def pretrain(folder: Path, system: str) -> None:
    """One step of a system's biLM on the text of its task."""
    few = {"data_loader.batches_per_epoch": 1, "trainer.num_epochs": 1}
    config = read_config(SYSTEMS / system / "pretrain.jsonnet", folder, **few)
    del config["trainer"]["learning_rate_scheduler"]
    for block in (config["data_loader"], config["validation_data_loader"], config["model"]["softmax"]):
        block.update(FEW[block["type"]])
    train_model(Params(config), str(folder / system / "bilm"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with both corpora and, for each system, the text of its task and a biLM pretrained on it."""
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
    yield folder


def train(path: Path, folder: Path, run: Path, **changes: Any) -> dict[str, Any]:
    """Train a classifier for one epoch of its few texts; return its metrics."""
    few = {"trainer.num_epochs": 1, "trainer.patience": None, **changes}
    train_model(Params(read_config(path, folder, **few)), str(run))
    metrics: dict[str, Any] = json.loads((run / "metrics.json").read_text())
    return metrics


@pytest.mark.parametrize("path", CLASSIFIERS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_classifier_trains_on_its_bilm_and_needs_it_no_more(path: Path, trained: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(trained, tmp_path / "corpora")
    metrics = train(path, folder, tmp_path / "run")
    assert metrics["training_loss"] > 0
    assert {"best_validation_accuracy", "best_validation_macro_f1"} <= set(metrics)
    shutil.rmtree(folder)
    predictor = Predictor.from_path(str(tmp_path / "run/model.tar.gz"))
    assert predictor.predict("Mayor wins.")["label"] in {"1", "2", "pos", "neg"}


def test_a_text_is_what_the_tasks_reader_reads(trained: Path) -> None:
    news = (trained / "ag_news_words/text.txt").read_text(encoding="utf-8").splitlines()
    assert news[:2] == ["Ferry late again , says mayor", 'Harrow " win " the cup']
    reviews = (trained / "imdb_characters/text.txt").read_text(encoding="utf-8").splitlines()
    assert len(reviews) == len(REVIEWS) and len(reviews[-1].split()) == N_LONG


def test_words_keep_the_ids_that_they_were_pretrained_with(trained: Path, tmp_path: Path) -> None:
    (trained / "other.csv").write_text('"1","Zebras unheard of by the mayor"\n"2","The cup"\n', encoding="utf-8")
    path, other = SYSTEMS / "ag_news_words/scalar.jsonnet", {"train_data_path": str(trained / "other.csv")}
    train(path, trained, tmp_path / "run", **other)
    vocab = Vocabulary.from_files(str(tmp_path / "run/vocabulary"))
    checkpoint = load_checkpoint(trained / "ag_news_words/bilm")
    assert checkpoint.vocabulary is not None
    ids = {word: line for line, word in enumerate(checkpoint.vocabulary, 1)}
    assert vocab.get_vocab_size() == len(ids) + 1
    assert [vocab.get_token_index(word) for word in ("mayor", "cup")] == [ids["mayor"], ids["cup"]]
    assert vocab.get_token_index("Zebras") == ids["<UNK>"]


@pytest.mark.parametrize("system", ["ag_news_words", "ag_news_characters"])
def test_the_bilm_is_that_of_the_run_and_stays_frozen(system: str, trained: Path, tmp_path: Path) -> None:
    train(SYSTEMS / system / "scalar.jsonnet", trained, tmp_path / "run")
    pretrained = load_checkpoint(trained / system / "bilm").state_dict
    weights = elmo_of(tmp_path / "run").bilm.state_dict()
    for name, weight in pretrained.items():
        if name != "_extra_state":
            assert torch.equal(weights[name], weight), name


def elmo_of(run: Path) -> Elmo:
    """The Elmo in the archive of a run."""
    model = load_archive(str(run / "model.tar.gz")).model
    return next(module for module in model.modules() if isinstance(module, Elmo))


def mix_of(name: str, trained: Path, run: Path, seed: int = 1) -> dict[str, torch.Tensor]:
    """The weights of the one mix of a classifier over words, after two epochs."""
    path = SYSTEMS / f"ag_news_words/{name}.jsonnet"
    environment = {**variables(trained, path.parent.name), "SEED": str(seed)}
    train_model(Params.from_file(str(path), json.dumps({"trainer.num_epochs": 2}), environment), str(run))
    (mix,) = elmo_of(run).mixes
    return dict(mix.named_parameters())


def test_the_three_mixes_are_what_their_names_say(trained: Path, tmp_path: Path) -> None:
    learned = mix_of("scalar", trained, tmp_path / "learned")["scalar_parameters"]
    assert learned.any() and learned.requires_grad
    drawn = [mix_of("frozen_random", trained, tmp_path / f"drawn{seed}", seed) for seed in (1, 2)]
    for seed, weights in zip((1, 2), drawn, strict=True):
        wanted = torch.randn(3, generator=torch.Generator().manual_seed(seed))
        assert torch.equal(weights["scalar_parameters"], wanted)
    function = mix_of("learned_function", trained, tmp_path / "function")
    assert set(function) == {f"function.{layer}.{part}" for layer in (0, 2) for part in ("weight", "bias")}


@pytest.mark.parametrize("window", [7, 30, 2000])
def test_a_long_review_is_pretrained_on_to_its_end(window: int, trained: Path, tmp_path: Path) -> None:
    """Windows carry the state: where they are cut changes no prediction, and no token is left out."""
    run = trained / "imdb_characters/bilm"
    long = tmp_path / "long.txt"
    long.write_text((trained / "imdb_characters/text.txt").read_text(encoding="utf-8").splitlines()[-1] + "\n")
    found = []
    for width in (window, 50):
        output = tmp_path / f"{width}.json"
        loader = {"validation_data_loader.window": width, "validation_data_loader.streams": 1}
        overrides = {**loader, "model.precision": "float32"}
        allennlp("evaluate", run / "model.tar.gz", long, "--overrides", json.dumps(overrides), "--output-file", output)
        found.append(json.loads(output.read_text()))
    assert found[0]["n_tokens"] == found[1]["n_tokens"] == N_LONG + 1
    for way in ("forward", "backward"):
        assert found[0][f"{way}_perplexity"] == pytest.approx(found[1][f"{way}_perplexity"], rel=1e-5)


def test_a_long_review_is_classified_whole(trained: Path) -> None:
    config = read_config(SYSTEMS / "imdb_characters/elmo.jsonnet", trained)
    reader = DatasetReader.from_params(Params(config["dataset_reader"]))
    *_, review = reader.read(str(trained / "train.jsonl"))
    words = [token.text for token in review["tokens"]]  # type: ignore[attr-defined]
    assert len(words) == N_LONG
    checkpoint = load_checkpoint(trained / "imdb_characters/bilm")
    with torch.no_grad():  # the kernel that runs reads blocks, the state carried; the reference reads it at once
        blocks, whole = (
            build_bilm(checkpoint, kernel)(batch_to_ids([words])).layers for kernel in ("auto", "reference")
        )
    assert blocks.shape == (3, 1, N_LONG + 2, 128)
    torch.testing.assert_close(blocks, whole, rtol=0, atol=1e-5)


def test_the_small_bilm_of_characters_has_the_stated_sizes(trained: Path) -> None:
    options = read_config(SYSTEMS / "imdb_characters/pretrain.jsonnet", trained)["model"]["bilm"]["options"]
    assert options["char_cnn"]["filters"] == [[1, 2], [2, 2], [3, 4], [4, 8], [5, 16], [6, 32], [7, 64]]
    assert sum(channels for _, channels in options["char_cnn"]["filters"]) == 128
    bilm = BiLM(BiLMOptions.from_dict(options))
    assert (bilm.options.lstm.cell_dim, bilm.options.lstm.projection_dim, bilm.options.lstm.n_layers) == (128, 64, 2)
    assert bilm.options.lstm.use_skip_connections and bilm.options.char_cnn.n_highway == 1


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_config_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 15
