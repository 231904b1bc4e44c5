"""Time a training step of the biLM: tokens per second, and the share of the machine's peak rate."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from allennlp.common import Params
from allennlp.data import DataLoader, DatasetReader, Vocabulary
from allennlp.models import Model
from allennlp.nn.util import move_to_device
from allennlp.training.optimizers import Optimizer
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.agreement import check_loss
from benchmarks.bilms import pretraining_config
from benchmarks.products import Workspace, products
from benchmarks.settings import Settings
from benchmarks.systems import PRECISIONS
from benchmarks.table import Table, time_cells
from benchmarks.text import distinct_words
from benchmarks.timing import Call, interleave, seconds
from elmo_plugin.bilm import precision_on
from elmo_plugin.pretraining import BidirectionalLanguageModel
from elmo_plugin.pretraining.vocabulary import select_words, vocabulary_of

BATCHES = 4
"""The number of batches in a round."""
TOLERANCES = {"float32": 1e-5, "bfloat16": 1e-2}
LOADERS: dict[str, dict[str, Any]] = {
    "windows": {"type": "unrolled_streams", "streams": 128, "window": 20},
    "sentences": {"type": "sentence_batches", "max_tokens": 2560, "max_sentence_length": 400},
    "windows of three GPUs": {"type": "unrolled_streams", "streams": 384, "window": 20},
}
"""The published recipe, 128 streams cut every 20 words on each of three GPUs, and whole sentences of as many tokens."""
PEAK_SIZES = {"cpu": 2048, "cuda": 8192}
"""The rows and columns of the product that measures the peak."""
SAMPLES = 8192
"""The samples of the softmax when compared with AllenNLP's, as in bilm-tf and in AllenNLP's config."""


class Run(NamedTuple):
    """A model, ours or AllenNLP's, its optimizer and a few batches."""

    model: Any
    optimizer: torch.optim.Optimizer
    batches: Sequence[dict[str, Any]]

    def steps(self) -> None:
        """Run a training step for each batch: forward, backward, update."""
        for batch in self.batches:
            self.optimizer.zero_grad()
            self.model(**batch)["loss"].backward()
            self.optimizer.step()


def measure(settings: Settings) -> Iterator[Table]:
    """Yield a table for windows, one for whole sentences, and one that compares AllenNLP's language model."""
    peaks = {precision: peak_flops(precision, settings.device) for precision in PRECISIONS}
    with TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        lines = (f"{' '.join(sentence)}\n" for sentence in settings.text.sentences)
        text.write_text("".join(lines), encoding="utf-8")
        config = pretraining_config(settings.size, str(text))
        vocab = vocabulary(config["vocabulary"]["max_size"], settings)
        for name in ("windows", "windows of three GPUs" if settings.device.type == "cuda" else "sentences"):
            yield steps(name, text, config, vocab, peaks, settings)
        if find_spec("allennlp_models") is not None:
            yield beside_allennlp(text, config, vocab, settings)


def steps(
    name: str, text: Path, config: Params, vocab: Vocabulary, peaks: dict[str, float], settings: Settings
) -> Table:
    """Train on batches of one kind, in each precision."""
    batches = read_batches(config, LOADERS[name], vocab, text)
    tokens = sum(map(n_targets, batches))
    reference = run_of(config, vocab, batches, settings, precision="float32", kernel="reference")
    expected, (work, of_optimizer) = loss_without_dropout(reference), floating_point_operations(reference)
    del reference
    variants: dict[str, dict[str, Any]] = {precision: {"precision": precision} for precision in PRECISIONS}
    softmax = config["model"]["softmax"].as_dict(quiet=True)
    if softmax["type"] == "sampled":
        sparse = {"precision": "bfloat16", "softmax": {**softmax, "sparse": True}}
        variants["bfloat16, `sparse`"] = sparse
    runs = {name: run_of(config, vocab, batches, settings, **keys) for name, keys in variants.items()}
    precisions = {name: keys["precision"] for name, keys in variants.items()}
    differences = {
        name: check_loss(name, loss_without_dropout(run), expected, TOLERANCES[precisions[name]])
        for name, run in runs.items()
    }
    calls = [Call(name, run.steps) for name, run in runs.items()]
    rounds = settings.repeats if settings.device.type == "cuda" else settings.long_repeats  # on a GPU they are short
    times = interleave(calls, rounds, settings.device)
    shared = runs["float32"].model.softmax
    for_optimizer = of_optimizer / peaks[precision_on(settings.device, "auto")]  # seconds; Muon computes in this type
    return Table(
        f"A step of pretraining, {name}",
        f"{tokens / len(batches):,.0f} tokens per step, V = {shared.vocab_size:,}, softmax "
        f"`{shared.config['type']}`, {type(runs['float32'].optimizer).__name__}, {work / tokens / 1e6:,.0f} MFLOP per "
        f"token, and {of_optimizer / tokens / 1e6:,.0f} of the optimizer. The peak is the rate of a product of "
        f"{PEAK_SIZES[settings.device.type]}² matrices. Rounds of {len(batches)} steps: {rounds}.",
        [
            "",
            "median of a round",
            "min–max",
            "× float32",
            "tokens/s",
            "share of the peak",
            "with the optimizer's products",
            "difference of the loss",
        ],
        [
            [
                name,
                *time_cells(each, times["float32"]),
                f"{tokens / each.median:,.0f}",
                f"{work / each.median / peaks[precisions[name]]:.0%} of {peaks[precisions[name]] / 1e9:,.0f} GFLOP/s",
                f"{(work / peaks[precisions[name]] + for_optimizer) / each.median:.0%}",
                f"{differences[name]:.1e}",
            ]
            for name, each in times.items()
        ],
    )


def beside_allennlp(text: Path, config: Params, vocab: Vocabulary, settings: Settings) -> Table:
    """Train AllenNLP's language model and ours on the same whole sentences, both with a sampled softmax."""
    from benchmarks.peer import Peer, peer_optimizer

    batches = read_batches(config, LOADERS["sentences"], vocab, text)
    tokens = sum(map(n_targets, batches))
    n_samples = min(SAMPLES, vocab.get_vocab_size() // 2)
    softmax = {"type": "sampled", "n_samples": n_samples}
    ours = {
        f"ours, {precision}": run_of(config, vocab, batches, settings, softmax=softmax, precision=precision)
        for precision in PRECISIONS
    }
    model, optimizer, _ = next(iter(ours.values()))
    moved = [move_to_device(batch, settings.device) for batch in batches]
    peer = Peer(model, n_samples, config["model"]["dropout"]).to(settings.device).train()
    baseline = "AllenNLP's `language_model`"
    runs = {baseline: Run(peer, peer_optimizer(peer, optimizer.defaults["lr"]), moved), **ours}
    times = interleave([Call(name, run.steps) for name, run in runs.items()], settings.long_repeats, settings.device)
    with torch.no_grad():
        losses = {name: float(run.model(**batches[0])["loss"]) for name, run in runs.items()}
    return Table(
        "A step of pretraining, beside AllenNLP",
        f"{tokens / len(batches):,.0f} tokens per step, V = {vocab.get_vocab_size():,}, {n_samples:,} "
        f"samples, dropout, {type(runs[baseline].optimizer).__name__} and {type(optimizer).__name__}. Rounds of "
        f"{len(batches)} steps: {settings.long_repeats}. The loss is that of the first batch after them.",
        ["", "median of a round", "min–max", "× AllenNLP", "tokens/s", "loss"],
        [
            [
                name,
                *time_cells(each, times[baseline]),
                f"{tokens / each.median:,.0f}",
                f"{losses[name]:.2f}",
            ]
            for name, each in times.items()
        ],
    )


def run_of(
    config: Params, vocab: Vocabulary, batches: Sequence[dict[str, Any]], settings: Settings, **keys: Any
) -> Run:
    """Build the model of a config, changed by `keys`, and its optimizer. The weights are the same every time."""
    torch.manual_seed(1)
    block = {**config["model"].as_dict(quiet=True), **keys}
    model = Model.from_params(Params(block), vocab=vocab).to(settings.device).train()
    assert isinstance(model, BidirectionalLanguageModel)
    parameters = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    keys = config["trainer"]["optimizer"].duplicate()
    if getattr(model.softmax, "sparse", False):  # the parameters with dense gradients are then updated together
        keys["parameter_groups"] = [[["softmax.weight"], {}]]
    optimizer = Optimizer.from_params(keys, model_parameters=parameters)
    return Run(model, optimizer, batches)


def loss_without_dropout(run: Run) -> float:
    """Return the training loss of the first batch without dropout, and restore the model's state."""
    for module in run.model.modules():
        if isinstance(module, nn.Dropout):
            module.eval()
    loss = float(run.model(**run.batches[0])["loss"].detach())
    draws = getattr(run.model.softmax, "n_draws", None)  # the random state of a sampled softmax
    if draws is not None:
        draws.zero_()
    run.model.carried.clear()
    run.model.train()
    return loss


def floating_point_operations(run: Run) -> tuple[int, int]:
    """Return the operations of one step per batch, of the model and of the optimizer.

    They are two for each multiplication in products and convolutions.
    """

    def onednn_linear(values: torch.Size, weight: torch.Size, *_: Any, **__: Any) -> int:
        return 2 * values.numel() * weight[0]  # (N, I) by (O, I)

    onednn = {torch.ops.mkldnn._linear_pointwise: onednn_linear} if torch.backends.mkldnn.is_available() else {}
    with FlopCounterMode(display=False, custom_mapping=onednn) as of_model:
        for batch in run.batches:
            run.model(**batch)["loss"].backward()
    with FlopCounterMode(display=False) as of_optimizer:
        for _ in run.batches:
            run.optimizer.step()
    return of_model.get_total_flops(), of_optimizer.get_total_flops()


def peak_flops(precision: str, device: torch.device) -> float:
    """Return the floating-point operations per second of a large product, by PyTorch's fastest routine."""
    size = PEAK_SIZES[device.type]
    multiplications = [Workspace(product, device).weight(size, size) for product in products(precision, device)]
    best = min(seconds(partial(multiply, size), device) for _ in range(6) for multiply in multiplications)
    return 2 * size**3 / best


def vocabulary(size: int, settings: Settings) -> Vocabulary:
    """Return a vocabulary of the config's size: the words of the text, then made-up ones."""
    words = select_words(Counter(chain.from_iterable(settings.text.sentences)), max_size=size)
    return vocabulary_of(distinct_words(words, size))


def read_batches(config: Params, loader: dict[str, Any], vocab: Vocabulary, text: Path) -> list[dict[str, Any]]:
    """Read a few batches of the text."""
    reader = DatasetReader.from_params(config["dataset_reader"].duplicate())
    keys = {**loader, "shuffle": True, "batches_per_epoch": BATCHES}
    batches = DataLoader.from_params(Params(keys), reader=reader, data_path=str(text))
    batches.index_with(vocab)
    return list(batches)


def n_targets(batch: dict[str, Any]) -> int:
    """Return the number of words that each direction predicts."""
    if "windows" in batch:
        return int((batch["windows"]["forward"]["targets"] > 0).sum())
    words = batch["tokens"]["words"]["tokens"]  # (B, T)
    return int((words > 0).sum()) + len(words)
