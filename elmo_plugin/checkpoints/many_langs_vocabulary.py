"""The vocabularies of ELMoForManyLangs, `char.dic` and `word.dic`: each line is an entry, a tab and its id.

Source: `train` in `elmoformanylangs/biLM.py`, which writes them, and `Embedder.get_model` in
`elmoformanylangs/elmo.py`, which reads them.
"""

from collections.abc import Sequence
from typing import Optional

from allennlp.common.checks import ConfigurationError

NAMELESS = "\u3000"
"""The entry of a line that has only an id: ELMoForManyLangs strips white space from lines, and with it this space."""


def parse_vocabulary(text: str, name: str) -> list[str]:
    """Return the entries in the order of their ids.

    Errors call the file `name`. Raises `ConfigurationError` if the text is not such a vocabulary.
    """
    entries: dict[str, str] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        parsed = _parse_line(line)
        if parsed is None:
            raise ConfigurationError(f"'{name}', line {number}: expected an entry, a tab and an id, got {line!r}")
        entry, id = parsed
        entries[id] = entry
    ids = [str(id) for id in range(number)]
    if entries.keys() != set(ids):
        raise ConfigurationError(f"'{name}': expected the ids 0 to {number - 1}, each once, in its {number} lines")
    return [entries[id] for id in ids]


def vocabulary_text(entries: Sequence[str], name: str) -> str:
    """Return the content of a vocabulary file with these entries.

    Errors call the file `name`. Raises `ConfigurationError` for an entry that would be read as a different one.
    """
    lines = [f"{entry}\t{id}" for id, entry in enumerate(entries)]
    for id, (entry, line) in enumerate(zip(entries, lines, strict=True)):
        is_utf8 = line == line.encode(errors="ignore").decode()  # a lone surrogate is not
        # ELMoForManyLangs splits lines at every line end of Unicode.
        if line.splitlines() != [line] or _parse_line(line) != (entry, str(id)) or not is_utf8:
            raise ConfigurationError(
                f"'{name}' cannot hold the entry {entry!r}: ELMoForManyLangs strips white space and splits lines and "
                "entries there"
            )
    return "".join(f"{line}\n" for line in lines)


def _parse_line(line: str) -> Optional[tuple[str, str]]:
    """Return the entry and the id of a line, or `None` if it has another form."""
    *entry, id = line.strip().split("\t")
    if len(entry) > 1 or not id.isdecimal():
        return None
    return entry[0] if entry else NAMELESS, id
