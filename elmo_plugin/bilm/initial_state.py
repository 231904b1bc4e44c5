"""The state of the LSTMs before the first token of a sentence, and the identity of a biLM that starts from it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Optional

import torch
from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm.bilm import BiLM
from elmo_plugin.bilm.precision import is_int8
from elmo_plugin.bilm.word_cache import fingerprint
from elmo_plugin.lstm import LstmState
from elmo_plugin.tensors import product_type


class InitialState(ABC, Registrable):
    """The state that a batch starts from: `initial_state` in configs, by its registered name.

    A state of your own writes `before`. If that depends on earlier batches, it writes `after` too, and
    `same_for_every_sentence` stays false. A biLM without such a state is a `ConfigurationError`.
    """

    default_implementation = "zero"
    same_for_every_sentence: bool = False
    """Whether the vectors of a sentence depend only on that sentence, so that they may be cached."""

    @property
    def name(self) -> str:
        """Return the registered name of this initial state, or else the name of its class."""
        names = (name for name in InitialState.list_available() if InitialState.by_name(name) is type(self))
        return next(names, type(self).__name__)

    @abstractmethod
    def before(self, bilm: BiLM, batch_size: int, like: Tensor) -> LstmState:
        """Return the state for the next batch, (n_layers, 2, B, ·), on the device and in the type of `like`."""

    def after(self, state: LstmState) -> None:
        """Receive the final state of the batch. The default ignores it."""

    @torch.no_grad()
    def after_boundaries(self, bilm: BiLM) -> Optional[LstmState]:
        """Return the state of `bilm.read_boundaries`, which is computed again when a weight has changed.

        Return `None` if it differs between sentences, and for a biLM that is trained, has hooks or has no state.
        """
        made_by = fingerprint(bilm) if self.same_for_every_sentence and bilm.has_state else None
        if made_by is None:
            return None
        return bilm.after_boundaries.get(
            (self, made_by), lambda: bilm.read_boundaries(self.before(bilm, 1, bilm.weight))
        )


@InitialState.register("zero")
class ZeroState(InitialState):
    """An all-zero state, so that a sentence's vectors depend on the sentence alone.

    Registered as an `InitialState` with name `zero`, the default:

    ```jsonnet
    elmo: { bilm: 'english-tiny', initial_state: 'zero' },
    ```
    """

    same_for_every_sentence = True

    def before(self, bilm: BiLM, batch_size: int, like: Tensor) -> LstmState:
        """Return an all-zero state for a batch of `batch_size` sentences."""
        return bilm.zero_state(batch_size, like)


@InitialState.register("warm")
class WarmState(InitialState):
    """A calibrated state stored with the weights, the same for every sentence.

    Registered as an `InitialState` with name `warm`. `convert-elmo … --warm-on TEXT` stores a state.

    ```jsonnet
    elmo: { bilm: 'with_warm_state.safetensors', initial_state: 'warm' },
    ```
    """

    same_for_every_sentence = True

    def before(self, bilm: BiLM, batch_size: int, like: Tensor) -> LstmState:
        """Return the biLM's warm state for each sentence. Raises `ConfigurationError` if it has none."""
        warm = bilm.warm_state
        if warm is None:
            raise ConfigurationError(
                f"'initial_state': {bilm.source or 'the biLM'} holds no warm state, got 'warm'; "
                "`elmo-plugin convert-elmo FROM TO --warm-on TEXT` writes a copy that holds one"
            )
        return LstmState(*(part.to(like).expand(-1, -1, batch_size, -1) for part in warm))


@InitialState.register("carried")
class CarriedState(InitialState):
    """AllenNLP's behaviour: row b starts where row b of the last batch ended, so vectors depend on earlier batches.

    As in `_EncoderBase._get_initial_states` and `_update_states` in `allennlp/modules/encoder_base.py`, new rows start
    from zeros, and rows beyond the end of a smaller batch keep their state.

    Registered as an `InitialState` with name `carried`.

    ```jsonnet
    elmo: { bilm: 'english-tiny', initial_state: 'carried' },
    ```
    """

    def __init__(self) -> None:
        self._state: Optional[LstmState] = None

    def before(self, bilm: BiLM, batch_size: int, like: Tensor) -> LstmState:
        """Return the state in which the last batch left each row."""
        _check_has_state(bilm)
        state = bilm.zero_state(batch_size, like)
        for part, kept in zip(state, self._state or (), strict=False):
            part[:, :, : kept.size(2)] = kept[:, :, :batch_size]
        return state

    def after(self, state: LstmState) -> None:
        """Keep the state of each row, detached from its graph."""
        rows, pairs = state.hidden.size(2), zip(state, self._state or state, strict=True)
        self._state = LstmState(*(torch.cat([new, old.to(new)[:, :, rows:]], dim=2).detach() for new, old in pairs))


@torch.no_grad()
def warm_up(bilm: BiLM, batches: Iterable[Tensor]) -> LstmState:
    """Return the mean final state of the sentences of a text. Each batch starts from the mean of earlier batches.

    In pretraining, a sentence starts from the final state of another one. The result is the mean of such states.

    # Parameters

    bilm : `BiLM`
    batches : `Iterable[Tensor]`, each (B, T, C) or (B, T)

    # Returns

    state : `LstmState` (n_layers, 2, 1, P) and (n_layers, 2, 1, H)
        The value for `bilm.warm_state`.
    """
    _check_has_state(bilm)
    mean, sentences = bilm.zero_state(1, bilm.weight), 0
    for ids in filter(len, batches):
        start = LstmState(*(part.expand(-1, -1, len(ids), -1) for part in mean))
        ended = [part.mean(dim=2, keepdim=True) for part in bilm(ids, start).state]  # (n_layers, 2, 1, ·)
        sentences += len(ids)
        share = len(ids) / sentences
        mean = LstmState(*(old + share * (new - old) for old, new in zip(mean, ended, strict=True)))
    if not sentences:
        raise ConfigurationError("the text to warm up on: expected at least one sentence, got none")
    return mean


def identity(bilm: BiLM, initial_state: InitialState) -> dict[str, Any]:
    """Return the sizes, weights, precision and initial state as JSON values.

    The initial state must be the same for every sentence.
    """
    weights = [parameter for _, parameter in sorted(bilm.named_parameters())]
    start = initial_state.before(bilm, 1, weights[0])
    return {
        "options": replace(bilm.options, language=None).to_dict(),
        "dtype": "int8" if is_int8(bilm) else str(product_type(weights[0])),
        "weights": _digest(weights),
        "initial_state": f"{initial_state.name} {_digest(start)}",
    }


def _check_has_state(bilm: BiLM) -> None:
    if not bilm.has_state:
        raise ConfigurationError(
            f"'initial_state': expected 'zero', because the 'contextualizer' {type(bilm.lstm).__name__} has no state"
        )


def _digest(tensors: Iterable[Tensor]) -> str:
    digest = blake2b(digest_size=16)
    for tensor in tensors:
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
