"""The limit: the matrix products of a biLM and nothing else, in the same shapes and the same order of steps."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from benchmarks.batches import BOUNDARIES
from benchmarks.contestants import PRECISIONS
from benchmarks.text import Sentences
from benchmarks.timing import Call, interleave
from elmo_plugin.bilm.character_level_encoder import WORDS_AT_ONCE
from elmo_plugin.options import BiLMOptions, LstmOptions

LIVE = 32
"""Rows of the product by which the fastest one is chosen: a recurrent step of a usual batch."""

BOUNDARY_WORDS = "\2\3"
"""Stand for `<S>` and `</S>`, which the character encoder reads as words of one character each."""

Multiply = Callable[[Tensor, Tensor], object]
"""x (rows, I) by a weight that it holds, into out (rows, O) if it can."""


class Product(NamedTuple):
    """A way that torch offers to multiply by a weight (O, I), which is prepared once."""

    name: str
    precision: str
    prepare: Callable[[Tensor], Multiply]

    @property
    def dtype(self) -> torch.dtype:
        """The type of its operands."""
        return PRECISIONS[self.precision]


class Shapes(NamedTuple):
    """What of a batch decides its products: words not seen before, their longest in characters, sentence lengths."""

    words: int
    characters: int
    lengths: list[int]

    @property
    def live(self) -> list[int]:
        """Sentences that are still being read, at each time step."""
        return [sum(length > step for length in self.lengths) for step in range(max(self.lengths))]


def shapes_of(batches: Iterable[Sentences]) -> list[Shapes]:
    """Of batches embedded one after the other, each distinct word once in all of them."""
    seen: set[str] = set()
    shapes = []
    for batch in batches:
        words = {*BOUNDARY_WORDS, *chain.from_iterable(batch)} - seen
        seen |= words
        longest = max((len(word.encode("utf-8", "ignore")) for word in words), default=0) + 2  # its marks
        shapes.append(Shapes(len(words), longest, [len(sentence) + BOUNDARIES for sentence in batch]))
    return shapes


class Workspace:
    """One buffer for what goes into products and one for what comes out, reused by all of them."""

    def __init__(self, product: Product, device: torch.device) -> None:
        self.product = product
        self.like: dict[str, Any] = {"device": device, "dtype": product.dtype}
        self.inputs = torch.empty(0, **self.like)
        self.outputs = torch.empty(0, **self.like)

    def weight(self, width: int, input_dim: int) -> "Bound":
        """A random weight (O, I), prepared."""
        weight = torch.randn(width, input_dim, **self.like) / input_dim**0.5  # (O, I)
        return Bound(self, self.product.prepare(weight), input_dim, width)

    def reserve(self, inputs: int, outputs: int) -> None:
        """Make both buffers at least so large."""
        if self.inputs.numel() < inputs:
            self.inputs = torch.randn(inputs, **self.like)
        if self.outputs.numel() < outputs:
            self.outputs = torch.zeros(outputs, **self.like)


class Bound(NamedTuple):
    """A product with its weight, (rows, I) to (rows, O)."""

    space: Workspace
    multiply: Multiply
    input_dim: int
    width: int

    def __call__(self, rows: int) -> None:
        """Multiply so many rows."""
        n_inputs, n_outputs = rows * self.input_dim, rows * self.width
        self.space.reserve(n_inputs, n_outputs)
        inputs = self.space.inputs[:n_inputs].view(rows, self.input_dim)  # (rows, I)
        self.multiply(inputs, self.space.outputs[:n_outputs].view(rows, self.width))


class EncoderProducts:
    """Of the character encoder: a convolution is the product of its windows with its filters."""

    def __init__(self, options: BiLMOptions, space: Workspace) -> None:
        cnn, output_dim = options.char_cnn, options.lstm.projection_dim
        assert cnn is not None, "the biLMs that are measured read characters"
        self.widest, self.max_characters = max(size for size, _ in cnn.filters), cnn.max_characters_per_token
        width = cnn.n_filters
        self.filters = [(size, space.weight(channels, size * cnn.embedding_dim)) for size, channels in cnn.filters]
        self.dense = [space.weight(2 * width, width) for _ in range(cnn.n_highway)]
        self.dense += [space.weight(output_dim, width)] * (width != output_dim)

    def __call__(self, words: int, characters: int) -> None:
        """So many words, convolved to the longest of them and one window more."""
        written = min(characters + self.widest, self.max_characters)
        for start in range(0, words, WORDS_AT_ONCE):
            some = min(WORDS_AT_ONCE, words - start)
            for size, convolve in self.filters:
                convolve(some * (written - size + 1))
            for multiply in self.dense:
                multiply(some)


class DirectionProducts:
    """Of one direction and layer: inputs at once, then two products a step while the batch shrinks."""

    def __init__(self, options: LstmOptions, space: Workspace) -> None:
        gates = 4 * options.cell_dim
        self.by_input = space.weight(gates, options.projection_dim)
        self.by_recurrent = space.weight(gates, options.projection_dim)
        self.by_projection = [space.weight(options.projection_dim, options.cell_dim)] * options.has_projection

    def __call__(self, live: list[int]) -> None:
        """A batch with so many sentences at each step."""
        self.by_input(sum(live))
        for rows in live:
            self.by_recurrent(rows)
            for project in self.by_projection:
                project(rows)


class BareProducts:
    """All products of a biLM by one way to multiply."""

    def __init__(self, options: BiLMOptions, product: Product, device: torch.device) -> None:
        space = Workspace(product, device)
        self.name = f"limit: {product.name}"
        self.encoder = EncoderProducts(options, space)
        self.cells = [DirectionProducts(options.lstm, space) for _ in range(2 * options.lstm.n_layers)]

    def reserve(self, batches: Sequence[Shapes]) -> None:
        """Run the two that need most, so that buffers have grown before they are timed."""
        most_characters = max(batches, key=lambda shapes: min(shapes.words, WORDS_AT_ONCE) * shapes.characters)
        self([most_characters, max(batches, key=lambda shapes: sum(shapes.lengths))])

    @torch.no_grad()
    def __call__(self, batches: Iterable[Shapes]) -> None:
        """Embed batches, as it were."""
        for shapes in batches:
            self.encoder(shapes.words, shapes.characters)
            for cell in self.cells:
                cell(shapes.live)


@lru_cache
def limits(options: LstmOptions, device: torch.device) -> tuple[Product, ...]:
    """`torch.mm` in float32, and the fastest product of each precision where that is another one: one choice a run."""
    fastest = [fastest_product(options, precision, device) for precision in PRECISIONS]
    return FLOAT32_MM, *(product for product in fastest if product != FLOAT32_MM)


def fastest_product(options: LstmOptions, precision: str, device: torch.device) -> Product:
    """The one that takes a recurrent step of 32 sentences in the least time."""
    steps = {
        product: Workspace(product, device).weight(4 * options.cell_dim, options.projection_dim)
        for product in products()
        if product.precision == precision and multiplies(product, device)
    }
    calls = [Call(product.name, partial(multiply_often, step)) for product, step in steps.items()]
    timed = interleave(calls, 9, device)
    return min(steps, key=lambda product: timed[product.name].median)


def multiply_often(step: Bound) -> None:
    """Often enough to be timed."""
    for _ in range(10):
        step(LIVE)


def products() -> list[Product]:
    """Every way that is tried."""
    others = [
        Product(f"{name} {precision}", precision, prepare)
        for precision in PRECISIONS
        for name, prepare in (("`linear`", with_linear), ("oneDNN's packed `linear`", with_onednn))
    ]
    return [FLOAT32_MM, Product("`torch.mm` bfloat16", "bfloat16", with_mm), *others]


def with_mm(weight: Tensor) -> Multiply:
    """Into a buffer, by the transposed weight."""
    transposed = weight.t()  # (I, O)
    return lambda inputs, outputs: torch.mm(inputs, transposed, out=outputs)


def with_linear(weight: Tensor) -> Multiply:
    """As a layer of torch does it."""
    return lambda inputs, outputs: linear(inputs, weight)


def with_onednn(weight: Tensor) -> Multiply:
    """By a weight in the layout that oneDNN likes best; torch has it for its compiler."""
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, LIVE)
    return lambda inputs, outputs: torch.ops.mkldnn._linear_pointwise(inputs, packed, None, "none", [], "")


FLOAT32_MM = Product("`torch.mm` float32", "float32", with_mm)


def multiplies(product: Product, device: torch.device) -> bool:
    """Whether this device and this build of torch have the product."""
    try:
        Workspace(product, device).weight(64, 32)(LIVE)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return True
