"""ELMo in spaCy: a component that sets `doc.tensor`, and the input layer of components that spaCy trains."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Optional, Union, cast, final

import numpy as np
import srsly
import torch
from allennlp.common.checks import ConfigurationError
from more_itertools import chunked
from spacy.language import Language
from spacy.tokens import Doc, Span, Token
from thinc.api import ArgsKwargs, Model, PyTorchShim, get_torch_default_device, torch2xp, xp2torch
from thinc.types import Floats2d
from torch import Tensor, nn

from elmo_plugin.elmo import ScalarMix, SentenceCache
from elmo_plugin.embedding import Embedder, load, mean
from elmo_plugin.integrations.shared import bilm_to_bytes, load_bytes, side_by_side
from elmo_plugin.text import by_length

Docs = list[Doc]
Vectors = list[Floats2d]


@final
class ElmoComponent:
    """Sets `doc.tensor` (T, D), float32, which gives tokens, spans and docs `vector`, `has_vector` and `similarity`.

    The biLM reads one sentence at a time if an earlier component has set sentences, and the whole doc otherwise. It
    skips white-space tokens, so line breaks and double spaces do not change the vectors of words. The vector of a
    white-space token is zeros. The vector of a span or a doc is the mean over its other tokens, or zeros if it has
    none. Similarity is the cosine of two vectors; spaCy's own is 1 for a word and the same word in another sentence.

    spaCy finds the component by its entry point. A saved pipeline holds the name of the biLM but not its weights, which
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
            for doc in docs:
                doc.tensor = np.zeros((len(doc), self._embedder.elmo.get_output_dim()), dtype=np.float32)  # (T, D)
                _set_hooks(doc)
            sentences = words_of(docs)
            arrays = self._embedder.embed([[word.text for word in words] for _, words in sentences])
            for (row, words), array in zip(sentences, arrays, strict=True):
                docs[row].tensor[[word.i for word in words]] = array
            yield from docs


@Language.factory(
    "elmo",
    default_config={
        "bilm": "english-tiny",
        "mix": "average",
        "precision": "float32",
        "cuda_device": -1,
        "initial_state": None,
    },
    assigns=["doc.tensor"],
)
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


def elmo_v1(
    bilm: str = "english-tiny",
    width: Optional[int] = None,
    precision: str = "float32",
    initial_state: Optional[str] = None,
    by_sentence: bool = False,
    sentence_cache: Optional[str] = None,
) -> Model[Docs, Vectors]:
    """Build the architecture `elmo_plugin.Elmo.v1`: the ELMo vectors (T, D) of each doc, for any `tok2vec` of spaCy.

    The biLM is frozen. spaCy's optimizer trains the scalar mix of its layers, and `training.dropout` is the dropout
    rate of the vectors. The biLM skips white-space tokens, whose vectors are zeros. A saved pipeline contains the biLM
    and the mix, and needs no other file.

    # Parameters

    bilm, precision, initial_state
        As in `elmo_plugin.load`.
    width : `Optional[int]`
        The width of the vectors (D), so that other parts of a config can refer to it.
    by_sentence : `bool`
        Read each sentence by itself instead of the whole doc. An earlier component must set the sentences. For
        training, name it in `training.annotating_components`.
    sentence_cache : `Optional[str]`
        A folder that keeps the layers of each sentence, so that the biLM runs once per sentence and not once per epoch.
        A saved pipeline does not use it.

    Raises `ConfigurationError`, when the weights are loaded, for values that `load` rejects and for a wrong width; in
    training, for a doc without sentences if `by_sentence` is true.

    >>> from spacy.vocab import Vocab
    >>> elmo_v1("english-tiny").predict([Doc(Vocab(), words=["The", "ship", "sank"])])[0].shape
    (3, 512)
    """
    keys = {"bilm": bilm, "precision": precision, "initial_state": initial_state}
    return Model(
        "elmo",
        partial(_forward, by_sentence=by_sentence),
        init=partial(_initialize, keys=keys, sentence_cache=sentence_cache),
        dims={"nO": width},
        attrs={"dropout_rate": 0.0},
        shims=[PyTorchShim(None, serialize_model=_to_bytes, deserialize_model=partial(_from_bytes, keys=keys))],
    )


class TrainableVectors(nn.Module):
    """An embedder with a scalar mix, as a module. Only the parameters of the mix are trained."""

    def __init__(self, embedder: Embedder, sentence_cache: Optional[str] = None) -> None:
        super().__init__()
        sizes = embedder.elmo.bilm.options
        self.embedder = embedder.with_mix(ScalarMix(sizes.num_layers, sizes.layer_dim))
        self.elmo = self.embedder.elmo
        if sentence_cache is not None:
            self.elmo.sentence_cache = SentenceCache(sentence_cache)

    def forward(self, sentences: list[list[str]]) -> list[Tensor]:
        """Return the vectors (T, D) of each sentence."""
        lengths = [len(words) for words in sentences]
        vectors = dict(by_length(lambda batch: self.embedder.padded(batch)[0], sentences, lengths))  # (T, D) each
        return [vectors[index][:length] for index, length in enumerate(lengths)]


def _initialize(
    model: Model[Docs, Vectors],
    X: Any = None,
    Y: Any = None,
    *,
    keys: dict[str, Any],
    sentence_cache: Optional[str],
) -> None:
    """Load the biLM, and start from equal layer weights."""
    embedder = load(mix="average", **keys)
    width = embedder.elmo.get_output_dim()
    if model.has_dim("nO") and model.get_dim("nO") != width:
        raise ConfigurationError(f"'width': expected {width}, the width of '{keys['bilm']}', got {model.get_dim('nO')}")
    model.set_dim("nO", width)
    model.shims[0]._model = TrainableVectors(embedder, sentence_cache).to(get_torch_default_device())


def _forward(
    model: Model[Docs, Vectors], docs: Docs, is_train: bool, *, by_sentence: bool
) -> tuple[Vectors, Callable[[Vectors], Docs]]:
    """Return the vectors of docs, and the function that passes their gradients back to the mix."""
    shim = model.shims[0]
    if shim._model is None:
        model.initialize()
    shim._model.elmo.dropout.p = model.attrs["dropout_rate"]
    if is_train and by_sentence and not all(doc.has_annotation("SENT_START") for doc in docs):
        raise ConfigurationError(
            "'by_sentence': expected docs with sentences, got one without; name the component that sets them in "
            "'training.annotating_components'"
        )
    sentences = words_of(docs, by_sentence)
    texts = [[word.text for word in words] for _, words in sentences]
    vectors, backprop_vectors = shim(ArgsKwargs((texts,), {}), is_train)  # (T, D) each
    outputs = [model.ops.alloc2f(len(doc), model.get_dim("nO")) for doc in docs]
    for (row, words), values in zip(sentences, vectors, strict=True):
        outputs[row][[word.i for word in words]] = cast(Any, torch2xp(values))

    def backprop(d_outputs: Vectors) -> Docs:
        d_vectors = [xp2torch(d_outputs[row][[word.i for word in words]]) for row, words in sentences]  # (T, D) each
        backprop_vectors(ArgsKwargs((vectors,), {"grad_tensors": d_vectors}))
        return []  # docs have no gradient

    return outputs, backprop


def _to_bytes(model: Optional[TrainableVectors]) -> bytes:
    """Return the biLM and the mix as bytes, or no bytes if no weights are loaded."""
    if model is None:
        return b""
    mix = {name: values.tolist() for name, values in model.elmo.mixes[0].state_dict().items()}
    return srsly.msgpack_dumps({"bilm": bilm_to_bytes(model.embedder), "mix": mix})


def _from_bytes(
    model: Optional[TrainableVectors], content: bytes, device: torch.device, *, keys: dict[str, Any]
) -> Optional[TrainableVectors]:
    """Return the module that `_to_bytes` saved."""
    if not content:
        return None
    saved = srsly.msgpack_loads(content)
    vectors = TrainableVectors(load_bytes(saved["bilm"], mix="average", **keys))
    vectors.elmo.mixes[0].load_state_dict({name: torch.tensor(values) for name, values in saved["mix"].items()})
    return vectors.to(device)
