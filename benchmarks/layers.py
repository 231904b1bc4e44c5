"""Time the parts of a biLM: the character encoder, one LSTM, the whole stack."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Optional

import torch
from torch import Tensor

from benchmarks.agreement import Agreement, check
from benchmarks.embed import SENTENCE_LENGTH
from benchmarks.products import DirectionProducts, EncoderProducts, Product, Shapes, Workspace, limits, shapes_of
from benchmarks.settings import Settings
from benchmarks.systems import ALLENNLP, PRECISIONS, AllenNlpEmbedder, OurEmbedder, System, all_systems
from benchmarks.table import AGREEMENT, TIMES, Table, time_cells
from benchmarks.text import one_of_length, spread
from benchmarks.timing import Call, Times, interleave
from benchmarks.torch_lstm import TorchLstm
from elmo_plugin.bilm import BiLM, ElmoLstm, LstmOptions
from elmo_plugin.text import batch_to_ids

BATCH_SIZE = 32
OTHERS = (1, 8, 128)
"""Other numbers of sentences for which the whole stack is also measured."""
TORCH = "`torch.nn.LSTM(proj_size)`, no clips"


class Batch(NamedTuple):
    """The inputs of each part. The longest sentence comes first; `bounded` includes `<S>` and `</S>`.

    *Shape:* inner (B, T, C) · bounded (B, T + 2, C) · tokens (B, T + 2, P) · mask (B, T + 2)
    """

    inner: Tensor
    bounded: Tensor
    tokens: Tensor
    mask: Tensor
    shapes: Shapes


class Entry(NamedTuple):
    """A row of a table: one system's computation of one part of the biLM.

    `run` returns (·, B, T + 2, ·), which is compared with the result of `twin`, or of AllenNLP. The bare products
    return nothing.
    """

    name: str
    precision: str
    run: Callable[[], Optional[Tensor]]
    twin: Optional[Callable[[], Tensor]] = None
    is_limit: bool = False


def measure(settings: Settings) -> Iterator[Table]:
    """Yield the tables, each as soon as it is measured."""
    batch = batch_of(settings, BATCH_SIZE)
    yield table("The character encoder", encoders(batch, settings), batch, settings)
    yield table("LSTM, the first layer, both directions", first_layers(batch, settings), batch, settings)
    for each in (batch, *(batch_of(settings, size) for size in OTHERS)):
        yield table("LSTM, all layers, both directions", stacks(each, settings), each, settings)


@torch.no_grad()
def batch_of(settings: Settings, size: int) -> Batch:
    """Return natural sentences and their token vectors. A single sentence has 20 tokens."""
    if size == 1:
        sentences = [one_of_length(settings.text.sentences, SENTENCE_LENGTH)]
    else:
        sentences = sorted(spread(settings.text.sentences, size), key=len, reverse=True)
    bounded = batch_to_ids([["<S>", *sentence, "</S>"] for sentence in sentences]).to(settings.device)  # (B, T + 2, C)
    encoder = our_bilm(System(), settings).token_encoder
    mask = encoder.mask(bounded)  # (B, T + 2)
    tokens = encoder(bounded) * mask.unsqueeze(-1)  # (B, T + 2, P)
    (shapes,) = shapes_of([sentences])
    return Batch(batch_to_ids(sentences), bounded, tokens, mask, shapes)


def encoders(batch: Batch, settings: Settings) -> Iterator[Entry]:
    """Yield computations of the token vectors (1, B, T + 2, P) from characters, without a word cache."""
    theirs = AllenNlpEmbedder(settings.files, settings.device).elmo._elmo_lstm._token_embedder
    yield Entry(
        ALLENNLP.name, "float32", lambda: theirs(batch.inner.to(settings.device))["token_embedding"].unsqueeze(0)
    )
    for precision in PRECISIONS:
        encoder = our_bilm(System(precision=precision), settings).token_encoder
        run = partial(lambda encoder: encoder(batch.bounded).unsqueeze(0), encoder)
        yield Entry(f"ours, {precision}", precision, run)
    for product, space in workspaces(settings):
        products = EncoderProducts(settings.options, space)
        yield limit(product, partial(products, batch.shapes.words, batch.shapes.characters))


def first_layers(batch: Batch, settings: Settings) -> Iterator[Entry]:
    """Yield computations of the first layer's outputs (1, B, T + 2, 2P) from the token vectors."""
    options = replace(settings.options.lstm, n_layers=1)
    lengths = batch.mask.sum(dim=1)  # (B,)
    theirs = AllenNlpEmbedder(settings.files, settings.device).elmo._elmo_lstm._elmo_lstm
    length_list = lengths.tolist()

    def allennlp() -> Tensor:
        forward, _ = theirs.forward_layers[0](batch.tokens, length_list)
        backward, _ = theirs.backward_layers[0](batch.tokens, length_list)
        return torch.cat([forward, backward], dim=-1).unsqueeze(0)

    yield Entry(ALLENNLP.name, "float32", allennlp)
    yield from our_stacks(options, batch, settings)


def stacks(batch: Batch, settings: Settings) -> Iterator[Entry]:
    """Yield computations of all layers (n_layers, B, T + 2, 2P) from the token vectors."""
    theirs = AllenNlpEmbedder(settings.files, settings.device)

    def allennlp() -> Tensor:
        theirs.clear()
        layers: Tensor = theirs.elmo._elmo_lstm._elmo_lstm(batch.tokens, batch.mask)
        return layers

    yield Entry(ALLENNLP.name, "float32", allennlp)
    yield from our_stacks(settings.options.lstm, batch, settings)


def our_stacks(options: LstmOptions, batch: Batch, settings: Settings) -> Iterator[Entry]:
    """Yield `torch.nn.LSTM`, our systems and the bare products, for LSTMs of these sizes."""
    unclipped = our_lstm(System(), without_clips(options), settings)
    run_torch = partial(TorchLstm(unclipped), batch.tokens, batch.mask)
    yield Entry(TORCH, "float32", run_torch, twin=partial(unclipped, batch.tokens, batch.mask))
    for system in systems_of_lstms(settings.device):
        lstm = our_lstm(system, options, settings)
        yield Entry(system.name, system.precision, partial(lstm, like(lstm, batch.tokens), batch.mask))
    for product, space in workspaces(settings):
        cells = [DirectionProducts(options, space) for _ in range(2 * options.n_layers)]

        def run_cells(cells: list[DirectionProducts] = cells) -> None:
            for cell in cells:
                cell(batch.shapes.active)

        yield limit(product, run_cells)


@torch.no_grad()
def table(title: str, entries: Iterator[Entry], batch: Batch, settings: Settings) -> Table:
    """Compare and time the entries, each relative to AllenNLP and to the limit of its precision."""
    every = list(entries)
    agreements = compare(every, batch.mask)
    times = interleave([Call(entry.name, entry.run) for entry in every], settings.repeats, settings.device)
    return Table(
        title,
        f"{int(batch.mask.sum())} tokens in {len(batch.mask)} sentences, boundaries included; {batch.shapes.words} "
        f"distinct words. Rounds: {settings.repeats}.",
        ["", *TIMES, "share of the limit", AGREEMENT],
        [
            [
                entry.name,
                *time_cells(times[entry.name], times[ALLENNLP.name]),
                share_of_limit(entry, every, times),
                str(agreements.get(entry.name, "")),
            ]
            for entry in every
        ],
    )


def compare(entries: list[Entry], mask: Tensor) -> dict[str, Agreement]:
    """Compare each entry with its twin, or else with AllenNLP, the first entry. Raises `Disagreement`."""
    theirs = entries[0].run()
    agreements = {}
    for entry in entries[1:]:
        actual = entry.run()
        expected = theirs if entry.twin is None else entry.twin()
        if actual is not None and expected is not None:
            agreements[entry.name] = check(entry.name, entry.precision, actual, expected, mask)
    return agreements


def share_of_limit(entry: Entry, every: list[Entry], times: dict[str, Times]) -> str:
    """Return the time of the fastest bare products of the same precision as a share of the entry's time."""
    bare = [times[other.name] for other in every if other.is_limit and other.precision == entry.precision]
    if entry.is_limit or not bare:
        return ""
    fastest = min(bare, key=lambda each: each.median)
    return f"{times[entry.name].times_faster_than(fastest):.0%}"


def limit(product: Product, run: Callable[[], None]) -> Entry:
    """Return the entry of bare products."""
    return Entry(f"limit: {product.name}", product.precision, run, is_limit=True)


def workspaces(settings: Settings) -> Iterator[tuple[Product, Workspace]]:
    """Yield each limit with buffers of its own."""
    for product in limits(settings.options.lstm, settings.device):
        yield product, Workspace(product, settings.device)


def systems_of_lstms(device: torch.device) -> list[System]:
    """Return our systems whose LSTMs run without the biLM. LSTMs of int8 do not, but `embed` measures them."""
    return [system for system in all_systems(device)[1:] if system.precision in PRECISIONS]


def our_bilm(system: System, settings: Settings) -> BiLM:
    """Return the biLM of one of our systems, with its weights."""
    return OurEmbedder(system, settings.files, settings.device).elmo.bilm


def our_lstm(system: System, options: LstmOptions, settings: Settings) -> ElmoLstm:
    """Return a frozen stack with these options and the weights of the biLM's first layers."""
    lstm = ElmoLstm(options, kernel=str(system.kernel), return_all_layers=True)
    weights = our_bilm(system, settings).lstm.state_dict()
    lstm.load_state_dict({name: weights[name] for name in lstm.state_dict()})
    return lstm.to(settings.device, PRECISIONS[system.precision]).requires_grad_(False).eval()


def without_clips(options: LstmOptions) -> LstmOptions:
    """Return the same sizes without clips."""
    return replace(options, cell_clip=None, projection_clip=None)


def like(lstm: ElmoLstm, tokens: Tensor) -> Tensor:
    """Return the tokens in the number type of the weights."""
    return tokens.to(next(lstm.parameters()).dtype)
