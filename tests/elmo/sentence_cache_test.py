"""A sentence is computed once. Layers that are read equal the computed ones, and never come from another biLM."""

import copy
import os
import pickle
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import load_archive
from torch import Tensor

from elmo_plugin.bilm import BiLM, CarriedState, WarmState
from elmo_plugin.elmo import AverageMix, Elmo, LastMix, LayerMix, SentenceCache, sentence_cache, trained_elmo
from elmo_plugin.elmo.sentence_cache import SentenceStore
from elmo_plugin.text import batch_to_ids
from tests.elmo.small_elmo import IDS, RANDOM, own, sentences_run
from tests.full_disk import disk_of
from tests.killer import kill
from tests.oracles import lively, options
from tests.task_oracles import TOWNS, D, L, experiment, random_elmo, small_bilm, tagger, tags_reader, train, warm_bilm


def cached(path: Path, *mixes: LayerMix, **keys: Any) -> Elmo:
    """Build a new `Elmo` with a cache, as another run would."""
    return own(*mixes, sentence_cache=SentenceCache(str(path)), **keys)


def uncached(*mixes: LayerMix) -> Elmo:
    """Build an `Elmo` that has a hook, so that it reads the boundaries with each sentence, as a cache does."""
    elmo = own(*mixes)
    sentences_run(elmo)
    return elmo


def same_to_the_bit(found: tuple[Tensor, Tensor], wanted: tuple[Tensor, Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


def test_the_bilm_runs_once_and_cached_layers_equal_uncached_ones_to_the_bit(tmp_path: Path) -> None:
    mixes = [AverageMix(L, D), LastMix(L, D)]
    wanted, (average, last) = own(*mixes).layers(IDS), uncached(*mixes)(IDS).representations
    torch.testing.assert_close(own(*mixes)(IDS).representations, [average, last], atol=1e-6, rtol=0)
    for passes in ([4], []):
        elmo = cached(tmp_path, *mixes)
        runs = sentences_run(elmo)
        assert all(map(torch.equal, elmo(IDS).representations, (average, last)))
        assert same_to_the_bit(elmo.layers(IDS), wanted)
        assert runs == passes


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


def test_padding_and_the_width_of_ids_are_no_part_of_a_sentence(tmp_path: Path) -> None:
    elmo = cached(tmp_path)
    alone = elmo.layers(batch_to_ids([["one"]]))[0]  # (L, 1, 3, D)
    runs = sentences_run(elmo)
    padded = torch.nn.functional.pad(batch_to_ids([["one"]], 60), (0, 0, 0, 4))  # (1, 5, 60)
    layers, mask = elmo.layers(padded)
    assert not runs and torch.equal(layers[:, :, :3], alone)
    assert mask.tolist() == [[True] * 3 + [False] * 4] and not layers[:, :, 3:].any()


def test_float16_is_close_needs_half_the_space_and_gives_the_same_layers_each_time(tmp_path: Path) -> None:
    ids = batch_to_ids([[f"w{i}", f"v{i}", "and", "so", "on"] for i in range(300)])
    wanted, _ = own().layers(ids)
    cached(tmp_path / "whole").layers(ids)
    half = str(tmp_path / "half")
    first, second = (own(sentence_cache=SentenceCache(half, "float16")).layers(ids)[0] for _ in range(2))
    assert torch.equal(first, second) and first.dtype == torch.float32
    torch.testing.assert_close(first, wanted, atol=1e-3, rtol=1e-3)
    assert not torch.equal(first, wanted)
    sizes = [(tmp_path / name / "layers.sqlite").stat().st_size for name in ("whole", "half")]
    assert sizes[1] < 0.6 * sizes[0]


def test_more_dimensions_and_empty_batches(tmp_path: Path) -> None:
    elmo = cached(tmp_path)
    for ids in (IDS.view(2, 2, *IDS.shape[1:]), IDS[:, :0], IDS[:0], IDS[2:3], IDS[:1, :0, :0].squeeze(-1)):
        for _ in range(2):
            found, wanted = elmo(ids), uncached()(ids)
            assert torch.equal(found.representations[0], wanted.representations[0])
            assert torch.equal(found.mask, wanted.mask)


def test_under_autocast_the_layers_are_those_without_it(tmp_path: Path) -> None:
    """A training with `use_amp` reads them, and so does an evaluation without."""
    wanted = own().layers(IDS)
    for autocast in (True, True, False):
        elmo = cached(tmp_path)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            assert same_to_the_bit(elmo.layers(IDS), wanted)


def refusal(path: Path, **keys: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        cached(path, **keys)(IDS)
    return str(caught.value)


@pytest.mark.usefixtures("native_bfloat16")
def test_the_cache_of_another_bilm_is_an_error(tmp_path: Path) -> None:
    cached(tmp_path)(IDS)
    other = lively(BiLM.random(options(), seed=0), scale=1.1)
    message = refusal(tmp_path, bilm=other)
    assert message.startswith(f"'{tmp_path}' ") and "'weights': " in message and "'options'" not in message
    assert "'options':" in refusal(tmp_path, bilm=small_bilm(cell_clip=2))
    assert "'dtype': expected 'torch.bfloat16', got 'torch.float32'" in refusal(tmp_path, precision="bfloat16")
    warm = warm_bilm()
    assert "'initial_state': expected 'warm" in refusal(tmp_path, bilm=warm, initial_state=WarmState())
    # A biLM that has a warm state but does not start from it may use the cache.
    assert torch.equal(cached(tmp_path, bilm=warm)(IDS).representations[0], uncached()(IDS).representations[0])
    with pytest.raises(ConfigurationError, match="'precision': expected 'float16', got 'float32'"):
        own(sentence_cache=SentenceCache(str(tmp_path), "float16"))(IDS)


def test_a_cache_of_a_newer_version_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentence_cache, "VERSION", 3)
    cached(tmp_path)(IDS)
    monkeypatch.undo()
    with pytest.raises(ConfigurationError, match="'version': expected 2, got 3") as caught:
        cached(tmp_path)(IDS)
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


def test_weights_that_change_later_are_noticed_and_unchanged_ones_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []
    identity = sentence_cache.identity
    monkeypatch.setattr(sentence_cache, "identity", lambda *made_by: read.append(made_by) or identity(*made_by))
    elmo = cached(tmp_path, bilm=warm_bilm(), initial_state=WarmState())
    for _ in range(3):
        elmo(IDS)
    assert len(read) == 1
    elmo.load_state_dict(copy.deepcopy(elmo.state_dict()))
    elmo(IDS)
    for weight in (elmo.bilm.lstm.forward_layers[1].bias, elmo.bilm.warm_hidden):
        with torch.no_grad():
            weight[-1] += 1.0
        with pytest.raises(ConfigurationError, match=r"'weights':|'initial_state':"):
            elmo(IDS)


def test_fine_tuning_and_states_that_depend_on_other_sentences_are_an_error(tmp_path: Path) -> None:
    tuned = refusal(tmp_path / "never", requires_grad=True)
    assert "'sentence_cache'" in tuned and "'requires_grad'" in tuned
    unfit = refusal(tmp_path / "never", initial_state=CarriedState())
    assert "'initial_state'" in unfit and unfit.endswith("got 'carried'")
    assert not (tmp_path / "never").exists()


def test_an_unfrozen_bilm_does_not_use_the_cache(tmp_path: Path) -> None:
    elmo = cached(tmp_path)
    elmo.requires_grad_()
    elmo(IDS).representations[0].sum().backward()
    assert elmo.bilm.lstm.forward_layers[0].bias.grad is not None and not list(tmp_path.iterdir())


def test_a_config_has_a_path_or_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    elmo = random_elmo(sentence_cache={"path": "other", "precision": "float16"})
    assert elmo.sentence_cache is not None and elmo.sentence_cache.precision == "float16"
    random_elmo(sentence_cache="~/cache")(IDS)
    assert (tmp_path / "cache/layers.sqlite").exists()


def test_a_copy_and_a_pickle_open_the_folder_themselves(tmp_path: Path) -> None:
    elmo = cached(tmp_path)
    wanted = elmo.layers(IDS)
    for twin in (copy.deepcopy(elmo), pickle.loads(pickle.dumps(elmo))):
        runs = sentences_run(twin)
        assert same_to_the_bit(twin.layers(IDS), wanted) and not runs


def test_the_archive_of_a_task_does_not_need_the_cache(tmp_path: Path) -> None:
    path = tmp_path / "cache/deep"
    train(experiment(tagger({"bilm": RANDOM, "sentence_cache": str(path)}), tags_reader(), TOWNS), tmp_path / "run")
    shutil.rmtree(tmp_path / "cache")
    elmo, _ = trained_elmo(load_archive(tmp_path / "run/model.tar.gz").model)
    runs = sentences_run(elmo)
    assert same_to_the_bit(elmo.layers(IDS), elmo.layers(IDS)) and runs == [4] and path.exists()


# The file: processes that fork, write at once and are killed, and full disks.

VALUES = {f"{i:016d}".encode(): bytes([i]) * 5000 for i in range(64)}  # ⅓ MB
KEYS = list(VALUES)


def found(opened: SentenceStore) -> dict[bytes, bytes]:
    """Return those of `VALUES` that are stored, with the stored bytes."""
    return opened.read(KEYS)


def in_a_fork(work: Callable[[], object]) -> int:
    """Work in a fork and wait for its end. Return its exit status, or minus the signal that killed it."""
    return wait_for(fork(work))


def fork(work: Callable[[], object]) -> int:
    process = os.fork()
    if not process:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return process


def wait_for(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


class KillsItsReader(dict[bytes, bytes]):
    """Values that kill the process after it has read ten of them."""

    def items(self) -> Iterator[tuple[bytes, bytes]]:  # type: ignore[override]
        """Yield ten values, then kill the process."""
        yield from list(super().items())[:10]
        kill()


def test_a_kill_during_a_write_loses_only_that_write(tmp_path: Path) -> None:
    def write_and_die() -> None:
        mine = SentenceStore(tmp_path)
        mine.write({key: VALUES[key] for key in KEYS[:40]})
        mine.write(KillsItsReader((key, VALUES[key]) for key in KEYS[40:]))

    (tmp_path / "layers.sqlite").touch()  # a kill before the first write
    assert in_a_fork(write_and_die) == -signal.SIGKILL
    assert found(SentenceStore(tmp_path)) == {key: VALUES[key] for key in KEYS[:40]}
    SentenceStore(tmp_path).write(VALUES)
    assert found(SentenceStore(tmp_path)) == VALUES


def test_a_file_that_was_cut_short_is_an_error_and_does_not_kill_the_process(tmp_path: Path) -> None:
    SentenceStore(tmp_path).write(VALUES)
    os.truncate(tmp_path / "layers.sqlite", (tmp_path / "layers.sqlite").stat().st_size // 2)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"'.*layers\.sqlite' .*malformed.* delete the folder"):
            found(SentenceStore(tmp_path))


@pytest.mark.slow
def test_processes_that_read_and_write_at_once_get_the_same_layers(tmp_path: Path) -> None:
    """The processes read the same sentences in different batches and orders, with the open store of their parent."""
    sentences = [[f"w{i}", "of", f"v{i}"][: 1 + i % 3] for i in range(40)]
    wanted, _ = own().layers(batch_to_ids(sentences))
    model = cached(tmp_path)
    model.layers(batch_to_ids(sentences[:1]))

    def check(order: int) -> None:
        for step in (1, 2, 1):
            rows = list(range(0, len(sentences), step))[::order]
            for batch in (rows[:9], rows[9:]):
                layers, mask = model.layers(batch_to_ids([sentences[row] for row in batch]))
                assert abs(layers * mask.unsqueeze(-1) - wanted[:, batch][:, :, : layers.size(2)]).max() < 1e-6

    processes = [fork(lambda order=order: check(order)) for order in (1, -1, 1, -1)]
    assert [wait_for(process) for process in processes] == [0] * 4
    runs = sentences_run(model)
    assert abs(model.layers(batch_to_ids(sentences))[0] - wanted).max() < 1e-6 and not runs


def test_the_first_value_stays_by_any_path_until_the_folder_is_created_again(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "cache")
    first = SentenceStore(tmp_path / "cache")
    SentenceStore(tmp_path / "link").write(VALUES)
    first.write(dict.fromkeys(VALUES, b"other"))
    assert found(first) == VALUES  # the first value stays
    shutil.rmtree(tmp_path / "cache")
    second = SentenceStore(tmp_path / "cache")
    assert not found(second) and not found(first)


def test_on_a_full_disk_stored_values_are_read_and_a_cache_still_returns_layers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ids = batch_to_ids([[f"w{i}", f"v{i}"] for i in range(100)])
    wanted = own().layers(ids)

    def write() -> None:
        with disk_of(2**15):
            mine = SentenceStore(tmp_path)
            mine.write({KEYS[0]: VALUES[KEYS[0]]})
            for _ in range(2):
                mine.write(VALUES)
            assert found(mine) == {KEYS[0]: VALUES[KEYS[0]]}
            said = [record.getMessage().split(" (")[0] for record in caplog.records]
            assert said == [f"'{tmp_path / 'layers.sqlite'}' cannot be written"]
            elmo = cached(tmp_path / "layers")
            assert all(same_to_the_bit(elmo.layers(ids), wanted) for _ in range(2))

    assert in_a_fork(write) == 0
    assert found(SentenceStore(tmp_path)) == {KEYS[0]: VALUES[KEYS[0]]}


def test_a_read_only_folder_is_read_and_where_none_can_be_created_there_is_no_cache(tmp_path: Path) -> None:
    shelf = tmp_path / "shelf"
    assert in_a_fork(lambda: SentenceStore(shelf / "cache").write(VALUES)) == 0

    def read() -> None:
        if not os.getuid():
            for path in (shelf, *shelf.parents[:4]):
                path.chmod(0o755)
            os.setuid(65534)
        mine = SentenceStore(shelf / "cache")
        assert found(mine) == VALUES
        mine.write({b"another": b"value"})
        assert not mine.writable
        nowhere = SentenceStore(shelf / "other")
        assert not found(nowhere) and not nowhere.writable
        assert same_to_the_bit(cached(shelf / "other").layers(IDS), wanted)

    wanted = own().layers(IDS)
    for path in (*(shelf / "cache").iterdir(), shelf / "cache", shelf):
        path.chmod(0o555)
    try:
        assert in_a_fork(read) == 0
    finally:
        (shelf / "cache").chmod(0o755)
        shelf.chmod(0o755)
    assert SentenceStore(shelf / "cache").read([b"another"]) == {}
