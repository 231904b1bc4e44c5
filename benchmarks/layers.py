"""The pieces of a biLM apart: the character encoder, one LSTM, the whole stack."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Optional

import torch
from torch import Tensor

from benchmarks.agreement import Agreement, check
from benchmarks.batches import to_ids
from benchmarks.contestants import PRECISIONS, AllenNlp, LoadedAllenNlp, LoadedOurs, Ours, everyone
from benchmarks.products import DirectionProducts, EncoderProducts, Product, Shapes, Workspace, limits, shapes_of
from benchmarks.settings import Settings
from benchmarks.table import Table, time_cells
from benchmarks.text import spread
from benchmarks.timing import Call, Timed, interleave
from benchmarks.torch_lstm import TorchLstm
from elmo_plugin.bilm import BiLM, ElmoLstm, TokenEncoder
from elmo_plugin.lstm import LstmState
from elmo_plugin.options import LstmOptions

BATCH_SIZE = 32
ALLENNLP = AllenNlp().name
TORCH = "`torch.nn.LSTM(proj_size)`, no clips"


class Batch(NamedTuple):
    """What the pieces read, the longest sentence first; `bounded` has `<S>` and `</S>`.

    *Shape:* inner (B, T, C) · bounded (B, T + 2, C) · tokens (B, T + 2, P) · mask (B, T + 2)
    """

    inner: Tensor
    bounded: Tensor
    tokens: Tensor
    mask: Tensor
    shapes: Shapes


class Piece(NamedTuple):
    """One contestant's way through a piece of the model.

    `run` gives (·, B, T + 2, ·), which is compared with what `twin` gives, or with AllenNLP's. The limit gives nothing.
    """

    name: str
    precision: str
    run: Callable[[], Optional[Tensor]]
    twin: Optional[Callable[[], Tensor]] = None

    @property
    def is_limit(self) -> bool:
        """Whether these are bare products."""
        return self.name.startswith("limit")


def measure(settings: Settings) -> Iterator[Table]:
    """The three tables, each when it is done."""
    batch = batch_of(settings)
    yield table("The character encoder", encoders(batch, settings), batch, settings)
    yield table("LSTM, the first layer forward", first_lstms(batch, settings), batch, settings)
    yield table("LSTM, all layers, both directions", stacks(batch, settings), batch, settings)


@torch.no_grad()
def batch_of(settings: Settings) -> Batch:
    """32 natural sentences, up to the token vectors."""
    sentences = sorted(spread(settings.text.sentences, BATCH_SIZE), key=len, reverse=True)
    bounded = to_ids([["<S>", *sentence, "</S>"] for sentence in sentences], settings.device)  # (B, T + 2, C)
    encoder = our_bilm(Ours(), settings).token_encoder
    mask = encoder.mask(bounded)  # (B, T + 2)
    tokens = encoder(bounded) * mask.unsqueeze(-1)  # (B, T + 2, P)
    (shapes,) = shapes_of([sentences])
    return Batch(to_ids(sentences, settings.device), bounded, tokens, mask, shapes)


def encoders(batch: Batch, settings: Settings) -> Iterator[Piece]:
    """Characters to token vectors, (1, B, T + 2, P), no word remembered."""
    theirs = LoadedAllenNlp(settings.files, settings.device).elmo._elmo_lstm._token_embedder
    yield Piece(ALLENNLP, "float32", lambda: theirs(batch.inner)["token_embedding"].unsqueeze(0))
    for precision in PRECISIONS:
        encoder = our_bilm(Ours(precision=precision), settings).token_encoder
        yield Piece(f"ours, {precision}", precision, partial(encode, encoder, batch.bounded))
    for product, space in workspaces(settings):
        products = EncoderProducts(settings.options, space)
        yield limit(product, partial(products, batch.shapes.words, batch.shapes.characters))


def first_lstms(batch: Batch, settings: Settings) -> Iterator[Piece]:
    """Token vectors to what the first layer says forward, (1, B, T + 2, P)."""
    options = replace(settings.options.lstm, n_layers=1)
    lengths = batch.mask.sum(dim=1)  # (B,)
    theirs = LoadedAllenNlp(settings.files, settings.device).elmo._elmo_lstm._elmo_lstm.forward_layers[0]
    in_order = lengths.tolist()
    yield Piece(ALLENNLP, "float32", lambda: theirs(batch.tokens, in_order)[0].unsqueeze(0))

    def ours(lstm: ElmoLstm) -> Callable[[], Tensor]:
        tokens = like(lstm, batch.tokens)  # (B, T + 2, P)
        before = LstmState(*(part[:, 0] for part in lstm.zero_state(len(tokens), tokens)))
        return lambda: lstm.run_direction(0, tokens, lengths, before).layers

    unclipped = our_lstm(Ours(), without_clips(options), settings)
    torch_lstm = TorchLstm(unclipped)
    run = partial(torch_lstm.run_direction, 0, batch.tokens, lengths)
    yield Piece(TORCH, "float32", lambda: torch.stack(run()), twin=ours(unclipped))
    for contestant in our_contestants(settings):
        run_ours = ours(our_lstm(contestant, options, settings))
        yield Piece(contestant.name, contestant.precision, run_ours)
    for product, space in workspaces(settings):
        yield limit(product, partial(DirectionProducts(options, space), batch.shapes.live))


def stacks(batch: Batch, settings: Settings) -> Iterator[Piece]:
    """Token vectors to all layers, (n_layers, B, T + 2, 2P)."""
    options = settings.options.lstm
    theirs = LoadedAllenNlp(settings.files, settings.device)

    def allennlp() -> Tensor:
        theirs.forget()
        layers: Tensor = theirs.elmo._elmo_lstm._elmo_lstm(batch.tokens, batch.mask)
        return layers

    yield Piece(ALLENNLP, "float32", allennlp)
    unclipped = our_lstm(Ours(), without_clips(options), settings)
    run = partial(TorchLstm(unclipped), batch.tokens, batch.mask)
    yield Piece(TORCH, "float32", run, twin=partial(unclipped, batch.tokens, batch.mask))
    for contestant in our_contestants(settings):
        lstm = our_lstm(contestant, options, settings)
        yield Piece(contestant.name, contestant.precision, partial(lstm, like(lstm, batch.tokens), batch.mask))
    for product, space in workspaces(settings):
        cells = [DirectionProducts(options, space) for _ in range(2 * options.n_layers)]
        yield limit(product, partial(run_all, cells, batch.shapes.live))


@torch.no_grad()
def table(title: str, pieces: Iterator[Piece], batch: Batch, settings: Settings) -> Table:
    """Compare, time, and put each piece beside AllenNLP and beside the limit of its precision."""
    every = list(pieces)
    agreements = compare(every, batch.mask)
    timed = interleave([Call(piece.name, piece.run) for piece in every], settings.repeats, settings.device)
    return Table(
        title,
        f"{int(batch.mask.sum())} tokens in {len(batch.mask)} sentences, boundaries included; {batch.shapes.words} "
        f"distinct words. Rounds: {settings.repeats}.",
        ["", "median", "min–max", "× AllenNLP", "share of the limit", "largest difference, cosine"],
        [
            [
                piece.name,
                *time_cells(timed[piece.name], timed[ALLENNLP]),
                share_of_limit(piece, every, timed),
                str(agreements.get(piece.name, "")),
            ]
            for piece in every
        ],
    )


def compare(pieces: list[Piece], mask: Tensor) -> dict[str, Agreement]:
    """Check each piece but the limits against its twin, or against AllenNLP, the first; raises `Disagreement`."""
    wanted = pieces[0].run()
    agreements = {}
    for piece in pieces[1:]:
        found = piece.run()
        if found is not None:
            expected = wanted if piece.twin is None else piece.twin()
            agreements[piece.name] = check(piece.name, piece.precision, found, expected, mask)  # type: ignore[arg-type]
    return agreements


def share_of_limit(piece: Piece, every: list[Piece], timed: dict[str, Timed]) -> str:
    """The time of the fastest bare products of its precision as a part of its own."""
    bare = [timed[other.name] for other in every if other.is_limit and other.precision == piece.precision]
    if piece.is_limit or not bare:
        return ""
    fastest = min(bare, key=lambda times: times.median)
    return f"{timed[piece.name].times_faster_than(fastest):.0%}"


def encode(encoder: TokenEncoder, ids: Tensor) -> Tensor:
    """As the one layer that it is, (1, B, T, P)."""
    return encoder(ids).unsqueeze(0)


def limit(product: Product, run: Callable[[], None]) -> Piece:
    """The bare products as a piece."""
    return Piece(f"limit: {product.name}", product.precision, run)


def run_all(cells: list[DirectionProducts], live: list[int]) -> None:
    """One after the other."""
    for cell in cells:
        cell(live)


def workspaces(settings: Settings) -> Iterator[tuple[Product, Workspace]]:
    """Each way to multiply, with buffers of its own."""
    for product in limits(settings.options.lstm, settings.device):
        yield product, Workspace(product, settings.device)


def our_contestants(settings: Settings) -> list[Ours]:
    """Every kernel and precision that runs here."""
    return [contestant for contestant in everyone(settings.device) if isinstance(contestant, Ours)]


def our_bilm(contestant: Ours, settings: Settings) -> BiLM:
    """With its weights."""
    return LoadedOurs(contestant, settings.files, settings.device).elmo.bilm


def our_lstm(contestant: Ours, options: LstmOptions, settings: Settings) -> ElmoLstm:
    """A stack of these options with the weights of the biLM's first layers, frozen."""
    lstm = ElmoLstm(options, kernel=contestant.kernel, return_all_layers=True)
    weights = our_bilm(contestant, settings).lstm.state_dict()
    lstm.load_state_dict({name: weights[name] for name in lstm.state_dict()})
    return lstm.to(settings.device, PRECISIONS[contestant.precision]).requires_grad_(False).eval()


def without_clips(options: LstmOptions) -> LstmOptions:
    """The same sizes."""
    return replace(options, cell_clip=None, projection_clip=None)


def like(lstm: ElmoLstm, tokens: Tensor) -> Tensor:
    """Tokens in the type of the weights."""
    return tokens.to(next(lstm.parameters()).dtype)
