"""ELMo as a step of a scikit-learn pipeline."""

from typing import Any, Self, final

import numpy as np
from allennlp.common.checks import ConfigurationError
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from elmo_plugin.integrations.shared import TextEmbedder, Texts, pooling_named


@final
class ElmoVectorizer(TextEmbedder, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
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

    def fit(self, X: Texts, y: object = None) -> Self:
        """Load the biLM, which checks the parameters; `X` and `y` are ignored."""
        pooling_named(self.pooling)
        self._embedder()
        return self

    def transform(self, X: Texts) -> np.ndarray:
        """Return the vectors of texts, or of lists of tokens, in float32: (B, D), or (B, L · D) for all layers.

        Raises `ConfigurationError` for a single string, a table, and a row that is neither a text nor a list of tokens.
        """
        axes = getattr(X, "ndim", 1)
        if axes != 1:
            raise ConfigurationError(
                f"X: expected a list of texts or of lists of tokens, got a {type(X).__name__} of {axes} axes; a "
                '`ColumnTransformer` gives one column if it is named without brackets: "text" instead of ["text"]'
            )
        vectors = self._embed(X, pooling_named(self.pooling))  # (D) each
        return np.array(vectors, dtype=np.float32).reshape(-1, self._n_features_out)  # (B, D)

    @property
    def _n_features_out(self) -> int:
        """Return the width of the vectors, from which `ClassNamePrefixFeaturesOutMixin` makes the features' names."""
        return self._embedder().elmo.get_output_dim()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags
