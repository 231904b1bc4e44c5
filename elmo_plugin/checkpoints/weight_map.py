"""Weight maps: tables that map the tensors of each file format to those of `BiLM`, and what applies a table.

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
    """A pair of inverse functions: `read` turns the file's tensors into those of `BiLM`, `write` turns them back."""

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
# Row 0 of `BiLM` belongs to the masked id, for which files have no row.
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

    `names` are names in the state dict of `BiLM`, `stored` are names and shapes in the file. The tensors of an
    `optional` row may be missing.
    """

    names: tuple[str, ...]
    stored: Mapping[str, Shape]
    transform: Transform = SAME
    optional: bool = False


def _row(name: str, stored: str, shape: Shape, transform: Transform = SAME) -> Row:
    """Return a row with one tensor on each side."""
    return Row((name,), {stored: shape}, transform)


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


def fitting_rows(rows: Iterable[Row], file: Mapping[str, Any], name: str) -> list[Row]:
    """Return the rows that a file has, whose values are anything with a `shape`. Errors call the file `name`.

    Raises `ConfigurationError` for the first tensor that is missing or has another shape, and for a tensor that is not
    in the weight map.
    """
    rows = [row for row in rows if not row.optional or all(key in file for key in row.stored)]
    expected = {key: shape for row in rows for key, shape in row.stored.items()}
    for key, shape in expected.items():
        found = getattr(file.get(key), "shape", None)
        if found is None or tuple(found) != shape:
            got = "no such tensor" if found is None else tuple(found)
            raise ConfigurationError(f"{name}, tensor '{key}': expected shape {shape}, got {got}")
    unread = sorted(file.keys() - expected)
    if unread:
        raise unread_error(unread[0], name)
    return rows


def read_tensors(rows: Iterable[Row], file: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Return the state dict of a `BiLM` from the tensors of a file, which errors call `name`.

    Raises `ConfigurationError` for tensors that do not fit the rows, see `fitting_rows`, or hold infinity or NaN.
    """
    state_dict: dict[str, Tensor] = {}
    for row in fitting_rows(rows, file, name):
        values = [file[key].float() for key in row.stored]
        for key, value in zip(row.stored, values, strict=True):
            check_finite(value, f"{name}, tensor '{key}'")
        made = (tensor.contiguous() for tensor in row.transform.read(*values))
        state_dict.update(zip(row.names, made, strict=True))
    return state_dict


def write_tensors(rows: Iterable[Row], state_dict: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the value of each tensor of a file, in float32, from the state dict of a `BiLM`."""
    for row in rows:
        if not row.optional or all(name in state_dict for name in row.names):
            values = row.transform.write(*(state_dict[name].detach().float().cpu() for name in row.names))
            yield from zip(row.stored, values, strict=True)


def bilm_tf_map(options: BiLMOptions, one_cell: bool = False) -> Iterator[Row]:
    """Yield the rows for bilm-tf's hdf5 files. `one_cell` selects the names that TensorFlow gives a single layer."""
    cell_dim, width = options.lstm.cell_dim, options.lstm.projection_dim
    if options.char_cnn is None:
        yield _row("token_encoder.embedding.weight", "embedding", (options.n_tokens_vocab or 0, width), MASKED_ROW)
    else:
        yield from _tensorflow_cnn(options.char_cnn, width)
    for d, direction in enumerate(("forward", "backward")):
        for layer in range(options.lstm.n_layers):
            module = f"lstm.{direction}_layers.{layer}"
            stored = f"RNN_{d}/RNN/LSTMCell" if one_cell else f"RNN_{d}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            yield Row(
                (f"{module}.weight_ih", f"{module}.weight_hh"), {f"{stored}/W_0": (2 * width, 4 * cell_dim)}, GATES
            )
            yield _row(f"{module}.bias", f"{stored}/B", (4 * cell_dim,), GATE_BIAS)
            if options.lstm.has_projection:
                yield _row(f"{module}.weight_hr", f"{stored}/W_P_0", (cell_dim, width), TRANSPOSED)
    # Only this package writes a warm state; other readers of the format ignore it.
    shapes = {
        f"warm_state/{part}": (options.lstm.n_layers, 2, 1, size)
        for part, size in (("hidden", width), ("cell", cell_dim))
    }
    yield Row(("warm_hidden", "warm_cell"), shapes, optional=True)


def _tensorflow_cnn(cnn: CharCnnOptions, output_dim: int) -> Iterator[Row]:
    size, dim = cnn.n_filters, cnn.embedding_dim
    module = "token_encoder"
    yield _row(f"{module}.char_embedding.weight", "char_embed", (N_CHARACTERS - 1, dim), MASKED_ROW)
    for i, (width, channels) in enumerate(cnn.filters):
        yield _row(f"{module}.convolutions.{i}.weight", f"CNN/W_cnn_{i}", (1, width, dim, channels), CONVOLUTION)
        yield _row(f"{module}.convolutions.{i}.bias", f"CNN/b_cnn_{i}", (channels,))
    for k in range(cnn.n_highway):
        for kind, letter, shape in (("weight", "W", (size, size)), ("bias", "b", (size,))):
            stored = {f"CNN_high_{k}/{letter}_transform": shape, f"CNN_high_{k}/{letter}_carry": shape}
            yield Row((f"{module}.highways._layers.{k}.{kind}",), stored, HIGHWAY)
    if size != output_dim:
        yield _row(f"{module}.projection.weight", "CNN_proj/W_proj", (size, output_dim), TRANSPOSED)
        yield _row(f"{module}.projection.bias", "CNN_proj/b_proj", (output_dim,))


def many_langs_map(sizes: ManyLangsOptions, lstm: LstmOptions) -> Iterator[Row]:
    """Yield the rows for ELMoForManyLangs' two pickles. Their names begin with the name of the pickle."""
    module, stored, width = "token_encoder", "token_embedder", lstm.projection_dim
    if sizes.words:
        yield _row(
            f"{module}.word_embedding.weight",
            f"{stored}.word_emb_layer.embedding.weight",
            (len(sizes.words), sizes.word_dim),
            MASKED_ROW,
        )
    if sizes.char_cnn is not None:
        yield _row(
            f"{module}.characters.char_embedding.weight",
            f"{stored}.char_emb_layer.embedding.weight",
            (len(sizes.characters), sizes.char_cnn.embedding_dim),
            MASKED_ROW,
        )
        yield from _torch_cnn(sizes.char_cnn, f"{module}.characters", f"{stored}.convolutions.", f"{stored}.highways")
    yield _row(f"{module}.projection.weight", f"{stored}.projection.weight", (width, sizes.dim))
    yield _row(f"{module}.projection.bias", f"{stored}.projection.bias", (width,))
    yield from _torch_lstm(lstm, "encoder")


def allennlp_map(cnn: CharCnnOptions, lstm: LstmOptions, prefix: str = "") -> Iterator[Row]:
    """Yield the rows for the state dict of AllenNLP's `_ElmoBiLm`, whose names begin with `prefix`."""
    module, stored, width = "token_encoder", f"{prefix}_token_embedder", lstm.projection_dim
    yield _row(
        f"{module}.char_embedding.weight", f"{stored}._char_embedding_weights", (N_CHARACTERS, cnn.embedding_dim)
    )
    yield from _torch_cnn(cnn, module, f"{stored}.char_conv_", f"{stored}._highways")
    if cnn.n_filters != width:
        yield _row(f"{module}.projection.weight", f"{stored}._projection.weight", (width, cnn.n_filters))
        yield _row(f"{module}.projection.bias", f"{stored}._projection.bias", (width,))
    yield from _torch_lstm(lstm, f"{prefix}_elmo_lstm")


def _torch_cnn(cnn: CharCnnOptions, module: str, convolution: str, highways: str) -> Iterator[Row]:
    for i, (width, channels) in enumerate(cnn.filters):
        shape = (channels, cnn.embedding_dim, width)
        yield _row(f"{module}.convolutions.{i}.weight", f"{convolution}{i}.weight", shape)
        yield _row(f"{module}.convolutions.{i}.bias", f"{convolution}{i}.bias", (channels,))
    size = cnn.n_filters
    for k in range(cnn.n_highway):
        yield _row(f"{module}.highways._layers.{k}.weight", f"{highways}._layers.{k}.weight", (2 * size, size))
        yield _row(f"{module}.highways._layers.{k}.bias", f"{highways}._layers.{k}.bias", (2 * size,))


def _torch_lstm(lstm: LstmOptions, stored: str) -> Iterator[Row]:
    """Yield the rows for `LstmCellWithProjection` of AllenNLP and ELMoForManyLangs, which always projects."""
    gates, width = 4 * lstm.cell_dim, lstm.projection_dim
    for direction in ("forward", "backward"):
        for layer in range(lstm.n_layers):
            module, cell = f"lstm.{direction}_layers.{layer}", f"{stored}.{direction}_layer_{layer}"
            yield _row(f"{module}.weight_ih", f"{cell}.input_linearity.weight", (gates, width))
            yield _row(f"{module}.weight_hh", f"{cell}.state_linearity.weight", (gates, width))
            yield _row(f"{module}.bias", f"{cell}.state_linearity.bias", (gates,))
            yield _row(f"{module}.weight_hr", f"{cell}.state_projection.weight", (width, lstm.cell_dim))
