"""The limit: the matrix products of a biLM alone, with the same shapes and the same order of time steps."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from benchmarks.systems import PRECISIONS
from benchmarks.text import Sentences
from benchmarks.timing import Call, interleave
from elmo_plugin.bilm import (
    BiLMOptions,
    LstmOptions,
)
from elmo_plugin.bilm.token_encoder import WORDS_AT_ONCE
from elmo_plugin.text import BOUNDARIES

STEP_ROWS = 32
"""The rows of the products among which the fastest is chosen: one time step of a usual batch."""
BOUNDARY_WORDS = "\2\3"
"""Stand-ins for `<S>` and `</S>`, which the character encoder reads as words of one character each."""

Multiply = Callable[[Tensor, Tensor], object]
"""Multiplies x (rows, I) by a weight that it holds, and writes into out (rows, O) if it can."""


class Product(NamedTuple):
    """One of PyTorch's ways to multiply by a weight (O, I), which is prepared once."""

    name: str
    precision: str
    prepare: Callable[[Tensor], Multiply]


class Shapes(NamedTuple):
    """The sizes that determine the products of a batch: new words, characters of the longest one, sentence lengths."""

    words: int
    characters: int
    lengths: list[int]

    @property
    def active(self) -> list[int]:
        """Return the number of sentences that have not ended, at each time step."""
        return [sum(length > step for length in self.lengths) for step in range(max(self.lengths))]


def shapes_of(batches: Iterable[Sentences], boundaries: int = BOUNDARIES) -> list[Shapes]:
    """Return the shapes of batches that are embedded one after the other. A word counts in its first batch only.

    `boundaries` is the number of those that are read with each sentence.
    """
    seen: set[str] = set()
    shapes = []
    for batch in batches:
        words = {*BOUNDARY_WORDS, *chain.from_iterable(batch)} - seen
        seen |= words
        longest = max((len(word.encode("utf-8", "ignore")) for word in words), default=0) + 2  # begin-word, end-word
        shapes.append(Shapes(len(words), longest, [len(sentence) + boundaries for sentence in batch]))
    return shapes


class Workspace:
    """An input buffer and an output buffer that all products share."""

    def __init__(self, product: Product, device: torch.device) -> None:
        self.product = product
        self.like: dict[str, Any] = {"device": device, "dtype": PRECISIONS[product.precision]}
        self.inputs = torch.empty(0, **self.like)
        self.outputs = torch.empty(0, **self.like)

    def weight(self, width: int, input_dim: int) -> Callable[[int], None]:
        """Prepare a random weight (O, I), and return a function that multiplies a given number of rows by it."""
        multiply = self.product.prepare(torch.randn(width, input_dim, **self.like) / input_dim**0.5)

        def run(rows: int) -> None:
            n_inputs, n_outputs = rows * input_dim, rows * width
            if self.inputs.numel() < n_inputs:
                self.inputs = torch.randn(n_inputs, **self.like)
            if self.outputs.numel() < n_outputs:
                self.outputs = torch.zeros(n_outputs, **self.like)
            multiply(self.inputs[:n_inputs].view(rows, input_dim), self.outputs[:n_outputs].view(rows, width))

        return run


class EncoderProducts:
    """The products of the character encoder. A convolution is the product of its windows with its filters."""

    def __init__(self, options: BiLMOptions, space: Workspace) -> None:
        cnn, output_dim = options.char_cnn, options.lstm.projection_dim
        assert cnn is not None, "the biLMs that are measured read characters"
        self.widest, self.max_characters = max(size for size, _ in cnn.filters), cnn.max_characters_per_token
        self.filters = [(size, space.weight(channels, size * cnn.embedding_dim)) for size, channels in cnn.filters]
        self.dense = [space.weight(2 * cnn.n_filters, cnn.n_filters) for _ in range(cnn.n_highway)]
        self.dense += [space.weight(output_dim, cnn.n_filters)] * (cnn.n_filters != output_dim)

    def __call__(self, words: int, characters: int) -> None:
        """Encode this many words, padded to the longest one plus one window."""
        padded = min(characters + self.widest, self.max_characters)
        for start in range(0, words, WORDS_AT_ONCE):
            some = min(WORDS_AT_ONCE, words - start)
            for size, convolve in self.filters:
                convolve(some * (padded - size + 1))
            for multiply in self.dense:
                multiply(some)


class DirectionProducts:
    """The products of one layer in one direction: all inputs at once, then two per time step."""

    def __init__(self, options: LstmOptions, space: Workspace) -> None:
        gates = 4 * options.cell_dim
        self.by_input = space.weight(gates, options.projection_dim)
        self.by_recurrent = space.weight(gates, options.projection_dim)
        self.by_projection = [space.weight(options.projection_dim, options.cell_dim)] * options.has_projection

    def __call__(self, active: list[int]) -> None:
        """Run a batch with this many active sentences at each time step."""
        self.by_input(sum(active))
        for rows in active:
            self.by_recurrent(rows)
            for project in self.by_projection:
                project(rows)


class BareProducts:
    """All products of a biLM, computed in the same way."""

    def __init__(self, options: BiLMOptions, product: Product, device: torch.device) -> None:
        space = Workspace(product, device)
        self.name = f"limit: {product.name}"
        self.encoder = EncoderProducts(options, space)
        self.cells = [DirectionProducts(options.lstm, space) for _ in range(2 * options.lstm.n_layers)]

    @torch.no_grad()
    def __call__(self, batches: Iterable[Shapes]) -> None:
        for shapes in batches:
            self.encoder(shapes.words, shapes.characters)
            for cell in self.cells:
                cell(shapes.active)

    def call(self, batches: Sequence[Shapes]) -> Call:
        """Return the products of these batches as a call to time, after growing the buffers to their full size."""
        most_characters = max(batches, key=lambda shapes: min(shapes.words, WORDS_AT_ONCE) * shapes.characters)
        self([most_characters, max(batches, key=lambda shapes: sum(shapes.lengths))])
        return Call(self.name, partial(self, batches))


@lru_cache
def limits(options: LstmOptions, device: torch.device) -> tuple[Product, ...]:
    """Return `torch.mm` in float32 and the fastest product of each precision. The choice is made once per run."""
    fastest = [fastest_product(options, precision, device) for precision in PRECISIONS]
    return FLOAT32_MM, *(product for product in fastest if product != FLOAT32_MM)


def fastest_product(options: LstmOptions, precision: str, device: torch.device) -> Product:
    """Return the product that computes a time step of 32 sentences in the least time."""
    available = {product.name: product for product in products(precision, device)}

    def steps(multiply: Callable[[int], None]) -> None:
        for _ in range(10):  # one would be too short to time
            multiply(STEP_ROWS)

    calls = [
        Call(name, partial(steps, Workspace(product, device).weight(4 * options.cell_dim, options.projection_dim)))
        for name, product in available.items()
    ]
    times = interleave(calls, 9, device)
    return available[min(times, key=lambda name: times[name].median)]


def products(precision: str, device: torch.device) -> list[Product]:
    """Return every product of this precision that the device and this build of PyTorch have."""
    ways = {"`torch.mm`": with_mm, "`linear`": with_linear, "oneDNN's packed `linear`": with_onednn}
    found = []
    for name, prepare in ways.items():
        product = Product(f"{name} {precision}", precision, prepare)
        try:
            Workspace(product, device).weight(64, 32)(STEP_ROWS)
        except (AttributeError, NotImplementedError, RuntimeError):
            continue
        found.append(product)
    return found


def with_mm(weight: Tensor) -> Multiply:
    """Multiply by the transposed weight, into the buffer."""
    transposed = weight.t()  # (I, O)
    return lambda inputs, outputs: torch.mm(inputs, transposed, out=outputs)


def with_linear(weight: Tensor) -> Multiply:
    """Multiply as `nn.Linear` does."""
    return lambda inputs, outputs: linear(inputs, weight)


def with_onednn(weight: Tensor) -> Multiply:
    """Multiply by a weight in oneDNN's own layout, through the operators that PyTorch's compiler uses."""
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, STEP_ROWS)
    return lambda inputs, outputs: torch.ops.mkldnn._linear_pointwise(inputs, packed, None, "none", [], "")


FLOAT32_MM = Product("`torch.mm` float32", "float32", with_mm)
