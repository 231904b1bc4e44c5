"""Tiny language models: their text and configs, and what they answer worked out by the plainest path there is."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from allennlp.common import Params
from allennlp.models import Model
from numpy.typing import NDArray

from elmo_plugin.bilm import BiLM
from elmo_plugin.pretraining import BidirectionalLanguageModel, LmSoftmax
from elmo_plugin.pretraining.softmax import AdaptiveSoftmax, WordVectorSoftmax
from elmo_plugin.pretraining.vocabulary import MARKS, vocabulary_of
from elmo_plugin.text import batch_to_ids
from tests.oracles import lively, options

Config = dict[str, Any]
TRAIN = """the ferry left the harbour before the fog came
the fog came in from the sea
a gull sat on the harbour wall
the gull watched the ferry
she read the letter on the ferry and wept
the letter came from the sea
he left a letter on the wall
the fog left
""".splitlines()
HELDOUT = """the gull left the ferry
a whale watched the fog
fog
she read the lighthouse letter and he read the sea
the wall
naïve gulls sat on 東京 before the ferry came from the harbour
""".splitlines()
"""`whale`, `lighthouse`, `naïve`, `gulls` and `東京` are not in `TRAIN`; `wept` and others are there once."""
COUNTS = Counter(word for line in TRAIN for word in line.split())
WORDS = [*MARKS, *sorted(COUNTS, key=lambda word: (-COUNTS[word], word))]
CHARACTERS = options().to_dict()
WORD_INPUT = options(char_cnn=None).to_dict()


class Nats(NamedTuple):
    """Negative log likelihoods of the tokens of a stream in the order of reading, forward and backward: (N,) each."""

    forward: NDArray[np.float64]
    backward: NDArray[np.float64]


def write_corpus(folder: Path) -> Config:
    """Write both texts; return the two paths of a config."""
    for name, lines in (("train", TRAIN), ("heldout", HELDOUT)):
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return {"train_data_path": str(folder / "train.txt"), "validation_data_path": str(folder / "heldout.txt")}


def experiment(corpus: Config, batches: Config, **model: Any) -> Config:
    """A whole config: three epochs over `write_corpus`, its model the tiny one of characters changed by `model`."""
    bilm = {"options": CHARACTERS, "seed": 1}
    return {
        **corpus,
        "dataset_reader": {"type": "text_shards"},
        "vocabulary": {"type": "text_shards", "files": corpus["train_data_path"]},
        "model": {"type": "bilm", "bilm": bilm, "softmax": {"type": "full"}, "dropout": 0.1, **model},
        "data_loader": {**batches, "shuffle": True},
        "validation_data_loader": {**batches, "shuffle": False},
        "trainer": {"num_epochs": 3, "optimizer": {"type": "adam", "lr": 0.02}, "cuda_device": -1},
    }


def language_model(words: Sequence[str] = WORDS, **keys: Any) -> BidirectionalLanguageModel:
    """An untrained model over these lines of a vocabulary file, with weights that work hard."""
    config = {"type": "bilm", "bilm": {"options": CHARACTERS, "seed": 1}, "softmax": {"type": "full"}, **keys}
    torch.manual_seed(2)
    model = Model.from_params(Params(config), vocab=vocabulary_of(list(words)))
    assert isinstance(model, BidirectionalLanguageModel)
    lively(model.bilm)
    return model.eval()


def nats_by_hand(model: BidirectionalLanguageModel, *stream: Sequence[str]) -> Nats:
    """Read sentences one after the other, the state carried from each to the next, and score the words by hand.

    The biLM runs in float64 under the kernel `reference`, one stream at a time and without windows.
    """
    twin = BiLM(model.bilm.options, kernel="reference").double()
    twin.load_state_dict(model.bilm.state_dict())
    table = model.vocab.get_token_to_index_vocabulary()
    nats = []
    for direction, (first, last) in enumerate((("<S>", "</S>"), ("</S>", "<S>"))):
        inputs, targets = [], []
        for sentence in stream:
            ordered = list(sentence)[::-1] if direction else list(sentence)
            inputs += [first, *ordered]
            targets += [*ordered, last]
        rows = [table.get(word, 3) - 1 for word in targets]  # (N,)
        log_probs = _log_softmax(model.softmax, _read(twin, direction, inputs, table))  # (N, V)
        nats.append(-log_probs[np.arange(len(rows)), rows])
    return Nats(*nats)


def perplexities(nats: Sequence[Nats]) -> dict[str, float]:
    """What is to be reported of these streams, but for the words."""
    forward, backward = (np.concatenate([getattr(part, way) for part in nats]) for way in Nats._fields)
    return {
        "forward_perplexity": float(np.exp(forward.mean())),
        "backward_perplexity": float(np.exp(backward.mean())),
        "perplexity": float(np.exp((forward.mean() + backward.mean()) / 2)),
        "n_tokens": len(forward),
    }


@torch.no_grad()
def _read(bilm: BiLM, direction: int, inputs: list[str], table: dict[str, int]) -> NDArray[np.float64]:
    """The last layer of one direction over words as they come, (N, P)."""
    if bilm.options.char_cnn is None:
        ids = torch.tensor([[table.get(word, 3) for word in inputs]])  # (1, N)
    else:
        ids = batch_to_ids([inputs])  # (1, N, C)
    vectors = torch.cat([bilm.token_encoder(word) for word in ids.split(1, dim=1)], dim=1)  # (1, N, P)
    windows, lengths = vectors.expand(2, 1, -1, -1), torch.tensor([len(inputs)])  # (2, 1, N, P)
    outputs, _ = bilm.lstm.read_windows(windows, lengths, bilm.lstm.zero_state(1, vectors))
    return outputs[direction, 0].numpy()


@torch.no_grad()
def _log_softmax(softmax: LmSoftmax, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log probabilities of all V words, (N, P) to (N, V)."""
    if isinstance(softmax, AdaptiveSoftmax):
        return softmax.adaptive.log_prob(torch.tensor(vectors, dtype=torch.float32)).double().numpy()
    assert isinstance(softmax, WordVectorSoftmax)
    weight = softmax.weight.double().numpy()[-softmax.vocab_size :]  # (V, P); a tied one has padding above it
    scores = vectors @ weight.T + softmax.bias.double().numpy()  # (N, V)
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
