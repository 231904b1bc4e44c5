"""What the integrations share: texts in, one vector per token or per text out, and biLMs inside of other files."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Optional, Union, cast

import numpy as np
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import language_of
from elmo_plugin.checkpoints import WordLookup, save_bilm
from elmo_plugin.embedding import Embedder, load, maximum, mean
from elmo_plugin.text import SpacyBlankTokenizer

Texts = Sequence[Union[str, Sequence[str]]]
Tokenize = Callable[[str], Sequence[str]]

Pool = Callable[[np.ndarray], np.ndarray]

POOLINGS: dict[str, Pool] = {"mean": mean, "max": maximum}
"""The functions that pool the vectors of a text's tokens into one vector."""
FILE = "bilm.safetensors"


def versions_of_files(bilm: str) -> list[tuple[str, int, int]]:
    """Return the name, size and time of each file of a biLM at a local path, or nothing for any other location.

    Caches of other libraries recognize a call by the pickle of its objects. With these values in the pickle, they do
    not take results that were computed before a file was replaced.
    """
    path = Path(bilm)
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [
        (str(file.relative_to(path)), file.stat().st_size, file.stat().st_mtime_ns) for file in files if file.is_file()
    ]


def side_by_side(embedder: Embedder) -> Embedder:
    """Return the same embedder, but with one vector per token for all layers too: (T, L · D) instead of (L, T, D)."""
    return embedder if embedder.elmo.mixes else embedder.with_mix("concatenate")


class TextEmbedder:
    """Embeds texts, by a biLM that is loaded at first use. A pickle holds the name of the biLM but not its weights."""

    _loaded: Optional[tuple[tuple[Any, ...], Embedder]] = None

    def __init__(
        self,
        bilm: str = "english-tiny",
        mix: str = "average",
        pooling: Optional[str] = "mean",
        tokenizer: Optional[Tokenize] = None,
        precision: str = "float32",
        cuda_device: int = -1,
        initial_state: Optional[str] = None,
    ) -> None:
        self.bilm = bilm
        self.mix = mix
        self.pooling = pooling
        self.tokenizer = tokenizer
        self.precision = precision
        self.cuda_device = cuda_device
        self.initial_state = initial_state

    def _embedder(self) -> Embedder:
        """Return the embedder for the current parameters, which scikit-learn's `set_params` may have changed."""
        keys = (self.bilm, self.mix, self.precision, self.cuda_device, self.initial_state)
        if self._loaded is None or self._loaded[0] != keys:
            self._loaded = keys, side_by_side(load(*keys))
        return self._loaded[1]

    def _embed(self, texts: Iterable[object], pool: Pool) -> list[np.ndarray]:
        """Return the pooled vectors (T, D) of each text."""
        sentences = tokenized(texts, self.tokenizer, language_of(self._embedder().elmo))
        vectors = {index: pool(array) for index, array in self._embedder().by_length(sentences)}
        return [vectors[index] for index in range(len(sentences))]

    def __getstate__(self) -> dict[str, Any]:
        # `datasets`, and joblib's `Memory` in `make_pipeline(…, memory=…)`, recognize a call by the pickle.
        return {**cast(Any, super().__getstate__()), "_loaded": None, "_versions": versions_of_files(self.bilm)}


def pooling_named(pooling: Optional[str]) -> Pool:
    """Return the function of that name in `POOLINGS`. Raises `ConfigurationError` for any other name."""
    if pooling is None or pooling not in POOLINGS:
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
    sentences: list[Sequence[str]] = []
    for index, row in enumerate(texts):
        if isinstance(row, bytes):
            raise ConfigurationError(f"row {index}: expected a text, got bytes; decode them: {row[:50]!r}.decode()")
        if isinstance(row, str):
            tokenizer = tokenizer or SpacyBlankTokenizer(language or "en").words  # takes a moment to load
            sentences.append(tokenizer(str(row)))  # spaCy needs a plain `str` instead of NumPy's
        elif isinstance(row, Sequence | np.ndarray):
            sentences.append(list(row))
        else:
            raise ConfigurationError(f"row {index}: expected a text or a list of tokens, got {row!r}")
    return sentences


def bilm_to_bytes(embedder: Embedder) -> bytes:
    """Return an embedder's biLM, with the vocabulary if it reads words, as the content of a `native` file."""
    bilm, word_id = embedder.elmo.bilm, embedder.word_id
    vocabulary = word_id.words if isinstance(word_id, WordLookup) else None
    with TemporaryDirectory() as folder:
        save_bilm(bilm, Path(folder, FILE), vocabulary=vocabulary)
        return Path(folder, FILE).read_bytes()


def load_bytes(content: bytes, bilm: str, mix: str, precision: str, initial_state: Optional[str]) -> Embedder:
    """Load what `bilm_to_bytes` returned, as `load` does. `bilm` names the biLM in error messages."""
    with TemporaryDirectory() as folder:
        Path(folder, FILE).write_bytes(content)
        embedder = load(Path(folder, FILE), mix, precision, initial_state=initial_state)
    embedder.elmo.bilm.source = bilm
    return embedder
