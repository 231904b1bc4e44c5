"""What the integrations share: texts in, one vector per token or per text out, and biLMs inside of other files."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Optional, Union

import numpy as np
from allennlp.common.checks import ConfigurationError

from elmo_plugin.checkpoints import Checkpoint, Native, WordLookup
from elmo_plugin.embedding import Embedder, load, maximum, mean
from elmo_plugin.text import SpacyBlankTokenizer

Texts = Sequence[Union[str, Sequence[str]]]
Tokenize = Callable[[str], Sequence[str]]

POOLINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"mean": mean, "max": maximum}
"""The functions that pool the vectors of a text's tokens into one vector."""
FILE = "bilm.safetensors"


def versions_of_files(bilm: str) -> list[tuple[str, int, int]]:
    """Return the name, size and time of each file of a biLM at a local path, or nothing for any other location.

    Caches of other libraries recognize a call by the pickle of its objects. With these values in the pickle, they do
    not take results that were computed before a file was replaced.
    """
    path = Path(bilm)
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    statuses = [(str(file.relative_to(path)), file.stat()) for file in files if file.is_file()]
    return [(name, status.st_size, status.st_mtime_ns) for name, status in statuses]


def side_by_side(embedder: Embedder) -> Embedder:
    """Return the same embedder, but with one vector per token for all layers too: (T, L · D) instead of (L, T, D)."""
    return Embedder(embedder.elmo, embedder.word_id, layers_apart=False)


def pooling_named(pooling: str) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function of that name in `POOLINGS`. Raises `ConfigurationError` for any other name."""
    if pooling not in POOLINGS:
        raise ConfigurationError(f"'pooling': expected one of {', '.join(POOLINGS)}, got {pooling!r}")
    return POOLINGS[pooling]


def tokenized(
    texts: Iterable[object], tokenizer: Optional[Tokenize] = None, language: Optional[str] = None
) -> list[Sequence[str]]:
    """Return the tokens of each row. A text is split by `tokenizer`, or else by spaCy's rules for `language`.

    Raises `ConfigurationError` for a row that is neither a text nor a list of tokens, and for a single text.
    """
    if isinstance(texts, str | bytes | Mapping | Set) or not isinstance(texts, Iterable):
        raise ConfigurationError(f"expected a list of texts or of lists of tokens, got {texts!r:.100}")
    tokenize = tokenizer or partial(_spacys_tokens, language=language or "en")
    sentences: list[Sequence[str]] = []
    for index, row in enumerate(texts):
        if isinstance(row, bytes):
            raise ConfigurationError(f"row {index}: expected a text, got bytes; decode them: {row[:50]!r}.decode()")
        if isinstance(row, str):
            sentences.append(tokenize(str(row)))  # spaCy needs a plain `str` instead of NumPy's
        elif isinstance(row, Sequence | np.ndarray):
            sentences.append(list(row))
        else:
            raise ConfigurationError(f"row {index}: expected a text or a list of tokens, got {row!r}")
    return sentences


def _spacys_tokens(text: str, language: str) -> list[str]:
    return _spacys_rules(language).words(text)


@cache
def _spacys_rules(language: str) -> SpacyBlankTokenizer:
    return SpacyBlankTokenizer(language)


def bilm_to_bytes(embedder: Embedder) -> bytes:
    """Return an embedder's biLM, with the vocabulary if it reads words, as the content of a `native` file."""
    bilm, word_id = embedder.elmo.bilm, embedder.word_id
    vocabulary = word_id.words if isinstance(word_id, WordLookup) else None
    with TemporaryDirectory() as folder:
        Native().write(Checkpoint(bilm.options, bilm.state_dict(), vocabulary=vocabulary), Path(folder, FILE))
        return Path(folder, FILE).read_bytes()


def load_bytes(content: bytes, source: str, mix: str, precision: str, initial_state: Optional[str]) -> Embedder:
    """Load what `bilm_to_bytes` returned, as `load` does. `source` names the biLM in error messages."""
    with TemporaryDirectory() as folder:
        Path(folder, FILE).write_bytes(content)
        embedder = load(Path(folder, FILE), mix, precision, initial_state=initial_state)
    embedder.elmo.bilm.source = source
    return embedder
