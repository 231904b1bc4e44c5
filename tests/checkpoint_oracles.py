"""Checkpoints with everything that pretraining saves, archives of language models, and checks of both."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm import BiLM, CharacterLevelEncoder, ManyLangsEncoder, description_to_tensor, warm_up
from elmo_plugin.checkpoints import Checkpoint, Location, SavedSoftmax, load_checkpoint
from tests.oracles import SENTENCES, lively, options

WORDS = ["<S>", "</S>", "<UNK>", "the", "日本語", "\u2028", "a\x85b", '"', "\\n", "a\xa0b", "🙂", "cat"]
LEXICON: dict[str, Any] = {
    "max_characters_per_token": 14,
    "word_dim": 5,
    "words": ["<oov>", "The", "\u3000", "日本語", "a b", "a ", "<pad>"],
    "characters": [*"Thecatsn日öï🙂<", "<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"],
    "char_cnn": {"activation": "tanh", "filters": [[1, 4], [3, 8]], "n_highway": 1, "embedding": {"dim": 4}},
}
SOFTMAX = {"type": "adaptive", "cutoffs": [5, 8], "div_value": 4.0}


def pretrained(warm: bool = False, **changes: Any) -> Checkpoint:
    """Return a small biLM with a softmax and a vocabulary that holds unusual words."""
    bilm = lively(BiLM(options(**changes), source="random:0"))
    if isinstance(bilm.token_encoder, ManyLangsEncoder) and bilm.token_encoder.word_embedding is not None:
        bilm.token_encoder.word_embedding.weight.data[0] = 0.0  # the masked row
    if warm:
        bilm.warm_state = warm_up(bilm, [_ids(bilm)])
    generator = torch.Generator().manual_seed(7)
    softmax = {
        "head.weight": torch.randn(7, 8, generator=generator),
        "tail.0.1.weight": torch.randn(3, 2, generator=generator).t(),
        "counts": torch.tensor([0, 2**40, 3]),
    }
    state_dict = {name: value for name, value in bilm.state_dict().items() if name != "_extra_state"}
    return Checkpoint(bilm.options, state_dict, SavedSoftmax(SOFTMAX, softmax), list(WORDS))


def _ids(bilm: BiLM) -> Tensor:
    """Return input for such a biLM."""
    if isinstance(bilm.token_encoder, CharacterLevelEncoder):
        return bilm.token_encoder.batch_to_ids(SENTENCES)
    return torch.tensor([[4, 9, 3, 5], [6, 6, 0, 0]])


def language_model_weights(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Return the state dict of the Model `bilm`, or of a model with a biLM only if there is no softmax."""
    description = BiLM(checkpoint.options, source="random:0").get_extra_state()
    bilm = {f"bilm.{name}": value for name, value in checkpoint.state_dict.items()}
    if checkpoint.softmax is None:
        return {**bilm, "bilm._extra_state": description}
    softmax = {f"softmax.{name}": value for name, value in checkpoint.softmax.state_dict.items()}
    config = description_to_tensor(checkpoint.softmax.config)
    return {**bilm, "bilm._extra_state": description, **softmax, "softmax._extra_state": config}


def language_model_run(folder: Path, checkpoint: Checkpoint, weights: str = "best.th") -> Path:
    """Write the folder of a training run of the Model `bilm`, with its weights under this name."""
    (folder / "vocabulary").mkdir(parents=True, exist_ok=True)
    words = [{"<UNK>": "@@UNKNOWN@@"}.get(word, word) for word in checkpoint.vocabulary or []]
    (folder / "vocabulary/tokens.txt").write_bytes("\n".join([*words, ""]).encode())
    (folder / "vocabulary/non_padded_namespaces.txt").write_text("*labels\n*tags\n", encoding="utf-8")
    config = {"dataset_reader": {"type": "text_shards"}, "model": {"type": "bilm", "softmax": SOFTMAX}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    torch.save(language_model_weights(checkpoint), folder / weights)
    return folder


def language_model_archive(path: Path, checkpoint: Checkpoint) -> Path:
    """Write a `model.tar.gz` of the Model `bilm`, like AllenNLP packs a run."""
    run = language_model_run(path.parent / "packed", checkpoint, "weights.th")
    with tarfile.open(path, "w:gz") as archive:
        for name in ("config.json", "weights.th", "vocabulary"):
            archive.add(run / name, arcname=name)
    return path


def assert_same_state(actual: dict[str, Tensor], expected: dict[str, Tensor], atol: float = 0.0) -> None:
    """Check for the same tensors under the same names, apart from the biLM's description of itself."""
    assert actual.keys() - {"_extra_state"} == expected.keys()
    for name, value in expected.items():
        assert actual[name].dtype == value.dtype, name
        torch.testing.assert_close(actual[name], value, rtol=0, atol=atol, msg=name)


def assert_same_checkpoint(actual: Checkpoint, expected: Checkpoint) -> None:
    """Check all four parts bit for bit."""
    assert actual.options == expected.options
    assert actual.vocabulary == expected.vocabulary
    assert_same_state(actual.state_dict, expected.state_dict)
    assert (actual.softmax is None) == (expected.softmax is None)
    if actual.softmax is not None and expected.softmax is not None:
        assert actual.softmax.config == expected.softmax.config
        assert_same_state(actual.softmax.state_dict, expected.softmax.state_dict)


def rejection(location: Location) -> str:
    """Return the message of the `ConfigurationError` that reading a location raises."""
    with pytest.raises(ConfigurationError) as error:
        load_checkpoint(location)
    return str(error.value.message)


def assert_rejected(location: Location, *facts: object) -> None:
    """Check that reading a location raises a `ConfigurationError` that names these facts."""
    message = rejection(location)
    for fact in facts:
        assert str(fact) in message, message
