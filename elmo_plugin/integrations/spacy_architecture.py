"""ELMo as the input layer of spaCy's trainable components: a frozen biLM, and a mix that spaCy trains."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Optional, cast

import srsly
import torch
from allennlp.common.checks import ConfigurationError
from spacy.tokens import Doc
from thinc.api import ArgsKwargs, Model, PyTorchShim, get_torch_default_device, torch2xp, xp2torch
from thinc.types import Floats2d
from torch import Tensor, nn

from elmo_plugin.elmo import ScalarMix, SentenceCache
from elmo_plugin.embedding import Embedder, load
from elmo_plugin.integrations.saved_bilm import bilm_to_bytes, load_bytes
from elmo_plugin.integrations.spacy_component import words_of
from elmo_plugin.text import length_batches

Docs = list[Doc]
Vectors = list[Floats2d]


class Keys(NamedTuple):
    """The keys of a config, without `width`."""

    bilm: str
    precision: str
    initial_state: Optional[str]
    by_sentence: bool
    sentence_cache: Optional[str]


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
    keys = Keys(bilm, precision, initial_state, by_sentence, sentence_cache)
    return Model(
        "elmo",
        partial(_forward, keys=keys),
        init=partial(_initialize, keys=keys),
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

    def forward(self, sentences: list[list[str]]) -> Tensor:
        """Return the vectors of sentences, (B, T, D)."""
        return self.embedder.padded(sentences)[0]


def _initialize(model: Model[Docs, Vectors], X: Any = None, Y: Any = None, *, keys: Keys) -> None:
    """Load the biLM, and start from equal layer weights."""
    embedder = load(keys.bilm, "average", keys.precision, initial_state=keys.initial_state)
    width = embedder.elmo.get_output_dim()
    if model.has_dim("nO") and model.get_dim("nO") != width:
        raise ConfigurationError(f"'width': expected {width}, the width of '{keys.bilm}', got {model.get_dim('nO')}")
    model.set_dim("nO", width)
    model.shims[0]._model = TrainableVectors(embedder, keys.sentence_cache).to(get_torch_default_device())


def _forward(
    model: Model[Docs, Vectors], docs: Docs, is_train: bool, *, keys: Keys
) -> tuple[Vectors, Callable[[Vectors], Docs]]:
    """Return the vectors of docs, and the function that passes their gradients back to the mix."""
    shim = model.shims[0]
    if shim._model is None:
        _initialize(model, keys=keys)
    shim._model.elmo.dropout.p = model.attrs["dropout_rate"]
    if is_train and keys.by_sentence and not all(doc.has_annotation("SENT_START") for doc in docs):
        raise ConfigurationError(
            "'by_sentence': expected docs with sentences, got one without; name the component that sets them in "
            "'training.annotating_components'"
        )
    sentences = words_of(docs, keys.by_sentence)
    outputs = [model.ops.alloc2f(len(doc), model.get_dim("nO")) for doc in docs]
    batches = []
    for indices in length_batches([len(words) for _, words in sentences]):
        batch = [sentences[index] for index in indices]
        texts = [[word.text for word in words] for _, words in batch]
        vectors, backprop_batch = shim(ArgsKwargs((texts,), {}), is_train)  # (B, T, D)
        for (row, words), values in zip(batch, cast(Any, torch2xp(vectors)), strict=True):
            outputs[row][[word.i for word in words]] = values[: len(words)]
        batches.append((batch, vectors, backprop_batch))

    def backprop(d_outputs: Vectors) -> Docs:
        for batch, vectors, backprop_batch in batches:
            d_vectors = torch.zeros_like(vectors)  # (B, T, D)
            for index, (row, words) in enumerate(batch):
                d_vectors[index, : len(words)] = xp2torch(d_outputs[row][[word.i for word in words]])
            backprop_batch(ArgsKwargs(((vectors,),), {"grad_tensors": (d_vectors,)}))
        return []  # docs have no gradient

    return outputs, backprop


def _to_bytes(model: Optional[TrainableVectors]) -> bytes:
    """Return the biLM and the mix as bytes, or no bytes if no weights are loaded."""
    if model is None:
        return b""
    mix = {name: values.tolist() for name, values in model.elmo.mixes[0].state_dict().items()}
    return srsly.msgpack_dumps({"bilm": bilm_to_bytes(model.embedder), "mix": mix})


def _from_bytes(
    model: Optional[TrainableVectors], content: bytes, device: torch.device, *, keys: Keys
) -> Optional[TrainableVectors]:
    """Return the module that `_to_bytes` saved."""
    if not content:
        return None
    saved = srsly.msgpack_loads(content)
    vectors = TrainableVectors(load_bytes(saved["bilm"], keys.bilm, "average", keys.precision, keys.initial_state))
    mix = {name: torch.tensor(values) for name, values in saved["mix"].items()}
    vectors.elmo.mixes[0].load_state_dict(mix)
    return vectors.to(device)
