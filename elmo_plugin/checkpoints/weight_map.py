"""Weight maps: tables that map the tensors of each file format to those of `BiLM`, and what applies a table.

The shapes in a file follow from those of the `BiLM` that its sizes describe, which is made without memory.

Sources: bilm-tf's `bilm/training.py`, whose variables `dump_weights` renames; ELMoForManyLangs'
`modules/token_embedder.py` and `modules/elmo.py`; AllenNLP's `allennlp/modules/elmo.py`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm import BiLM, BiLMOptions
from elmo_plugin.common import named_errors, without_memory

BILM, SOFTMAX = "bilm.", "softmax."
EXTRA_STATE = "_extra_state"
"""PyTorch's name in a state dict for what a module says about itself."""

Shape = tuple[int, ...]


class Transform(NamedTuple):
    """A pair of inverse functions: `read` turns the file's tensors into those of `BiLM`, `write` turns them back.

    `shapes` returns the shapes of what `write` returns. Tensors without memory would import PyTorch's compiler.
    """

    read: Callable[..., tuple[Tensor, ...]]
    write: Callable[..., tuple[Tensor, ...]]
    shapes: Callable[..., tuple[Shape, ...]]


def _swap_gates(values: Tensor) -> Tensor:
    """Reorder TensorFlow's gates i, j, f, o to torch's i, f, g, o along the first dimension; it is its own inverse."""
    first, second, third, fourth = values.chunk(4)
    return torch.cat([first, third, second, fourth])


def _forget_bias(bias: Tensor) -> Tensor:
    """Return 1 for the forget gate and 0 elsewhere: TensorFlow adds this at run time, so its files lack it."""
    return bias.new_tensor([0.0, 1.0, 0.0, 0.0]).repeat_interleave(len(bias) // 4)


SAME = Transform(lambda *values: values, lambda *values: values, lambda *shapes: shapes)
TRANSPOSED = Transform(lambda matrix: (matrix.t(),), lambda matrix: (matrix.t(),), lambda shape: (shape[::-1],))
# Row 0 of `BiLM` belongs to the masked id, for which files have no row.
MASKED_ROW = Transform(
    lambda rows: (torch.cat([torch.zeros_like(rows[:1]), rows]),),
    lambda rows: (rows[1:],),
    lambda shape: ((shape[0] - 1, *shape[1:]),),
)
# (1, width, in, out) ↔ (out, in, width)
CONVOLUTION = Transform(
    lambda values: (values[0].permute(2, 1, 0),),
    lambda values: (values.permute(2, 1, 0).unsqueeze(0),),
    lambda shape: ((1, *shape[::-1]),),
)
# Two of (n, n) or (n,) ↔ (2n, n) or (2n,); `.t()` leaves a bias as it is.
# TensorFlow's gate is 1 − AllenNLP's, and sigmoid(−z) = 1 − sigmoid(z).
HIGHWAY = Transform(
    lambda transform, carry: (torch.cat([transform.t(), -carry.t()]),),
    lambda values: (values.chunk(2)[0].t(), -values.chunk(2)[1].t()),
    lambda shape: ((shape[0] // 2, *shape[1:]),) * 2,
)
# (2P, 4H) ↔ two of (4H, P)
GATES = Transform(
    lambda packed: _swap_gates(packed.t()).chunk(2, dim=1),
    lambda input, recurrent: (_swap_gates(torch.cat([input, recurrent], dim=1)).t(),),
    lambda input, recurrent: ((input[1] + recurrent[1], input[0]),),
)
GATE_BIAS = Transform(
    lambda bias: (_swap_gates(bias) + _forget_bias(bias),),
    lambda bias: (_swap_gates(bias - _forget_bias(bias)),),
    lambda shape: (shape,),
)


class Row(NamedTuple):
    """A row of a weight map: tensors of a file that hold the same numbers as tensors of a `BiLM`.

    `names` are names in the state dict of `BiLM`, `stored` are names in the file. `*` stands for the same text in all.
    """

    names: tuple[str, ...]
    stored: tuple[str, ...]
    transform: Transform = SAME


def _tensorflow_lstm(ours: str, theirs: str) -> tuple[Row, ...]:
    return (
        Row((f"{ours}.weight_ih", f"{ours}.weight_hh"), (f"{theirs}/W_0",), GATES),
        Row((f"{ours}.bias",), (f"{theirs}/B",), GATE_BIAS),
        Row((f"{ours}.weight_hr",), (f"{theirs}/W_P_0",), TRANSPOSED),
    )


def _torch_lstm(ours: str, theirs: str) -> tuple[Row, ...]:
    """Return the rows for `LstmCellWithProjection` of AllenNLP and ELMoForManyLangs."""
    return (
        Row((f"{ours}.weight_ih",), (f"{theirs}.input_linearity.weight",)),
        Row((f"{ours}.weight_hh",), (f"{theirs}.state_linearity.weight",)),
        Row((f"{ours}.bias",), (f"{theirs}.state_linearity.bias",)),
        Row((f"{ours}.weight_hr",), (f"{theirs}.state_projection.weight",)),
    )


BILM_TF = (
    Row(("token_encoder.embedding.weight",), ("embedding",), MASKED_ROW),
    Row(("token_encoder.char_embedding.weight",), ("char_embed",), MASKED_ROW),
    Row(("token_encoder.convolutions.*.weight",), ("CNN/W_cnn_*",), CONVOLUTION),
    Row(("token_encoder.convolutions.*.bias",), ("CNN/b_cnn_*",)),
    Row(("token_encoder.highways._layers.*.weight",), ("CNN_high_*/W_transform", "CNN_high_*/W_carry"), HIGHWAY),
    Row(("token_encoder.highways._layers.*.bias",), ("CNN_high_*/b_transform", "CNN_high_*/b_carry"), HIGHWAY),
    Row(("token_encoder.projection.weight",), ("CNN_proj/W_proj",), TRANSPOSED),
    Row(("token_encoder.projection.bias",), ("CNN_proj/b_proj",)),
    *_tensorflow_lstm("lstm.forward_layers.*", "RNN_0/RNN/MultiRNNCell/Cell*/LSTMCell"),
    *_tensorflow_lstm("lstm.backward_layers.*", "RNN_1/RNN/MultiRNNCell/Cell*/LSTMCell"),
    # Only this package writes a warm state; other readers of the format ignore it.
    Row(("warm_hidden",), ("warm_state/hidden",)),
    Row(("warm_cell",), ("warm_state/cell",)),
)
"""The tensors of bilm-tf's hdf5 files."""
MANY_LANGS = (
    Row(("token_encoder.word_embedding.weight",), ("token_embedder.word_emb_layer.embedding.weight",), MASKED_ROW),
    Row(
        ("token_encoder.characters.char_embedding.weight",),
        ("token_embedder.char_emb_layer.embedding.weight",),
        MASKED_ROW,
    ),
    Row(("token_encoder.characters.*",), ("token_embedder.*",)),
    Row(("token_encoder.projection.*",), ("token_embedder.projection.*",)),
    *_torch_lstm("lstm.forward_layers.*", "encoder.forward_layer_*"),
    *_torch_lstm("lstm.backward_layers.*", "encoder.backward_layer_*"),
)
"""The tensors of ELMoForManyLangs' two pickles. Their names begin with the name of the pickle."""
ALLENNLP = (
    Row(("token_encoder.char_embedding.weight",), ("_token_embedder._char_embedding_weights",)),
    Row(("token_encoder.convolutions.*",), ("_token_embedder.char_conv_*",)),
    Row(("token_encoder.highways.*",), ("_token_embedder._highways.*",)),
    Row(("token_encoder.projection.*",), ("_token_embedder._projection.*",)),
    *_torch_lstm("lstm.forward_layers.*", "_elmo_lstm.forward_layer_*"),
    *_torch_lstm("lstm.backward_layers.*", "_elmo_lstm.backward_layer_*"),
)
"""The tensors of AllenNLP's `_ElmoBiLm`."""
OWN: tuple[Row, ...] = ()
"""The tensors of `BiLM`, under their own names."""
WARM_STATE = re.compile(r"warm_(hidden|cell)$|^warm_state/")
"""The tensors of a warm state, in any format."""

UNREAD = {
    r"W_P_0$|proj": "check 'projection_dim': there is no projection between equal sizes",
    r"high": "check 'n_highway'",
    r"cnn_\d|conv": "check 'filters'",
    r"Cell\d|_layers?[._]\d": "check 'n_layers'",
    r"char_emb": "check 'char_cnn' or 'char_dim'",
    r"embedding|word_emb": "check 'n_tokens_vocab' or 'word_dim'",
}
"""What the name of a tensor that is not read shows about the option that decides about it."""


def empty_bilm(options: BiLMOptions, stored: Iterable[str], name: str, kernel: str = "auto", source: str = "") -> BiLM:
    """Return a biLM without memory for its weights. It has a warm state if the tensors `stored` in a file have one.

    Raises `ConfigurationError`, which calls the file `name`, if there is no such biLM.
    """
    with without_memory(), named_errors(name, ConfigurationError):
        bilm = BiLM(options, kernel, source)
        if any(map(WARM_STATE.search, stored)):
            bilm.warm_state = bilm.zero_state(1, bilm.weight)
    return bilm


def map_weights(table: Iterable[Row], names: Iterable[str], prefix: str = "") -> list[Row]:
    """Return the rows for the tensors of a `BiLM`. A name that is not in the table is the same in the file.

    All names in the file begin with `prefix`.
    """
    left, rows = dict.fromkeys(names), []
    left.pop(EXTRA_STATE, None)
    for row in table:
        begin, _, end = row.names[0].partition("*")
        for name in list(left):
            if name.startswith(begin) and name.endswith(end):
                part = name[len(begin) : len(name) - len(end)]
                ours = tuple(each.replace("*", part) for each in row.names)
                rows.append(Row(ours, tuple(prefix + each.replace("*", part) for each in row.stored), row.transform))
                for each in ours:
                    del left[each]
    return rows + [Row((name,), (prefix + name,)) for name in left]


def stored_shapes(rows: Iterable[Row], weights: Mapping[str, Tensor]) -> dict[str, Shape]:
    """Return the shapes of the tensors of a file by their names, for the state dict of a `BiLM`."""
    shapes: dict[str, Shape] = {}
    for row in rows:
        ours = [tuple(weights[name].shape) for name in row.names]
        shapes.update(zip(row.stored, row.transform.shapes(*ours), strict=True))
    return shapes


def fitting_rows(
    table: Iterable[Row], bilm: BiLM, file: Mapping[str, Tensor], name: str, prefix: str = ""
) -> list[Row]:
    """Return the rows for the tensors of a file, which errors call `name`.

    Raises `ConfigurationError` for the first tensor that is missing or has another shape than it needs for the biLM,
    and for a tensor that the biLM does not have.
    """
    weights = bilm.state_dict()
    rows = map_weights(table, weights, prefix)
    expected = stored_shapes(rows, weights)
    for key, shape in expected.items():
        got = tuple(file[key].shape) if key in file else "no such tensor"
        if got != shape:
            raise ConfigurationError(f"{name}, tensor '{key}': expected shape {shape}, got {got}")
    for key in sorted(file.keys() - expected - {prefix + EXTRA_STATE}):
        check = next((check for pattern, check in UNREAD.items() if re.search(pattern, key)), "no option describes it")
        raise ConfigurationError(f"{name}: expected only the tensors of these sizes, got '{key}' too; {check}")
    return rows


def plain_tensors(file: Mapping[str, Tensor], name: str, prefix: str = "") -> dict[str, Tensor]:
    """Return the tensors of a file whose names begin with `prefix`, by the rest of their names.

    Floating-point numbers become float32. Raises `ConfigurationError`, which calls the file `name`, for infinity and
    NaN.
    """
    found: dict[str, Tensor] = {}
    for key, value in file.items():
        if key.startswith(prefix) and key != prefix + EXTRA_STATE:
            value = value.float() if value.is_floating_point() else value
            numbers = value.flatten()  # the sum over thousands of dimensions takes seconds, even without numbers
            # The sum of finite numbers may overflow, but costs a fifth of looking at each.
            if not (numbers.sum().isfinite() or numbers.isfinite().all()):
                raise ConfigurationError(f"{name}, tensor '{key}': expected finite numbers, got infinity or NaN")
            found[key.removeprefix(prefix)] = value
    return found


def read_tensors(
    table: Iterable[Row], options: BiLMOptions, file: Mapping[str, Tensor], name: str, prefix: str = ""
) -> dict[str, Tensor]:
    """Return the state dict of the biLM of these sizes from the tensors of a file; see `fitting_rows`.

    Raises `ConfigurationError` for tensors that hold infinity or NaN, too.
    """
    state_dict: dict[str, Tensor] = {}
    for row in fitting_rows(table, empty_bilm(options, file, name), file, name, prefix):
        values = plain_tensors({key: file[key] for key in row.stored}, name).values()
        state_dict.update(zip(row.names, map(Tensor.contiguous, row.transform.read(*values)), strict=True))
    return state_dict


def write_tensors(rows: Iterable[Row], state_dict: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and the value of each tensor of a file from the state dict of a `BiLM`."""
    for row in rows:
        yield from zip(row.stored, row.transform.write(*(state_dict[name] for name in row.names)), strict=True)
