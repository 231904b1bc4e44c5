"""ELMo as a step of a scikit-learn pipeline."""

from typing import Any, Optional, Self, final

import numpy as np
from allennlp.common.checks import ConfigurationError
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from elmo_plugin.embedding import Embedder, load
from elmo_plugin.integrations.texts import Texts, Tokenize, pooling_named, tokenized


@final
class ElmoVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Turns each text into one vector, which does not depend on the other texts. There is nothing to fit.

    The biLM is loaded at first use. A clone and a pickle hold its name and not its weights, which they load again.

    # Parameters

    bilm, mix, precision, cuda_device, initial_state
        As in `elmo_plugin.load`. With `concatenate`, or its other name `all`, a text's vector has L · D numbers, those
        of the token layer first.
    pooling : `str`
        `mean` or `max` over the tokens of a text; both are zeros for a text without tokens.
    tokenizer : `Optional[Tokenize]`
        A function that splits a text into tokens, such as `str.split`; by default spaCy's rules for English.

    Raises `ConfigurationError`, when fitted or first used, for values that `load` rejects and for another pooling.

    >>> ElmoVectorizer("english-tiny", mix="last").fit_transform(["The ship sank.", "A calm morning!"]).shape
    (2, 512)
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
        """Load the biLM, which checks the parameters; `X` and `y` are ignored."""
        pooling_named(self.pooling)
        self._embedder()
        return self

    def transform(self, X: Texts) -> np.ndarray:
        """Return the vectors (B, D) of texts, or of lists of tokens, in float32.

        Raises `ConfigurationError` for a single string, a table, and a row that is neither a text nor a list of tokens.
        """
        pool, embedder = pooling_named(self.pooling), self._embedder()
        if isinstance(X, str) or getattr(X, "ndim", 1) != 1:
            found = f"the string {X[:100]!r}" if isinstance(X, str) else f"a {type(X).__name__} of two axes"
            raise ConfigurationError(f"X: expected a list of texts or of lists of tokens, got {found}")
        sentences = tokenized(X, self.tokenizer)
        vectors = np.empty((len(sentences), self._n_features_out), dtype=np.float32)  # (B, D), all layers: (B, L · D)
        for index, array in embedder.by_length(sentences):
            vectors[index] = pool(array).ravel()
        return vectors

    @property
    def _n_features_out(self) -> int:
        """Return the number of features, which `ClassNamePrefixFeaturesOutMixin` reads."""
        return self._embedder().elmo.get_output_dim()

    def _embedder(self) -> Embedder:
        """Return the embedder of the parameters, which `set_params` may have changed since the last call."""
        named = (self.bilm, self.mix, self.precision, self.cuda_device, self.initial_state)
        if self._loaded is None or self._loaded[0] != named:
            self._loaded = named, load(*named)
        return self._loaded[1]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"initial_state": None, **state})  # pickles of earlier versions lack it

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_loaded"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags
