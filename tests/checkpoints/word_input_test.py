"""biLMs that read words by a vocabulary file in any order, against bilm-tf's own terms.

`tests.oracles.file_layers` computes from the files in NumPy, with ids that are looked up here; the golden activations
are TensorFlow's.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.models.archival import load_archive
from allennlp.modules import TokenEmbedder

from elmo_plugin.bilm import BiLM, CarriedState
from elmo_plugin.checkpoints import BilmTf, Native, build_bilm, convert, load_checkpoint
from elmo_plugin.elmo import Elmo
from elmo_plugin.embedding import load
from tests.checkpoint_oracles import assert_rejected
from tests.oracles import file_layers, options, tensorflow_file, write_json
from tests.task_oracles import D, L, allennlp, experiment, lstm, tags_reader, text_tensors, train

ORDERS = {
    "training": ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "."],
    "end first": ["</S>", "<S>", "<UNK>", "the", "cat", "sat", "."],
    "anywhere": ["the", "<UNK>", "cat", "</S>", "sat", "<S>", "."],
}
SENTENCES = [["the", "cat", "sat", "."], ["a", "cat"], [], ["."]]
"""`a` is in none of the vocabularies."""
SIZES: dict[str, Any] = {"lstm": options().lstm.to_dict()}
WITHOUT_UNKNOWN = ["<S>", "</S>", ".", "cat", "sat", "the"]
"""A vocabulary as bilm-tf's `usage_token.py` writes it."""


def write_pair(folder: Path, words: list[str], vocabulary: str = "vocabulary.txt") -> Path:
    """A word-input biLM in bilm-tf's files, and its vocabulary beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    tensorflow_file(folder, {**SIZES, "n_tokens_vocab": len(words)}, len(words))
    (folder / vocabulary).write_text("\n".join([*words, ""]), encoding="utf-8")
    return folder


def ids_of(words: list[str]) -> dict[str, int]:
    """Return the id of each word, which is its line number."""
    return {word: line for line, word in enumerate(words, 1)}


def assert_embedded(
    arrays: list[np.ndarray], folder: Path, words: list[str], sentences: list[list[str]] = SENTENCES
) -> None:
    """Check the layers (L, T, D) of sentences, without `<S>` and `</S>`."""
    ids = ids_of(words)
    for array, sentence in zip(arrays, sentences, strict=True):
        sentence_ids = [ids[word] if word in ids else ids["<UNK>"] for word in sentence]
        layers = file_layers(folder, sentence_ids, boundaries=(ids["<S>"], ids["</S>"]))
        np.testing.assert_allclose(array, layers[:, 1:-1].numpy(), rtol=0, atol=1e-5)


@torch.no_grad()
def assert_cat_is_embedded(bilm: BiLM, folder: Path, words: list[str]) -> None:
    """Check a biLM that is given ids, without a vocabulary of its own."""
    layers = bilm(torch.tensor([[ids_of(words)["cat"]]])).layers[:, 0, 1:-1]
    assert_embedded([layers.numpy()], folder, words, [["cat"]])


@pytest.mark.parametrize(("name", "words"), [("vocabulary.txt", ORDERS["training"]), ("vocab.txt", ORDERS["anywhere"])])
def test_load_looks_the_boundaries_up(tmp_path: Path, name: str, words: list[str]) -> None:
    folder = write_pair(tmp_path, words, name)
    assert_embedded(load(folder).embed(SENTENCES), folder, words)
    assert_embedded(load(folder / "weights.hdf5").embed(SENTENCES), folder, words)


def test_embed_corpus_looks_the_boundaries_up_and_names_an_unknown_word(tmp_path: Path) -> None:
    words = ORDERS["anywhere"]
    folder = write_pair(tmp_path / "bilm", words)
    (tmp_path / "text").write_text("".join(f"{' '.join(sentence)}\n" for sentence in SENTENCES), encoding="utf-8")
    pair = ("--options-file", folder / "options.json", "--weight-file", folder / "weights.hdf5")
    allennlp("embed-corpus", tmp_path / "text", tmp_path / "out.hdf5", *pair)
    with h5py.File(tmp_path / "out.hdf5", "r") as file:
        assert_embedded([file[str(line)][...] for line in range(len(SENTENCES))], folder, words)
    without = write_pair(tmp_path / "without", WITHOUT_UNKNOWN)
    with pytest.raises(SystemExit, match=r"embed-corpus: .*'a'"):
        allennlp("embed-corpus", tmp_path / "text", tmp_path / "none.hdf5", "--bilm", without)


def test_the_boundaries_survive_conversions(tmp_path: Path) -> None:
    words = ORDERS["anywhere"]
    folder = write_pair(tmp_path / "bilm", words)
    convert(folder, tmp_path / "native.safetensors")
    assert_embedded(load(tmp_path / "native.safetensors").embed(SENTENCES), folder, words)
    convert(tmp_path / "native.safetensors", tmp_path / "back")
    assert_embedded(load(tmp_path / "back").embed(SENTENCES), folder, words)
    (tmp_path / "back/vocabulary.txt").unlink()
    assert_cat_is_embedded(build_bilm(load_checkpoint(tmp_path / "back")), folder, words)


def task_vocabulary(folder: Path, words: list[str]) -> Path:
    """A vocabulary file as AllenNLP reads it."""
    folder.mkdir()
    (folder / "tokens.txt").write_text("\n".join([*words, ""]), encoding="utf-8")
    (folder / "non_padded_namespaces.txt").write_text("*labels\n*tags\n", encoding="utf-8")
    return folder


def from_files(folder: Path, oov_token: str = "<UNK>") -> Vocabulary:
    return Vocabulary.from_files(str(folder), oov_token=oov_token)


def embedder(vocab: Vocabulary, **keys: Any) -> TokenEmbedder:
    keys = {"type": "elmo", "mix": "concatenate", "dropout": 0.0, **keys}
    return TokenEmbedder.from_params(Params(keys), vocab=vocab)


@torch.no_grad()
def embedded(sentences: list[list[str]], vocab: Vocabulary, **keys: Any) -> list[np.ndarray]:
    """Return the layers (L, T, D) of each sentence of a batch."""
    ids = text_tensors(sentences, vocab)["tokens"]["tokens"]
    vectors = embedder(vocab, **keys)(ids).unflatten(-1, (L, D))  # (B, T, L, D)
    return [row[: len(sentence)].transpose(0, 1).numpy() for row, sentence in zip(vectors, sentences, strict=True)]


def sources(folder: Path) -> list[dict[str, Any]]:
    """The ways in which a config can name the pair in a folder."""
    pair = {"options_file": str(folder / "options.json"), "weight_file": str(folder / "weights.hdf5")}
    return [{"bilm": {"pretrained": str(folder)}}, pair]


@pytest.mark.parametrize("beside", [True, False])
def test_a_config_looks_them_up(tmp_path: Path, beside: bool) -> None:
    """They are in the vocabulary file beside the weights, or else in AllenNLP's vocabulary."""
    words = ORDERS["anywhere"]
    folder = write_pair(tmp_path / "bilm", words)
    if not beside:
        (folder / "vocabulary.txt").unlink()
    vocab = from_files(task_vocabulary(tmp_path / "vocabulary", words))
    for keys in sources(folder):
        assert_embedded(embedded(SENTENCES, vocab, **keys), folder, words)


def test_a_vocabulary_of_the_same_size_in_another_order_is_an_error(tmp_path: Path) -> None:
    folder = write_pair(tmp_path / "bilm", ORDERS["end first"])
    vocab = from_files(task_vocabulary(tmp_path / "vocabulary", ORDERS["training"]))
    for keys in sources(folder):
        with pytest.raises(ConfigurationError, match=r"'tokens', id 1: .*'</S>'.*'<S>'"):
            embedder(vocab, **keys)


def test_the_boundaries_survive_archives(tmp_path: Path) -> None:
    """This holds even if the weights and the vocabulary file no longer exist."""
    words = ORDERS["anywhere"]
    folder = write_pair(tmp_path / "bilm", words)
    (tmp_path / "data.txt").write_text("the O\ncat B-X\nsat O\n\na O\n. B-X\n", encoding="utf-8")
    vocabulary = task_vocabulary(tmp_path / "vocabulary", words)
    elmo = {"type": "elmo", "mix": "concatenate", "dropout": 0.0, "bilm": {"pretrained": str(folder)}}
    model = {
        "type": "simple_tagger",
        "text_field_embedder": {"type": "basic", "token_embedders": {"elmo": elmo}},
        "encoder": lstm(L * D),
    }
    reader = tags_reader(token_indexers={"elmo": {"type": "single_id"}})
    config = experiment(model, reader, tmp_path / "data.txt")
    config["vocabulary"] = {
        "type": "extend",
        "directory": str(vocabulary),
        "oov_token": "<UNK>",
        "min_count": {"tokens": 10**9},
    }
    train(config, tmp_path / "run")
    shutil.copytree(folder, tmp_path / "kept")
    shutil.rmtree(folder)
    shutil.rmtree(vocabulary)
    archive = load_archive(tmp_path / "run/model.tar.gz").model
    (elmo_module,) = [module for module in archive.modules() if isinstance(module, Elmo)]
    assert_cat_is_embedded(elmo_module.bilm, tmp_path / "kept", words)


def test_a_vocabulary_that_is_not_as_long_as_the_table_is_rejected(tmp_path: Path) -> None:
    words = ORDERS["training"][:-1]
    folder = write_pair(tmp_path / "bilm", ORDERS["training"])
    checkpoint = load_checkpoint(folder)
    (folder / "vocabulary.txt").write_text("\n".join(words), encoding="utf-8")
    assert_rejected(folder, folder / "vocabulary.txt", 7, len(words))
    Native().write(checkpoint._replace(vocabulary=words), tmp_path / "bilm.safetensors")
    assert_rejected(tmp_path / "bilm.safetensors", tmp_path / "bilm.safetensors", 7, len(words))


def test_a_vocabulary_without_a_boundary_is_rejected(tmp_path: Path) -> None:
    folder = write_pair(tmp_path, ["<S>", "other", *ORDERS["training"][2:]])
    assert_rejected(folder, folder / "vocabulary.txt", "'</S>'")


def test_two_vocabularies_are_rejected(tmp_path: Path) -> None:
    folder = write_pair(tmp_path, ORDERS["end first"])
    shutil.copy(folder / "vocabulary.txt", folder / "vocab.txt")
    assert_rejected(folder, "vocab.txt", "vocabulary.txt")


def test_a_written_pair_is_not_read_by_another_bilms_vocabulary(tmp_path: Path) -> None:
    folder = write_pair(tmp_path / "bilm", ORDERS["end first"])
    checkpoint = load_checkpoint(folder)
    (tmp_path / "target").mkdir()
    (tmp_path / "target/vocab.txt").write_text("\n".join(ORDERS["training"]), encoding="utf-8")
    for written in (checkpoint, checkpoint._replace(vocabulary=None)):
        with pytest.raises(ConfigurationError, match=r"vocab\.txt"):
            BilmTf().write(written, tmp_path / "target")


def test_without_an_unknown_word_known_ones_are_embedded_and_others_are_named(tmp_path: Path) -> None:
    folder = write_pair(tmp_path / "bilm", WITHOUT_UNKNOWN)
    convert(folder, tmp_path / "native.safetensors")
    for location in (folder, tmp_path / "native.safetensors"):
        assert_embedded(load(location).embed([["the", "cat"]]), folder, WITHOUT_UNKNOWN, [["the", "cat"]])
        with pytest.raises(ConfigurationError, match="'zebra'"):
            load(location).embed([["the", "cat"], ["the", "zebra"]])


def test_a_word_that_stands_for_unknown_ones_is_an_error(tmp_path: Path) -> None:
    """Otherwise every unknown word would be read as the end of a sentence."""
    folder = write_pair(tmp_path / "bilm", WITHOUT_UNKNOWN)
    vocab = from_files(task_vocabulary(tmp_path / "vocabulary", WITHOUT_UNKNOWN), "</S>")
    for keys in sources(folder):
        with pytest.raises(ConfigurationError, match="'</S>'"):
            embedder(vocab, **keys)


def test_golden_activations_of_the_original_on_words(tmp_path: Path) -> None:
    """`test_bilm_token` of bilm-tf's `tests/test_model.py`: ten batches, the state carried from each to the next.

    The LSTMs of the fixture read its token embeddings, whose vocabulary is in no particular order.
    """
    if not os.environ.get("ELMO_FIXTURE"):
        pytest.skip("ELMO_FIXTURE names no folder with the golden activations of the TensorFlow original")
    fixture = Path(os.environ["ELMO_FIXTURE"])
    lines = (fixture / "vocab_test.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
    (tmp_path / "vocab.txt").write_bytes((fixture / "vocab_test.txt").read_bytes())
    sizes = json.loads((fixture / "options.json").read_text(encoding="utf-8"))
    write_json(tmp_path / "options.json", {"lstm": sizes["lstm"], "char_cnn": None})
    with h5py.File(tmp_path / "weights.hdf5", "w") as file:
        for name, source in (("lm_weights", ("RNN_0", "RNN_1")), ("elmo_token_embeddings", ("embedding",))):
            with h5py.File(fixture / f"{name}.hdf5", "r") as original:
                for part in source:
                    original.copy(part, file)
    texts = json.loads((fixture / "sentences.json").read_text(encoding="utf-8"))
    bilm, carried = build_bilm(load_checkpoint(tmp_path)), CarriedState()
    ids = ids_of(lines)
    for k, batch in enumerate(zip(*texts, strict=True)):
        sentences = [text.split() for text in batch]
        inputs = bilm.ids_of(sentences, ids.__getitem__)
        with torch.no_grad():
            output = bilm(inputs, carried.before(bilm, len(sentences), next(bilm.parameters())))
        carried.after(output.state)
        for j, sentence in enumerate(sentences):
            with h5py.File(fixture / f"lm_embeddings_{j}.hdf5", "r") as file:
                wanted = torch.tensor(file[str(k)][...])  # (2, T, P)
            top = output.layers[-1, j, 1 : len(sentence) + 1]  # (T, D)
            torch.testing.assert_close(torch.stack(top.chunk(2, dim=-1)), wanted, rtol=0, atol=1e-5)
