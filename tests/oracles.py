"""Two oracles: `allennlp.modules.elmo.Elmo` on files that we wrote, and the files read in TensorFlow's own terms."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional

import h5py
import numpy as np
import torch
from allennlp.modules.elmo import Elmo as ReferenceElmo
from torch import Tensor

from elmo_plugin.bilm import BiLM, BiLMOptions, CarriedState
from elmo_plugin.checkpoints import BilmTf, Checkpoint

SENTENCES = [
    ["The", "cat", "sat", "."],
    ["Ünïcödé", "日本語", "🙂", "naïve", "a" * 300, "x"],
    [],
    ["one"],
]


def options(**changes: Any) -> BiLMOptions:
    """Sizes of a small biLM; keys of either block change it, `None` for `char_cnn` takes it away."""
    lstm = {"dim": 24, "projection_dim": 8, "n_layers": 2, "cell_clip": 3, "proj_clip": 3, "use_skip_connections": True}
    char_cnn: Optional[dict[str, Any]] = {
        "activation": "relu",
        "embedding": {"dim": 4},
        "filters": [[1, 4], [2, 8], [3, 8]],
        "max_characters_per_token": 50,
        "n_characters": 262,
        "n_highway": 2,
    }
    rest = {}
    for key, value in changes.items():
        if key == "char_cnn":
            char_cnn = value
        elif key in lstm:
            lstm[key] = value
        elif char_cnn is not None and key in char_cnn:
            char_cnn[key] = value
        else:
            rest[key] = value
    return BiLMOptions.from_dict({"lstm": lstm, "char_cnn": char_cnn, **rest})


def lively(bilm: BiLM, scale: float = 1.0) -> BiLM:
    """The biLM with weights that make gates, clips and convolutions work hard, as trained ones do."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in bilm.named_parameters():
            fan_in = parameter[0].numel() if parameter.dim() > 1 else 4
            noise = torch.randn(parameter.shape, generator=generator) * scale / fan_in**0.5
            parameter.copy_(noise)
            if name.endswith(("char_embedding.weight", ".embedding.weight")):
                parameter[0] = 0.0
    return bilm


def write_files(folder: Path, bilm: BiLM) -> tuple[str, str]:
    """Write the biLM as bilm-tf does; return the options and the weight file."""
    BilmTf().write(Checkpoint(bilm.options, bilm.state_dict()), folder)
    return str(folder / "options.json"), str(folder / "weights.hdf5")


def reference_elmo(folder: Path, bilm: BiLM, **keys: Any) -> ReferenceElmo:
    """AllenNLP's own Elmo with the biLM's weights, from fresh files."""
    options_file, weight_file = write_files(folder, bilm)
    return ReferenceElmo(options_file, weight_file, 1, dropout=0.0, **keys)


def reference_layers(reference: ReferenceElmo, ids: Tensor) -> Tensor:
    """The reference's layers (L, B, T + 2, D), its state forgotten before."""
    reference._elmo_lstm._elmo_lstm.reset_states()
    return torch.stack(reference._elmo_lstm(ids)["activations"])


def write_json(path: Path, content: Any) -> Path:
    """Write a JSON file."""
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def reference_parameters(reference: ReferenceElmo) -> dict[str, torch.nn.Parameter]:
    """The reference's own parameters of the biLM, by our names; it keeps each in the layout that we have."""
    encoder, lstm = reference._elmo_lstm._token_embedder, reference._elmo_lstm._elmo_lstm
    named = {
        "token_encoder.char_embedding.weight": encoder._char_embedding_weights,
        "token_encoder.projection.weight": encoder._projection.weight,
        "token_encoder.projection.bias": encoder._projection.bias,
    }
    for i, convolution in enumerate(encoder._convolutions):
        named[f"token_encoder.convolutions.{i}.weight"] = convolution.weight
        named[f"token_encoder.convolutions.{i}.bias"] = convolution.bias
    for k, highway in enumerate(encoder._highways._layers):
        named[f"token_encoder.highways._layers.{k}.weight"] = highway.weight
        named[f"token_encoder.highways._layers.{k}.bias"] = highway.bias
    for direction, cells in (("forward", lstm.forward_layers), ("backward", lstm.backward_layers)):
        for layer, cell in enumerate(cells):
            ours = f"lstm.{direction}_layers.{layer}"
            named[f"{ours}.weight_ih"] = cell.input_linearity.weight
            named[f"{ours}.weight_hh"] = cell.state_linearity.weight
            named[f"{ours}.bias"] = cell.state_linearity.bias
            named[f"{ours}.weight_hr"] = cell.state_projection.weight
    return named


def assert_golden_activations(golden: Path, bilm: BiLM, to_ids: Callable[[list[list[str]]], Tensor]) -> None:
    """Check ten batches of three sentences; the state is carried from each batch to the next."""
    texts, carried = json.loads((golden / "sentences.json").read_text(encoding="utf-8")), CarriedState()
    for k, batch in enumerate(zip(*texts, strict=True)):
        sentences = [text.split() for text in batch]
        with torch.no_grad():
            output = bilm(to_ids(sentences), carried.before(bilm, len(sentences), next(bilm.parameters())))
        carried.after(output.state)
        for j, sentence in enumerate(sentences):
            with h5py.File(golden / f"lm_embeddings_{j}.hdf5", "r") as file:
                wanted = torch.tensor(file[str(k)][...])  # (2, T, P)
            top = output.layers[-1, j, 1 : len(sentence) + 1]  # (T, D)
            torch.testing.assert_close(torch.stack(top.chunk(2, dim=-1)), wanted, rtol=0, atol=1e-5)


def tensorflow_file(folder: Path, options: dict[str, Any], vocabulary: int = 9, one_cell: bool = False) -> Path:
    """Write `options.json` and a `weights.hdf5` of random numbers as bilm-tf's `dump_weights` does; return the folder.

    `one_cell`: the names that TensorFlow gives when one layer needs no `MultiRNNCell`.
    """
    lstm, cnn = options["lstm"], options.get("char_cnn")
    cell_dim, width = lstm["dim"], lstm["projection_dim"]
    shapes: dict[str, tuple[int, ...]] = {"embedding": (vocabulary, width)} if cnn is None else _cnn_shapes(cnn, width)
    for direction in ("RNN_0/RNN", "RNN_1/RNN"):
        for layer in range(lstm["n_layers"]):
            cell = f"{direction}/LSTMCell" if one_cell else f"{direction}/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes |= {f"{cell}/W_0": (2 * width, 4 * cell_dim), f"{cell}/B": (4 * cell_dim,)}
            if width < cell_dim:
                shapes[f"{cell}/W_P_0"] = (cell_dim, width)
    random = np.random.default_rng(0)
    write_json(folder / "options.json", options)
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, shape in shapes.items():
            fan_in = shape[-2] if len(shape) > 1 else 2
            file[name] = (random.normal(size=shape) * 1.5 / fan_in**0.5).astype("float32")
    return folder


def _cnn_shapes(cnn: dict[str, Any], width: int) -> dict[str, tuple[int, ...]]:
    dim, size = cnn["embedding"]["dim"], sum(channels for _, channels in cnn["filters"])
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (261, dim)}
    for i, (window, channels) in enumerate(cnn["filters"]):
        shapes |= {f"CNN/W_cnn_{i}": (1, window, dim, channels), f"CNN/b_cnn_{i}": (channels,)}
    for k in range(cnn.get("n_highway") or 0):
        for gate in ("carry", "transform"):
            shapes |= {f"CNN_high_{k}/W_{gate}": (size, size), f"CNN_high_{k}/b_{gate}": (size,)}
    if size != width:
        shapes |= {"CNN_proj/W_proj": (size, width), "CNN_proj/b_proj": (width,)}
    return shapes


def file_layers(
    folder: Path, sentence: Sequence[Any], weights: str = "weights.hdf5", boundaries: tuple[int, int] = (1, 2)
) -> Tensor:
    """The layers (L, T + 2, D) of one sentence straight from a folder's files, in TensorFlow's terms and in float64.

    The sentence is a list of words, or, for a word-input model, of their ids: line i of its vocabulary is i + 1.
    `boundaries` are then the ids of `<S>` and `</S>`.
    Written from `bilm/model.py` and TensorFlow 1.2's `LSTMCell`; nothing of ours or of AllenNLP's runs here.
    """
    options = json.loads((folder / "options.json").read_text(encoding="utf-8"))
    with h5py.File(folder / weights, "r") as file:
        names: list[str] = []
        file.visit(names.append)
        values = {name: file[name][...].astype(float) for name in names if isinstance(file[name], h5py.Dataset)}
    if options.get("char_cnn") is None:
        tokens = values["embedding"][np.array([boundaries[0], *sentence, boundaries[1]]) - 1]  # (T + 2, P)
    else:
        tokens = np.stack([_file_word(options["char_cnn"], values, word) for word in ("<S>", *sentence, "</S>")])
    forward = _file_direction(options["lstm"], values, "RNN_0/RNN", tokens)  # (n_layers, T + 2, P)
    backward = _file_direction(options["lstm"], values, "RNN_1/RNN", tokens[::-1])[:, ::-1]
    contextual = np.concatenate([forward, backward], axis=-1)  # (n_layers, T + 2, D)
    return torch.tensor(np.concatenate([np.concatenate([tokens, tokens], axis=-1)[None], contextual]))


def _file_word(cnn: dict[str, Any], values: dict[str, np.ndarray], word: str) -> np.ndarray:
    """A word's vector (P,) from its characters: bytes, 256 `<S>`, 257 `</S>`, 258 begin, 259 end, 260 padding."""
    length = cnn["max_characters_per_token"]
    characters = {"<S>": [256], "</S>": [257]}.get(word) or list(word.encode())[: length - 2]
    ids = ([258, *characters, 259] + [260] * length)[:length]
    embedded = values["char_embed"][ids]  # (C, character dim)
    activation = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}[cnn["activation"]]
    pooled = []
    for i, (width, _) in enumerate(cnn["filters"]):
        windows = np.stack([embedded[start : start + width] for start in range(length - width + 1)])
        convolved = np.einsum("nwi,wio->no", windows, values[f"CNN/W_cnn_{i}"][0]) + values[f"CNN/b_cnn_{i}"]
        pooled.append(activation(convolved.max(axis=0)))
    x = np.concatenate(pooled)  # (filters,)
    for k in range(cnn.get("n_highway") or 0):
        high = f"CNN_high_{k}"
        carry = _sigmoid(x @ values[f"{high}/W_carry"] + values[f"{high}/b_carry"])
        transform = np.maximum(x @ values[f"{high}/W_transform"] + values[f"{high}/b_transform"], 0)
        x = carry * transform + (1 - carry) * x
    if "CNN_proj/W_proj" in values:
        x = x @ values["CNN_proj/W_proj"] + values["CNN_proj/b_proj"]
    return x


def _file_direction(lstm: dict[str, Any], values: dict[str, np.ndarray], scope: str, x: np.ndarray) -> np.ndarray:
    """All layers (n_layers, T, P) of one direction that reads token vectors x (T, P) from zeros."""
    layers: list[np.ndarray] = []
    for layer in range(lstm["n_layers"]):
        name = f"{scope}/MultiRNNCell/Cell{layer}/LSTMCell"
        name = name if f"{name}/W_0" in values else f"{scope}/LSTMCell"
        c, m, outputs = np.zeros(lstm["dim"]), np.zeros(lstm["projection_dim"]), []
        for row in x:
            i, j, f, o = np.split(np.concatenate([row, m]) @ values[f"{name}/W_0"] + values[f"{name}/B"], 4)
            c = _clip(_sigmoid(f + 1) * c + _sigmoid(i) * np.tanh(j), lstm.get("cell_clip"))
            m = _sigmoid(o) * np.tanh(c)
            if f"{name}/W_P_0" in values:
                m = _clip(m @ values[f"{name}/W_P_0"], lstm.get("proj_clip"))
            outputs.append(m)
        x = np.stack(outputs) + (x if layer > 0 and lstm.get("use_skip_connections") else 0)
        layers.append(x)
    return np.stack(layers)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _clip(x: np.ndarray, bound: Optional[float]) -> np.ndarray:
    return np.clip(x, -bound, bound) if bound else x
