"""The words of a biLM: their selection and order, the vocabulary file, and AllenNLP's vocabulary."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance, Vocabulary

from elmo_plugin.pretraining.vocabulary import BiLMVocabulary, WordIds, select_words, vocabulary_of, words_of
from elmo_plugin.text import word_to_ids

MARKS = ["<S>", "</S>", "<UNK>"]
ODD = ["\u2028", "\x85", "\xa0", "\x1c", "#", "\ufeff", "😀", "a\u2029b", "UNK", "<unk>", "@@", '"', "\\n"]
"""Words that code which splits or strips lines may get wrong."""


def corpus(folder: Path) -> Path:
    """Write two shards in which several words have equal counts."""
    (folder / "0.txt").write_text("the cat saw the dog\nthe Dog saw <UNK> é\n", encoding="utf-8")
    (folder / "1.txt").write_text("<S> a cat </S>\n\n@@UNKNOWN@@ @@PADDING@@ x@@NEWLINE@@ z\n", encoding="utf-8")
    return folder / "*.txt"


def read(path: Path) -> list[str]:
    """Read the lines of a vocabulary file through a vocabulary."""
    return words_of(BiLMVocabulary.from_bilm_tf(str(path)))


def no_instances() -> Iterator[Instance]:
    """The instances that AllenNLP passes to a vocabulary, which must not be read."""
    raise AssertionError("the instances were read")
    yield


@pytest.mark.parametrize(
    ("min_count", "max_size", "words"),
    [
        (1, None, ["b", "Z", "a", "é", "c", "😀"]),
        (2, None, ["b", "Z", "a", "é"]),
        (1, 5, ["b", "Z"]),
        (3, 5, ["b"]),
    ],
)
def test_words_are_sorted_by_falling_count_and_then_by_code_point(
    min_count: int, max_size: Optional[int], words: list[str]
) -> None:
    counts = Counter({"😀": 1, "é": 2, "a": 2, "c": 1, "Z": 2, "b": 5})
    assert select_words(counts, min_count, max_size) == MARKS + words


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path, words = tmp_path / "vocab.txt", MARKS + ODD
    path.write_bytes("".join(f"{word}\n" for word in words).encode())
    assert read(path) == words


@pytest.mark.parametrize(
    "encoded", [b"<S>\n</S>\n<UNK>\na", b"<S>\r\n</S>\r\n<UNK>\r\na\r\n", b"\xef\xbb\xbf<S>\n</S>\n<UNK>\na\n"]
)
def test_the_changes_that_editors_make_to_a_file_are_tolerated(tmp_path: Path, encoded: bytes) -> None:
    (tmp_path / "vocab.txt").write_bytes(encoded)
    assert read(tmp_path / "vocab.txt") == [*MARKS, "a"]


@pytest.mark.parametrize(
    ("encoded", "facts"),
    [
        (b"", ": .*without <S>, </S>, <UNK>"),
        (b"<S>\n</S>\n<UNK>\na\nb\na\n", ", line 6: .*'a' as in line 4"),
        (b"<S>\n</S>\n<UNK>\na\n\nb\n", ", line 5: .*''"),
        (b"<S>\n</S>\n<UNK>\nthe 12\n", ", line 4: .*'the 12'"),
        (b"<S>\n</S>\n<UNK>\n@@UNKNOWN@@\n", ", line 4: .*'@@UNKNOWN@@'"),
        (b"<S>\n</S>\n<UNK>\nG\xe4nge\n", ", line 4: .*0xe4"),
    ],
)
def test_an_error_names_the_file_and_the_line(tmp_path: Path, encoded: bytes, facts: str) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes(encoded)
    with pytest.raises(ConfigurationError) as error:
        read(path)
    assert re.match(f"'?{path}'?{facts}", error.value.message)


def test_the_marks_may_be_anywhere_in_a_file_of_bilm_tf(tmp_path: Path) -> None:
    """bilm-tf's `Vocabulary` looks them up by name."""
    (tmp_path / "vocab.txt").write_text("</S>\nthe\n<S>\n<UNK>\na\n", encoding="utf-8")
    assert read(tmp_path / "vocab.txt") == [*MARKS, "the", "a"]


def test_an_id_is_a_line_number_and_other_words_are_unknown() -> None:
    vocab = vocabulary_of([*MARKS, "the", "cat"])
    assert vocab.get_vocab_size() == 6
    named = {"<S>": 1, "</S>": 2, "the": 4, "cat": 5}
    unknown = {"dog": 3, "The": 3, "<UNK>": 3, "@@UNKNOWN@@": 3}
    for word, index in {**named, **unknown}.items():
        assert vocab.get_token_index(word) == index
    ids = WordIds(vocab)
    for word, index in {**named, **unknown, "@@PADDING@@": 3, "a@@NEWLINE@@b": 3}.items():
        assert ids.words([[word]], 2).tolist() == [[index, 0]]
        assert ids.characters([[word]], 1)[0, 0].tolist() == word_to_ids(word)
    assert [vocab.get_token_from_index(index) for index in (0, 3)] == ["@@PADDING@@", "@@UNKNOWN@@"]
    assert vocab.is_padded("tokens")


def test_a_config_counts_text_shards_and_not_instances(tmp_path: Path) -> None:
    config: dict[str, Any] = {"type": "text_shards", "files": str(corpus(tmp_path))}
    vocab = Vocabulary.from_params(Params(dict(config)), instances=no_instances())
    assert words_of(vocab) == [*MARKS, "the", "cat", "saw", "Dog", "a", "dog", "z", "é"]
    config |= {"min_count": 2, "max_size": 5}
    assert words_of(Vocabulary.from_params(Params(dict(config)), instances=no_instances())) == [*MARKS, "the", "cat"]
    with pytest.raises(ConfigurationError, match=r"'max_size'.* 2"):
        Vocabulary.from_params(Params({**config, "max_size": 2}), instances=no_instances())
