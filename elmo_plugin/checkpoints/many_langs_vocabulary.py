"""ELMoForManyLangs' lexicons, `char.dic` and `word.dic`: a line is an entry, a tab and its id.

Source: `train` in `elmoformanylangs/biLM.py`, and `Embedder.get_model` in `elmoformanylangs/elmo.py`, which reads them.
"""

from collections.abc import Sequence
from typing import Optional

from allennlp.common.checks import ConfigurationError

NAMELESS = "\u3000"
"""What a line with an id and no entry stands for: upstream strips its lines, and this character is stripped too."""


def parse_vocabulary(text: str, name: str) -> list[str]:
    """The entries by their ids. Raises `ConfigurationError`, calling the file by `name`, if it is no lexicon."""
    entries: dict[str, str] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        parsed = _parsed(line)
        if parsed is None:
            raise ConfigurationError(f"'{name}', line {number}: found {line!r}; wanted an entry, a tab and an id")
        entry, id = parsed
        entries[id] = entry
    wanted = [str(id) for id in range(number)]
    if entries.keys() != set(wanted):
        raise ConfigurationError(f"'{name}' has {number} lines; wanted the ids 0 to {number - 1}, each once")
    return [entries[id] for id in wanted]


def vocabulary_text(entries: Sequence[str], name: str) -> str:
    """The file `name` of these entries. Raises `ConfigurationError` for one that would be read as another."""
    for id, entry in enumerate(entries):
        line = _line(entry, id)
        # Upstream's lines end wherever Unicode ends one.
        if line.splitlines() != [line] or _parsed(line) != (entry, str(id)) or not _is_utf8(line):
            raise ConfigurationError(
                f"'{name}' has no place for the entry {entry!r}: white space is stripped and ends entries and lines"
            )
    return "".join(f"{_line(entry, id)}\n" for id, entry in enumerate(entries))


def _line(entry: str, id: int) -> str:
    return f"{entry}\t{id}"


def _parsed(line: str) -> Optional[tuple[str, str]]:
    """Entry and id of a line; `None` if it is none."""
    *entry, id = line.strip().split("\t")
    if len(entry) > 1 or not id.isdecimal():
        return None
    return entry[0] if entry else NAMELESS, id


def _is_utf8(line: str) -> bool:
    """Whether it can be encoded; half a surrogate pair cannot."""
    return line == line.encode(errors="ignore").decode()
