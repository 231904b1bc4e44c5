"""A biLM for whoever has tokens and wants arrays."""

import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from os import fspath
from typing import Optional

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import int_to_device
from allennlp.models.archival import load_archive

from elmo_plugin.bilm import SpellingEncoder
from elmo_plugin.bulk_embedding.length_batches import TOKENS_PER_BATCH, length_batches
from elmo_plugin.checkpoints import build_bilm
from elmo_plugin.checkpoints.checkpoint_format import Location, local_file
from elmo_plugin.checkpoints.word_table import WordIds
from elmo_plugin.mixes import AverageMix, ConcatenateMix, Elmo, LastMix, LayerMix
from elmo_plugin.mixes.bilm_source import find_checkpoint
from elmo_plugin.mixes.trained_mix import trained_mix

Sentences = Sequence[Sequence[str]]
WordId = Callable[[str], int]

MIXES: dict[str, type[LayerMix]] = {"all": ConcatenateMix, "top": LastMix, "average": AverageMix}
"""What of the layers is wanted, but for the mix that a model was trained with."""
TRAINED = "trained"


class Embedder:
    """A frozen biLM and one mix of its layers: tokens to arrays. The same sentence has the same vectors anywhere.

    # Parameters

    elmo : `Elmo`
        With one mix, from an initial state that is the same for every sentence.
    word_id : `Optional[WordId]`
        The id of each word, for a biLM that reads words.

    Raises `ConfigurationError` for another `Elmo`, or where `word_id` is missing.
    """

    def __init__(self, elmo: Elmo, word_id: Optional[WordId] = None) -> None:
        if not elmo.initial_state.same_for_every_sentence:
            raise ConfigurationError(
                f"'initial_state' is '{elmo.initial_state.name}', with which a sentence's vectors depend on those "
                "before it; wanted 'zero' or 'warm'"
            )
        if word_id is None and not isinstance(elmo.bilm.token_encoder, SpellingEncoder):
            raise ConfigurationError(f"'{elmo.bilm.source}' reads words, and its files hold no vocabulary for them")
        self.elmo = elmo.eval()
        self._word_id = word_id

    @property
    def shape(self) -> tuple[int, ...]:
        """What a sentence's array is like, −1 for T: (L, −1, D) of all layers, (−1, D) of a mix."""
        sizes = self.elmo.bilm.options
        return (sizes.num_layers, -1, sizes.layer_dim) if self._is_all else (-1, self.elmo.get_output_dim())

    def embed(self, sentences: Sentences) -> list[np.ndarray]:
        """Tokenised sentences to an array each, in float32 and in their order.

        *Shape:* (L, T, D) of all layers, the token layer first, or (T, D) of a mix; T is 0 for an empty sentence.
        Raises `ConfigurationError` for a sentence that is a string.
        """
        arrays = {place: array.copy() for place, array in self.by_length(sentences)}
        return [arrays[place] for place in range(len(arrays))]

    def by_length(
        self, sentences: Sentences, tokens_per_batch: int = TOKENS_PER_BATCH, batch_size: Optional[int] = None
    ) -> Iterator[tuple[int, np.ndarray]]:
        """The place and the array of each sentence, by rising length; one batch of arrays is in memory at a time."""
        sentences = [sentence if isinstance(sentence, str) else list(sentence) for sentence in sentences]
        for sentence in sentences:
            if isinstance(sentence, str) or not all(isinstance(token, str) for token in sentence):
                raise ConfigurationError(f"wanted sentences as lists of tokens, found {str(sentence)[:100]!r}")
        lengths = [len(sentence) for sentence in sentences]
        for places in length_batches(lengths, tokens_per_batch, batch_size):
            vectors = self._vectors([sentences[place] for place in places])  # (B, T, width)
            for place, row in zip(places, vectors, strict=True):
                yield place, self._shaped(row[: lengths[place]])

    @torch.no_grad()
    def _vectors(self, sentences: Sentences) -> np.ndarray:
        """The mix of each token, (B, T, width)."""
        ids = self.elmo.bilm.ids_of(sentences, self._word_id)  # (B, T, ·)
        mixed = self.elmo(ids).representations[0]  # (B, T, width)
        return mixed.cpu().numpy()

    def _shaped(self, vectors: np.ndarray) -> np.ndarray:
        """A sentence's vectors (T, width), those of all layers side by side as (L, T, D)."""
        if not self._is_all:
            return vectors
        num_layers, _, layer_dim = self.shape
        return vectors.reshape(len(vectors), num_layers, layer_dim).swapaxes(0, 1)

    @property
    def _is_all(self) -> bool:
        return isinstance(self.elmo.mixes[0], ConcatenateMix)


def load(bilm: Location, mix: str = "all", precision: str = "float32", cuda_device: int = -1) -> Embedder:
    """A biLM to embed with.

    # Parameters

    bilm : path, URL or bundled name, in any format
    mix : `all` layers, the `top` one, their `average`, or `trained`: the first mix of the model in an archive
    precision : `float32`, `bfloat16` or `auto`, as in `Elmo`; what comes out is float32
    cuda_device : the number of a GPU, −1 for the processor

    Raises `ConfigurationError` for files that cannot be read, and for words and devices that are none of these.
    """
    if mix == TRAINED:
        return _load_trained(bilm, precision, cuda_device)
    return load_by_keys({"pretrained": fspath(bilm)}, mix, precision, cuda_device)


def load_by_keys(keys: dict[str, str], mix: str, precision: str, cuda_device: int) -> Embedder:
    """The same of what a config says of a biLM: `pretrained`, or `options_file` and `weight_file`."""
    if mix not in MIXES:
        raise ConfigurationError(f"'mix' is {mix!r}; wanted one of {', '.join([*MIXES, TRAINED])}")
    checkpoint = find_checkpoint(keys, serialization_dir=None)
    model = build_bilm(checkpoint, source=keys.get("pretrained", keys.get("weight_file", "")))
    mixed = MIXES[mix](model.options.num_layers, model.options.layer_dim)
    elmo = Elmo.from_parts(model, [mixed], dropout=0.0, precision=precision)
    word_id = None if checkpoint.vocabulary is None else WordIds(checkpoint.vocabulary, model.source)
    return Embedder(elmo.to(_device(cuda_device)), word_id)


def _load_trained(archive: Location, precision: str, cuda_device: int) -> Embedder:
    """The biLM and the first mix of the first ELMo inside a model."""
    try:
        model = load_archive(local_file(archive, "bilm")).model
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ConfigurationError(f"'{fspath(archive)}' is no readable archive of a model: {error}") from error
    found = next((module for module in model.modules() if isinstance(module, Elmo)), None)
    if found is None:
        raise ConfigurationError(f"'{fspath(archive)}' holds a {type(model).__name__} without ELMo; wanted one with it")
    elmo = Elmo.from_parts(
        found.bilm, [trained_mix(model, found)], dropout=0.0, initial_state=found.initial_state, precision=precision
    )
    return Embedder(elmo.to(_device(cuda_device)), model.vocab.get_token_index)


def _device(cuda_device: int) -> torch.device:
    if cuda_device >= torch.cuda.device_count():
        raise ConfigurationError(f"'cuda_device' is {cuda_device}; this machine has {torch.cuda.device_count()} GPUs")
    return int_to_device(cuda_device)
