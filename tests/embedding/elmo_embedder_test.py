"""The retired `ElmoEmbedder`, compared with what its code did: AllenNLP's biLM from zeros, and its hdf5 layout."""

import importlib
import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.elmo import _ElmoBiLm
from allennlp.nn.util import remove_sentence_boundaries

from elmo_plugin import Elmo, ElmoEmbedder, batch_to_ids, load
from tests.oracles import SENTENCES, write_files
from tests.task_oracles import D, L, allennlp, small_bilm

LINES = ["The cat sat .", "and / or", "Don't", "The cat sat .", "Ünïcödé 日本語"]


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The small biLM in bilm-tf's files, and a text, in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return write_files(tmp_path, small_bilm())


def reference(pair: tuple[str, str], batch: list[list[str]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Activations (B, L, T, D) and mask (B, T), by AllenNLP's own biLM."""
    output = _ElmoBiLm(*pair)(batch_to_ids(batch))
    inside = [remove_sentence_boundaries(layer, output["mask"]) for layer in output["activations"]]
    return torch.stack([layer for layer, _ in inside], dim=1), inside[0][1]


def arrays(path: str) -> dict[str, np.ndarray]:
    with h5py.File(path) as file:
        return {key: dataset[()] for key, dataset in file.items() if key != "sentence_to_index"}


def test_a_batch_becomes_the_tensors_of_the_original(pair: tuple[str, str]) -> None:
    activations, mask = ElmoEmbedder(*pair).batch_to_embeddings(SENTENCES)
    wanted, wanted_mask = reference(pair, SENTENCES)
    assert activations.shape == wanted.shape == (len(SENTENCES), L, 6, D)
    assert activations.dtype == torch.float32 and mask.dtype == torch.long and not activations.requires_grad
    assert mask.tolist() == wanted_mask.long().tolist()
    torch.testing.assert_close(activations, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("batch", [[[], []], []])
def test_a_batch_without_tokens_becomes_empty_tensors(pair: tuple[str, str], batch: list[list[str]]) -> None:
    activations, mask = ElmoEmbedder(*pair).batch_to_embeddings(batch)
    assert activations.shape == (len(batch), L, 0, D) and mask.shape == (len(batch), 0)


@pytest.mark.parametrize("batch_size", [1, 64])
def test_sentences_are_embedded_in_order_for_any_batch_size(pair: tuple[str, str], batch_size: int) -> None:
    old = ElmoEmbedder(*pair)
    found = list(old.embed_sentences(iter(SENTENCES), batch_size))
    ours = load(pair[1]).embed(SENTENCES)
    for sentence, array, other, wanted in zip(SENTENCES, found, old.embed_batch(SENTENCES), ours, strict=True):
        assert array.shape == other.shape == (L, len(sentence), D) and array.dtype == np.float32
        if sentence:
            np.testing.assert_allclose(array, reference(pair, [sentence])[0][0], atol=1e-5)
        np.testing.assert_allclose(array, wanted, atol=1e-6)
        np.testing.assert_allclose(other, wanted, atol=1e-6)
        np.testing.assert_allclose(old.embed_sentence(sentence), array, atol=1e-6)


def test_embed_file_writes_the_hdf5_of_the_original_and_of_embed_corpus(pair: tuple[str, str]) -> None:
    with Path("text").open(encoding="utf-8") as text:
        ElmoEmbedder(*pair).embed_file(text, "out.hdf5")
        assert text.closed
    found = arrays("out.hdf5")
    assert set(found) == set(map(str, range(len(LINES))))
    for number, line in enumerate(LINES):
        wanted = reference(pair, [line.split()])[0][0].numpy()
        assert found[str(number)].dtype == np.float32
        np.testing.assert_allclose(found[str(number)], wanted, atol=1e-5)
    with h5py.File("out.hdf5") as file:
        assert file["sentence_to_index"].shape == (1,)
        index = json.loads(file["sentence_to_index"][0])
    assert index == {line: str(number) for number, line in enumerate(LINES)}
    files = ("--options-file", pair[0], "--weight-file", pair[1])
    allennlp("embed-corpus", "text", "command.hdf5", "--all", *files, "--batch-size", 64)
    assert Path("command.hdf5").read_bytes() == Path("out.hdf5").read_bytes()


def test_a_wrong_format_is_an_error_and_keeps_an_existing_file(pair: tuple[str, str]) -> None:
    Path("out").write_text("good")
    with pytest.raises(ConfigurationError, match=r"'mix': .*'best'"):
        ElmoEmbedder(*pair).embed_file(["a"], "out", "best")  # type: ignore[arg-type]
    assert Path("out").read_text() == "good"


def test_the_retired_import_and_the_carried_state_say_where_to_go(tmp_path: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match="from elmo_plugin import ElmoEmbedder") as raised:
        importlib.import_module("allennlp.commands.elmo")
    assert raised.value.name == "allennlp.commands.elmo"
    with pytest.raises(ConfigurationError, match=r"'carried'.*elmo_plugin\.Elmo\(bilm=…, initial_state='carried'\)"):
        ElmoEmbedder(*write_files(tmp_path, small_bilm()), initial_state="carried")
    assert Elmo(bilm=str(tmp_path), initial_state="carried").initial_state.name == "carried"
