"""What each format calls the numbers of a biLM, and our tensors, as data that is read in both directions.

Source: of bilm-tf, the variable names and shapes of `bilm/training.py`, renamed by its `dump_weights`; of
ELMoForManyLangs, `modules/token_embedder.py` and `modules/elmo.py`; of AllenNLP, `allennlp/modules/elmo.py`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from elmo_plugin.options import N_CHARACTERS, BiLMOptions, CharCnnOptions, LstmOptions, ManyLangsOptions

Shape = tuple[int, ...]
Tensors = tuple[Tensor, ...]


@dataclass(frozen=True)
class Link:
    """Some datasets of a file that hold the same numbers as some tensors of a `BiLM`.

    # Parameters

    datasets : names and shapes in the file
    tensors : names in the state dict
    read, write : from the datasets' values to the tensors', and back
    optional : whether a file may lack them
    """

    datasets: Mapping[str, Shape]
    tensors: tuple[str, ...]
    read: Callable[..., Tensors]
    write: Callable[..., Tensors]
    optional: bool = False


def bilm_tf_links(options: BiLMOptions, one_cell: bool = False) -> list[Link]:
    """All links with bilm-tf's files. `one_cell`: the names TensorFlow gave when there was one layer only."""
    if options.char_cnn is not None:
        encoder = list(_character_links(options.char_cnn, options.lstm.projection_dim))
    else:
        embedding = "token_encoder.embedding.weight"
        encoder = [_masked_row("embedding", (options.n_tokens_vocab or 0, options.lstm.projection_dim), embedding)]
    return [*encoder, *_lstm_links(options.lstm, one_cell), *_warm_links(options.lstm)]


def many_langs_links(lexicon: ManyLangsOptions, lstm: LstmOptions) -> Iterator[Link]:
    """All links with ELMoForManyLangs' two pickles, whose names begin with that of the file."""
    ours, theirs = "token_encoder.{}".format, "token_embedder.{}".format
    if lexicon.words:
        shape = (len(lexicon.words), lexicon.word_dim)
        yield _masked_row(theirs("word_emb_layer.embedding.weight"), shape, ours("word_embedding.weight"))
    if lexicon.char_cnn is not None:
        shape = (len(lexicon.characters), lexicon.char_cnn.embedding_dim)
        yield _masked_row(theirs("char_emb_layer.embedding.weight"), shape, ours("characters.char_embedding.weight"))
        yield from _torch_cnn_links(lexicon.char_cnn, theirs("convolutions.{}"), theirs("highways"), ours("characters"))
    yield _same(theirs("projection.weight"), (lstm.projection_dim, lexicon.dim), ours("projection.weight"))
    yield _same(theirs("projection.bias"), (lstm.projection_dim,), ours("projection.bias"))
    yield from _torch_cell_links(lstm, "encoder")


def allennlp_links(cnn: CharCnnOptions, lstm: LstmOptions) -> Iterator[Link]:
    """All links with the state dict of `_ElmoBiLm`, the part of AllenNLP's `Elmo` that holds the weights."""
    ours, theirs = "token_encoder.{}".format, "_token_embedder.{}".format
    yield _same(theirs("_char_embedding_weights"), (N_CHARACTERS, cnn.embedding_dim), ours("char_embedding.weight"))
    yield from _torch_cnn_links(cnn, theirs("char_conv_{}"), theirs("_highways"), "token_encoder")
    if cnn.n_filters != lstm.projection_dim:
        yield _same(theirs("_projection.weight"), (lstm.projection_dim, cnn.n_filters), ours("projection.weight"))
        yield _same(theirs("_projection.bias"), (lstm.projection_dim,), ours("projection.bias"))
    yield from _torch_cell_links(lstm, "_elmo_lstm")


def _torch_cnn_links(cnn: CharCnnOptions, convolution: str, highways: str, ours: str) -> Iterator[Link]:
    for i, (width, channels) in enumerate(cnn.filters):
        name, shape = convolution.format(i), (channels, cnn.embedding_dim, width)
        yield _same(f"{name}.weight", shape, f"{ours}.convolutions.{i}.weight")
        yield _same(f"{name}.bias", (channels,), f"{ours}.convolutions.{i}.bias")
    size = cnn.n_filters
    for k in range(cnn.n_highway):
        name, own = f"{highways}._layers.{k}", f"{ours}.highways._layers.{k}"
        yield _same(f"{name}.weight", (2 * size, size), f"{own}.weight")
        yield _same(f"{name}.bias", (2 * size,), f"{own}.bias")


def _torch_cell_links(lstm: LstmOptions, theirs: str) -> Iterator[Link]:
    """Both have `LstmCellWithProjection`, which always projects."""
    gates, width = 4 * lstm.cell_dim, lstm.projection_dim
    for direction in ("forward", "backward"):
        for layer in range(lstm.n_layers):
            name, ours = f"{theirs}.{direction}_layer_{layer}", f"lstm.{direction}_layers.{layer}"
            yield _same(f"{name}.input_linearity.weight", (gates, width), f"{ours}.weight_ih")
            yield _same(f"{name}.state_linearity.weight", (gates, width), f"{ours}.weight_hh")
            yield _same(f"{name}.state_linearity.bias", (gates,), f"{ours}.bias")
            yield _same(f"{name}.state_projection.weight", (width, lstm.cell_dim), f"{ours}.weight_hr")


def _character_links(cnn: CharCnnOptions, output_dim: int) -> Iterator[Link]:
    name = "token_encoder.{}".format
    yield _masked_row("char_embed", (N_CHARACTERS - 1, cnn.embedding_dim), name("char_embedding.weight"))
    for i, (width, channels) in enumerate(cnn.filters):
        shape = (1, width, cnn.embedding_dim, channels)
        yield Link({f"CNN/W_cnn_{i}": shape}, (name(f"convolutions.{i}.weight"),), _read_filter, _write_filter)
        yield _same(f"CNN/b_cnn_{i}", (channels,), name(f"convolutions.{i}.bias"))
    size = cnn.n_filters
    for k in range(cnn.n_highway):
        weights: dict[str, Shape] = {f"CNN_high_{k}/W_transform": (size, size), f"CNN_high_{k}/W_carry": (size, size)}
        biases: dict[str, Shape] = {f"CNN_high_{k}/b_transform": (size,), f"CNN_high_{k}/b_carry": (size,)}
        for datasets, kind in ((weights, "weight"), (biases, "bias")):
            yield Link(datasets, (name(f"highways._layers.{k}.{kind}"),), _read_highway, _write_highway)
    if size != output_dim:
        yield _transposed("CNN_proj/W_proj", (size, output_dim), name("projection.weight"))
        yield _same("CNN_proj/b_proj", (output_dim,), name("projection.bias"))


def _lstm_links(lstm: LstmOptions, one_cell: bool) -> Iterator[Link]:
    cell_dim, width = lstm.cell_dim, lstm.projection_dim
    for d, direction in enumerate(("forward", "backward")):
        for layer in range(lstm.n_layers):
            cell = f"RNN_{d}/RNN/LSTMCell" if one_cell else f"RNN_{d}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            ours = f"lstm.{direction}_layers.{layer}"
            packed = {f"{cell}/W_0": (2 * width, 4 * cell_dim)}
            yield Link(packed, (f"{ours}.weight_ih", f"{ours}.weight_hh"), _read_kernel, _write_kernel)
            yield Link({f"{cell}/B": (4 * cell_dim,)}, (f"{ours}.bias",), _read_bias, _write_bias)
            if lstm.has_projection:
                yield _transposed(f"{cell}/W_P_0", (cell_dim, width), f"{ours}.weight_hr")


def _warm_links(lstm: LstmOptions) -> Iterator[Link]:
    """Ours alone: other readers of the format pass these two datasets over."""
    for part, size in (("hidden", lstm.projection_dim), ("cell", lstm.cell_dim)):
        yield Link({f"warm_state/{part}": (lstm.n_layers, 2, 1, size)}, (f"warm_{part}",), _keep, _keep, optional=True)


def _same(dataset: str, shape: Shape, tensor: str) -> Link:
    return Link({dataset: shape}, (tensor,), _keep, _keep)


def _transposed(dataset: str, shape: Shape, tensor: str) -> Link:
    return Link({dataset: shape}, (tensor,), _transpose, _transpose)


def _masked_row(dataset: str, shape: Shape, tensor: str) -> Link:
    """The file has no row for what is masked; our id 0."""
    return Link({dataset: shape}, (tensor,), lambda rows: (torch.cat([torch.zeros_like(rows[:1]), rows]),), _unmask)


def _unmask(rows: Tensor) -> Tensors:
    return (rows[1:],)


def _keep(values: Tensor) -> Tensors:
    return (values,)


def _transpose(matrix: Tensor) -> Tensors:
    return (matrix.t(),)


def _read_filter(values: Tensor) -> Tensors:
    return (values[0].permute(2, 1, 0),)  # (1, width, in, out) → (out, in, width)


def _write_filter(values: Tensor) -> Tensors:
    return (values.permute(2, 1, 0).unsqueeze(0),)


def _read_highway(transform: Tensor, carry: Tensor) -> Tensors:
    # TensorFlow's gate is 1 − upstream's, and sigmoid(−z) = 1 − sigmoid(z).
    return (torch.cat([transform.t(), -carry.t()]) if transform.dim() == 2 else torch.cat([transform, -carry]),)


def _write_highway(values: Tensor) -> Tensors:
    transform, gate = values.chunk(2)
    return (transform.t(), -gate.t()) if values.dim() == 2 else (transform, -gate)


def _swap_gates(values: Tensor) -> Tensor:
    """TensorFlow's i, j, f, o to torch's i, f, g, o along the first dimension, and back: it is its own inverse."""
    first, second, third, fourth = values.chunk(4)
    return torch.cat([first, third, second, fourth])


def _read_kernel(packed: Tensor) -> Tensors:
    stacked = _swap_gates(packed.t())  # (4H, 2P)
    return stacked[:, : stacked.size(1) // 2], stacked[:, stacked.size(1) // 2 :]


def _write_kernel(weight_ih: Tensor, weight_hh: Tensor) -> Tensors:
    return (_swap_gates(torch.cat([weight_ih, weight_hh], dim=1)).t(),)


def _read_bias(bias: Tensor) -> Tensors:
    return (_swap_gates(bias) + _forget_bias(bias),)


def _write_bias(bias: Tensor) -> Tensors:
    return (_swap_gates(bias - _forget_bias(bias)),)


def _forget_bias(bias: Tensor) -> Tensor:
    """TensorFlow adds 1 to the forget gate when it runs, so the file's bias is smaller by one there."""
    ones = torch.zeros_like(bias)
    ones.chunk(4)[1].fill_(1.0)
    return ones
