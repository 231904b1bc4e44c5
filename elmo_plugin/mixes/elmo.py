"""ELMo: one pass of a biLM, one mix of its layers for each place that wants a vector (ELMo §3.2, §3.3)."""

from contextlib import nullcontext
from itertools import chain
from typing import Any, NamedTuple, Optional, Union

import torch
from allennlp.common import Lazy, Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from torch import Tensor, nn

from elmo_plugin.bilm import BiLM, BiLMOutput, InitialState, ZeroState
from elmo_plugin.bilm.precision import dtype_of
from elmo_plugin.config_keys import at_least, probability
from elmo_plugin.mixes.bilm_source import PUBLISHED_OPTIONS, PUBLISHED_WEIGHTS, check_vocabulary, resolve_bilm
from elmo_plugin.mixes.halves import by_halves
from elmo_plugin.mixes.layer_mix import LayerMix, build_part
from elmo_plugin.mixes.scalar_mix import ScalarMix
from elmo_plugin.mixes.sentence_cache import SentenceCache


class ElmoOutput(NamedTuple):
    """One representation for each mix, each (B, T, output dim), and their mask (B, T)."""

    representations: list[Tensor]
    mask: Tensor


class Elmo(nn.Module, Registrable):
    """A biLM and the mixes over it. A frozen biLM runs without gradients, once a batch, whatever the number of mixes.

    In configs its keys are those of `from_config`.

    # Parameters

    bilm : `BiLM`
    mixes : `list[LayerMix]`
        One for each output.
    dropout : `float`
        On each representation.
    projection_dim : `Optional[int]`
        Width to project each representation to, after dropout; each output has a projection of its own.
    requires_grad : `bool`
        Fine-tune the biLM.
    keep_sentence_boundaries : `bool`
        Leave `<S>` and `</S>` in, so that T grows by two.
    initial_state : `Optional[InitialState]`
        What the LSTMs start from; zeros by default.
    precision : `str`
        `float32`, or `bfloat16` for a frozen biLM; what comes out is float32.
    sentence_cache : `Optional[SentenceCache]`
        Keeps a sentence's layers on disk, one cache for all mixes; for a frozen biLM.
    """

    default_implementation = "elmo"

    def __init__(
        self,
        bilm: BiLM,
        mixes: list[LayerMix],
        dropout: float = 0.5,
        projection_dim: Optional[int] = None,
        requires_grad: bool = False,
        keep_sentence_boundaries: bool = False,
        initial_state: Optional[InitialState] = None,
        precision: str = "float32",
        sentence_cache: Optional[SentenceCache] = None,
    ) -> None:
        super().__init__()
        at_least(1, projection_dim=projection_dim, num_output_representations=len(mixes))
        probability(dropout=dropout)
        self.bilm = bilm.to(_dtype(precision, requires_grad)).requires_grad_(requires_grad)
        self.bilm.lstm.input_dropout.p = 0.0  # what it was pretrained with
        self.requires_grad = requires_grad
        self.mixes = nn.ModuleList(mixes)
        self.dropout = nn.Dropout(dropout)
        widths = [mix.get_output_dim() for mix in mixes]
        self.projections = nn.ModuleList(nn.Linear(width, projection_dim) for width in widths if projection_dim)
        self.output_dim = projection_dim or widths[0]
        self.keep_sentence_boundaries = keep_sentence_boundaries
        self.initial_state = initial_state or ZeroState()
        self.initial_state.before(bilm, 0, next(bilm.parameters()))  # one that this biLM cannot give is an error now
        self.sentence_cache = sentence_cache
        if sentence_cache is not None:
            if requires_grad:
                raise ConfigurationError("'sentence_cache' is for a frozen biLM; found 'requires_grad' true")
            sentence_cache.open_for(self.bilm, self.initial_state)

    @classmethod
    def from_config(
        cls,
        options_file: Optional[str] = None,
        weight_file: Optional[str] = None,
        bilm: Optional[dict[str, Any]] = None,
        mix: Optional[Lazy[LayerMix]] = None,
        num_output_representations: int = 1,
        dropout: float = 0.5,
        projection_dim: Optional[int] = None,
        requires_grad: bool = False,
        keep_sentence_boundaries: bool = False,
        initial_state: Optional[Lazy[InitialState]] = None,
        precision: str = "float32",
        kernel: str = "auto",
        sentence_cache: Optional[Union[str, Lazy[SentenceCache]]] = None,
        do_layer_norm: bool = False,
        scalar_mix_parameters: Optional[list[float]] = None,
        vocab_to_cache: Optional[list[str]] = None,
        serialization_dir: Optional[str] = None,
        vocab: Optional[Vocabulary] = None,
    ) -> "Elmo":
        """Build it from the keys of a config, a superset of those of AllenNLP's `elmo_token_embedder`.

        # Parameters

        options_file, weight_file : paths or URLs of a bilm-tf pair; by default those of the published model.
        bilm : instead of the two, `{"pretrained": path or URL}` in any format, or `{"options": {…}, "seed": n}` for
            random weights.
        mix : the mix of each output; a trainable `scalar` by default.
        sentence_cache : a path, or the keys of `SentenceCache`.
        do_layer_norm, scalar_mix_parameters : AllenNLP's short forms for keys of a `scalar` mix, the second frozen.
        vocab_to_cache, vocab : not needed, as every word is computed; has to be that of a biLM which reads words.

        The others are those of the class. Raises `ConfigurationError` for contradictory keys and for unfit files.
        """
        model = resolve_bilm(_bilm_keys(bilm, options_file, weight_file), kernel, serialization_dir)
        check_vocabulary(model, vocab)
        key, build = _mix_builder(mix, do_layer_norm, scalar_mix_parameters)
        sizes = {"num_layers": model.options.num_layers, "layer_dim": model.options.layer_dim}
        mixes = [build_part(key, build, **sizes) for _ in range(num_output_representations)]
        state = None if initial_state is None else build_part("initial_state", initial_state)
        cache = _build_cache(sentence_cache)
        return cls(
            model, mixes, dropout, projection_dim, requires_grad, keep_sentence_boundaries, state, precision, cache
        )

    def get_output_dim(self) -> int:
        """Width of each representation."""
        return self.output_dim

    def forward(self, ids: Tensor) -> ElmoOutput:
        """Character ids (B, T, C), or word ids (B, T), to one (B, T, output dim) a mix.

        Dimensions before B are taken as more sentences and given back as they were.
        """
        dims = self.bilm.token_encoder.input_dims
        if ids.dim() < dims and not ids.numel():
            ids = ids.unsqueeze(-1)  # AllenNLP's indexer gives a batch of empty sentences no C
        wrapping = ids.shape[: ids.dim() - dims + 1]
        flat = ids.flatten(0, ids.dim() - dims)  # (B, T, …)
        if torch.is_grad_enabled() or not self.initial_state.same_for_every_sentence:
            mask, *mixed = self._mix(flat)
        else:
            mask, *mixed = by_halves(self._mix, flat, self.bilm.token_encoder.mask(flat))
        dropped = [self.dropout(values) for values in mixed]
        if self.projections:
            dropped = [project(values) for project, values in zip(self.projections, dropped, strict=True)]
        shaped = [values.unflatten(0, wrapping) for values in dropped]
        return ElmoOutput(shaped, mask.unflatten(0, wrapping))

    def _mix(self, ids: Tensor) -> list[Tensor]:
        """The mask (B, T), and each mix of the layers (B, T, output dim); with or without `<S>` and `</S>`."""
        layers, bounded = self.layers(ids)  # (L, B, T + 2, D), (B, T + 2)
        learned = next(chain(self.mixes.parameters(), self.projections.parameters()), layers)
        layers = layers.to(learned.dtype)  # as after `half()` and `double()`
        mixed = [mix(layers, bounded) for mix in self.mixes]  # (B, T + 2, output dim) each
        if self.keep_sentence_boundaries:
            return [bounded, *mixed]
        # A sentence ends one token earlier than its `</S>`, so its mask without both is the mask from `</S>` on.
        mask = bounded[:, 2:]  # (B, T)
        return [mask, *(values[:, 1:-1] * mask.unsqueeze(-1) for values in mixed)]

    def layers(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """All layers (L, B, T + 2, D) and their mask (B, T + 2), from the sentence cache if there is one."""
        if self.sentence_cache is None:
            return self.run_bilm(ids)[:2]
        return self.sentence_cache.layers(ids, self.bilm, self.initial_state, self.run_bilm)

    def run_bilm(self, ids: Tensor) -> BiLMOutput:
        """All layers in float32, or float64, `<S>` and `</S>` included; moves a carried state on."""
        like = next(self.bilm.parameters())
        with nullcontext() if self.requires_grad else torch.no_grad():
            output: BiLMOutput = self.bilm(ids, self.initial_state.before(self.bilm, ids.size(0), like))
        self.initial_state.after(output.state)
        return output._replace(layers=output.layers.to(torch.promote_types(output.layers.dtype, torch.float32)))


def _bilm_keys(
    bilm: Optional[dict[str, Any]], options_file: Optional[str], weight_file: Optional[str]
) -> dict[str, Any]:
    """What the keys say of the biLM, in one of the forms that `resolve_bilm` takes."""
    if bilm is None:
        return {"options_file": options_file or PUBLISHED_OPTIONS, "weight_file": weight_file or PUBLISHED_WEIGHTS}
    if options_file or weight_file:
        raise ConfigurationError("'bilm' stands in place of 'options_file' and 'weight_file'; found both")
    return dict(bilm)


def _mix_builder(
    mix: Optional[Lazy[LayerMix]], do_layer_norm: bool, scalar_mix_parameters: Optional[list[float]]
) -> tuple[str, Lazy[LayerMix]]:
    """The key that describes the mix, and what builds it."""
    if mix is None:
        build = Lazy[LayerMix](
            ScalarMix,
            constructor_extras={
                "initial_scalar_parameters": scalar_mix_parameters,
                "trainable": scalar_mix_parameters is None,
                "do_layer_norm": do_layer_norm,
            },
        )
        return ("mix" if scalar_mix_parameters is None else "scalar_mix_parameters"), build
    if do_layer_norm or scalar_mix_parameters is not None:
        raise ConfigurationError("'do_layer_norm' and 'scalar_mix_parameters' belong inside 'mix'; found both forms")
    return "mix", mix


def _build_cache(keys: Optional[Union[str, Lazy[SentenceCache]]]) -> Optional[SentenceCache]:
    if keys is None:
        return None
    return build_part("sentence_cache", keys) if isinstance(keys, Lazy) else SentenceCache(keys)


def _dtype(precision: str, requires_grad: bool) -> torch.dtype:
    if precision != "float32" and requires_grad:
        raise ConfigurationError(f"'precision' {precision!r} is for a frozen biLM; 'requires_grad' wants 'float32'")
    return dtype_of(precision)


Elmo.register("elmo", constructor="from_config")(Elmo)
