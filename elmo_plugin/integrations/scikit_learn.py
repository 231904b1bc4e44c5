"""ELMo as a step of a scikit-learn pipeline."""

from typing import Any, Optional, Self, final

import numpy as np
from allennlp.common.checks import ConfigurationError
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from elmo_plugin.bilm import language_of
from elmo_plugin.embedding import Embedder, load
from elmo_plugin.integrations.shared import Texts, Tokenize, pooling_named, side_by_side, tokenized, versions_of_files


@final
class ElmoVectorizer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Turns each text into one vector, which does not depend on the other texts. There is nothing to fit.

    The biLM is loaded at first use. A clone or a pickle holds its name but not its weights, and loads them again.

    # Parameters

    bilm, mix, precision, cuda_device, initial_state
        As in `elmo_plugin.load`. With `concatenate` or `all`, a vector has L · D numbers, the token layer first.
    pooling : `str`
        `mean` or `max` over the tokens of a text. A text without tokens gets zeros.
    tokenizer : `Optional[Tokenize]`
        A function that splits a text into tokens, such as `str.split`; by default spaCy's rules for English.

    Raises `ConfigurationError`, when fitted or first used, for values that `load` rejects and for an unknown pooling.

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
        """Return the vectors of texts, or of lists of tokens, in float32: (B, D), or (B, L · D) for all layers.

        Raises `ConfigurationError` for a single string, a table, and a row that is neither a text nor a list of tokens.
        """
        pool, embedder = pooling_named(self.pooling), self._embedder()
        axes = getattr(X, "ndim", 1)
        if axes != 1:
            raise ConfigurationError(
                f"X: expected a list of texts or of lists of tokens, got a {type(X).__name__} of {axes} axes; a "
                '`ColumnTransformer` gives one column if it is named without brackets: "text" instead of ["text"]'
            )
        sentences = tokenized(X, self.tokenizer, language_of(embedder.elmo))
        vectors = np.empty((len(sentences), self._n_features_out), dtype=np.float32)  # (B, D)
        for index, array in embedder.by_length(sentences):
            vectors[index] = pool(array)
        return vectors

    @property
    def _n_features_out(self) -> int:
        """Return the width of the vectors, from which `ClassNamePrefixFeaturesOutMixin` makes the features' names."""
        return self._embedder().elmo.get_output_dim()

    def _embedder(self) -> Embedder:
        """Return the embedder for the current parameters, which `set_params` may have changed since the last call."""
        keys = (self.bilm, self.mix, self.precision, self.cuda_device, self.initial_state)
        if self._loaded is None or self._loaded[0] != keys:
            self._loaded = keys, side_by_side(load(*keys))
        return self._loaded[1]

    def __getstate__(self) -> dict[str, Any]:
        # joblib's `Memory`, as in `make_pipeline(…, memory=…)`, recognizes a call by the pickle of the transformer.
        return {**super().__getstate__(), "_loaded": None, "_versions": versions_of_files(self.bilm)}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags
