"""Load a biLM and embed tokenized sentences as NumPy arrays."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from hashlib import blake2b
from os import PathLike, fspath
from typing import Any, Optional, Union

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import load_archive
from torch import Tensor

from elmo_plugin.bilm import CharacterLevelEncoder, InitialState, identity
from elmo_plugin.checkpoints import (
    Location,
    WordLookup,
    allennlp_elmo,
    build_bilm,
    load_checkpoint,
    trained_model,
    unpacked,
)
from elmo_plugin.common import named_errors
from elmo_plugin.elmo import ConcatenateMix, Elmo, LayerMix, elmo_of, trained_elmo
from elmo_plugin.text import TOKENS_PER_BATCH, LanguageCheck, by_length, token_lists

Sentences = Sequence[Sequence[str]]
WordId = Callable[[str], int]

ALL, TOP, TRAINED = "all", "top", "trained"
"""Names beside those of registered mixes: all layers, another name of `last`, and the mix that a model has trained.

The first two are from AllenNLP's retired command `elmo`.
"""


class Embedder:
    """A frozen biLM and, unless all of its layers are wanted, a mix of them: tokenized sentences to NumPy arrays.

    A sentence has the same vectors alone and in any batch.

    # Parameters

    elmo : `Elmo`
        With one mix, or with none for all layers, and with an initial state that is the same for every sentence.
    word_id : `Optional[WordId]`
        A function from a word to its id, for a biLM that reads words.

    Raises `ConfigurationError` for another initial state, or if `word_id` is missing.

    >>> embedder = load("english-tiny", "last")
    >>> [array.shape for array in embedder.embed([["Two", "words"], ["One"]])]
    [(2, 512), (1, 512)]
    """

    def __init__(self, elmo: Elmo, word_id: Optional[WordId] = None) -> None:
        if not elmo.initial_state.same_for_every_sentence:
            name = elmo.initial_state.name
            raise ConfigurationError(
                f"'initial_state': expected 'zero' or 'warm', got '{name}', with which vectors depend on earlier "
                f"sentences; use `elmo_plugin.Elmo(bilm=…, initial_state='{name}')`"
            )
        if word_id is None and not isinstance(elmo.bilm.token_encoder, CharacterLevelEncoder):
            raise ConfigurationError(f"'{elmo.bilm.source}': expected a vocabulary, because it reads words, got none")
        self.elmo = elmo.eval()
        self.word_id = word_id
        self.language_check = LanguageCheck(elmo.bilm.options.language)

    def with_mix(self, mix: Union[str, LayerMix]) -> "Embedder":
        """Return an embedder with the same biLM and another mix: a name as in `load`, or a `LayerMix`."""
        bilm = self.elmo.bilm
        if isinstance(mix, LayerMix):
            mixes = [mix]
        elif (name := check_mix(mix)) == ALL:
            mixes = []
        else:
            mixes = [LayerMix.by_name(name)(num_elmo_layers=bilm.options.num_layers, layer_dim=bilm.options.layer_dim)]
            if any(weight.requires_grad for weight in mixes[0].parameters()):
                raise ConfigurationError(
                    f"'mix': expected a mix without weights to train, got {name!r}; 'trained' reads those in the "
                    "archive of a model, and `Embedder.with_mix` takes a mix that is built"
                )
        elmo = Elmo.from_parts(bilm, mixes, dropout=0.0, initial_state=self.elmo.initial_state)
        return Embedder(elmo.to(bilm.weight.device), self.word_id)

    def __repr__(self) -> str:
        """Return the biLM's source, and what the embedder computes."""
        bilm, mixes = self.elmo.bilm, self.elmo.mixes
        mix = type(mixes[0]).__name__ if mixes else ALL
        return (
            f"Embedder({bilm.source!r}, shape={self.shape}, mix={mix}, precision={bilm.precision_of_weights!r}, "
            f"initial_state={self.elmo.initial_state.name!r}, device='{self.device}')"
        )

    @property
    def device(self) -> torch.device:
        """Return the device that the biLM computes on."""
        return next(self.elmo.bilm.parameters()).device

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of an array, −1 for T: (L, −1, D) for all layers, (−1, width) for a mix."""
        sizes = self.elmo.bilm.options
        return (-1, self.elmo.get_output_dim()) if self.elmo.mixes else (sizes.num_layers, -1, sizes.layer_dim)

    def identity(self) -> dict[str, Any]:
        """Return everything that the arrays depend on except the sentences, as JSON values."""
        # All layers go by the mix that concatenates them, as they once did, so that old outputs are resumed.
        sizes = self.elmo.bilm.options
        mix = next(iter(self.elmo.mixes), ConcatenateMix(sizes.num_layers, sizes.layer_dim))
        words = self.word_id.words if isinstance(self.word_id, WordLookup) else []
        return {
            **identity(self.elmo.bilm, self.elmo.initial_state),
            "vocabulary": blake2b(json.dumps(words).encode(), digest_size=16).hexdigest(),
            "mix": {"type": type(mix).__name__, **{name: each.tolist() for name, each in mix.state_dict().items()}},
            "shape": list(self.shape),
        }

    def embed(self, sentences: Sentences) -> list[np.ndarray]:
        """Return the array of each tokenized sentence, in float32.

        *Shape:* (L, T, D) for all layers, the token layer first, or (T, width) for a mix; T is 0 for an empty sentence.
        Raises `ConfigurationError` naming the first sentence that is not a list of strings.
        """
        arrays = {index: array.copy() for index, array in self.by_length(sentences)}
        return [arrays[index] for index in range(len(arrays))]

    def by_length(
        self,
        sentences: Sentences,
        tokens_per_batch: int = TOKENS_PER_BATCH,
        batch_size: Optional[int] = None,
        half: bool = False,
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the index and the array of each sentence, shortest first, with one batch in memory at a time.

        With `half`, the arrays are float16.
        """
        sentences = token_lists(sentences)
        self.language_check.read(map(" ".join, sentences))
        lengths = [len(sentence) for sentence in sentences]
        vectors = by_length(lambda batch: self._vectors(batch, half), sentences, lengths, tokens_per_batch, batch_size)
        for index, array in vectors:
            yield index, array[..., : lengths[index], :]

    def padded(self, sentences: Sentences) -> tuple[Tensor, Tensor]:
        """Return the vectors of one batch, zeros after the end of a sentence, and the mask (B, T).

        *Shape:* (B, L, T, D) for all layers, or (B, T, width) for a mix. Gradients reach a trainable mix.
        """
        use_one_thread_in_a_fork()
        ids = self.elmo.bilm.ids_of(sentences, self.word_id)  # (B, T, ·)
        if self.elmo.mixes:
            output = self.elmo(ids)
            return output.representations[0], output.mask
        layers, mask = self.elmo.layers(ids, keep_sentence_boundaries=False)  # (L, B, T, D), (B, T)
        return layers.transpose(0, 1), mask

    @torch.no_grad()
    def _vectors(self, sentences: Sentences, half: bool) -> np.ndarray:
        vectors = self.padded(sentences)[0]  # (B, T, width) or (B, L, T, D)
        return (vectors.half() if half else vectors).cpu().numpy()


def load(
    bilm: Location,
    mix: str = "all",
    precision: str = "float32",
    cuda_device: int = -1,
    initial_state: Optional[str] = None,
    device: Optional[str] = None,
    options_file: Optional[Location] = None,
) -> Embedder:
    """Load a biLM to embed sentences with. The embedder can be copied, and pickled for other processes.

    # Parameters

    bilm : a path, a URL or the name of a bundled biLM, in any format
    mix : `all` layers, kept apart: (L, T, D); or one vector per token: the `last` layer, the `average` of all layers,
        `concatenate`, all layers side by side: (T, L · D), any other registered mix without weights to train, or
        `trained`, the first mix of the model in an archive. `top` is another name for `last`
    precision : `float32`, `bfloat16`, `int8` or `auto`, as in `Elmo`; the arrays are float32
    cuda_device : the number of a GPU, −1 for the processor
    initial_state : the state before each sentence: `zero` (the default), or `warm`, which `convert-elmo --warm-on`
        stored in the file; with `trained` the default is the model's own
    device : a device by PyTorch's name, instead of `cuda_device`: `mps` for the GPU of a Mac
    options_file : the options of bilm-tf, for weights that come without them, such as an archive of AllenNLP 0.8 whose
        own options file is gone

    Raises `ConfigurationError` for files that cannot be read, for a file without the requested state, and for unknown
    values.

    >>> two, one = load("english-tiny").embed([["Two", "words"], ["One"]])
    >>> two.shape, one.shape
    ((3, 2, 512), (3, 1, 512))
    """
    if not isinstance(bilm, str | PathLike):
        raise ConfigurationError(f"'bilm': expected a path, a URL or the name of a bundled biLM, got {bilm!r}")
    if initial_state is not None and initial_state not in InitialState.list_available():
        raise ConfigurationError(f"'initial_state': expected 'zero' or 'warm', got {initial_state!r}")
    state = None if initial_state is None else InitialState.by_name(initial_state)()
    where = find_device(cuda_device, device)
    if mix != TRAINED:
        chosen: Union[str, LayerMix] = check_mix(mix, [TRAINED])
        checkpoint = load_checkpoint(bilm, options_file)
        model = build_bilm(checkpoint, source=bilm)
        words = checkpoint.vocabulary
        word_id: Optional[WordId] = None if words is None else WordLookup(words, model.source)
    else:
        elmo, chosen, word_id = _trained(bilm, options_file)
        model, state = elmo.bilm, state or elmo.initial_state
    model.requires_grad_(False).set_precision(precision)
    all_layers = Elmo.from_parts(model, [], dropout=0.0, initial_state=state)
    return Embedder(all_layers.to(where), word_id).with_mix(chosen)


def load_by_keys(
    keys: dict[str, str], mix: str, precision: str, cuda_device: int, initial_state: Optional[str] = None
) -> Embedder:
    """Load the biLM that the keys of a config name: `pretrained`, or `options_file` and `weight_file`."""
    bilm, options_file = keys.get("pretrained", keys.get("weight_file", "")), keys.get("options_file")
    return load(bilm, mix, precision, cuda_device, initial_state, options_file=options_file)


def check_mix(mix: str, others: Sequence[str] = (), key: str = "mix") -> str:
    """Return the registered name of a mix, or `all`. Raises `ConfigurationError`, which lists the `others` too."""
    name = "last" if mix == TOP else mix
    if not isinstance(mix, str) or name not in (ALL, *LayerMix.list_available()):
        raise ConfigurationError(
            f"'{key}': expected one of {', '.join([ALL, *LayerMix.list_available(), TOP, *others])}, got {mix!r}"
        )
    return name


def _trained(archive: Location, options_file: Optional[Location]) -> tuple[Elmo, LayerMix, Optional[WordId]]:
    """Return the first ELMo in a model, ours or AllenNLP's own, its first mix, and the ids of words."""
    name = fspath(archive)
    path = trained_model(archive, "bilm")
    if path is None:
        raise ConfigurationError(
            f"'{name}': expected the archive of a trained model with ELMo, for its mix, got weights, which have none; "
            f"an archive is called NAME.tar.gz; a biLM has the mixes {', '.join([ALL, *LayerMix.list_available()])}"
        )
    # AllenNLP's own ELMo is read from the weights alone. AllenNLP would need its original weight file to build it.
    with nullcontext(path) if path.is_dir() else unpacked(path, name) as folder:
        own = allennlp_elmo(folder, name, options_file)
    if own is not None:
        elmo = elmo_of(*own, source=name)
        return elmo, elmo.mixes[0], None
    model = load_archive(path).model
    with named_errors(f"'{name}'", ConfigurationError):
        return *trained_elmo(model), model.vocab.get_token_index


def find_device(cuda_device: int = -1, device: Optional[str] = None) -> torch.device:
    """Return the device that is named by a GPU's number, with −1 for the processor, or by PyTorch's name for it.

    Raises `ConfigurationError` for a device that this machine does not have.
    """
    if device is not None and cuda_device != -1:
        raise ConfigurationError(f"expected 'cuda_device' or 'device', got both, {cuda_device!r} and {device!r}")
    name = ("cpu" if cuda_device == -1 else f"cuda:{cuda_device}") if device is None else device
    try:
        torch.ones(1, device=name).tolist()
    except (AssertionError, RuntimeError, TypeError) as error:
        reason = str(error).partition("\n")[0][:200]
        expected = (
            f"'cuda_device': expected the number of a GPU here, or -1 for the processor, got {cuda_device!r}"
            if device is None
            else f"'device': expected a device of this machine, such as 'cpu', got {device!r}"
        )
        raise ConfigurationError(f"{expected}: {reason}") from error
    return torch.device(name)


_threads_at_fork: list[int] = []
"""The number of PyTorch's threads that this process got from the process that forked it, until it embeds something."""

os.register_at_fork(after_in_child=lambda: _threads_at_fork.append(torch.get_num_threads()))


def use_one_thread_in_a_fork() -> None:
    """Use one PyTorch thread before the first sentence in a forked process, unless it has set a number itself.

    Threads do not survive a fork. A process that is forked after they have worked, as by spaCy's `n_process` and by
    `datasets`, would wait for them forever. Forked processes that embed nothing are left alone.
    """
    if _threads_at_fork[-1:] == [torch.get_num_threads()]:
        torch.set_num_threads(1)
    _threads_at_fork.clear()


def mean(vectors: np.ndarray) -> np.ndarray:
    """Return the mean over the tokens: (…, T, D) to (…, D)."""
    return vectors.sum(axis=-2) / max(vectors.shape[-2], 1)


def maximum(vectors: np.ndarray) -> np.ndarray:
    """Return the maximum over the tokens: (…, T, D) to (…, D)."""
    return vectors.max(axis=-2) if vectors.shape[-2] else mean(vectors)
