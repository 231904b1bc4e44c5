"""ELMo as this project trains it: the config of `english-tiny`."""

from pathlib import Path

from allennlp.commands.train import train_model
from allennlp.common import Params

import elmo_plugin
from experiments.run import CONFIGS
from experiments.why_elmo.training import Training
from experiments.why_elmo.vectors import Embed

EPOCHS = 4
WARM_UP = 0.06
"""The share of the batches in which the learning rate rises, as for the transformers."""


def train(training: Training) -> dict[str, float]:
    """Train a biLM with `pretrain/bilm_tiny.jsonnet`, whose number of batches is set to use up the budget."""
    texts = {"LM_TRAIN": str(training.text / "train-*.txt"), "LM_HELDOUT": str(training.text / "heldout_sample.txt")}

    def train_steps(steps: int, folder: Path, epochs: int = 1, warmup: int = 0) -> None:
        overrides = {
            "data_loader.batches_per_epoch": steps,
            "trainer.num_epochs": epochs,
            "trainer.learning_rate_scheduler.warmup_steps": warmup,
            "trainer.checkpointer.save_every_num_minutes": 5,
            "trainer.cuda_device": -1,
        }
        params = Params.from_file(CONFIGS / "pretrain/bilm_tiny.jsonnet", overrides, ext_vars=texts)
        train_model(params, folder, recover=folder.exists(), file_friendly_logging=True)

    steps = training.steps(train_steps)
    training.start_clock()
    if not training.read("run/metrics"):
        train_steps(steps // EPOCHS, training.folder / "run", EPOCHS, warmup=int(WARM_UP * steps))
    return {"heldout_sample_perplexity": training.read("run/metrics")["best_validation_perplexity"]}


def embedder(training: Training) -> Embed:
    """Return a function that embeds by all layers of the trained biLM."""
    embed: Embed = elmo_plugin.load(training.folder / "run/model.tar.gz").embed
    return embed


def random_embedder(training: Training) -> Embed:
    """Return a function that embeds by all layers of a biLM of the same sizes with random weights."""
    no_text = {"LM_TRAIN": "", "LM_HELDOUT": ""}
    keys = Params.from_file(CONFIGS / "pretrain/bilm_tiny.jsonnet", ext_vars=no_text)["model"]["bilm"].as_dict()
    weights = training.folder / "model.safetensors"
    elmo_plugin.save(elmo_plugin.Elmo(bilm=keys), weights)
    embed: Embed = elmo_plugin.load(weights).embed
    return embed


def published_embedder(training: Training) -> Embed:
    """Return a function that embeds by all layers of the `english-tiny` that comes with the package."""
    embed: Embed = elmo_plugin.load("english-tiny").embed
    return embed
