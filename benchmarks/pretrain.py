"""A step of pretraining: tokens a second, and the share of what the machine can multiply."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from allennlp.common import Params
from allennlp.data import DataLoader, DatasetReader, Vocabulary
from allennlp.models import Model
from allennlp.training.optimizers import Optimizer
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.agreement import check_scalar
from benchmarks.contestants import PRECISIONS
from benchmarks.products import Workspace, multiplies, products
from benchmarks.settings import Settings
from benchmarks.sizes import pretraining_config
from benchmarks.table import Table, time_cells
from benchmarks.text import Sentences, made_up_word
from benchmarks.timing import Call, interleave, seconds
from elmo_plugin.pretraining import BidirectionalLanguageModel
from elmo_plugin.pretraining.vocabulary import select_words, vocabulary_of

BATCHES = 4
"""Batches that the steps go round."""
TOLERANCES = {"float32": 1e-5, "bfloat16": 1e-2}
BATCHINGS: dict[str, dict[str, Any]] = {
    "windows": {"type": "unrolled_streams", "streams": 128, "window": 20},
    "sentences": {"type": "sentence_batches", "max_tokens": 2560, "max_sentence_length": 400},
}
"""The published recipe's, 128 streams cut every 20 words; and whole sentences of as many tokens."""
PEAK_SIZES = {"cpu": 2048, "cuda": 8192}
"""Rows and columns of the product by which the peak is measured."""


class Run(NamedTuple):
    """A model, its optimiser and a few batches."""

    model: BidirectionalLanguageModel
    optimizer: torch.optim.Optimizer
    batches: Sequence[dict[str, Any]]

    def step(self, batch: dict[str, Any]) -> Tensor:
        """Forward, backward, update; the loss."""
        self.optimizer.zero_grad()
        loss: Tensor = self.model(**batch)["loss"]
        loss.backward()
        self.optimizer.step()
        return loss

    def all_steps(self) -> None:
        """One for each batch."""
        for batch in self.batches:
            self.step(batch)


def measure(settings: Settings) -> Iterator[Table]:
    """A table of windows and a table of whole sentences."""
    peaks = {precision: peak_flops(precision, settings.device) for precision in PRECISIONS}
    with TemporaryDirectory() as folder:
        text = write_text(settings.text.sentences, Path(folder))
        for name, loader in BATCHINGS.items():
            yield steps(name, loader, text, peaks, settings)


def steps(name: str, loader: dict[str, Any], text: Path, peaks: dict[str, float], settings: Settings) -> Table:
    """Steps on batches of one kind, in each precision."""
    config = pretraining_config(settings.size, str(text))
    vocab = vocabulary(config["vocabulary"]["max_size"], settings.text.sentences)
    batches = read_batches(config, loader, vocab, text, settings.device)
    tokens = sum(map(n_targets, batches))
    oracle = run_of(config, vocab, batches, settings, precision="float32", kernel="reference")
    wanted, work = loss_without_dropout(oracle), floating_point_operations(oracle)
    del oracle
    runs = {precision: run_of(config, vocab, batches, settings, precision=precision) for precision in PRECISIONS}
    differences = {
        precision: check_scalar(precision, loss_without_dropout(run), wanted, TOLERANCES[precision])
        for precision, run in runs.items()
    }
    calls = [Call(precision, run.all_steps) for precision, run in runs.items()]
    timed = interleave(calls, settings.long_repeats, settings.device)
    softmax = runs["float32"].model.softmax
    return Table(
        f"A step of pretraining, {name}",
        f"{tokens / len(batches):,.0f} tokens a step, V = {softmax.vocab_size:,}, softmax `{softmax.config['type']}`, "
        f"{type(runs['float32'].optimizer).__name__}, {work / tokens / 1e6:,.0f} MFLOP a token. The peak is that of a "
        f"product of {PEAK_SIZES[settings.device.type]}² matrices. Rounds of {len(batches)} steps: "
        f"{settings.long_repeats}.",
        ["", "median of a round", "min–max", "× float32", "tokens/s", "share of the peak", "difference of the loss"],
        [
            [
                precision,
                *time_cells(times, timed["float32"]),
                f"{tokens / times.median:,.0f}",
                f"{work / times.median / peaks[precision]:.0%} of {peaks[precision] / 1e9:,.0f} GFLOP/s",
                f"{differences[precision]:.1e}",
            ]
            for precision, times in timed.items()
        ],
    )


def run_of(
    config: Params, vocab: Vocabulary, batches: Sequence[dict[str, Any]], settings: Settings, **keys: str
) -> Run:
    """The model of a config, changed by `keys`, about to learn; the same weights every time."""
    torch.manual_seed(1)
    block = {**config["model"].as_dict(quiet=True), **keys}
    model = Model.from_params(Params(block), vocab=vocab).to(settings.device).train()
    assert isinstance(model, BidirectionalLanguageModel)
    parameters = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    optimizer = Optimizer.from_params(config["trainer"]["optimizer"].duplicate(), model_parameters=parameters)
    return Run(model, optimizer, batches)


def loss_without_dropout(run: Run) -> float:
    """Of the first batch, as in training."""
    dropouts = [module for module in run.model.modules() if isinstance(module, nn.Dropout)]
    for dropout in dropouts:
        dropout.eval()
    draws = getattr(run.model.softmax, "n_draws", None)
    loss = float(run.model(**run.batches[0])["loss"].detach())
    if draws is not None:
        draws.zero_()
    run.model.carried.clear()
    run.model.train()
    return loss


def floating_point_operations(run: Run) -> int:
    """Of a step for each batch: two for each multiplication of its matrix products and convolutions."""
    onednn = {torch.ops.mkldnn._linear_pointwise: _product_operations} if torch.backends.mkldnn.is_available() else {}
    with FlopCounterMode(display=False, custom_mapping=onednn) as counter:
        for batch in run.batches:
            run.model(**batch)["loss"].backward()
    return counter.get_total_flops()


def _product_operations(values: torch.Size, weight: torch.Size, *_: Any, **__: Any) -> int:
    """(N, I) by (O, I)."""
    return 2 * values.numel() * weight[0]


def peak_flops(precision: str, device: torch.device) -> float:
    """Floating-point operations a second of a big matrix product, by the fastest way torch has; the best of some."""
    size = PEAK_SIZES[device.type]
    squares = [
        Workspace(product, device).weight(size, size)  # (size, size)
        for product in products()
        if product.precision == precision and multiplies(product, device)
    ]
    best = min(seconds(partial(square, size), device) for _ in range(6) for square in squares)
    return 2 * size**3 / best


def vocabulary(size: int, sentences: Sentences) -> Vocabulary:
    """As many words as the config's, those of the text first, the others made up."""
    words = select_words(Counter(chain.from_iterable(sentences)), max_size=size)
    words += [f"{made_up_word(rank)}{rank}" for rank in range(1, size - len(words) + 1)]
    return vocabulary_of(list(dict.fromkeys(words)))


def read_batches(
    config: Params, loader: dict[str, Any], vocab: Vocabulary, text: Path, device: torch.device
) -> list[dict[str, Any]]:
    """A few batches of the text, on the device."""
    reader = DatasetReader.from_params(config["dataset_reader"].duplicate())
    keys = {**loader, "shuffle": True, "batches_per_epoch": BATCHES}
    batches = DataLoader.from_params(Params(keys), reader=reader, data_path=str(text))
    batches.index_with(vocab)
    batches.set_target_device(device)
    return list(batches)


def n_targets(batch: dict[str, Any]) -> int:
    """Words that each direction is asked for."""
    if "windows" in batch:
        return int((batch["windows"]["forward"]["targets"] > 0).sum())
    words = batch["tokens"]["words"]["tokens"]  # (B, T)
    return int((words > 0).sum()) + len(words)


def write_text(sentences: Sentences, folder: Path) -> Path:
    """One sentence a line, as the reader of pretraining wants it."""
    path = folder / "text.txt"
    path.write_text("".join(f"{' '.join(sentence)}\n" for sentence in sentences), encoding="utf-8")
    return path
