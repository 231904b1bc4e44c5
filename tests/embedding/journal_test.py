"""What is kept of a run, and all that can have happened to it before the next."""

import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.embedding.corpus import Sentence, Window
from elmo_plugin.embedding.journal import Journal
from elmo_plugin.embedding.vector_file import EmbeddedSentence, Layout

LAYOUT = Layout((2, -1, 3), "float32")
RUN = {"weights": "abc", "shape": [2, -1, 3]}
WINDOWS = [
    Window(3, [Sentence("a b", ["a", "b"]), Sentence("", [])]),
    Window(20, [Sentence("\u2028日", ["\u2028日"]), Sentence("c", ["c"]), Sentence("c", ["c"])]),
]
"""Two of a text, others between them."""


def array(line: int, tokens: int) -> np.ndarray:
    return np.arange(6 * tokens, dtype=np.float64).reshape(2, tokens, 3) + 100 * line


def add(journal: Journal, number: int) -> None:
    """A window, its last sentence first."""
    window = WINDOWS[number]
    places = reversed(list(enumerate(window.sentences)))
    journal.add(window, ((place, array(window.start + place, len(tokens))) for place, (_, tokens) in places))


def opened(folder: Path, **changes: object) -> "closing[Journal]":
    return closing(Journal(folder, {**RUN, **changes}, LAYOUT))


def check(found: list[EmbeddedSentence], windows: int) -> None:
    """All sentences of the first windows, in the order of the text."""
    wanted = [numbered for start, sentences in WINDOWS[:windows] for numbered in enumerate(sentences, start)]
    assert [sentence[:3] for sentence in found] == [(line, *sentence) for line, sentence in wanted]
    for sentence in found:
        assert sentence.vectors.dtype == np.float32
        np.testing.assert_array_equal(sentence.vectors, array(sentence.line, len(sentence.tokens)))


def test_windows_come_back_in_the_order_of_the_text(tmp_path: Path) -> None:
    with opened(tmp_path / "part") as journal:
        assert journal.windows_kept == 0
        for number in range(2):
            add(journal, number)
            check(list(journal.sentences()), number + 1)
    with opened(tmp_path / "part") as journal:
        assert journal.windows_kept == 2
        check(list(journal.sentences()), 2)
        kept = [(start, [tuple(record[:2]) for record in records]) for start, records in journal.windows()]
        assert kept == WINDOWS
        journal.remove()
    assert not (tmp_path / "part").exists()


def test_a_window_is_whole_or_nothing_wherever_a_kill_cut_its_line(tmp_path: Path) -> None:
    with opened(tmp_path / "part") as journal:
        add(journal, 0)
        first = (tmp_path / "part/windows.jsonl").stat().st_size
        add(journal, 1)
    whole = (tmp_path / "part/windows.jsonl").read_bytes()
    for length in range(first, len(whole) + 1):
        shutil.copytree(tmp_path / "part", tmp_path / str(length))
        (tmp_path / str(length) / "windows.jsonl").write_bytes(whole[:length])
        with opened(tmp_path / str(length)) as journal:
            assert journal.windows_kept == (2 if length == len(whole) else 1)
            if journal.windows_kept == 1:
                add(journal, 1)
            check(list(journal.sentences()), 2)
        for name in ("windows.jsonl", "vectors"):
            assert (tmp_path / str(length) / name).read_bytes() == (tmp_path / "part" / name).read_bytes()


def test_vectors_of_a_window_that_was_broken_off_are_cut_away(tmp_path: Path) -> None:
    with opened(tmp_path / "part") as journal:
        add(journal, 0)
    size = (tmp_path / "part/vectors").stat().st_size
    with (tmp_path / "part/vectors").open("ab") as vectors:
        vectors.write(b"half an array")
    with opened(tmp_path / "part"):
        assert (tmp_path / "part/vectors").stat().st_size == size


def test_a_kill_before_or_while_it_says_what_it_is_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "part/run.json.partial").write_text('{"weig')
    with opened(tmp_path / "part") as journal:
        assert journal.windows_kept == 0


def test_another_run_is_refused_by_what_is_other(tmp_path: Path) -> None:
    with opened(tmp_path / "part") as journal:
        add(journal, 0)
    with (tmp_path / "part/vectors").open("ab") as vectors:
        vectors.write(b"of a window that was broken off")
    files = {path: path.read_bytes() for path in (tmp_path / "part").iterdir()}
    with pytest.raises(ConfigurationError, match="begun with another 'weights': found abc, wanted xyz; name another"):
        opened(tmp_path / "part", weights="xyz")
    assert files == {path: path.read_bytes() for path in (tmp_path / "part").iterdir()}


def test_a_run_that_kept_nothing_gives_way_to_another(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "part/run.json").write_text("{}")
    with opened(tmp_path / "part") as journal:
        add(journal, 0)
        check(list(journal.sentences()), 1)


def test_a_folder_that_keeps_nothing_goes_and_one_that_does_stays(tmp_path: Path) -> None:
    with opened(tmp_path / "part"):
        assert (tmp_path / "part").exists()
    assert not (tmp_path / "part").exists()
    with opened(tmp_path / "part") as journal:
        add(journal, 0)
    assert (tmp_path / "part").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "novel").write_text("Chapter one")
    with pytest.raises(ConfigurationError, match="is in the way: wanted a run that was broken off"):
        opened(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["novel"]


def test_two_at_a_time_are_one_too_many_and_a_refused_one_leaves_no_lock(tmp_path: Path) -> None:
    with opened(tmp_path / "part") as journal:
        add(journal, 0)
        with pytest.raises(ConfigurationError, match="another process is at work in"):
            opened(tmp_path / "part")
    with pytest.raises(ConfigurationError, match="another 'weights'"):
        opened(tmp_path / "part", weights="xyz")
    with opened(tmp_path / "part") as journal:
        assert journal.windows_kept == 1


@pytest.mark.parametrize(
    ("name", "content"), [("vectors", b""), ("windows.jsonl", b"no records\n"), ("run.json", b'{"weig')]
)
def test_damage_is_said_with_what_to_delete(tmp_path: Path, name: str, content: bytes) -> None:
    with opened(tmp_path / "part") as journal:
        add(journal, 0)
    (tmp_path / "part" / name).write_bytes(content)
    with pytest.raises(ConfigurationError, match=f"part/{name}' is damaged; delete '.*part' to begin anew"):
        opened(tmp_path / "part")


def test_a_run_that_json_gives_back_otherwise_is_the_same_run(tmp_path: Path) -> None:
    """A tuple comes back as a list, a key that is a number as a string."""
    for kept in range(2):
        with closing(Journal(tmp_path / "part", {"filters": ((1, 2),), "of": {1: 2}}, LAYOUT)) as journal:
            assert journal.windows_kept == kept
            add(journal, 0)
