"""ELMo as a step of a scikit-learn pipeline."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Optional, Self, Union, final

import numpy as np
from allennlp.common.checks import ConfigurationError
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from elmo_plugin.embedding import Embedder, load, maximum, mean
from elmo_plugin.models import SpacyBlankTokenizer

Texts = Sequence[Union[str, Sequence[str]]]
Tokenize = Callable[[str], Sequence[str]]

POOLINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"mean": mean, "max": maximum}
"""How the vectors of a text's tokens become one."""


@final
class ElmoVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Texts to one vector each. There is nothing to fit, and a text has the same vector beside any others.

    The biLM is loaded at first use. A clone and a pickle hold its name and not its weights: they load it again.

    # Parameters

    bilm, mix, precision, cuda_device, initial_state
        As of `elmo_plugin.load`; of `all` layers a text's vector has L · D numbers, those of the token layer first.
    pooling : `str`
        `mean` or `max`, over the tokens of a text; of a text without tokens both are zeros.
    tokenizer : `Optional[Tokenize]`
        A text to its tokens, such as `str.split`; by default spaCy's rules for English.

    Raises `ConfigurationError`, when fitted or first used, for what `load` refuses and for another pooling.
    """

    _loaded: Optional[tuple[tuple[Any, ...], Embedder]] = None

    def __init__(
        self,
        bilm: str = "english-tiny",
        mix: str = "average",
        pooling: str = "mean",
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

    def fit(self, X: Texts, y: object = None) -> Self:
        """Load what the parameters name, so that a wrong one is said here; `X` and `y` are not looked at."""
        self._pool()
        self._embedder()
        return self

    def transform(self, X: Texts) -> np.ndarray:
        """Texts, or lists of tokens, to their vectors, (B, D) in float32.

        Raises `ConfigurationError` for a lone string, a table, and a row that is neither text nor tokens.
        """
        pool, embedder = self._pool(), self._embedder()
        sentences = self._sentences(X)
        vectors = np.empty((len(sentences), self._n_features_out), dtype=np.float32)  # (B, D), of all layers (B, L · D)
        for place, array in embedder.by_length(sentences):
            vectors[place] = pool(array).ravel()
        return vectors

    @property
    def _n_features_out(self) -> int:
        """What `ClassNamePrefixFeaturesOutMixin` counts the names of the features by."""
        return self._embedder().elmo.get_output_dim()

    def _sentences(self, texts: Texts) -> list[Sequence[str]]:
        if isinstance(texts, str) or getattr(texts, "ndim", 1) != 1:
            found = f"the string {texts[:100]!r}" if isinstance(texts, str) else f"a {type(texts).__name__} of two axes"
            raise ConfigurationError(f"wanted texts, or lists of tokens, as one column; found {found}")
        tokenize = self.tokenizer or _by_spacys_rules
        # str: of NumPy's, spaCy wants a plain one.
        return [tokenize(str(row)) if isinstance(row, str) else _tokens(place, row) for place, row in enumerate(texts)]

    def _pool(self) -> Callable[[np.ndarray], np.ndarray]:
        if self.pooling not in POOLINGS:
            raise ConfigurationError(f"'pooling' is {self.pooling!r}; wanted one of {', '.join(POOLINGS)}")
        return POOLINGS[self.pooling]

    def _embedder(self) -> Embedder:
        """That of the parameters as they are now: `set_params` may have changed them."""
        named = (self.bilm, self.mix, self.precision, self.cuda_device, self.initial_state)
        if self._loaded is None or self._loaded[0] != named:
            self._loaded = named, load(*named)
        return self._loaded[1]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"initial_state": None, **state})  # a pickle of an earlier version has none

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_loaded"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


def _tokens(place: int, row: object) -> list[str]:
    if not isinstance(row, Sequence | np.ndarray):
        raise ConfigurationError(f"row {place} is {row!r}; wanted a text or a list of tokens")
    return list(row)


def _by_spacys_rules(text: str) -> list[str]:
    return [token.ensure_text() for token in _spacys_rules().tokenize(text)]


@cache
def _spacys_rules() -> SpacyBlankTokenizer:
    return SpacyBlankTokenizer()
