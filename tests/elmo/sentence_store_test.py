"""The file of a sentence cache: processes that fork, write at once and are killed, and full disks."""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from time import sleep
from typing import NoReturn

import lmdb
import pytest
from allennlp.common.checks import ConfigurationError
from torch import Tensor, equal

from elmo_plugin.elmo import Elmo, SentenceCache, sentence_store
from elmo_plugin.elmo.sentence_store import SentenceStore, open_store
from elmo_plugin.text import batch_to_ids
from tests.elmo.small_elmo import own
from tests.full_disk import disk_of
from tests.killer import kill

VALUES = {f"{i:016d}".encode(): bytes([i]) * 5000 for i in range(64)}  # ⅓ MB
KEYS = list(VALUES)


def store(path: Path) -> SentenceStore:
    opened = open_store(path)
    assert opened is not None
    return opened


def found(opened: SentenceStore) -> dict[bytes, bytes]:
    """Those of `VALUES` that are stored, with the stored bytes."""
    values: dict[bytes, bytes] = {}
    opened.read(KEYS, lambda place, value: values.update({KEYS[place]: bytes(value)}))
    return values


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
        mine = store(tmp_path)
        mine.write({key: VALUES[key] for key in KEYS[:40]})
        mine.write(KillsItsReader((key, VALUES[key]) for key in KEYS[40:]))

    for _ in range(2):
        assert in_a_fork(write_and_die) == -signal.SIGKILL
        assert found(store(tmp_path)) == {key: VALUES[key] for key in KEYS[:40]}
    store(tmp_path).write(VALUES)
    assert found(store(tmp_path)) == VALUES


def test_readers_killed_while_reading_do_not_block_others(tmp_path: Path) -> None:
    def die_reading() -> None:
        mine._environment.close()
        environment = lmdb.open(str(tmp_path))
        readers = [environment.begin() for _ in range(environment.info()["max_readers"])]
        assert len(readers) > 100
        kill()

    mine = store(tmp_path)
    assert in_a_fork(lambda: mine.write(VALUES)) == 0
    assert in_a_fork(die_reading) == -signal.SIGKILL
    assert found(mine) == VALUES


def test_a_process_reads_what_another_process_writes(tmp_path: Path) -> None:
    mine = store(tmp_path)
    assert not found(mine)
    assert in_a_fork(lambda: store(tmp_path).write(VALUES)) == 0
    assert found(mine) == VALUES


def test_a_fork_may_use_the_store_of_its_parent(tmp_path: Path) -> None:
    mine = store(tmp_path)
    mine.write({KEYS[0]: VALUES[KEYS[0]]})

    def is_its_own(place: int, value: memoryview) -> None:
        assert f"{os.getpid()} " in mine._environment.readers()

    def write_the_rest() -> None:
        assert found(mine) == {KEYS[0]: VALUES[KEYS[0]]}
        mine.read(KEYS[:1], is_its_own)
        mine.write(VALUES)

    assert in_a_fork(write_the_rest) == 0
    assert found(mine) == VALUES


SENTENCES = [[f"w{i}", "of", f"v{i}"][: 1 + i % 3] for i in range(60)]


def test_processes_that_read_and_write_at_once_get_the_same_layers(tmp_path: Path) -> None:
    """The processes read the same sentences in different batches and orders."""

    def layers(model: Elmo, batch: int, step: int) -> dict[int, Tensor]:
        rows = list(range(0, len(SENTENCES), step))[batch::7]
        made, mask = model.layers(batch_to_ids([SENTENCES[row] for row in rows]))
        return {row: made[:, i, mask[i]] for i, row in enumerate(rows)}

    def check(order: int) -> None:
        model = own(sentence_cache=SentenceCache(str(tmp_path / "cache")))
        answers = [layers(model, batch, step) for batch in range(7)[::order] for step in (1, 2)]
        again = [layers(model, batch, step) for batch in range(7)[::order] for step in (1, 2)]
        for one, other in zip(answers, again, strict=True):
            assert all(abs(one[row] - other[row]).max() < 1e-6 for row in one)

    processes = [fork(lambda order=order: check(order)) for order in (1, -1, 1, -1)]
    assert [wait_for(process) for process in processes] == [0] * 4
    late = own(sentence_cache=SentenceCache(str(tmp_path / "cache")))
    late.bilm.register_forward_hook(lambda *_: pytest.fail("the biLM runs"))
    found_there, _ = late.layers(batch_to_ids(SENTENCES))
    uncached, _ = own().layers(batch_to_ids(SENTENCES))
    assert abs(found_there - uncached).max() < 1e-6


def test_the_file_grows_while_another_process_has_it_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentence_store, "MAP_SIZE", 2**16)
    mine = store(tmp_path)
    mine.write({key: VALUES[key] for key in KEYS[:2]})
    assert in_a_fork(lambda: store(tmp_path).write(VALUES)) == 0
    assert found(mine) == VALUES
    more = {key[::-1]: value * 4 for key, value in VALUES.items()}
    mine.write(more)
    assert mine.read(list(more), lambda place, value: None) == []


def test_values_are_never_overwritten(tmp_path: Path) -> None:
    mine = store(tmp_path)
    mine.write(VALUES)
    mine.write(dict.fromkeys(VALUES, b"other"))
    assert found(mine) == VALUES
    assert mine.claim(b"first") == b"first" and mine.claim(b"second") == b"first"


def test_a_folder_has_one_store_by_any_path_until_it_is_created_again(tmp_path: Path) -> None:
    first = store(tmp_path / "cache")
    (tmp_path / "link").symlink_to(tmp_path / "cache")
    assert store(tmp_path / "link") is first
    first.write(VALUES)
    shutil.rmtree(tmp_path / "cache")
    second = store(tmp_path / "cache")
    assert second is not first and not found(second)


def on_a_full_disk(work: Callable[[], object]) -> int:
    """Work in a fork whose files cannot grow, which fails as a full disk does."""

    def limited() -> None:
        with disk_of(2**15):
            work()

    return in_a_fork(limited)


def test_a_full_disk_is_warned_of_once_and_stored_values_are_still_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def write() -> None:
        mine = store(tmp_path)
        mine.write({KEYS[0]: VALUES[KEYS[0]]})
        for _ in range(2):
            mine.write(VALUES)
        assert found(mine) == {KEYS[0]: VALUES[KEYS[0]]}
        said = [record.getMessage().split(" (")[0] for record in caplog.records]
        assert said == [f"'{tmp_path}' cannot be written"]

    assert on_a_full_disk(write) == 0
    assert found(store(tmp_path)) == {KEYS[0]: VALUES[KEYS[0]]}


def test_stored_values_are_read_after_an_error_that_closes_lmdb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a disk error at the last write of a transaction, LMDB raises `PanicError` until it is reopened."""

    class GivesUp:
        def __init__(self, environment: lmdb.Environment) -> None:
            self.close = environment.close
            self.error: type[lmdb.Error] = lmdb.DiskError

        def begin(self, **keys: bool) -> None:
            self.error, error = lmdb.PanicError, self.error
            raise error

    mine = store(tmp_path)
    mine.write(VALUES)
    monkeypatch.setattr(mine, "_environment", GivesUp(mine._environment))
    mine.write({b"another": b"value"})
    assert found(mine) == VALUES and not mine.writable


def test_a_thread_reads_while_the_write_of_another_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Event()
    values: dict[bytes, bytes] = {}

    class Fails(dict[bytes, bytes]):
        def items(self) -> NoReturn:  # type: ignore[override]
            reader.start()
            raise lmdb.DiskError

    def receive(place: int, value: memoryview) -> None:
        reading.set()
        sleep(0.001)
        values[KEYS[place]] = bytes(value)

    mine = store(tmp_path)
    mine.write(VALUES)
    reader = Thread(target=lambda: mine.read(KEYS, receive))
    monkeypatch.setattr(sentence_store.logger, "warning", lambda *said: reading.wait())
    mine.write(Fails())
    reader.join()
    assert values == VALUES


def test_a_cache_on_a_full_disk_still_returns_layers(tmp_path: Path) -> None:
    ids = batch_to_ids(SENTENCES)
    wanted, _ = own().layers(ids)

    def answer() -> None:
        model = own(sentence_cache=SentenceCache(str(tmp_path)))
        assert all(equal(model.layers(ids)[0], wanted) for _ in range(2))

    assert on_a_full_disk(answer) == 0
    assert (tmp_path / "data.mdb").stat().st_size <= 2**15


@pytest.fixture
def shelf() -> Iterator[Path]:
    """A folder that every user may read."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make the folder and its files read-only inside the block."""
    for path in (*folder.iterdir(), folder):
        path.chmod(0o555)
    try:
        yield
    finally:
        folder.chmod(0o755)


def as_nobody(work: Callable[[], object]) -> int:
    """Work in a fork as a user who owns nothing, if the user of the tests may change to that one."""

    def without_rights() -> None:
        if not os.getuid():
            os.setuid(65534)
        work()

    return in_a_fork(without_rights)


def test_a_read_only_folder_is_read(shelf: Path) -> None:
    store(shelf / "cache").write(VALUES)

    def read() -> None:
        mine = store(shelf / "cache")
        assert not mine.writable and found(mine) == VALUES
        mine.write({b"another": b"value"})
        assert mine.claim(b"me") == b"me"

    with read_only(shelf / "cache"):
        assert as_nobody(read) == 0
    assert store(shelf / "cache").read([b"another"], lambda place, value: None) == [0]


def test_there_is_no_store_where_no_folder_can_be_created(shelf: Path) -> None:
    def none() -> None:
        assert open_store(shelf / "cache") is None

    with read_only(shelf):
        assert as_nobody(none) == 0


def test_a_file_that_is_not_lmdb_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"no LMDB" * 2000)
    with pytest.raises(ConfigurationError, match=f"'{tmp_path}/data.mdb' is no LMDB file"):
        open_store(tmp_path)


def test_a_half_created_file_is_created_again(tmp_path: Path) -> None:
    assert in_a_fork(lambda: store(tmp_path)) == 0
    os.truncate(tmp_path / "data.mdb", 4096)  # the first of the two pages that LMDB starts with
    assert in_a_fork(lambda: store(tmp_path).write(VALUES)) == 0
    assert found(store(tmp_path)) == VALUES


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("is_writable", [True, False])
def test_a_truncated_file_is_an_error_and_does_not_crash_the_process(
    shelf: Path, kept: float, is_writable: bool
) -> None:
    cache = shelf / "cache"

    def open_again() -> None:
        with pytest.raises(ConfigurationError, match=r"data\.mdb' is cut off: expected \d+ bytes, got \d+"):
            open_store(cache)

    assert in_a_fork(lambda: store(cache).write(VALUES)) == 0
    file = cache / "data.mdb"
    os.truncate(file, int(kept * file.stat().st_size))
    if is_writable:
        assert in_a_fork(open_again) == 0
    else:
        with read_only(cache):
            assert as_nobody(open_again) == 0
