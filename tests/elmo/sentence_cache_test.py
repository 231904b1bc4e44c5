"""A sentence is computed once. Layers that are read equal the computed ones, and never come from another biLM."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import load_archive
from allennlp.nn.initializers import uniform_unit_scaling
from torch import Tensor

from elmo_plugin.bilm import BiLM, CarriedState, InitialState, WarmState, WordEncoder, warm_up
from elmo_plugin.elmo import (
    AverageMix,
    Elmo,
    LastMix,
    LayerMix,
    SentenceCache,
    sentence_cache,
    sentence_store,
    trained_elmo,
)
from elmo_plugin.lstm import LstmState
from elmo_plugin.text import batch_to_ids
from tests.elmo.small_elmo import IDS, RANDOM, own, sentences_run
from tests.oracles import SENTENCES, lively, options
from tests.task_oracles import TOWNS, D, L, experiment, random_elmo, small_bilm, tagger, tags_reader, train, warm_bilm


def cached(path: Path, *mixes: LayerMix, **keys: Any) -> Elmo:
    """Build a new `Elmo` with a cache, as another run would."""
    return own(*mixes, sentence_cache=SentenceCache(str(path)), **keys)


def same_to_the_bit(found: tuple[Tensor, Tensor], wanted: tuple[Tensor, Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


def test_the_bilm_runs_once_and_cached_layers_equal_uncached_ones_to_the_bit(tmp_path: Path) -> None:
    wanted = own().layers(IDS)
    for passes in ([4], []):
        elmo = cached(tmp_path)
        runs = sentences_run(elmo)
        for _ in range(2):
            assert same_to_the_bit(elmo.layers(IDS), wanted)
        assert runs == passes


def test_one_cache_serves_all_mixes_in_one_pass(tmp_path: Path) -> None:
    mixes = [AverageMix(L, D), LastMix(L, D)]
    wanted = own(*mixes)(IDS)
    elmo = cached(tmp_path, *mixes)
    runs = sentences_run(elmo)
    for _ in range(2):
        found = elmo(IDS)
        assert torch.equal(found.mask, wanted.mask)
        assert all(map(torch.equal, found.representations, wanted.representations))
    assert runs == [4]


def test_the_bilm_runs_only_on_missing_sentences_once_each(tmp_path: Path) -> None:
    elmo = cached(tmp_path)
    elmo(IDS[:1])
    runs = sentences_run(elmo)
    again = IDS[[3, 1, 0, 3, 2, 3]]
    layers, mask = elmo.layers(again)
    assert runs == [3]
    wanted, wanted_mask = own().layers(again)
    torch.testing.assert_close(layers, wanted, atol=1e-6, rtol=0)
    assert torch.equal(mask, wanted_mask)


def test_padding_is_no_part_of_a_sentence(tmp_path: Path) -> None:
    elmo = cached(tmp_path)
    alone = elmo.layers(batch_to_ids([["one"]]))[0]  # (L, 1, 3, D)
    runs = sentences_run(elmo)
    padded = torch.nn.functional.pad(batch_to_ids([["one"]]), (0, 0, 0, 4))  # (1, 5, 50)
    layers, mask = elmo.layers(padded)
    assert not runs and torch.equal(layers[:, :, :3], alone)
    assert mask.tolist() == [[True] * 3 + [False] * 4] and not layers[:, :, 3:].any()


def test_ids_of_any_width_are_the_same_sentence(tmp_path: Path) -> None:
    elmo = cached(tmp_path)
    wanted = elmo.layers(IDS[:1])
    runs = sentences_run(elmo)
    assert same_to_the_bit(elmo.layers(batch_to_ids(SENTENCES[:1], 60)[:, :6]), (wanted[0][:, :, :6], wanted[1][:, :6]))
    assert not runs


def test_float16_is_close_needs_half_the_space_and_gives_the_same_layers_each_time(tmp_path: Path) -> None:
    ids = batch_to_ids([[f"w{i}", f"v{i}", "and", "so", "on"] for i in range(300)])
    wanted, _ = own().layers(ids)
    cached(tmp_path / "whole").layers(ids)
    half = str(tmp_path / "half")
    first, second = (own(sentence_cache=SentenceCache(half, "float16")).layers(ids)[0] for _ in range(2))
    assert torch.equal(first, second) and first.dtype == torch.float32
    torch.testing.assert_close(first, wanted, atol=1e-3, rtol=1e-3)
    assert not torch.equal(first, wanted)
    sizes = [(tmp_path / name / "data.mdb").stat().st_size for name in ("whole", "half")]
    assert sizes[1] < 0.6 * sizes[0]


@pytest.mark.usefixtures("native_bfloat16")
def test_a_bfloat16_bilm_loses_no_more_precision(tmp_path: Path) -> None:
    elmo = cached(tmp_path, precision="bfloat16")
    wanted = own(precision="bfloat16").layers(IDS)
    for _ in range(2):
        assert same_to_the_bit(elmo.layers(IDS), wanted)


def test_a_bilm_that_reads_words(tmp_path: Path) -> None:
    bilm = lively(BiLM.random(options(char_cnn=None, n_tokens_vocab=90_000), seed=0))
    assert isinstance(bilm.token_encoder, WordEncoder)
    ids = torch.tensor([[5, 70_000, 4], [4, 0, 0], [5, 70_000 - 2**16, 4]])  # (3, 3)
    wanted = own(bilm=bilm).layers(ids)
    elmo = cached(tmp_path, bilm=bilm)
    runs = sentences_run(elmo)
    for _ in range(2):
        assert same_to_the_bit(elmo.layers(ids), wanted)
    assert runs == [3]


def test_more_dimensions_and_empty_batches(tmp_path: Path) -> None:
    elmo = cached(tmp_path)
    for ids in (IDS.view(2, 2, *IDS.shape[1:]), IDS[:, :0], IDS[:0], IDS[2:3], IDS[:1, :0, :0].squeeze(-1)):
        for _ in range(2):
            found, wanted = elmo(ids), own()(ids)
            assert torch.equal(found.representations[0], wanted.representations[0])
            assert torch.equal(found.mask, wanted.mask)


def test_a_sentence_with_a_token_after_padding_is_not_cached(tmp_path: Path) -> None:
    gap = IDS[:2].clone()
    gap[0, 1] = 0
    filled = gap.clone()
    filled[0, 3] = IDS[1, 0]  # the same tokens before the gap, and the same number of tokens
    elmo = cached(tmp_path)
    for ids in (gap, filled):
        assert same_to_the_bit(elmo.layers(ids), own().layers(ids))


def test_a_trained_task_sees_no_difference(tmp_path: Path) -> None:
    def config(**elmo: Any) -> Any:
        return experiment(tagger({"bilm": RANDOM, **elmo}), tags_reader(), TOWNS)

    plain = train(config(), tmp_path / "plain").state_dict()
    for name in ("cold", "warm"):
        found = train(config(sentence_cache=str(tmp_path / "cache")), tmp_path / name)
        for key, value in found.state_dict().items():
            torch.testing.assert_close(value, plain[key], atol=1e-5, rtol=0)


def refusal(path: Path, **keys: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        cached(path, **keys)
    return str(caught.value)


@pytest.mark.usefixtures("native_bfloat16")
def test_another_bilm_is_an_error_when_elmo_is_built(tmp_path: Path) -> None:
    cached(tmp_path)(IDS)
    other = lively(BiLM.random(options(), seed=0), scale=1.1)
    message = refusal(tmp_path, bilm=other)
    assert message.startswith(f"'{tmp_path}' ") and "'weights': " in message and "'options'" not in message
    assert "'options':" in refusal(tmp_path, bilm=small_bilm(cell_clip=2))
    assert "'dtype': expected 'torch.bfloat16', got 'torch.float32'" in refusal(tmp_path, precision="bfloat16")
    warm = warm_bilm()
    assert "'initial_state': expected 'warm" in refusal(tmp_path, bilm=warm, initial_state=WarmState())
    # A biLM that has a warm state but does not start from it may use the cache.
    assert torch.equal(cached(tmp_path, bilm=warm)(IDS)[0][0], own()(IDS)[0][0])
    with pytest.raises(ConfigurationError, match="'precision': expected 'float16', got 'float32'"):
        own(sentence_cache=SentenceCache(str(tmp_path), "float16"))


@pytest.mark.usefixtures("emulated_bfloat16")
def test_the_computed_precision_counts_and_not_the_requested_one(tmp_path: Path) -> None:
    wanted = cached(tmp_path, precision="bfloat16").layers(IDS)
    elmo = cached(tmp_path)
    runs = sentences_run(elmo)
    assert same_to_the_bit(elmo.layers(IDS), wanted) and not runs


@pytest.mark.usefixtures("emulated_bfloat16")
def test_a_model_that_may_move_to_a_gpu_opens_the_cache_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    cached(tmp_path / "cache", precision="bfloat16")  # would claim it for float32, which a GPU does not compute
    assert not (tmp_path / "cache").exists()
    cached(tmp_path / "cache")
    assert (tmp_path / "cache").exists()


def test_a_change_of_any_weight_is_an_error(tmp_path: Path) -> None:
    cached(tmp_path)
    for name, _ in small_bilm().named_parameters():
        other = small_bilm()
        with torch.no_grad():
            other.get_parameter(name).view(-1)[-1] += 1e-3
        assert "'weights':" in refusal(tmp_path, bilm=other), name


def test_a_warm_start_needs_its_own_cache(tmp_path: Path) -> None:
    bilm = warm_bilm()
    elmo = cached(tmp_path, bilm=bilm, initial_state=WarmState())
    wanted = own(bilm=bilm, initial_state=WarmState()).layers(IDS)
    assert all(same_to_the_bit(elmo.layers(IDS), wanted) for _ in range(2))
    bilm.warm_state = warm_up(bilm, [IDS[:1]])
    with pytest.raises(ConfigurationError, match="'initial_state':"):
        elmo(IDS)


def test_weights_that_change_later_are_noticed(tmp_path: Path) -> None:
    elmo = cached(tmp_path)
    elmo(IDS)
    elmo.load_state_dict(copy.deepcopy(elmo.state_dict()))
    elmo(IDS)
    with torch.no_grad():
        elmo.bilm.lstm.forward_layers[1].bias[3] += 1.0
    with pytest.raises(ConfigurationError, match="'weights':"):
        elmo(IDS)


def write_through_data(weight: Tensor) -> None:
    weight.data[-1] += 1.0


def write_through_numpy(weight: Tensor) -> None:
    weight.detach().numpy()[-1] += 1.0


@pytest.mark.parametrize("write", [write_through_data, write_through_numpy, uniform_unit_scaling])
@pytest.mark.parametrize("name", ["token_encoder.char_embedding.weight", "lstm.backward_layers.0.weight_hr"])
def test_writes_that_torch_does_not_count_are_noticed(write: Any, name: str, tmp_path: Path) -> None:
    elmo = cached(tmp_path)
    elmo(IDS)
    write(elmo.bilm.get_parameter(name))
    with pytest.raises(ConfigurationError, match="'weights':"):
        elmo(IDS)


def test_a_warm_state_that_was_written_to_uncounted_is_noticed(tmp_path: Path) -> None:
    elmo = cached(tmp_path, bilm=warm_bilm(), initial_state=WarmState())
    elmo(IDS)
    elmo.bilm.warm_hidden.data.mul_(-1)
    with pytest.raises(ConfigurationError, match="'initial_state':"):
        elmo(IDS)


def test_unchanged_weights_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    identity = sentence_cache.identity
    monkeypatch.setattr(sentence_cache, "identity", lambda *made_by: read.append(made_by) or identity(*made_by))
    elmo = cached(tmp_path)
    for _ in range(3):
        elmo(IDS)
    assert len(read) == 1


class UsersState(InitialState):
    """A state that does not declare whether it is the same for every sentence."""

    def before(self, bilm: BiLM, batch_size: int, like: Tensor) -> LstmState:
        return bilm.lstm.zero_state(batch_size, like)


def test_fine_tuning_and_states_that_depend_on_other_sentences_are_an_error(tmp_path: Path) -> None:
    tuned = refusal(tmp_path / "never", requires_grad=True)
    assert "'sentence_cache'" in tuned and "'requires_grad'" in tuned
    for state, name in ((CarriedState(), "carried"), (UsersState(), "UsersState")):
        unfit = refusal(tmp_path / "never", initial_state=state)
        assert "'initial_state'" in unfit and unfit.endswith(f"got '{name}'")
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize(("keys", "precision"), [({}, "float32"), ({"precision": "float16"}, "float16")])
def test_a_config_has_a_path_or_keys(keys: dict[str, str], precision: str, tmp_path: Path) -> None:
    path = str(tmp_path / "cache")
    elmo = random_elmo(sentence_cache={"path": path, **keys} if keys else path)
    assert elmo.sentence_cache is not None
    assert (str(elmo.sentence_cache.path), elmo.sentence_cache.precision) == (path, precision)
    elmo(IDS)
    assert (tmp_path / "cache/data.mdb").exists()


def test_errors_name_the_wrong_key() -> None:
    for keys, said in (
        ({"path": "x", "precision": "int8"}, "'precision': expected 'float32' or 'float16', got 'int8'"),
        ({"path": "x", "precison": "float16"}, "precison"),
        ({"precision": "float16"}, 'key "path" is required'),
    ):
        with pytest.raises(ConfigurationError, match=f"'sentence_cache': .*{said}"):
            random_elmo(sentence_cache=keys)


def test_a_copy_and_a_pickle_open_the_folder_themselves(tmp_path: Path) -> None:
    elmo = cached(tmp_path)
    wanted = elmo.layers(IDS)
    for twin in (copy.deepcopy(elmo), pickle.loads(pickle.dumps(elmo))):
        runs = sentences_run(twin)
        assert same_to_the_bit(twin.layers(IDS), wanted) and not runs


def archived_with_cache(folder: Path) -> Path:
    """The archive of a tagger that was trained with a cache, which no longer exists."""
    elmo = {"bilm": RANDOM, "sentence_cache": str(folder / "cache/deep")}
    train(experiment(tagger(elmo), tags_reader(), TOWNS), folder / "run")
    (folder / "cache").rename(folder / "gone")
    return folder / "run" / "model.tar.gz"


def test_an_archive_creates_a_missing_cache(tmp_path: Path) -> None:
    elmo, _ = trained_elmo(load_archive(archived_with_cache(tmp_path)).model)
    assert (tmp_path / "cache/deep/data.mdb").exists()
    runs = sentences_run(elmo)
    assert same_to_the_bit(elmo.layers(IDS), elmo.layers(IDS)) and runs == [4]


def test_an_archive_runs_without_its_cache_on_request(tmp_path: Path) -> None:
    archive = archived_with_cache(tmp_path)
    elmo, _ = trained_elmo(load_archive(archive, overrides={"model.elmo.sentence_cache": None}).model)
    assert elmo.sentence_cache is None and not (tmp_path / "cache").exists()


def test_an_archive_runs_without_a_cache_that_cannot_be_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archived_with_cache(tmp_path)
    said: list[str] = []  # AllenNLP's training takes pytest's log handlers away
    monkeypatch.setattr(sentence_store.logger, "warning", lambda text, *values: said.append(text % values))
    (tmp_path / "cache").write_text("a file where the folder was")
    elmo, _ = trained_elmo(load_archive(archive).model)
    assert [text.split(" (")[0] for text in said] == [f"'{tmp_path}/cache/deep' can be neither created nor read"]
    runs = sentences_run(elmo)
    torch.testing.assert_close(elmo.layers(IDS), elmo.layers(IDS))
    assert runs == [4, 4]


def test_layers_computed_under_autocast_are_not_taken_for_float32(tmp_path: Path) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        cached(tmp_path).layers(IDS)
    with pytest.raises(ConfigurationError, match=r"'dtype': expected 'torch.float32', got 'torch.bfloat16'"):
        cached(tmp_path)


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert SentenceCache("~/cache").path == tmp_path / "cache"
