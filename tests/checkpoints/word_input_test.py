"""biLMs that read words by a vocabulary file in any order, against bilm-tf's own terms.

`tests.oracles.file_layers` computes from the files in NumPy, with ids that are looked up here; the golden activations
are TensorFlow's.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.models.archival import load_archive

from elmo_plugin.bilm import BiLM
from elmo_plugin.checkpoints import BilmTf, Native, build_bilm, convert, load_checkpoint
from elmo_plugin.elmo import ElmoTokenEmbedder, trained_elmo
from elmo_plugin.embedding import load
from tests.checkpoint_oracles import assert_rejected
from tests.oracles import assert_golden_activations, file_layers, options, tensorflow_file, write_json
from tests.task_oracles import D, L, experiment, lstm, tags_reader, text_tensors, train

IN_TRAINING = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "."]
ANYWHERE = ["the", "<UNK>", "cat", "</S>", "sat", "<S>", "."]
WITHOUT_UNKNOWN = ["<S>", "</S>", ".", "cat", "sat", "the"]
"""A vocabulary as bilm-tf's `usage_token.py` writes it."""
SENTENCES = [["the", "cat", "sat", "."], ["a", "cat"], [], ["."]]
"""`a` is in none of the vocabularies."""


def write_pair(folder: Path, words: list[str], vocabulary: str = "vocabulary.txt") -> Path:
    """A word-input biLM in bilm-tf's files, and its vocabulary beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    tensorflow_file(folder, {"lstm": options().lstm.to_dict(), "n_tokens_vocab": len(words)}, len(words))
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


@pytest.mark.parametrize(("name", "words"), [("vocabulary.txt", IN_TRAINING), ("vocab.txt", ANYWHERE)])
def test_the_boundaries_are_looked_up_and_survive_conversions(tmp_path: Path, name: str, words: list[str]) -> None:
    folder, native = write_pair(tmp_path / "bilm", words, name), tmp_path / "native.safetensors"
    convert(folder, native)
    convert(native, tmp_path / "back")
    for place in (folder, folder / "weights.hdf5", native, tmp_path / "back"):
        assert_embedded(load(place).embed(SENTENCES), folder, words)
    (tmp_path / "back/vocabulary.txt").unlink()
    assert_cat_is_embedded(build_bilm(load_checkpoint(tmp_path / "back")), folder, words)


def test_without_an_unknown_word_known_ones_are_embedded_and_others_are_named(tmp_path: Path) -> None:
    folder = write_pair(tmp_path, WITHOUT_UNKNOWN)
    assert_embedded(load(folder).embed([["the", "cat"]]), folder, WITHOUT_UNKNOWN, [["the", "cat"]])
    with pytest.raises(ConfigurationError, match="'zebra'"):
        load(folder).embed([["the", "cat"], ["the", "zebra"]])


def task_vocabulary(folder: Path, words: list[str]) -> Path:
    """A vocabulary file as AllenNLP reads it."""
    folder.mkdir()
    (folder / "tokens.txt").write_text("\n".join([*words, ""]), encoding="utf-8")
    (folder / "non_padded_namespaces.txt").write_text("*labels\n*tags\n", encoding="utf-8")
    return folder


@torch.no_grad()
@pytest.mark.parametrize("beside", [True, False])
def test_a_config_looks_them_up_beside_the_weights_or_in_allennlps_vocabulary(tmp_path: Path, beside: bool) -> None:
    folder = write_pair(tmp_path / "bilm", ANYWHERE)
    if not beside:
        (folder / "vocabulary.txt").unlink()
    vocab = Vocabulary.from_files(str(task_vocabulary(tmp_path / "vocabulary", ANYWHERE)), oov_token="<UNK>")
    embedder = ElmoTokenEmbedder(bilm=str(folder), mix="concatenate", dropout=0.0, vocab=vocab)
    vectors = embedder(text_tensors(SENTENCES, vocab)["tokens"]["tokens"]).unflatten(-1, (L, D))  # (B, T, L, D)
    rows = zip(vectors, SENTENCES, strict=True)
    layers = [row[: len(sentence)].transpose(0, 1).numpy() for row, sentence in rows]
    assert_embedded(layers, folder, ANYWHERE)


@pytest.mark.parametrize(
    ("own", "words", "unknown"),
    [
        (ANYWHERE, IN_TRAINING, "<UNK>"),  # of the same size in another order
        (IN_TRAINING, IN_TRAINING[:-1], "<UNK>"),
        (WITHOUT_UNKNOWN, WITHOUT_UNKNOWN, "</S>"),  # every unknown word would be read as the end of a sentence
    ],
)
def test_a_task_vocabulary_with_other_ids_is_an_error(
    tmp_path: Path, own: list[str], words: list[str], unknown: str
) -> None:
    folder = write_pair(tmp_path / "bilm", own)
    vocab = Vocabulary.from_files(str(task_vocabulary(tmp_path / "vocabulary", words)), oov_token=unknown)
    with pytest.raises(ConfigurationError, match=rf"'vocabulary': .* {len(own)} words .* got tokens"):
        ElmoTokenEmbedder(bilm=str(folder), vocab=vocab)


def test_the_boundaries_survive_archives(tmp_path: Path) -> None:
    """This holds even if the weights and the vocabulary file no longer exist."""
    folder = write_pair(tmp_path / "bilm", ANYWHERE)
    (tmp_path / "data.txt").write_text("the O\ncat B-X\nsat O\n\na O\n. B-X\n", encoding="utf-8")
    vocabulary = task_vocabulary(tmp_path / "vocabulary", ANYWHERE)
    elmo = {"type": "elmo", "mix": "concatenate", "dropout": 0.0, "bilm": str(folder)}
    embedder = {"type": "basic", "token_embedders": {"elmo": elmo}}
    model = {"type": "simple_tagger", "text_field_embedder": embedder, "encoder": lstm(L * D)}
    reader = tags_reader(token_indexers={"elmo": {"type": "single_id"}})
    config = experiment(model, reader, tmp_path / "data.txt")
    own_words: dict[str, Any] = {"type": "extend", "directory": str(vocabulary), "oov_token": "<UNK>"}
    train({**config, "vocabulary": {**own_words, "min_count": {"tokens": 10**9}}}, tmp_path / "run")
    shutil.copytree(folder, tmp_path / "kept")
    shutil.rmtree(folder)
    shutil.rmtree(vocabulary)
    elmo_module, _ = trained_elmo(load_archive(tmp_path / "run/model.tar.gz").model)
    assert_cat_is_embedded(elmo_module.bilm, tmp_path / "kept", ANYWHERE)


def test_a_vocabulary_that_does_not_fit_the_table_is_rejected(tmp_path: Path) -> None:
    folder = write_pair(tmp_path, IN_TRAINING)
    checkpoint, words = load_checkpoint(folder), IN_TRAINING[:-1]
    shutil.copy(folder / "vocabulary.txt", folder / "vocab.txt")
    assert_rejected(folder, "vocab.txt", "vocabulary.txt")
    (folder / "vocab.txt").unlink()
    (folder / "vocabulary.txt").write_text("\n".join(words), encoding="utf-8")
    assert_rejected(folder, folder / "vocabulary.txt", 7, len(words))
    Native().write(checkpoint._replace(vocabulary=words), tmp_path / "bilm.safetensors")
    assert_rejected(tmp_path / "bilm.safetensors", tmp_path / "bilm.safetensors", 7, len(words))
    (folder / "vocabulary.txt").write_text("\n".join(["<S>", "other", *IN_TRAINING[2:]]), encoding="utf-8")
    assert_rejected(folder / "weights.hdf5", folder / "vocabulary.txt", "'</S>'")


def test_a_written_pair_is_not_read_by_another_bilms_vocabulary(tmp_path: Path) -> None:
    checkpoint = load_checkpoint(write_pair(tmp_path / "bilm", ANYWHERE))
    (tmp_path / "target").mkdir()
    (tmp_path / "target/vocab.txt").write_text("\n".join(IN_TRAINING), encoding="utf-8")
    for written in (checkpoint, checkpoint._replace(vocabulary=None)):
        with pytest.raises(ConfigurationError, match=r"vocab\.txt"):
            BilmTf().write(written, tmp_path / "target")


def test_golden_activations_of_the_original_on_words(golden: Path, tmp_path: Path) -> None:
    """`test_bilm_token` of bilm-tf's `tests/test_model.py`.

    The LSTMs of the fixture read its token embeddings, whose vocabulary is in no particular order.
    """
    shutil.copy(golden / "vocab_test.txt", tmp_path / "vocab.txt")
    sizes = json.loads((golden / "options.json").read_text(encoding="utf-8"))
    write_json(tmp_path / "options.json", {"lstm": sizes["lstm"], "char_cnn": None})
    with h5py.File(tmp_path / "weights.hdf5", "w") as file:
        for name, source in (("lm_weights", ("RNN_0", "RNN_1")), ("elmo_token_embeddings", ("embedding",))):
            with h5py.File(golden / f"{name}.hdf5", "r") as original:
                for part in source:
                    original.copy(part, file)
    checkpoint = load_checkpoint(tmp_path)
    assert checkpoint.vocabulary is not None
    bilm, ids = build_bilm(checkpoint), ids_of(checkpoint.vocabulary)
    assert_golden_activations(golden, bilm, lambda sentences: bilm.ids_of(sentences, ids.__getitem__))
