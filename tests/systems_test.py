"""The systems of training_configs/systems, from raw corpora to archives: text, biLM and classifiers, one step each."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import load_archive
from allennlp.predictors import Predictor

from elmo_plugin.bilm import BiLM, BiLMOptions
from elmo_plugin.checkpoints import build_bilm, load_checkpoint
from elmo_plugin.elmo import Elmo
from elmo_plugin.text import batch_to_ids
from experiments.text_of import texts
from tests.task_oracles import allennlp

pytestmark = pytest.mark.slow  # three biLMs and ten classifiers are trained

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
"""A review of three of the blocks that inference reads, too long for a batch of sentences."""
N_LONG = 1500
REVIEWS = [("pos", "Lovely.<br />Go."), ("neg", "Dull and long."), ("pos", "So lovely!"), ("neg", LONG)]
FEW: dict[str, dict[str, Any]] = {
    "unrolled_streams": {"streams": 2, "window": 30},
    "sentence_batches": {"max_tokens": 40, "max_sentence_length": 30},
    "sampled": {"n_samples": 5},
    "adaptive": {"cutoffs": [4, 8]},
}
"""Sizes of loaders and softmaxes for a text of a few lines."""


def read_config(path: Path, folder: Path, seed: int = 1, **changes: Any) -> dict[str, Any]:
    """Return a config over the corpora in `folder`."""
    own = folder / path.parent.name
    text = str(own / "text.txt")
    ext_vars = {"AG_NEWS": str(folder), "IMDB": str(folder), "LM_TRAIN": text, "LM_HELDOUT": text}
    ext_vars |= {"ELMO_BILM": str(own / "bilm"), "SEED": str(seed)}
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


def train(path: Path, folder: Path, run: Path, seed: int = 1, **changes: Any) -> None:
    """Train a classifier for one epoch of its few texts."""
    few = {"trainer.num_epochs": 1, "trainer.patience": None, **changes}
    train_model(Params(read_config(path, folder, seed, **few)), str(run))


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
def test_the_bilm_is_the_pretrained_one_and_stays_frozen(system: str, trained: Path, classifiers: Path) -> None:
    pretrained = load_checkpoint(trained / system / "bilm").state_dict
    weights = elmo_of(classifiers / system / "scalar").bilm.state_dict()
    for name, weight in pretrained.items():
        if name != "_extra_state":
            assert torch.equal(weights[name], weight), name


def elmo_of(run: Path) -> Elmo:
    """Return the Elmo in the archive of a run."""
    model = load_archive(str(run / "model.tar.gz")).model
    return next(module for module in model.modules() if isinstance(module, Elmo))


def mix_of(run: Path) -> dict[str, torch.Tensor]:
    """Return the weights of the one mix of a classifier."""
    (mix,) = elmo_of(run).mixes
    return dict(mix.named_parameters())


def test_each_mix_learns_or_stays_fixed_as_its_config_says(trained: Path, classifiers: Path, tmp_path: Path) -> None:
    learned = mix_of(classifiers / "ag_news_words/scalar")["scalar_parameters"]
    assert learned.any() and learned.requires_grad
    train(SYSTEMS / "ag_news_words/frozen_random.jsonnet", trained, tmp_path / "seed2", seed=2)
    for seed, run in ((1, classifiers / "ag_news_words/frozen_random"), (2, tmp_path / "seed2")):
        drawn = torch.randn(3, generator=torch.Generator().manual_seed(seed))
        assert torch.equal(mix_of(run)["scalar_parameters"], drawn)
    function = mix_of(classifiers / "ag_news_words/learned_function")
    assert set(function) == {f"function.{layer}.{part}" for layer in (0, 2) for part in ("weight", "bias")}


def test_windows_carry_the_state_and_reach_the_end_of_a_long_review(trained: Path, tmp_path: Path) -> None:
    n_tokens = 200
    words = (trained / "imdb_characters/text.txt").read_text(encoding="utf-8").splitlines()[-1].split()[:n_tokens]
    long = tmp_path / "long.txt"
    long.write_text(" ".join(words) + "\n", encoding="utf-8")
    metrics = []
    for window in (2000, 7, 30):
        output = tmp_path / f"{window}.json"
        loader = {"validation_data_loader.window": window, "validation_data_loader.streams": 1}
        overrides = json.dumps({**loader, "model.precision": "float32"})
        archive = trained / "imdb_characters/bilm/model.tar.gz"
        allennlp("evaluate", archive, long, "--overrides", overrides, "--output-file", output)
        metrics.append(json.loads(output.read_text()))
    whole, *windows = metrics
    for cut in windows:
        assert cut["n_tokens"] == whole["n_tokens"] == n_tokens + 1
        for key in ("forward_perplexity", "backward_perplexity"):
            assert cut[key] == pytest.approx(whole[key], rel=1e-5)


def test_a_long_review_is_classified_whole(trained: Path) -> None:
    config = read_config(SYSTEMS / "imdb_characters/elmo.jsonnet", trained)
    reader = DatasetReader.from_params(Params(config["dataset_reader"]))
    *_, review = reader.read(str(trained / "train.jsonl"))
    words = [token.text for token in review["tokens"]]  # type: ignore[attr-defined]
    assert len(words) == N_LONG
    checkpoint = load_checkpoint(trained / "imdb_characters/bilm")
    with torch.no_grad():  # the default kernel reads blocks and carries the state; the reference does not
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
