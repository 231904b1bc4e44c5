"""Weight maps: tables that map the tensors of each file format to ours, and the two functions that apply a table.

Sources: bilm-tf's `bilm/training.py`, whose variables `dump_weights` renames; ELMoForManyLangs'
`modules/token_embedder.py` and `modules/elmo.py`; AllenNLP's `allennlp/modules/elmo.py`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm import BiLMOptions, CharCnnOptions, LstmOptions, ManyLangsOptions
from elmo_plugin.text import N_CHARACTERS

Shape = tuple[int, ...]
Tensors = tuple[Tensor, ...]


class Transform(NamedTuple):
    """A pair of inverse functions: `read` turns the file's tensors into ours, `write` turns ours into the file's."""

    read: Callable[..., Tensors]
    write: Callable[..., Tensors]


def _swap_gates(values: Tensor) -> Tensor:
    """Reorder TensorFlow's gates i, j, f, o to torch's i, f, g, o along the first dimension; it is its own inverse."""
    first, second, third, fourth = values.chunk(4)
    return torch.cat([first, third, second, fourth])


def _forget_bias(bias: Tensor) -> Tensor:
    """Return 1 for the forget gate and 0 elsewhere: TensorFlow adds this at run time, so its files lack it."""
    ones = torch.zeros_like(bias)
    ones.chunk(4)[1].fill_(1.0)
    return ones


def _read_highway(transform: Tensor, carry: Tensor) -> Tensors:
    # TensorFlow's gate is 1 − AllenNLP's, and sigmoid(−z) = 1 − sigmoid(z). `.t()` leaves a bias as it is.
    return (torch.cat([transform.t(), -carry.t()]),)


def _write_highway(values: Tensor) -> Tensors:
    transform, gate = values.chunk(2)
    return transform.t(), -gate.t()


SAME = Transform(lambda *values: values, lambda *values: values)
TRANSPOSED = Transform(lambda matrix: (matrix.t(),), lambda matrix: (matrix.t(),))
# Our row 0 belongs to the masked id, for which files have no row.
MASKED_ROW = Transform(lambda rows: (torch.cat([torch.zeros_like(rows[:1]), rows]),), lambda rows: (rows[1:],))
# (1, width, in, out) ↔ (out, in, width)
CONVOLUTION = Transform(
    lambda values: (values[0].permute(2, 1, 0),), lambda values: (values.permute(2, 1, 0).unsqueeze(0),)
)
HIGHWAY = Transform(_read_highway, _write_highway)
# (2P, 4H) ↔ two of (4H, P)
GATES = Transform(
    lambda packed: _swap_gates(packed.t()).chunk(2, dim=1),
    lambda input, recurrent: (_swap_gates(torch.cat([input, recurrent], dim=1)).t(),),
)
GATE_BIAS = Transform(
    lambda bias: (_swap_gates(bias) + _forget_bias(bias),), lambda bias: (_swap_gates(bias - _forget_bias(bias)),)
)


@dataclass(frozen=True)
class Row:
    """A row of a weight map: tensors of a file that hold the same numbers as tensors of a `BiLM`.

    `ours` are names in the state dict of `BiLM`, `theirs` are names and shapes in the file. The tensors of an
    `optional` row may be missing.
    """

    ours: tuple[str, ...]
    theirs: Mapping[str, Shape]
    transform: Transform = SAME
    optional: bool = False


def _row(ours: str, theirs: str, shape: Shape, transform: Transform = SAME) -> Row:
    """Return a row with one tensor on each side."""
    return Row((ours,), {theirs: shape}, transform)


OPTIONS = {
    r"high": "'n_highway'",
    r"cnn_\d|conv": "'filters'",
    r"Cell\d|_layers?[._]\d": "'n_layers'",
    r"char_emb": "'char_cnn' or 'char_dim'",
    r"embedding|word_emb": "'n_tokens_vocab' or 'word_dim'",
}
"""What a tensor's name shows about the option that decides whether it is read."""


def unread_error(tensor: str, name: str) -> ConfigurationError:
    """Return the error for a tensor of the file `name` that the sizes do not describe."""
    option = next((option for pattern, option in OPTIONS.items() if re.search(pattern, tensor)), None)
    check = "no option describes it" if option is None else f"check {option}"
    if re.search(r"W_P_0$|proj", tensor):
        check = "no projection between equal sizes is read, because no known trainer writes one"
    return ConfigurationError(f"{name}: expected only the tensors of these sizes, got '{tensor}' too; {check}")


def check_finite(values: Tensor, name: str) -> None:
    """Raise `ConfigurationError`, which calls the tensor `name`, if it has infinity or NaN."""
    # The sum of finite numbers may overflow, but costs a fifth of looking at each.
    if values.is_floating_point() and not (values.sum().isfinite() or values.isfinite().all()):
        raise ConfigurationError(f"{name}: expected finite numbers, got infinity or NaN")


def read_tensors(
    rows: Iterable[Row], file: Mapping[str, Any], name: str, load: Callable[[str, Any], Tensor]
) -> dict[str, Tensor]:
    """Return the state dict of a `BiLM` from the tensors of a file, which errors call `name`.

    The values of `file` are anything with a `shape`. `load` turns the name and the value of one of the right shape into
    a tensor. Raises `ConfigurationError` for the first tensor that is missing, has another shape, or holds infinity or
    NaN, and for a tensor that is not in the weight map.
    """
    rows = [row for row in rows if not row.optional or all(key in file for key in row.theirs)]
    for row in rows:
        for key, expected in row.theirs.items():
            shape = getattr(file.get(key), "shape", None)
            if shape is None or tuple(shape) != expected:
                got = "no such tensor" if shape is None else tuple(shape)
                raise ConfigurationError(f"{name}, tensor '{key}': expected shape {expected}, got {got}")
    known = {key for row in rows for key in row.theirs}
    unread = sorted(key for key in file if key not in known)
    if unread:
        raise unread_error(unread[0], name)
    state_dict: dict[str, Tensor] = {}
    for row in rows:
        values = []
        for key in row.theirs:
            values.append(load(key, file[key]).float())
            check_finite(values[-1], f"{name}, tensor '{key}'")
        ours = (tensor.contiguous() for tensor in row.transform.read(*values))
        state_dict.update(zip(row.ours, ours, strict=True))
    return state_dict


def write_tensors(rows: Iterable[Row], state_dict: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the value of each tensor of a file, in float32, from the state dict of a `BiLM`."""
    for row in rows:
        if not row.optional or all(name in state_dict for name in row.ours):
            values = row.transform.write(*(state_dict[name].detach().float().cpu() for name in row.ours))
            yield from zip(row.theirs, values, strict=True)


def bilm_tf_map(options: BiLMOptions, one_cell: bool = False) -> Iterator[Row]:
    """Yield the rows for bilm-tf's hdf5 files. `one_cell` selects the names that TensorFlow gives a single layer."""
    cell_dim, width = options.lstm.cell_dim, options.lstm.projection_dim
    if options.char_cnn is None:
        yield _row("token_encoder.embedding.weight", "embedding", (options.n_tokens_vocab or 0, width), MASKED_ROW)
    else:
        yield from _tensorflow_cnn(options.char_cnn, width)
    for d, direction in enumerate(("forward", "backward")):
        for layer in range(options.lstm.n_layers):
            ours = f"lstm.{direction}_layers.{layer}"
            theirs = f"RNN_{d}/RNN/LSTMCell" if one_cell else f"RNN_{d}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            yield Row((f"{ours}.weight_ih", f"{ours}.weight_hh"), {f"{theirs}/W_0": (2 * width, 4 * cell_dim)}, GATES)
            yield _row(f"{ours}.bias", f"{theirs}/B", (4 * cell_dim,), GATE_BIAS)
            if options.lstm.has_projection:
                yield _row(f"{ours}.weight_hr", f"{theirs}/W_P_0", (cell_dim, width), TRANSPOSED)
    # Only this package writes a warm state; other readers of the format ignore it.
    shapes = {
        f"warm_state/{part}": (options.lstm.n_layers, 2, 1, size)
        for part, size in (("hidden", width), ("cell", cell_dim))
    }
    yield Row(("warm_hidden", "warm_cell"), shapes, optional=True)


def _tensorflow_cnn(cnn: CharCnnOptions, output_dim: int) -> Iterator[Row]:
    size, dim = cnn.n_filters, cnn.embedding_dim
    ours = "token_encoder"
    yield _row(f"{ours}.char_embedding.weight", "char_embed", (N_CHARACTERS - 1, dim), MASKED_ROW)
    for i, (width, channels) in enumerate(cnn.filters):
        yield _row(f"{ours}.convolutions.{i}.weight", f"CNN/W_cnn_{i}", (1, width, dim, channels), CONVOLUTION)
        yield _row(f"{ours}.convolutions.{i}.bias", f"CNN/b_cnn_{i}", (channels,))
    for k in range(cnn.n_highway):
        for kind, letter, shape in (("weight", "W", (size, size)), ("bias", "b", (size,))):
            theirs = {f"CNN_high_{k}/{letter}_transform": shape, f"CNN_high_{k}/{letter}_carry": shape}
            yield Row((f"{ours}.highways._layers.{k}.{kind}",), theirs, HIGHWAY)
    if size != output_dim:
        yield _row(f"{ours}.projection.weight", "CNN_proj/W_proj", (size, output_dim), TRANSPOSED)
        yield _row(f"{ours}.projection.bias", "CNN_proj/b_proj", (output_dim,))


def many_langs_map(sizes: ManyLangsOptions, lstm: LstmOptions) -> Iterator[Row]:
    """Yield the rows for ELMoForManyLangs' two pickles. Their names begin with the name of the pickle."""
    ours, theirs, width = "token_encoder", "token_embedder", lstm.projection_dim
    if sizes.words:
        yield _row(
            f"{ours}.word_embedding.weight",
            f"{theirs}.word_emb_layer.embedding.weight",
            (len(sizes.words), sizes.word_dim),
            MASKED_ROW,
        )
    if sizes.char_cnn is not None:
        yield _row(
            f"{ours}.characters.char_embedding.weight",
            f"{theirs}.char_emb_layer.embedding.weight",
            (len(sizes.characters), sizes.char_cnn.embedding_dim),
            MASKED_ROW,
        )
        yield from _torch_cnn(sizes.char_cnn, f"{ours}.characters", f"{theirs}.convolutions.", f"{theirs}.highways")
    yield _row(f"{ours}.projection.weight", f"{theirs}.projection.weight", (width, sizes.dim))
    yield _row(f"{ours}.projection.bias", f"{theirs}.projection.bias", (width,))
    yield from _torch_lstm(lstm, "encoder")


def allennlp_map(cnn: CharCnnOptions, lstm: LstmOptions, prefix: str = "") -> Iterator[Row]:
    """Yield the rows for the state dict of AllenNLP's `_ElmoBiLm`, whose names begin with `prefix`."""
    ours, theirs, width = "token_encoder", f"{prefix}_token_embedder", lstm.projection_dim
    yield _row(f"{ours}.char_embedding.weight", f"{theirs}._char_embedding_weights", (N_CHARACTERS, cnn.embedding_dim))
    yield from _torch_cnn(cnn, ours, f"{theirs}.char_conv_", f"{theirs}._highways")
    if cnn.n_filters != width:
        yield _row(f"{ours}.projection.weight", f"{theirs}._projection.weight", (width, cnn.n_filters))
        yield _row(f"{ours}.projection.bias", f"{theirs}._projection.bias", (width,))
    yield from _torch_lstm(lstm, f"{prefix}_elmo_lstm")


def _torch_cnn(cnn: CharCnnOptions, ours: str, convolution: str, highways: str) -> Iterator[Row]:
    for i, (width, channels) in enumerate(cnn.filters):
        shape = (channels, cnn.embedding_dim, width)
        yield _row(f"{ours}.convolutions.{i}.weight", f"{convolution}{i}.weight", shape)
        yield _row(f"{ours}.convolutions.{i}.bias", f"{convolution}{i}.bias", (channels,))
    size = cnn.n_filters
    for k in range(cnn.n_highway):
        yield _row(f"{ours}.highways._layers.{k}.weight", f"{highways}._layers.{k}.weight", (2 * size, size))
        yield _row(f"{ours}.highways._layers.{k}.bias", f"{highways}._layers.{k}.bias", (2 * size,))


def _torch_lstm(lstm: LstmOptions, theirs: str) -> Iterator[Row]:
    """Yield the rows for `LstmCellWithProjection` of AllenNLP and ELMoForManyLangs, which always projects."""
    gates, width = 4 * lstm.cell_dim, lstm.projection_dim
    for direction in ("forward", "backward"):
        for layer in range(lstm.n_layers):
            ours, cell = f"lstm.{direction}_layers.{layer}", f"{theirs}.{direction}_layer_{layer}"
            yield _row(f"{ours}.weight_ih", f"{cell}.input_linearity.weight", (gates, width))
            yield _row(f"{ours}.weight_hh", f"{cell}.state_linearity.weight", (gates, width))
            yield _row(f"{ours}.bias", f"{cell}.state_linearity.bias", (gates,))
            yield _row(f"{ours}.weight_hr", f"{cell}.state_projection.weight", (width, lstm.cell_dim))
