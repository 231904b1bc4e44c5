"""A biLM for whoever has tokens and wants arrays."""

import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import nullcontext
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Optional, cast

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import int_to_device
from allennlp.models.archival import extracted_archive, load_archive
from torch import Tensor

from elmo_plugin.bilm import CharacterLevelEncoder, InitialState
from elmo_plugin.checkpoints import (
    Location,
    WordIds,
    allennlp_elmo,
    build_bilm,
    bundled_folder,
    find_checkpoint,
    local_file,
)
from elmo_plugin.elmo import AverageMix, ConcatenateMix, Elmo, LastMix, LayerMix, elmo_of, trained_elmo
from elmo_plugin.text import TOKENS_PER_BATCH, length_batches

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
        if word_id is None and not isinstance(elmo.bilm.token_encoder, CharacterLevelEncoder):
            raise ConfigurationError(f"'{elmo.bilm.source}' reads words, and its files hold no vocabulary for them")
        self.elmo = elmo.eval()
        self._word_id = word_id

    def with_mix(self, mix: str) -> "Embedder":
        """Return an embedder that shares the biLM and takes another of `MIXES` from its layers."""
        bilm = self.elmo.bilm
        mixed = _mix(mix)(bilm.options.num_layers, bilm.options.layer_dim)
        state, precision = self.elmo.initial_state, self.elmo.precision
        elmo = Elmo.from_parts(bilm, [mixed], dropout=0.0, initial_state=state, precision=precision)
        return Embedder(elmo, self._word_id)

    def __repr__(self) -> str:
        """Say what it holds: the biLM's source and sizes, and what it computes."""
        bilm, mix = self.elmo.bilm, self.elmo.mixes[0]
        held: dict[str, Any] = {
            "n_layers": bilm.options.lstm.n_layers,
            "dim": bilm.options.lstm.cell_dim,
            "projection_dim": bilm.options.lstm.projection_dim,
            "layer_dim": bilm.options.layer_dim,
            "mix": next((name for name, kind in MIXES.items() if type(mix) is kind), type(mix).__name__),
            "precision": self._precision,
            "initial_state": self.elmo.initial_state.name,
            "device": str(self.device),
        }
        return f"Embedder({bilm.source!r}, {', '.join(f'{name}={value!r}' for name, value in held.items())})"

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.elmo.bilm.parameters()).device

    @property
    def _precision(self) -> str:
        return str(next(self.elmo.bilm.parameters()).dtype).removeprefix("torch.")

    @property
    def shape(self) -> tuple[int, ...]:
        """What a sentence's array is like, −1 for T: (L, −1, D) of all layers, (−1, D) of a mix."""
        sizes = self.elmo.bilm.options
        return (sizes.num_layers, -1, sizes.layer_dim) if self._is_all else (-1, self.elmo.get_output_dim())

    def embed(self, sentences: Sentences) -> list[np.ndarray]:
        """Tokenised sentences to an array each, in float32 and in their order.

        *Shape:* (L, T, D) of all layers, the token layer first, or (T, D) of a mix; T is 0 for an empty sentence.
        Raises `ConfigurationError` that names the sentence for one that is no list of strings.
        """
        arrays = {place: array.copy() for place, array in self.by_length(sentences)}
        return [arrays[place] for place in range(len(arrays))]

    def by_length(
        self, sentences: Sentences, tokens_per_batch: int = TOKENS_PER_BATCH, batch_size: Optional[int] = None
    ) -> Iterator[tuple[int, np.ndarray]]:
        """The place and the array of each sentence, by rising length; one batch of arrays is in memory at a time."""
        sentences = token_lists(sentences)
        lengths = [len(sentence) for sentence in sentences]
        for places in length_batches(lengths, tokens_per_batch, batch_size):
            vectors = self._vectors([sentences[place] for place in places])  # (B, T, width)
            for place, row in zip(places, vectors, strict=True):
                yield place, self._shaped(row[: lengths[place]])

    @torch.no_grad()
    def padded(self, sentences: Sentences) -> tuple[Tensor, Tensor]:
        """The mix of each token (B, T, width), zeros behind the end of a sentence, and the mask (B, T); one batch."""
        ids = self.elmo.bilm.ids_of(sentences, self._word_id)  # (B, T, ·)
        output = self.elmo(ids)
        return output.representations[0], output.mask

    def _vectors(self, sentences: Sentences) -> np.ndarray:
        """The mix of each token, (B, T, width)."""
        return self.padded(sentences)[0].cpu().numpy()

    def _shaped(self, vectors: np.ndarray) -> np.ndarray:
        """A sentence's vectors (T, width), those of all layers side by side as (L, T, D)."""
        if not self._is_all:
            return vectors
        num_layers, _, layer_dim = self.shape
        return vectors.reshape(len(vectors), num_layers, layer_dim).swapaxes(0, 1)

    @property
    def _is_all(self) -> bool:
        return isinstance(self.elmo.mixes[0], ConcatenateMix)


def load(
    bilm: Location,
    mix: str = "all",
    precision: str = "float32",
    cuda_device: int = -1,
    initial_state: Optional[str] = None,
) -> Embedder:
    """Load a biLM to embed with.

    It may be pickled and copied, to be sent to other processes, too.

    # Parameters

    bilm : path, URL or bundled name, in any format
    mix : `all` layers, the `top` one, their `average`, or `trained`: the first mix of the model in an archive
    precision : `float32`, `bfloat16` or `auto`, as in `Elmo`; what comes out is float32
    cuda_device : the number of a GPU, −1 for the processor
    initial_state : what each sentence starts from: `zero` (the default), or `warm`, the state that
        `convert-elmo --warm-on` stored in the file; with `trained` the default is the model's own

    Raises `ConfigurationError` for files that cannot be read, for a file without the state that is asked for, and for
    words and devices that are none of these.
    """
    if not isinstance(bilm, str | PathLike):
        raise ConfigurationError(f"'bilm': expected a path, a URL or the name of a bundled biLM, got {bilm!r}")
    if mix == TRAINED:
        return _load_trained(bilm, precision, cuda_device, initial_state)
    return load_by_keys({"pretrained": fspath(bilm)}, mix, precision, cuda_device, initial_state)


def load_by_keys(
    keys: dict[str, str], mix: str, precision: str, cuda_device: int, initial_state: Optional[str] = None
) -> Embedder:
    """The same of what a config says of a biLM: `pretrained`, or `options_file` and `weight_file`."""
    kind, state, device = _mix(mix), _initial_state(initial_state), _device(cuda_device)
    checkpoint = find_checkpoint(keys, serialization_dir=None)
    model = build_bilm(checkpoint, source=keys.get("pretrained", keys.get("weight_file", "")))
    mixed = kind(model.options.num_layers, model.options.layer_dim)
    elmo = Elmo.from_parts(model, [mixed], dropout=0.0, initial_state=state, precision=precision)
    word_id = None if checkpoint.vocabulary is None else WordIds(checkpoint.vocabulary, model.source)
    return Embedder(elmo.to(device), word_id)


def _load_trained(archive: Location, precision: str, cuda_device: int, initial_state: Optional[str]) -> Embedder:
    """The biLM and the first mix of the first ELMo inside a model, ours or AllenNLP's own."""
    state, device = _initial_state(initial_state), _device(cuda_device)
    if bundled_folder(archive) is not None:
        raise _no_archive(archive, "a biLM that comes with the package")
    path = local_file(archive, "bilm")
    try:
        with nullcontext(path) if path.is_dir() else extracted_archive(path) as folder:
            elmo, mix, word_id = _trained(Path(folder), fspath(archive))
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise _no_archive(archive, str(error)) from error
    state = state or elmo.initial_state
    chosen = Elmo.from_parts(elmo.bilm, [mix], dropout=0.0, initial_state=state, precision=precision)
    return Embedder(chosen.to(device), word_id)


def _trained(folder: Path, name: str) -> tuple[Elmo, LayerMix, Optional[WordId]]:
    """The ELMo of a model, its mix, and the ids of words. AllenNLP's own is read without the files it was made from."""
    theirs = allennlp_elmo(folder, name)
    if theirs is not None:
        elmo = elmo_of(*theirs, source=name)
        return elmo, cast(LayerMix, elmo.mixes[0]), None
    model = load_archive(folder).model
    try:
        return *trained_elmo(model), model.vocab.get_token_index
    except ConfigurationError as error:
        raise _no_archive(name, f"a {type(model).__name__} without ELMo") from error


def _no_archive(location: Location, found: str) -> ConfigurationError:
    return ConfigurationError(
        f"'{fspath(location)}': expected the archive of a trained model with ELMo inside, for its mix, got {found}; "
        "a biLM itself has the mixes 'all', 'top' and 'average'"
    )


def _mix(mix: str) -> type[LayerMix]:
    if not isinstance(mix, str) or mix not in MIXES:
        raise ConfigurationError(f"'mix' is {mix!r}; wanted one of {', '.join([*MIXES, TRAINED])}")
    return MIXES[mix]


def _initial_state(name: Optional[str]) -> Optional[InitialState]:
    """The state of that name; one that sentences hand on to each other would make vectors depend on their order."""
    if name is None:
        return None
    kinds = {known: InitialState.by_name(known) for known in InitialState.list_available()}
    if not isinstance(name, str) or not getattr(kinds.get(name), "same_for_every_sentence", False):
        why = ", with which a sentence's vectors depend on those before it" if name == "carried" else ""
        raise ConfigurationError(f"'initial_state': expected 'zero' or 'warm', got {name!r}{why}")
    return kinds[name]()


def _device(cuda_device: int) -> torch.device:
    if not isinstance(cuda_device, int) or cuda_device < -1:
        raise ConfigurationError(
            f"'cuda_device': expected the number of a GPU, or -1 for the processor, got {cuda_device!r}"
        )
    if cuda_device >= torch.cuda.device_count():
        raise ConfigurationError(f"'cuda_device' is {cuda_device}; this machine has {torch.cuda.device_count()} GPUs")
    return int_to_device(cuda_device)


def token_lists(sentences: Any) -> list[list[str]]:
    """Return sentences as lists of tokens.

    Raises `ConfigurationError` that says which sentence is none, such as a text that nobody has split yet.
    """
    if isinstance(sentences, str | bytes | Mapping) or not isinstance(sentences, Iterable):
        raise ConfigurationError(
            f"expected a list of tokenised sentences, such as [['Two', 'words'], ['One']], got {_said(sentences)}"
        )
    lists = []
    for place, sentence in enumerate(sentences):
        is_list = isinstance(sentence, Iterable) and not isinstance(sentence, str | bytes | Mapping | Set)
        tokens = list(sentence) if is_list else [sentence]
        wrong = [token for token in tokens if not isinstance(token, str)] if is_list else [sentence]
        if wrong:
            raise ConfigurationError(
                f"sentence {place}: expected a list of tokens, such as ['Two', 'words'], got {_said(wrong[0])}"
                + " among them" * is_list
            )
        lists.append(tokens)
    return lists


def _said(value: object) -> str:
    return f"the string {value[:100]!r}" if isinstance(value, str) else repr(value)[:100]
