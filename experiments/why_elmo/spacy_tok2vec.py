"""spaCy's layer `tok2vec`, trained by `spacy pretrain` to predict the characters of each word from its vector."""

import json
import random
from contextlib import suppress
from pathlib import Path

import numpy as np
from spacy.cli.init_config import init_config
from spacy.tokens import Doc
from spacy.training.pretrain import pretrain
from spacy.util import load_model_from_config
from thinc.api import Config

from experiments.why_elmo.training import Training
from experiments.why_elmo.vectors import Embed


def config(text: Path) -> Config:
    """Return the config of `spacy init config --optimize accuracy --pretraining`, without vectors of a download."""
    settings = init_config(lang="en", pipeline=["tagger"], optimize="accuracy", gpu=False, pretraining=True)
    settings["paths"].update({"vectors": None, "raw_text": str(text)})
    settings["components"]["tok2vec"]["model"]["embed"]["include_static_vectors"] = False
    settings["pretraining"]["n_save_every"] = 100
    return settings.interpolate()


def train(training: Training) -> dict[str, float]:
    """Train the layer until the budget is used up.

    spaCy's way to resume keeps the weights alone. Each process reads the text in its own order, so that a resumed one
    does not begin with the same sentences.
    """
    folder, text = training.folder / "run", training.folder / "text.jsonl"
    folder.mkdir(exist_ok=True)
    lines = [line for shard in training.shards() for line in shard.read_text(encoding="utf-8").splitlines()]
    random.Random(len(training.read("cpu_seconds") or {})).shuffle(lines)
    text.write_text("".join(json.dumps({"text": line}) + "\n" for line in lines), encoding="utf-8")
    saved = max(folder.glob("model*.bin"), key=lambda path: path.stat().st_mtime, default=None)
    training.start_clock(stop=True)
    with suppress(KeyboardInterrupt):  # of the clock; the last weights are saved
        pretrain(config(text), folder, resume_path=saved, epoch_resume=0)
    return {}


def embedder(training: Training) -> Embed:
    """Return a function that embeds by the layer's output."""
    nlp = load_model_from_config(config(training.folder / "text.jsonl"))
    layer = nlp.get_pipe("tok2vec").model
    layer.initialize(X=[nlp.make_doc("Give it a text")])
    layer.from_bytes((training.folder / "run/model-last.bin").read_bytes())

    def embed(sentences: list[list[str]]) -> list[np.ndarray]:
        return [vectors[None] for vectors in layer.predict([Doc(nlp.vocab, words) for words in sentences])]

    return embed
