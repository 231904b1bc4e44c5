"""Tokens to arrays, compared with `Elmo.layers` of one sentence at a time and with AllenNLP's ELMo."""

import copy
import pickle
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import load_archive

import elmo_plugin
from elmo_plugin.bilm import WordEncoder, ZeroState
from elmo_plugin.elmo import ConcatenateMix, Elmo, ElmoTokenEmbedder
from elmo_plugin.embedding import Embedder, load, maximum, mean
from elmo_plugin.text import batch_to_ids
from tests import many_langs_oracle
from tests.elmo.small_elmo import RANDOM
from tests.oracles import SENTENCES, reference_elmo, reference_layers, write_files
from tests.task_oracles import TOWNS, D, L, experiment, lstm, small_bilm, tagger, tags_reader, train, warm_bilm

VOCABULARY = "<S>\n</S>\n<UNK>\nboat\nleaks\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The small biLM in bilm-tf's files."""
    write_files(tmp_path / "bilm", small_bilm())
    return tmp_path / "bilm"


def layers_of(sentence: list[str]) -> np.ndarray:
    """(L, T, D), from the biLM alone and the sentence alone."""
    elmo = Elmo.from_parts(small_bilm().requires_grad_(False), [ConcatenateMix(L, D)], dropout=0.0)
    return elmo.layers(batch_to_ids([sentence]))[0][:, 0, 1 : len(sentence) + 1].numpy()


def tagger_archive(folder: Path, **elmo: Any) -> Path:
    """The archive of a tagger that was trained with ELMo at its input."""
    model = tagger(elmo, elmo_at=["input"], encoder=lstm(D))
    train(experiment(model, tags_reader(), TOWNS, num_epochs=1), folder)
    return folder / "model.tar.gz"


def elmo_in(archive: Path) -> Elmo:
    """The ELMo of an archived model."""
    (elmo,) = (module for module in load_archive(archive).model.eval().modules() if isinstance(module, Elmo))
    return elmo


def check_first_representation(arrays: list[np.ndarray], elmo: Elmo) -> None:
    """Compare the arrays of `SENTENCES` with what the ELMo of a model passes on to it."""
    with torch.no_grad():
        wanted = elmo(batch_to_ids(SENTENCES)).representations[0]  # (B, T, D)
    for sentence, array, vectors in zip(SENTENCES, arrays, wanted, strict=True):
        np.testing.assert_allclose(array, vectors[: len(sentence)], atol=1e-6)


def test_all_layers_are_those_of_each_sentence_alone_in_the_order_given(folder: Path) -> None:
    arrays = load(folder).embed(SENTENCES)
    assert load(folder).embed([]) == []
    assert [array.shape for array in arrays] == [(L, len(sentence), D) for sentence in SENTENCES]
    for array, sentence in zip(arrays, SENTENCES, strict=True):
        assert array.dtype == np.float32 and array.flags.owndata
        np.testing.assert_allclose(array, layers_of(sentence), atol=1e-6)


def test_each_mix_equals_its_formula_on_the_layers_of_allennlp(folder: Path, tmp_path: Path) -> None:
    theirs = reference_layers(reference_elmo(tmp_path, small_bilm()), batch_to_ids(SENTENCES))  # (L, B, T + 2, D)
    formulas: dict[str, Any] = {
        "all": lambda layers: layers,
        "last": lambda layers: layers[-1],
        "top": lambda layers: layers[-1],
        "average": lambda layers: layers.mean(axis=0),
        "concatenate": lambda layers: np.concatenate(list(layers), axis=-1),
    }
    for mix, formula in formulas.items():
        for row, (array, sentence) in enumerate(zip(load(folder, mix).embed(SENTENCES), SENTENCES, strict=True)):
            layers = theirs[:, row, 1 : len(sentence) + 1].detach().numpy()
            np.testing.assert_allclose(array, formula(layers), atol=1e-5)


def test_a_bilm_of_words_reads_its_own_vocabulary(tmp_path: Path) -> None:
    bilm = small_bilm(char_cnn=None, n_tokens_vocab=5)
    assert isinstance(bilm.token_encoder, WordEncoder)
    write_files(tmp_path, bilm)
    with pytest.raises(ConfigurationError, match=r"weights.*expected a vocabulary, because it reads words"):
        load(tmp_path / "weights.hdf5")
    (tmp_path / "vocabulary.txt").write_text(VOCABULARY, encoding="utf-8")
    known, unknown, empty = load(tmp_path).embed([["boat", "leaks"], ["nothing"], []])
    with torch.no_grad():
        wanted = bilm(torch.tensor([[4, 5], [3, 0]])).layers  # (L, 2, 4, D)
    np.testing.assert_allclose(known, wanted[:, 0, 1:3], atol=1e-6)
    np.testing.assert_allclose(unknown, wanted[:, 1, 1:2], atol=1e-6)
    assert empty.shape == (L, 0, D)


@pytest.mark.usefixtures("native_bfloat16")
def test_the_bundled_bilm_goes_by_its_name_from_the_package_itself() -> None:
    (array,) = elmo_plugin.load("english-tiny").embed([["The", "ship", "sank", "."]])
    assert array.shape[1] == 4 and array.any()
    (half,) = elmo_plugin.load("english-tiny", precision="bfloat16").embed([["The", "ship", "sank", "."]])
    assert half.dtype == np.float32 and not np.array_equal(half, array)
    np.testing.assert_allclose(half, array, atol=0.1)


def test_the_trained_mix_of_a_file_without_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "model.tar.gz").write_bytes(b"no archive")
    with pytest.raises(ConfigurationError, match=r"model\.tar\.gz': expected the archive of a trained model"):
        load(tmp_path / "model.tar.gz", "trained")
    with pytest.raises(ConfigurationError, match=r"'bilm' is .*nowhere"):
        load(tmp_path / "nowhere", "trained")


def test_the_trained_mix_behind_elmo_enhanced_is_that_of_its_input(tmp_path: Path) -> None:
    elmo = {"type": "elmo", "bilm": RANDOM, "mix": "concatenate", "dropout": 0.0}
    weights = {"type": "scalar", "initial_scalar_parameters": [2.0, 0.0, -2.0]}
    encoder = {"type": "elmo_enhanced", "encoder": lstm(D), "num_elmo_layers": L, "layer_dim": D, "input_mix": weights}
    model = {"type": "simple_tagger", "encoder": encoder}
    model["text_field_embedder"] = {"type": "basic", "token_embedders": {"elmo": elmo}}
    reader = tags_reader(token_indexers={"elmo": {"type": "elmo_characters"}})
    trained = train(experiment(model, reader, TOWNS), tmp_path / "run")
    with torch.no_grad():
        layers = trained.text_field_embedder.token_embedder_elmo.elmo.layers(batch_to_ids(SENTENCES[:1]))  # type: ignore
        wanted = trained.encoder.input_mix(*layers)[0, 1:-1]  # type: ignore
    (found,) = load(tmp_path / "run/model.tar.gz", "trained").embed(SENTENCES[:1])
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.fixture
def warm(tmp_path: Path) -> Path:
    """The small biLM with a warm state, in bilm-tf's files."""
    write_files(tmp_path / "warm", warm_bilm())
    return tmp_path / "warm"


def test_a_warm_start_gives_the_vectors_of_the_token_embedder_elmo(warm: Path) -> None:
    keys = {"bilm": {"pretrained": str(warm)}, "dropout": 0.0, "mix": {"type": "last"}, "initial_state": "warm"}
    with torch.no_grad():
        vectors = ElmoTokenEmbedder.from_params(Params(keys)).eval()(batch_to_ids(SENTENCES))  # (B, T, D)
    cold = load(warm, "last").embed(SENTENCES)
    for row, array in enumerate(load(warm, "last", initial_state="warm").embed(SENTENCES)):
        np.testing.assert_allclose(array, vectors[row, : len(array)], atol=1e-6)
        assert not len(array) or not np.allclose(array, cold[row], atol=1e-3)


def test_a_file_without_a_warm_state_is_named(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"'initial_state'.*bilm holds no warm state"):
        load(folder, initial_state="warm")


@pytest.mark.slow
def test_the_trained_mix_is_that_of_the_model_and_starts_as_it_does_unless_told_otherwise(
    warm: Path, tmp_path: Path
) -> None:
    archive = tagger_archive(tmp_path / "run", bilm={"pretrained": str(warm)}, initial_state="warm")
    (tmp_path / "run/best.th").unlink()
    trained = elmo_in(archive)
    assert trained.mixes[0].scalar_parameters.abs().max() > 0.001
    check_first_representation(load(archive, "trained").embed(SENTENCES), trained)
    trained.initial_state = ZeroState()
    check_first_representation(load(archive, "trained", initial_state="zero").embed(SENTENCES), trained)


def every_kind(folder: Path) -> list[Embedder]:
    """Embedders with ids of characters, of a vocabulary and of lexicons."""
    write_files(folder / "words", small_bilm(char_cnn=None, n_tokens_vocab=5))
    (folder / "words/vocabulary.txt").write_text(VOCABULARY, encoding="utf-8")
    many_langs_oracle.write_folder(folder / "many", many_langs_oracle.config())
    write_files(folder / "characters", warm_bilm())
    return [
        load(folder / "characters"),
        load(folder / "characters", "top", "bfloat16", initial_state="warm"),
        load(folder / "words", "average"),
        load(folder / "many"),
    ]


def test_a_pickle_and_a_deep_copy_give_equal_vectors_before_and_after_the_first_use(tmp_path: Path) -> None:
    for made in every_kind(tmp_path):
        for _ in range(2):
            copies = [pickle.loads(pickle.dumps(made)), copy.deepcopy(made)]
            wanted = made.embed([["boat", "leaks"], ["nothing"], []])
            for copied in copies:
                assert repr(copied) == repr(made)
                for found, array in zip(copied.embed([["boat", "leaks"], ["nothing"], []]), wanted, strict=True):
                    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"mix": "best"}, "'mix': .*trained.*'best'"),
        ({"cuda_device": 99}, "'cuda_device': .*99"),
        ({"cuda_device": "cuda:0"}, "'cuda_device'.*'cuda:0'"),
        ({"precision": None}, "'precision'.*None"),
        ({"initial_state": "carried"}, "'initial_state': expected 'zero' or 'warm', got"),
        ({"bilm": None}, "'bilm'.*path"),
    ],
)
def test_unknown_arguments_are_errors(folder: Path, keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        load(**{"bilm": folder, **keys})


@pytest.mark.slow
def test_threads_that_share_an_embedder_get_the_vectors_of_one_thread(folder: Path) -> None:
    questions = [[f"Word{number % 7}{place}" for place in range(number % 5 + 1)] for number in range(12)]
    alone, shared = load(folder), load(folder)
    wanted = [alone.embed([question])[0] for question in questions]
    barrier = threading.Barrier(8)

    def ask(seed: int) -> dict[int, np.ndarray]:
        barrier.wait()
        order = random.Random(seed).sample(range(len(questions)), len(questions))
        return {number: shared.embed([questions[number]])[0] for number in order}

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ask, range(8)))
    for answer in answers:
        for number, vectors in answer.items():
            np.testing.assert_allclose(vectors, wanted[number], atol=1e-6)


def test_pooling_of_no_tokens_gives_zeros() -> None:
    vectors = np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32)  # (L, T, D)
    np.testing.assert_allclose(mean(vectors), vectors.mean(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(maximum(vectors), vectors.max(axis=1))
    for pool in (mean, maximum):
        np.testing.assert_array_equal(pool(vectors[:, :0]), np.zeros((3, 4)))
