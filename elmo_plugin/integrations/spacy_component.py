"""ELMo as a component of a spaCy pipeline."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Optional, Union, final

import numpy as np
from more_itertools import chunked
from spacy.language import Language
from spacy.tokens import Doc, Span, Token

from elmo_plugin.embedding import Embedder, load, mean
from elmo_plugin.integrations.texts import side_by_side

DEFAULTS = {
    "bilm": "english-tiny",
    "mix": "average",
    "precision": "float32",
    "cuda_device": -1,
    "initial_state": None,
}


@final
class ElmoComponent:
    """Sets `doc.tensor` (T, D), float32, which gives tokens, spans and docs `vector`, `has_vector` and `similarity`.

    The biLM reads one sentence at a time if an earlier component has set sentences, and the whole doc otherwise. It
    skips white-space tokens, so line breaks and double spaces do not change the vectors of words. The vector of a
    white-space token is zeros. The vector of a span or a doc is the mean over its other tokens, or zeros if it has
    none. Similarity is the cosine of two vectors; spaCy's own is 1 for a word and the same word in another sentence.

    `import elmo_plugin` registers the component. A saved pipeline holds the name of the biLM but not its weights, which
    `spacy.load` loads again; a relative path starts at the working directory. By spaCy's design, `doc.to_bytes` and
    `n_process` keep `doc.tensor` but not the hooks, so similarity is spaCy's own again; `DocBin` keeps neither.

    # Parameters

    embedder : `Embedder`
        With the mix `concatenate` or `all`, a token has L · D numbers, the token layer first.

    >>> import spacy
    >>> nlp = spacy.blank("en")
    >>> component = nlp.add_pipe("elmo", config={"bilm": "english-tiny", "mix": "last"})
    >>> nlp("The ship sank.").tensor.shape
    (4, 512)
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = side_by_side(embedder)

    def __call__(self, doc: Doc) -> Doc:
        """Set the tensor and the hooks of a doc, and return it."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], batch_size: int = 128) -> Iterator[Doc]:
        """Yield the same docs with tensors and hooks, computed for `batch_size` docs at a time."""
        for docs in chunked(stream, batch_size):
            for doc, tensor in zip(docs, self._tensors(docs), strict=True):
                doc.tensor = tensor
                _set_hooks(doc)
                yield doc

    def _tensors(self, docs: list[Doc]) -> list[np.ndarray]:
        """Return the tensor (T, D) of each doc."""
        width = self._embedder.elmo.get_output_dim()
        tensors = [np.zeros((len(doc), width), dtype=np.float32) for doc in docs]  # (T, D)
        sentences = words_of(docs)
        arrays = self._embedder.embed([[word.text for word in words] for _, words in sentences])
        for (row, words), array in zip(sentences, arrays, strict=True):
            tensors[row][[word.i for word in words]] = array
        return tensors


@Language.factory("elmo", default_config=DEFAULTS, assigns=["doc.tensor"])
def make_elmo(
    nlp: Language, name: str, bilm: str, mix: str, precision: str, cuda_device: int, initial_state: Optional[str]
) -> ElmoComponent:
    """Build the component of a config, whose keys are the parameters of `elmo_plugin.load`."""
    return ElmoComponent(load(bilm, mix, precision, cuda_device, initial_state))


def words_of(docs: Sequence[Doc], by_sentence: bool = True) -> list[tuple[int, list[Token]]]:
    """Return each sequence of words that the biLM reads, after the index of its doc. White space is left out.

    A sequence is a sentence, or the whole doc if no sentences are set or `by_sentence` is false.
    """
    found = []
    for row, doc in enumerate(docs):
        spans = doc.sents if by_sentence and doc.has_annotation("SENT_START") else [doc[:]]
        found += [(row, _words(span)) for span in spans]
    return found


def _words(tokens: Union[Doc, Span]) -> list[Token]:
    """Return the tokens without white space."""
    return [token for token in tokens if not token.is_space]


def _set_hooks(doc: Doc) -> None:
    shared: dict[str, Callable[..., Any]] = {
        "has_vector": lambda tokens: bool(tokens.vector.any()),
        "similarity": _cosine,
    }
    doc.user_token_hooks.update(shared, vector=lambda token: token.doc.tensor[token.i])
    doc.user_span_hooks.update(shared, vector=_mean_vector)
    doc.user_hooks.update(shared, vector=_mean_vector)


def _mean_vector(tokens: Union[Doc, Span]) -> np.ndarray:
    return mean(tokens.doc.tensor[[word.i for word in _words(tokens)]])  # (D)


def _cosine(one: Union[Doc, Span, Token], other: Union[Doc, Span, Token]) -> float:
    left, right = np.asarray(one.vector), np.asarray(other.vector)  # (D), (D)
    norms = np.linalg.norm(left) * np.linalg.norm(right)
    return float(left @ right / norms) if norms else 0.0
