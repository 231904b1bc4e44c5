"""ELMo as the layer that spaCy's trainable components read: a frozen biLM under a mix that spaCy trains."""

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
    """The keys of a config that name the biLM and say how it computes."""

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
    rate of the vectors. Tokens of white space are not read, and their vectors are zeros. A saved pipeline holds the
    biLM and the mix, and needs no other file.

    # Parameters

    bilm, precision, initial_state
        As in `elmo_plugin.load`.
    width : `Optional[int]`
        The width of the vectors (D), for other parts of a config to refer to.
    by_sentence : `bool`
        Read each sentence by itself, not the whole doc. An earlier component has to set sentences, in training too:
        name it in `training.annotating_components`.
    sentence_cache : `Optional[str]`
        A folder that keeps the layers of each sentence, so that training runs the biLM once and not once per epoch. A
        saved pipeline does not use it.

    Raises `ConfigurationError`, when the weights are loaded, for values that `load` rejects and for another width; in
    training, for a doc without sentences that is to be read by sentence.

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
    """An embedder with a scalar mix, as a module whose only parameters with gradients are those of the mix."""

    def __init__(self, embedder: Embedder, sentence_cache: Optional[str] = None) -> None:
        super().__init__()
        sizes = embedder.elmo.bilm.options
        self.embedder = embedder.with_mix(ScalarMix(sizes.num_layers, sizes.layer_dim))
        self.elmo = self.embedder.elmo
        if sentence_cache is not None:
            self.elmo.sentence_cache = SentenceCache(sentence_cache)

    def forward(self, sentences: list[list[str]]) -> Tensor:
        """Return the vectors (B, T, D) of sentences."""
        return self.embedder.padded(sentences)[0]


def _initialize(model: Model[Docs, Vectors], X: Any = None, Y: Any = None, *, keys: Keys) -> None:
    """Load the biLM, with equal weights of its layers."""
    embedder = load(keys.bilm, "average", keys.precision, initial_state=keys.initial_state)
    width = embedder.elmo.get_output_dim()
    if model.has_dim("nO") and model.get_dim("nO") != width:
        raise ConfigurationError(f"'width': expected {width}, the width of '{keys.bilm}', got {model.get_dim('nO')}")
    model.set_dim("nO", width)
    model.shims[0]._model = TrainableVectors(embedder, keys.sentence_cache).to(get_torch_default_device())


def _forward(
    model: Model[Docs, Vectors], docs: Docs, is_train: bool, *, keys: Keys
) -> tuple[Vectors, Callable[[Vectors], Docs]]:
    """Return the vectors of docs, and the function that passes their gradients on to the mix."""
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
        batch = [(row, words, [word.i for word in words]) for row, words in map(sentences.__getitem__, indices)]
        texts = [[word.text for word in words] for _, words, _ in batch]
        vectors, backprop_batch = shim(ArgsKwargs((texts,), {}), is_train)  # (B, T, D)
        for (row, _, places), values in zip(batch, cast(Any, torch2xp(vectors)), strict=True):
            outputs[row][places] = values[: len(places)]
        batches.append((batch, vectors, backprop_batch))

    def backprop(d_outputs: Vectors) -> Docs:
        for batch, vectors, backprop_batch in batches:
            d_vectors = torch.zeros_like(vectors)  # (B, T, D)
            for index, (row, _, places) in enumerate(batch):
                d_vectors[index, : len(places)] = xp2torch(d_outputs[row][places])
            backprop_batch(ArgsKwargs(((vectors,),), {"grad_tensors": (d_vectors,)}))
        return []  # docs have no gradient

    return outputs, backprop


def _to_bytes(model: Optional[TrainableVectors]) -> bytes:
    """Return the biLM and the mix; nothing if no weights have been loaded."""
    if model is None:
        return b""
    mix = {name: values.tolist() for name, values in model.elmo.mixes[0].state_dict().items()}
    return srsly.msgpack_dumps({"bilm": bilm_to_bytes(model.embedder), "mix": mix})


def _from_bytes(
    model: Optional[TrainableVectors], content: bytes, device: torch.device, *, keys: Keys
) -> Optional[TrainableVectors]:
    """Return what `_to_bytes` has saved."""
    if not content:
        return None
    saved = srsly.msgpack_loads(content)
    vectors = TrainableVectors(load_bytes(saved["bilm"], keys.bilm, "average", keys.precision, keys.initial_state))
    mix = {name: torch.tensor(values) for name, values in saved["mix"].items()}
    vectors.elmo.mixes[0].load_state_dict(mix)
    return vectors.to(device)
