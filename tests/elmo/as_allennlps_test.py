"""`Elmo` used by code written for `allennlp.modules.elmo.Elmo`, which is the oracle."""

import inspect
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.modules import TokenEmbedder
from allennlp.modules.elmo import Elmo as ReferenceElmo
from allennlp.modules.elmo import batch_to_ids as reference_batch_to_ids
from torch import Tensor

import elmo_plugin
from elmo_plugin.elmo import Elmo, LastMix, SentenceCache
from elmo_plugin.text import batch_to_code_points, batch_to_ids
from tests.oracles import SENTENCES, write_files
from tests.task_oracles import small_bilm

SHORT, LONG = ["The", "sentence", "."], ["ELMo", "helps", "disambiguate", "ELMo", "from", "Elmo", "."]
IDS = batch_to_ids([SHORT, LONG])  # (2, 7, 50)


@pytest.fixture(params=["written by us", "AllenNLP's"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Options and weights of a small biLM."""
    if request.param == "written by us":
        return write_files(tmp_path, small_bilm())
    return golden("options.json"), golden("lm_weights.hdf5")


def golden(name: str) -> str:
    """A file of AllenNLP's fixture."""
    folder = os.environ.get("ELMO_FIXTURE")
    if not folder:
        pytest.skip("ELMO_FIXTURE names no folder with AllenNLP's fixture")
    return str(Path(folder) / name)


def check_same(found: Any, wanted: dict[str, Any]) -> None:
    """Compare the outputs of both where there is a token. Elsewhere ours must be zeros."""
    assert torch.equal(found["mask"], wanted["mask"])
    live = wanted["mask"].unsqueeze(-1)
    pairs = zip(found["elmo_representations"], wanted["elmo_representations"], strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other * live, atol=1e-5, rtol=0)


def test_the_call_in_allennlps_documentation(files: tuple[str, str]) -> None:
    found, wanted = Elmo(*files, 2, dropout=0)(IDS), ReferenceElmo(*files, 2, dropout=0)(IDS)
    check_same(found, wanted)
    assert len(found["elmo_representations"]) == 2 and found["mask"].shape == (2, 7)
    assert elmo_plugin.Elmo is Elmo


def test_the_first_parameters_are_allennlps() -> None:
    theirs = list(inspect.signature(ReferenceElmo).parameters.values())
    ours = list(inspect.signature(Elmo).parameters.values())[: len(theirs)]
    assert [each.name for each in ours] == [each.name for each in theirs]
    assert [each.default for each in ours[3:]] == [each.default for each in theirs[3:]]
    assert list(inspect.signature(Elmo.forward).parameters) == list(inspect.signature(ReferenceElmo.forward).parameters)


def trained_numbers(elmo: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in elmo.parameters() if parameter.requires_grad)


@pytest.mark.parametrize(
    "keys",
    [
        {"num_output_representations": 1, "requires_grad": True},
        {"num_output_representations": 3, "scalar_mix_parameters": [1.0, -1.0, 0.5]},
        {"num_output_representations": 2, "keep_sentence_boundaries": True},
        {"num_output_representations": 1, "vocab_to_cache": ["ELMo", "from"]},
    ],
    ids=lambda keys: list(keys)[1],
)
def test_each_key_by_its_name(files: tuple[str, str], keys: dict[str, Any]) -> None:
    paths = dict(zip(["options_file", "weight_file"], files, strict=True))
    elmo, reference = Elmo(**paths, dropout=0.0, **keys), ReferenceElmo(**paths, dropout=0.0, **keys)
    check_same(elmo(IDS), reference(IDS))
    assert trained_numbers(elmo) == trained_numbers(reference)


def test_all_keys_by_their_position(files: tuple[str, str]) -> None:
    keys = (*files, 2, False, True, 0.0, None, True, [0.5, 0.0, -0.5])
    check_same(Elmo(*keys)(IDS[1:]), ReferenceElmo(*keys)(IDS[1:]))  # layer norm of one sentence, boundaries included


def test_more_dimensions_are_more_sentences(files: tuple[str, str]) -> None:
    texts = [[SHORT, LONG], [["1", "2"], list("1234567")], [["1", "2", "3", "4", "50", "60", "70"], ["The"]]]
    each = [batch_to_ids(sentences) for sentences in texts]  # (2, 7, 50) each
    elmo = Elmo(*files, 2, dropout=0.0)
    together = elmo(torch.stack(each, dim=1))  # of (2, 3, 7, 50)
    for k, ids in enumerate(each):
        alone = elmo(ids)
        torch.testing.assert_close(together["mask"][:, k], alone["mask"])
        torch.testing.assert_close(together["elmo_representations"][0][:, k], alone["elmo_representations"][0])


@pytest.mark.parametrize("wrapping", [(), (4,)])
def test_word_ids_beside_character_ids_change_nothing(files: tuple[str, str], wrapping: tuple[int, ...]) -> None:
    words = ["", "", *LONG[:6], "."]  # as in a vocabulary, with padding and the unknown word first
    word_ids = torch.tensor([[words.index(word) for word in LONG]]).expand(1, *wrapping, 7)  # (1, …, 7)
    ids = batch_to_ids([LONG]).view(1, *[1 for _ in wrapping], 7, 50).expand(1, *wrapping, 7, 50)
    cached = ReferenceElmo(*files, 1, dropout=0.0, vocab_to_cache=words)
    check_same(Elmo(*files, 1, dropout=0.0, vocab_to_cache=words)(ids, word_ids), cached(ids, word_ids))


def random_ids(batch_size: int = 3, length: int = 4, low: int = 0) -> Tensor:
    """Random ids that spell no words, as in AllenNLP's tests."""
    return torch.from_numpy(np.random.default_rng(0).integers(low, 262, (batch_size, length, 50)))


def ids_with_gaps() -> Tensor:
    """A word with ids of 0 inside and after it."""
    ids = batch_to_ids([["a"]])
    ids[..., 20::2] = 0
    return ids


@pytest.mark.parametrize(
    "ids",
    [random_ids(), random_ids(1, 1), random_ids(low=258), ids_with_gaps(), IDS.int()],
    ids=["random", "one token", "special", "gaps", "32 bits"],
)
def test_ids_that_spell_no_words_and_32_bit_ids_give_allennlps_vectors(files: tuple[str, str], ids: Tensor) -> None:
    check_same(Elmo(*files, 1, dropout=0.0)(ids), ReferenceElmo(*files, 1, dropout=0.0)(ids))


@pytest.mark.parametrize("requires_grad", [False, True])
def test_requires_grad_on_random_ids(files: tuple[str, str], requires_grad: bool) -> None:
    keys = {"options_file": files[0], "weight_file": files[1], "requires_grad": requires_grad}
    embedder = TokenEmbedder.from_params(Params({"type": "elmo", **keys}))
    embedder(random_ids()).sum().backward()
    gradients = [parameter.grad for name, parameter in embedder.named_parameters() if ".bilm." in name]
    assert gradients and all((gradient is not None) is requires_grad for gradient in gradients)


@pytest.mark.parametrize(("place", "word"), [(0, "<S>"), (2, "</S>")])
def test_a_boundary_in_the_text_has_the_boundarys_vector(files: tuple[str, str], place: int, word: str) -> None:
    layers, _ = Elmo(*files, 1).layers(reference_batch_to_ids([[word]]))  # (L, 1, 3, D)
    torch.testing.assert_close(layers[0, 0, 1], layers[0, 0, place])


def test_the_output_is_read_by_name_by_position_and_as_a_dictionary(files: tuple[str, str]) -> None:
    output = Elmo(*files, 2, dropout=0.0)(IDS)
    representations, mask = output
    assert output["elmo_representations"] is output.representations is representations is output[0]
    assert output["mask"] is output.mask is mask is output[-1]
    assert "mask" in output and "elmo_representations" in output and "representations" not in output
    assert dict(output) == {"elmo_representations": representations, "mask": mask}
    with pytest.raises(KeyError, match="activations"):
        output["activations"]


def test_allennlps_module_is_rejected_and_the_error_names_from_parts() -> None:
    with pytest.raises(ConfigurationError, match=r"'module': .*got a Linear.*from_parts"):
        Elmo(None, None, 1, module=torch.nn.Linear(2, 2))


@pytest.mark.parametrize("count", [0, -1])
def test_fewer_than_one_representation_is_an_error(count: int, files: tuple[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=f"'num_output_representations': .* got {count}"):
        Elmo(*files, count)
    with pytest.raises(ConfigurationError, match="'mixes'"):
        Elmo.from_parts(small_bilm(), [])


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (batch_to_code_points(SENTENCES), r"from 0 to 261, got 0 to \d{6}"),
        (IDS + 262 - IDS.max(), "got 1 to 262"),
        (IDS - 1, "got -1 to 260"),
        (IDS.float(), r"torch\.float32"),
        (IDS[..., 0], r"shape \(2, 7\)"),
        (IDS[0, 0], r"shape \(50,\)"),
    ],
)
def test_impossible_ids_are_an_error(ids: Tensor, said: str, tmp_path: Path) -> None:
    elmo = Elmo(*write_files(tmp_path, small_bilm()), 1)
    with pytest.raises(ConfigurationError, match=said):
        elmo(ids)


def test_the_names_of_the_weights_match_older_archives() -> None:
    elmo = Elmo.from_parts(small_bilm(), Elmo(bilm={"options": small_bilm().options.to_dict()}).mixes, projection_dim=2)
    names = {name for name in elmo.state_dict() if not name.startswith("bilm.")}
    assert names == {"mixes.0.scalar_parameters", "mixes.0.gamma", "projections.0.weight", "projections.0.bias"}


def test_a_training_loop_may_unfreeze_it_by_hand(files: tuple[str, str]) -> None:
    ours, theirs = Elmo(*files, 1, dropout=0), ReferenceElmo(*files, 1, dropout=0)
    for elmo in (ours, theirs):
        elmo.requires_grad_()
        elmo(IDS)["elmo_representations"][0].sum().backward()
    assert all(weight.grad is not None for weight in ours.bilm.parameters())
    wanted = theirs._elmo_lstm._token_embedder._char_embedding_weights.grad
    torch.testing.assert_close(ours.bilm.token_encoder.char_embedding.weight.grad, wanted, atol=1e-4, rtol=1e-4)


def test_parts_may_be_named_as_in_a_config(files: tuple[str, str]) -> None:
    (found,) = Elmo(*files, 1, dropout=0, mix="last", initial_state="zero")(IDS).representations
    layers, mask = Elmo(*files, 1).layers(IDS)
    assert torch.equal(found, layers[-1][:, 1:-1] * mask[:, 2:].unsqueeze(-1))
    for key, part in (("mix", LastMix(3, 8)), ("sentence_cache", SentenceCache("cache"))):
        with pytest.raises(ConfigurationError, match=f"'{key}': .*{type(part).__name__}.*from_parts"):
            Elmo(*files, 1, **{key: part})
