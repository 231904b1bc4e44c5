"""flair's two character language models, trained by its `LanguageModelTrainer`."""

import re
from collections import Counter
from pathlib import Path

import flair
import numpy as np
import torch
from flair.data import Dictionary, Sentence
from flair.embeddings import FlairEmbeddings, StackedEmbeddings
from flair.models import LanguageModel
from flair.trainers.language_model_trainer import LanguageModelTrainer, TextCorpus

from experiments.why_elmo.training import Training
from experiments.why_elmo.vectors import Embed

HIDDEN = 768
"""One LSTM of 2.7 M weights in each direction: together those of `english-tiny` without its softmax."""
SPLITS = 60
"""The trainer saves a checkpoint after each split of the text, and lowers the learning rate after ten without gain."""


def corpus_folder(training: Training) -> Path:
    """Write the text as the trainer reads it: train/, valid.txt and test.txt. Return the folder."""
    folder = training.folder / "corpus"
    if not folder.exists():
        partial = training.folder / "corpus.partial"
        (partial / "train").mkdir(parents=True, exist_ok=True)
        lines = [line for shard in training.shards() for line in shard.open(encoding="utf-8")]
        for split in range(SPLITS):
            (partial / f"train/{split:02}").write_text("".join(lines[split::SPLITS]), encoding="utf-8")
        sample = (training.text / "heldout_sample.txt").read_text(encoding="utf-8")
        (partial / "valid.txt").write_text(sample, encoding="utf-8")
        (partial / "test.txt").write_text(sample, encoding="utf-8")
        partial.rename(folder)
    return folder


def characters(training: Training) -> Dictionary:
    """Return the characters of the text that occur at least five times."""
    counts = Counter(character for shard in training.shards() for character in shard.read_text(encoding="utf-8"))
    dictionary = Dictionary()
    for character, count in counts.most_common():
        if count >= 5:
            dictionary.add_item(character)
    return dictionary


def train(training: Training, forward: bool) -> dict[str, float]:
    """Train the language model of one direction until the budget is used up, and return its loss per character."""
    flair.device = torch.device("cpu")
    flair.set_seed(1)
    folder, checkpoint = corpus_folder(training), training.folder / "run/checkpoint.pt"
    dictionary = characters(training)
    corpus = TextCorpus(folder, dictionary, forward, character_level=True)
    if checkpoint.exists():
        trainer = LanguageModelTrainer.load_checkpoint(checkpoint, corpus)
        files = corpus.train.files  # the trainer would read the first split again
        corpus.train.files = files[trainer.split :] + files[: trainer.split]
    else:
        trainer = LanguageModelTrainer(LanguageModel(dictionary, forward, hidden_size=HIDDEN, nlayers=1), corpus)
    training.start_clock(stop=True)
    # The trainer ends at the interrupt of the clock. It keeps the model with the lowest loss on held-out text.
    trainer.train(
        training.folder / "run", sequence_length=100, mini_batch_size=20, checkpoint=True, num_workers=0, patience=10
    )
    model = LanguageModel.load_language_model(training.folder / "run/best-lm.pt")
    losses = re.findall(r"end of split.* valid loss (\S+) ", (training.folder / "run/loss.txt").read_text())
    return {
        "weights": sum(parameter.numel() for parameter in model.parameters()),
        "heldout_sample_loss": min(map(float, losses)),
    }


def train_forward(training: Training) -> dict[str, float]:
    """Train the forward language model."""
    return train(training, forward=True)


def train_backward(training: Training) -> dict[str, float]:
    """Train the backward language model."""
    return train(training, forward=False)


def embedder(training: Training) -> Embed:
    """Return a function that embeds by both language models, side by side."""
    flair.device = torch.device("cpu")
    models = [
        training.folder.with_name(f"flair_{direction}") / "run/best-lm.pt" for direction in ("forward", "backward")
    ]
    embeddings = StackedEmbeddings([FlairEmbeddings(model) for model in models])

    def embed(sentences: list[list[str]]) -> list[np.ndarray]:
        texts = [Sentence(words) for words in sentences]
        embeddings.embed(texts)
        return [torch.stack([token.embedding for token in text]).unsqueeze(0).numpy() for text in texts]

    return embed
