"""`Elmo` used by code written for `allennlp.modules.elmo.Elmo`, which is the oracle."""

import inspect
import os
from copy import deepcopy
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.modules.elmo import Elmo as ReferenceElmo
from allennlp.modules.elmo import batch_to_ids as reference_batch_to_ids
from allennlp.modules.token_embedders import ElmoTokenEmbedder as ReferenceEmbedder
from allennlp.nn.regularizers import L1Regularizer, RegularizerApplicator
from torch import Tensor

import elmo_plugin
from elmo_plugin.elmo import Elmo, ElmoTokenEmbedder, LastMix, SentenceCache
from elmo_plugin.text import batch_to_code_points, batch_to_ids
from tests.oracles import SENTENCES, options, write_files
from tests.task_oracles import small_bilm

SHORT, LONG = ["The", "sentence", "."], ["ELMo", "helps", "disambiguate", "ELMo", "from", "Elmo", "."]
IDS = batch_to_ids([SHORT, LONG])  # (2, 7, 50)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Options and weights of a small biLM."""
    return write_files(tmp_path_factory.mktemp("bilm"), small_bilm())


def check_same(found: Any, wanted: dict[str, Any]) -> None:
    """Compare the outputs of both where there is a token. Elsewhere ours must be zeros."""
    assert torch.equal(found["mask"], wanted["mask"])
    live = wanted["mask"].unsqueeze(-1)
    pairs = zip(found["elmo_representations"], wanted["elmo_representations"], strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other * live, atol=1e-5, rtol=0)


def test_the_call_in_allennlps_documentation(files: tuple[str, str]) -> None:
    pairs, golden = [files], os.environ.get("ELMO_FIXTURE")
    if golden:  # the files of AllenNLP's own tests
        pairs.append((f"{golden}/options.json", f"{golden}/lm_weights.hdf5"))
    for pair in pairs:
        found, wanted = Elmo(*pair, 2, dropout=0)(IDS), ReferenceElmo(*pair, 2, dropout=0)(IDS)
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


CACHED = ["@@PADDING@@", "@@UNKNOWN@@", *LONG[:6], "."]  # as in AllenNLP's vocabulary
WORD_IDS = torch.tensor([[CACHED.index(word) for word in LONG], [2, 1, 8, 0, 0, 0, 0]])  # (2, 7)


@pytest.mark.parametrize(
    ("characters", "wrapping"), [("all", ()), ("placeholders", ()), ("placeholders", (4,)), ("word ids", (4,))]
)
def test_word_ids_are_the_words_of_vocab_to_cache(
    files: tuple[str, str], characters: str, wrapping: tuple[int, ...]
) -> None:
    word_ids = WORD_IDS.view(2, *[1 for _ in wrapping], 7).repeat(1, *wrapping, 1)  # (2, …, 7)
    inputs = {
        "all": batch_to_ids([LONG, ["ELMo", "@@UNKNOWN@@", "."]]),
        "placeholders": torch.zeros(2, *wrapping, 7, 50, dtype=torch.long),
        "word ids": word_ids,
    }[characters]
    cached = ReferenceElmo(*files, 1, dropout=0.0, vocab_to_cache=CACHED)
    found = Elmo(*files, 1, dropout=0.0, vocab_to_cache=CACHED)(inputs, word_ids)
    check_same(found, cached(inputs, word_ids))
    assert found.mask.sum() == 10 * (wrapping or (1,))[0]


def test_a_word_with_characters_is_computed_from_them_even_if_its_id_means_unknown(files: tuple[str, str]) -> None:
    elmo = Elmo(*files, 1, dropout=0.0, vocab_to_cache=CACHED)
    ids = batch_to_ids([["ELMo", "new", "."]])
    check_same(elmo(ids, WORD_IDS[1:, :3]), elmo(ids))
    embedder = ElmoTokenEmbedder(*files, dropout=0.0, vocab_to_cache=CACHED)
    found = embedder(torch.zeros(1, 7, 50, dtype=torch.long), word_inputs=WORD_IDS[:1])
    torch.testing.assert_close(found, elmo(batch_to_ids([LONG])).representations[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("words", "said"), [(None, "none without it, .* got 8"), (CACHED[:5], "ids up to 4, .* got 8")]
)
def test_word_ids_that_name_no_word_are_an_error(files: tuple[str, str], words: Optional[list[str]], said: str) -> None:
    elmo = Elmo(*files, 1, vocab_to_cache=words)
    with pytest.raises(ConfigurationError, match=f"'word_inputs': .*'vocab_to_cache'.*{said}"):
        elmo(torch.zeros(2, 7, 50, dtype=torch.long), WORD_IDS)
    assert elmo(batch_to_ids([LONG]), WORD_IDS[:1]).mask.all()


def random_ids(low: int = 0) -> Tensor:
    """Random ids that spell no words, as in AllenNLP's tests."""
    return torch.randint(low, 262, (3, 4, 50), generator=torch.Generator().manual_seed(0))


def ids_with_gaps() -> Tensor:
    """A word with ids of 0 inside and after it."""
    ids = batch_to_ids([["a"]])
    ids[..., 20::2] = 0
    return ids


@pytest.mark.parametrize(
    "ids",
    [random_ids(), random_ids(low=258), ids_with_gaps(), IDS.int()],
    ids=["random", "special", "gaps", "32 bits"],
)
def test_ids_that_spell_no_words_and_32_bit_ids_give_allennlps_vectors(files: tuple[str, str], ids: Tensor) -> None:
    check_same(Elmo(*files, 1, dropout=0.0)(ids), ReferenceElmo(*files, 1, dropout=0.0)(ids))


@pytest.mark.parametrize(("place", "word"), [(0, "<S>"), (2, "</S>")])
def test_a_boundary_in_the_text_has_the_boundarys_vector(files: tuple[str, str], place: int, word: str) -> None:
    layers, _ = Elmo(*files, 1).layers(reference_batch_to_ids([[word]]))  # (L, 1, 3, D)
    torch.testing.assert_close(layers[0, 0, 1], layers[0, 0, place])


def test_the_output_is_allennlps_dictionary_with_named_fields(files: tuple[str, str]) -> None:
    output, wanted = Elmo(*files, 2, dropout=0.0)(IDS), ReferenceElmo(*files, 2, dropout=0.0)(IDS)
    assert isinstance(output, dict) and list(output) == list(wanted) == list(output.keys())
    assert output["elmo_representations"] is output.representations is output.get("elmo_representations")
    assert output["mask"] is output.mask is dict(output.items())["mask"]
    assert output.get("activations") is None


def test_allennlps_module_is_rejected_and_the_error_names_from_parts() -> None:
    with pytest.raises(ConfigurationError, match=r"'module': .*got a Linear.*from_parts"):
        Elmo(None, None, 1, module=torch.nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (batch_to_code_points(SENTENCES), r"from 0 to 261, got 0 to \d{6}"),
        (IDS + 262 - IDS.max(), "got 1 to 262"),
        (IDS.float(), r"torch\.float32"),
        (WORD_IDS.expand(3, 2, 7), "expected 50 .* got 7 other ids"),  # (texts, sentences, words)
        (IDS[..., 0], r"shape \(2, 7\)"),
    ],
)
def test_impossible_ids_are_an_error(ids: Tensor, said: str, files: tuple[str, str]) -> None:
    elmo = Elmo(*files, 1)
    with pytest.raises(ConfigurationError, match=said):
        elmo(ids)


def test_the_mixes_have_allennlps_names(files: tuple[str, str]) -> None:
    """allennlp-models' `bcn` reads `_scalar_mixes`, tutorials read `scalar_mix_0`, and regexes name its parameters."""
    ours, theirs = Elmo(*files, 2, dropout=0), ReferenceElmo(*files, 2, dropout=0)
    assert ours.scalar_mix_1 is ours._scalar_mixes[1] is ours.mixes[1] and len(ours._scalar_mixes) == 2
    for pattern in ("scalar_mix_0", r"scalar_mix_\d\.scalar_parameters", r"scalar_mix_1\.gamma"):
        regularizer = RegularizerApplicator([(pattern, L1Regularizer(alpha=1.0))])
        for elmo in (ours, theirs):
            for mix in elmo._scalar_mixes:
                for weight in mix.parameters():
                    torch.nn.init.constant_(weight, 2.0)
        assert float(regularizer(ours)) == float(regularizer(theirs)) > 0
    assert not hasattr(ours, "_elmo_lstm")


class Task(torch.nn.Module):
    """A module that holds an `Elmo`, as other people's code does."""

    def __init__(self, elmo: torch.nn.Module) -> None:
        super().__init__()
        self.elmo = elmo
        self.output = torch.nn.Linear(2, 2)


@pytest.mark.parametrize("vocab_to_cache", [None, ["@@PADDING@@", "@@UNKNOWN@@", "The"]])
def test_a_state_dict_with_allennlps_elmo_is_loaded_into_ours(
    files: tuple[str, str], vocab_to_cache: Optional[list[str]], tmp_path: Path
) -> None:
    keys: dict[str, Any] = {"dropout": 0, "vocab_to_cache": vocab_to_cache}
    theirs, ours = Task(ReferenceElmo(*files, 2, requires_grad=True, **keys)), Task(Elmo(*files, 2, **keys))
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0)))
    torch.save(theirs.state_dict(), tmp_path / "task.pt")
    weights = torch.load(tmp_path / "task.pt")
    ours.load_state_dict(weights)
    ours.load_state_dict(weights, strict=False)  # it stays as it was
    check_same(ours.elmo(IDS), theirs.elmo(IDS))
    other = Task(Elmo(bilm={"options": options(n_layers=1).to_dict()}))
    with pytest.raises(RuntimeError, match=r"no projection|expected shape|size mismatch|_elmo_lstm"):
        other.load_state_dict(weights)


def test_a_state_dict_with_allennlps_embedder_is_loaded_into_ours(files: tuple[str, str]) -> None:
    theirs = ReferenceEmbedder(*files, dropout=0.0, projection_dim=5)
    torch.nn.init.normal_(theirs._projection.weight)
    torch.nn.init.constant_(theirs._elmo.scalar_mix_0.scalar_parameters[1], 2.0)
    ours = ElmoTokenEmbedder(*files, dropout=0.0, projection_dim=5)
    ours.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(ours(IDS), theirs(IDS), atol=1e-5, rtol=0)


def test_a_fine_tuned_elmo_is_saved_by_one_call(tmp_path: Path) -> None:
    """`conversion_test` has the other formats."""
    elmo = Elmo(bilm={"options": options().to_dict()}, requires_grad=True, dropout=0)
    optimizer = torch.optim.SGD(elmo.parameters(), lr=0.1)
    elmo(IDS).representations[0].square().sum().backward()
    optimizer.step()
    elmo_plugin.save(elmo, str(tmp_path / "tuned"))
    torch.testing.assert_close(Elmo(bilm=str(tmp_path / "tuned")).layers(IDS)[0], elmo.layers(IDS)[0].detach())


def test_the_callers_bilm_stays_as_it_is() -> None:
    bilm = small_bilm()
    bilm.lstm.input_dropout.p = 0.5
    before = {name: (weight.requires_grad, weight.dtype) for name, weight in bilm.named_parameters()}
    Elmo.from_parts(bilm, [LastMix(3, 16)])
    assert {name: (weight.requires_grad, weight.dtype) for name, weight in bilm.named_parameters()} == before
    assert bilm.lstm.input_dropout.p == 0.5 and all(trained for trained, _ in before.values())
    bilm.requires_grad_(False)
    Elmo.from_parts(bilm, [LastMix(3, 16)])
    assert not any(weight.requires_grad for weight in bilm.parameters())


def test_parts_may_be_named_as_in_a_config(files: tuple[str, str]) -> None:
    (found,) = Elmo(*files, 1, dropout=0, mix="last", initial_state="zero")(IDS).representations
    layers, _ = Elmo(*files, 1).layers(IDS, keep_sentence_boundaries=False)
    assert torch.equal(found, layers[-1])
    for key, part in (("mix", LastMix(3, 8)), ("sentence_cache", SentenceCache("cache"))):
        with pytest.raises(ConfigurationError, match=f"'{key}': .*{type(part).__name__}.*from_parts"):
            Elmo(*files, 1, **{key: part})


@pytest.mark.parametrize("named", [{"type": "elmo"}, {}])
def test_a_model_of_allennlps_takes_ours_in_the_place_of_its_own_elmo(
    named: dict[str, str], files: tuple[str, str]
) -> None:
    """The model `bcn` of allennlp-models has a parameter `elmo: Elmo`."""
    pytest.importorskip("allennlp_models.classification")
    vocab = Vocabulary()
    for label in ("bad", "good"):
        vocab.add_token_to_namespace(label, "labels")
    width, size = small_bilm().options.layer_dim, 4
    lstm = {"type": "lstm", "hidden_size": size, "bidirectional": True}
    linear = {"num_layers": 1, "activations": "linear"}
    keys = {
        "type": "bcn",
        "text_field_embedder": {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 6}}},
        "embedding_dropout": 0.0,
        "pre_encode_feedforward": {**linear, "input_dim": 6 + width, "hidden_dims": 5},
        "encoder": {**lstm, "input_size": 5},
        "integrator": {**lstm, "input_size": 6 * size},
        "integrator_dropout": 0.0,
        "output_layer": {**linear, "input_dim": 4 * (2 * size + width), "hidden_dims": 2},
        "use_input_elmo": True,
        "use_integrator_output_elmo": True,
    }
    pair = {"options_file": files[0], "weight_file": files[1]}
    given = pair if named else {"bilm": files[1]}
    scores = []
    for elmo in ({**named, **given}, pair):
        torch.manual_seed(1)
        both = {"num_output_representations": 2, "dropout": 0.0}
        model = Model.from_params(Params(deepcopy({**keys, "elmo": {**elmo, **both}})), vocab=vocab).eval()
        assert isinstance(model._elmo, Elmo if elmo is not pair else ReferenceElmo)
        for parameter in model.parameters():
            if parameter.requires_grad:
                torch.nn.init.constant_(parameter, 0.1)
        tokens = {"tokens": {"tokens": torch.ones(2, 7, dtype=torch.long)}, "elmo": {"elmo_tokens": IDS}}
        tokens["tokens"]["tokens"][0, 3:] = 0
        scores.append(model(tokens)["logits"])
    torch.testing.assert_close(*scores, atol=1e-5, rtol=0)
