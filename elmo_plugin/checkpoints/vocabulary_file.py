"""bilm-tf's vocabulary file: a word a line. Lines end at `\\n` or `\\r\\n`, at none of Unicode's other ends."""

from collections.abc import Iterable
from pathlib import Path

from allennlp.common.checks import ConfigurationError

from elmo_plugin.atomic_write import atomic_file

VOCABULARY = "vocabulary.txt"
VOCABULARIES = (VOCABULARY, "vocab.txt")
"""The names that are looked for beside the weights; the first is the one that we write."""


def read_words(path: Path, name: str) -> list[str]:
    """The lines of a file, which errors call by `name`. Raises `ConfigurationError` if it is no text."""
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except OSError as error:
        raise ConfigurationError(f"{name}: cannot be read ({error})") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{error.object[error.start]:02x}"
        raise ConfigurationError(f"{name}, line {line}: found {found}; wanted UTF-8 ({error.reason})") from error
    if lines[-1] == "":  # what follows the last line end
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def write_words(words: Iterable[str], path: Path) -> None:
    """Write them, one a line. A file of that name is replaced at once, when all of them are written."""
    with atomic_file(path) as partial:
        partial.write_bytes("".join(f"{word}\n" for word in words).encode())
