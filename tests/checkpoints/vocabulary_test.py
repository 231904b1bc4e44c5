"""The vocabulary beside bilm-tf's pair of files."""

import gzip
import lzma
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.checkpoints import BilmTf, load_checkpoint
from tests.checkpoint_oracles import WORDS, assert_rejected, pretrained
from tests.checkpoints.file_tools import contents


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a pair and its vocabulary."""
    BilmTf().write(pretrained(), tmp_path)
    return tmp_path


def test_a_vocabulary_lies_beside_the_weights_with_one_word_per_line(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {"options.json", "weights.hdf5", "vocabulary.txt"}
    assert (folder / "vocabulary.txt").read_bytes().split(b"\n") == [*(word.encode() for word in WORDS), b""]
    assert load_checkpoint(folder).vocabulary == load_checkpoint(str(folder / "weights.hdf5")).vocabulary == WORDS
    (folder / "vocabulary.txt").unlink()
    assert load_checkpoint(folder).vocabulary is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", []),
        (b"<S>", ["<S>"]),
        (b"<S>\n\n</S>\n", ["<S>", "", "</S>"]),
        (b"\xef\xbb\xbf<S>\r\n</S>\r\n", ["<S>", "</S>"]),
        ("a\x85b\u2028\n\x0b\n".encode(), ["a\x85b\u2028", "\x0b"]),
    ],
)
def test_a_line_ends_at_a_line_feed_and_nowhere_else(folder: Path, content: bytes, words: list[str]) -> None:
    (folder / "vocabulary.txt").write_bytes(content)
    assert load_checkpoint(folder).vocabulary == words


@pytest.mark.parametrize(
    ("content", "fact"),
    [(b"<S>\n\xff\n", "line 2"), (gzip.compress(b"<S>\n", mtime=0)[:-5], "vocabulary"), (lzma.compress(b"a"), "unxz")],
)
def test_a_vocabulary_that_is_not_plain_text_is_named(folder: Path, content: bytes, fact: str) -> None:
    """A compressed file could fill the memory."""
    (folder / "vocabulary.txt").write_bytes(content)
    assert_rejected(folder, "vocabulary.txt", fact)


def test_a_vocabulary_of_another_bilm_is_neither_taken_over_nor_lost(folder: Path) -> None:
    before = contents(folder)
    with pytest.raises(ConfigurationError, match=f"'{folder}'.*vocabulary.txt"):
        BilmTf().write(pretrained(n_layers=1)._replace(vocabulary=None), folder)
    assert contents(folder) == before
    BilmTf().write(pretrained()._replace(vocabulary=["<S>"]), folder)
    assert load_checkpoint(folder).vocabulary == ["<S>"]
