"""ELMoForManyLangs' own package as the oracle: folders of models that it made, and the layers that it computes."""

import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from elmoformanylangs import Embedder
from elmoformanylangs import logger as its_logger
from elmoformanylangs.frontend import Model
from elmoformanylangs.modules.embedding_layer import EmbeddingLayer
from torch import Tensor

its_logger.setLevel("ERROR")

CONFIG: dict[str, Any] = {
    "encoder": {"name": "elmo", "projection_dim": 8, "cell_clip": 0.6, "proj_clip": 0.5, "dim": 24, "n_layers": 2},
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 4], [2, 8], [3, 8]],
        "n_highway": 2,
        "word_dim": 5,
        "char_dim": 4,
        "max_characters_per_token": 14,
    },
    "classifier": {"name": "sampled_softmax", "n_samples": 8192},
    "dropout": 0.1,
}
WORDS = ["<oov>", "<bos>", "<eos>", "<pad>", "The", "cat", ".", "日本語", "a" * 12, "\u3000"]
"""Marks come first, as in the package's trainer. The longest word has the most characters that are read."""
CHARACTERS = [*"Thecatsn.日本öï🙂<b", "\u3000", "<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]
"""Marks come last."""
SENTENCES = [
    ["The", "cat", "sat", "."],
    ["Ünïcödé", "日本語", "🙂", "naïve", "a" * 300, "x"],
    [],
    ["one"],
    ["<bos>", "", "\u3000", " ", "<oov>", "<eos>", "<pad>", "a" * 12, "a" * 13],
]


def config(**changes: Any) -> dict[str, Any]:
    """Return the small config with some keys of its first two blocks changed."""
    changed = deepcopy(CONFIG)
    for key, value in changes.items():
        next(changed[block] for block in ("encoder", "token_embedder") if key in CONFIG[block])[key] = value
    return changed


SIZES: dict[str, dict[str, Any]] = {
    "characters and words": config(),
    "characters": config(word_dim=0),
    "words": config(char_dim=0),
    "tanh, three layers, no clips, no highways": config(
        activation="tanh", n_layers=3, cell_clip=0, proj_clip=0, n_highway=0
    ),
    "words of up to 5 characters": config(max_characters_per_token=7, filters=[[1, 4], [7, 8]]),
    "filters that sum to the projection": config(word_dim=0, filters=[[1, 4], [3, 4]]),
}


def write_folder(folder: Path, sizes: dict[str, Any], as_zip: bool = False) -> Path:
    """Write a model with random weights like `biLM.py` saves it, by default with pickles in torch 0.4's format."""
    folder.mkdir(parents=True, exist_ok=True)
    layers = []
    for name, entries in (("word", WORDS), ("char", CHARACTERS)):
        dim, lexicon = sizes["token_embedder"][f"{name}_dim"], {entry: id for id, entry in enumerate(entries)}
        layers.append(EmbeddingLayer(dim, lexicon, fix_emb=False) if dim else None)
        if dim:
            lines = "".join(f"{entry}\t{id}\n" for entry, id in lexicon.items())
            (folder / f"{name}.dic").write_text(lines, encoding="utf-8")
    model = Model(sizes, *layers)
    _make_lively(model)
    for part in ("encoder", "token_embedder"):
        state = getattr(model, part).state_dict()
        torch.save(state, folder / f"{part}.pkl", _use_new_zipfile_serialization=as_zip)
    (folder / "config.json").write_text(
        json.dumps({"config_path": "/users/x/configs/sizes.json", "seed": 1}), encoding="utf-8"
    )
    (folder / "sizes.json").write_text(json.dumps(sizes), encoding="utf-8")
    return folder


def _make_lively(model: Model) -> None:
    """Set weights that reach the clips and the nonlinear parts of the gates."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            fan_in = parameter[0].numel() if parameter.dim() > 1 else 4
            parameter.copy_(1.5 * torch.randn(parameter.shape, generator=generator) / fan_in**0.5)


def its_layers(folder: Path, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
    """Return the package's layers (L, T, D) per sentence, from one batch: it carries its state to the next."""
    layers = Embedder(str(folder), batch_size=len(sentences)).sents2elmo(sentences, output_layer=-2)
    return [torch.from_numpy(array) for array in layers]
