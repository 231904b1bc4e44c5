"""fastText vectors, trained by gensim: skip-grams, one vector a word whatever its sentence."""

import shutil
from pathlib import Path

import numpy as np
from gensim.models import FastText
from gensim.models.callbacks import CallbackAny2Vec
from gensim.models.fasttext import FastTextKeyedVectors

from experiments.why_elmo.training import Training
from experiments.why_elmo.vectors import Embed

SETTINGS = {"sg": 1, "vector_size": 300, "bucket": 200_000, "workers": 1, "seed": 1}
"""Skip-grams of 300 dimensions, the size of published vectors. 6 M tokens have far fewer parts of words than the 2 M
buckets of the default. Everything else is gensim's default."""
RATE, LAST_RATE = 0.025, 0.0001
"""The learning rate falls linearly over all passes (gensim's defaults)."""


class Save(CallbackAny2Vec):  # type: ignore[misc]
    """Saves the model after each pass over the text, so that a killed training continues after that pass."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_epoch_end(self, model: FastText) -> None:
        """Save the model to a folder whose name is the number of passes, then remove the folder before it."""
        done = passes(self.folder)
        partial = self.folder / "partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        model.save(str(partial / "model"))
        partial.rename(self.folder / str(done + 1))
        shutil.rmtree(self.folder / str(done), ignore_errors=True)


def passes(folder: Path) -> int:
    """Return the number of passes over the text after which the saved model was saved."""
    return max((int(path.name) for path in folder.glob("[0-9]*")), default=0)


def train(training: Training) -> dict[str, float]:
    """Train vectors for as many passes over the text as fit in the budget."""
    text = training.folder / "text.txt"
    text.write_bytes(b"".join(shard.read_bytes() for shard in training.shards()))

    def train_passes(total: int, folder: Path) -> FastText:
        done = passes(folder)
        if done:
            model = FastText.load(str(folder / f"{done}/model"))
        else:
            model = FastText(**SETTINGS)
            model.build_vocab(corpus_file=str(text))
        model.train(
            corpus_file=str(text),
            total_examples=model.corpus_count,
            total_words=model.corpus_total_words,
            epochs=total - done,
            start_alpha=RATE - (RATE - LAST_RATE) * done / total,
            end_alpha=LAST_RATE,
            callbacks=[Save(folder)],
        )
        return model

    total = training.steps(train_passes, few=1, many=2)
    training.start_clock()
    model = train_passes(total, training.folder / "run")
    model.wv.save(str(training.folder / "vectors"))
    return {"passes": total, "words": len(model.wv)}


def of_file(text: Path, passes: int, dim: int) -> FastTextKeyedVectors:
    """Return the vectors, `dim` numbers each, of so many passes over a text, one tokenized sentence per line."""
    return FastText(corpus_file=str(text), epochs=passes, **{**SETTINGS, "vector_size": dim}).wv


def embedder(training: Training) -> Embed:
    """Return a function that embeds words by their vectors; fastText has one for every word, by its parts."""
    vectors = FastTextKeyedVectors.load(str(training.folder / "vectors"))
    return lambda sentences: [np.stack([vectors[word] for word in words])[None] for words in sentences]
