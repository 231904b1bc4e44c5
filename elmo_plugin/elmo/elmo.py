"""ELMo: one pass of a biLM, one mix of its layers for each place that wants a vector (ELMo §3.2, §3.3)."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, Optional, Union

import torch
from allennlp.common import Lazy, Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from torch import Tensor, nn

from elmo_plugin.bilm import (
    BiLM,
    BiLMOutput,
    InitialState,
    ZeroState,
    check_precision,
    dtype_on,
    is_same_on_gpu,
    warn_of_emulation,
)
from elmo_plugin.checkpoints import bilm_keys, resolve_bilm
from elmo_plugin.config_keys import at_least, probability
from elmo_plugin.elmo.layer_mix import LayerMix, build_part
from elmo_plugin.elmo.out_of_memory import by_halves
from elmo_plugin.elmo.scalar_mix import mix_builder
from elmo_plugin.elmo.sentence_cache import SentenceCache


class ElmoOutput(NamedTuple):
    """One representation for each mix, each (B, T, output dim), and their mask (B, T).

    It has the keys of the dictionary that AllenNLP's `Elmo` returns, `elmo_representations` and `mask`, too.
    """

    representations: list[Tensor]
    mask: Tensor

    def __getitem__(self, key: Any) -> Any:
        """By AllenNLP's name, or by position."""
        if not isinstance(key, str):
            return tuple.__getitem__(self, key)
        return {"elmo_representations": self.representations, "mask": self.mask}[key]

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def keys(self) -> list[str]:
        """Return AllenNLP's names."""
        return ["elmo_representations", "mask"]


class Elmo(nn.Module, Registrable):
    """A biLM and the mixes over it. A frozen biLM runs without gradients, once a batch, whatever the number of mixes.

    It is built as `allennlp.modules.elmo.Elmo`: its first parameters are the same, in the same order. In configs they
    are the keys, a superset of those of AllenNLP's `elmo_token_embedder`.

        elmo = Elmo("options.json", "weights.hdf5", 2, dropout=0.0)
        at_input, at_output = elmo(batch_to_ids([["Two", "words"]]))["elmo_representations"]  # (1, 2, D) each

    # Parameters

    options_file, weight_file : `Optional[str]`
        Paths or URLs of a bilm-tf pair. The options may be left out if they lie beside the weights; without either,
        the pair is the published one.
    num_output_representations : `int`
        The number of mixes.
    requires_grad : `bool`
        Fine-tune the biLM.
    do_layer_norm, scalar_mix_parameters
        AllenNLP's short forms for keys of a `scalar` mix. Given weights are not trained.
    dropout : `float`
        On each representation.
    vocab_to_cache, vocab
        Not needed, as every word is computed. `vocab` has to be that of a biLM which reads words.
    keep_sentence_boundaries : `bool`
        Leave `<S>` and `</S>` in, so that T grows by two.
    module
        Not supported; see `from_parts`.
    bilm : `Optional[Union[str, dict[str, Any]]]`
        Instead of the two files, `{"pretrained": source}`, or the source alone: a path, a URL or a bundled name, in any
        format; or `{"options": {…}, "seed": n}` for random weights.
    mix : `Optional[Lazy[LayerMix]]`
        The mix of each output; a trainable `scalar` by default.
    projection_dim : `Optional[int]`
        Width to project each representation to, after dropout; each output has a projection of its own.
    initial_state : `Optional[Lazy[InitialState]]`
        What the LSTMs start from; zeros by default.
    precision : `str`
        Of the weights and matrix products of a frozen biLM: `float32`; `bfloat16`, which is float32 on a processor that
        would emulate it; or `auto`: bfloat16 where the device computes it natively, else float32. What comes out is
        float32.
    kernel : `str`
        Name of the kernel, or `auto`.
    sentence_cache : `Optional[Union[str, Lazy[SentenceCache]]]`
        A path, or the keys of `SentenceCache`: keeps a sentence's layers on disk, one cache for all mixes; for a
        frozen biLM.
    serialization_dir : `Optional[str]`
        Where AllenNLP trains, or has unpacked an archive; in an archive the biLM is taken from there.

    Raises `ConfigurationError` for contradictory keys and for unfit files.
    """

    default_implementation = "elmo"
    output_like: Tensor

    def __init__(
        self,
        options_file: Optional[str] = None,
        weight_file: Optional[str] = None,
        num_output_representations: int = 1,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Optional[list[str]] = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Optional[list[float]] = None,
        module: Optional[nn.Module] = None,
        bilm: Optional[Union[str, dict[str, Any]]] = None,
        mix: Optional[Lazy[LayerMix]] = None,
        projection_dim: Optional[int] = None,
        initial_state: Optional[Lazy[InitialState]] = None,
        precision: str = "float32",
        kernel: str = "auto",
        sentence_cache: Optional[Union[str, Lazy[SentenceCache]]] = None,
        serialization_dir: Optional[str] = None,
        vocab: Optional[Vocabulary] = None,
    ) -> None:
        if module is not None:
            raise ConfigurationError(
                f"'module': expected none, got a {type(module).__name__}; `Elmo.from_parts` takes a ready `BiLM`"
            )
        at_least(1, num_output_representations=num_output_representations)
        model = resolve_bilm(bilm_keys(bilm, options_file, weight_file), kernel, serialization_dir, vocab)
        key, build = mix_builder(mix, do_layer_norm, scalar_mix_parameters)
        sizes = {"num_layers": model.options.num_layers, "layer_dim": model.options.layer_dim}
        mixes = [build_part(key, build, **sizes) for _ in range(num_output_representations)]
        state = None if initial_state is None else build_part("initial_state", initial_state)
        cache = _build_cache(sentence_cache)
        self._set_up(
            model, mixes, dropout, projection_dim, requires_grad, keep_sentence_boundaries, state, precision, cache
        )

    @classmethod
    def from_parts(cls, bilm: BiLM, mixes: Sequence[LayerMix], **keys: Any) -> "Elmo":
        """Build it from a biLM and one mix for each output.

        The other keys are `dropout`, `projection_dim`, `requires_grad`, `keep_sentence_boundaries`, `initial_state`,
        `precision` and `sentence_cache`: those of the class, but an `InitialState` and a `SentenceCache`.
        """
        elmo = cls.__new__(cls)
        elmo._set_up(bilm, mixes, **keys)
        return elmo

    def _set_up(
        self,
        bilm: BiLM,
        mixes: Sequence[LayerMix],
        dropout: float = 0.5,
        projection_dim: Optional[int] = None,
        requires_grad: bool = False,
        keep_sentence_boundaries: bool = False,
        initial_state: Optional[InitialState] = None,
        precision: str = "float32",
        sentence_cache: Optional[SentenceCache] = None,
    ) -> None:
        """Do what both constructors end with."""
        if not mixes:
            raise ConfigurationError("'mixes': expected at least one, got none")
        super().__init__()
        at_least(1, projection_dim=projection_dim)
        probability(dropout=dropout)
        self.precision = check_precision(precision, requires_grad)
        self.bilm = bilm.to(dtype_on(next(bilm.parameters()).device, self.precision)).requires_grad_(requires_grad)
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
        self.register_buffer("output_like", torch.empty(0), persistent=False)  # `half()` and `double()` convert it
        self.sentence_cache = sentence_cache
        if sentence_cache is not None:
            if requires_grad:
                raise ConfigurationError("'sentence_cache' is for a frozen biLM; found 'requires_grad' true")
            if is_same_on_gpu(self.precision):  # else it is opened at the first batch, on the device that computes
                sentence_cache.open_for(self.bilm, self.initial_state)

    def get_output_dim(self) -> int:
        """Width of each representation."""
        return self.output_dim

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Elmo":
        """Cast the biLM when it moves to a device on which `precision` means another type; called by `to`, `cuda` …"""
        before = next(self.bilm.parameters())
        device, dtype = before.device, before.dtype  # now: the parameter itself may be written to
        super()._apply(fn, recurse)
        after = next(self.bilm.parameters())
        as_configured = dtype == after.dtype == dtype_on(device, self.precision)  # not after `half()`, say
        if as_configured and after.device.type != device.type:
            self.bilm.to(dtype_on(after.device, self.precision))
        return self

    def ids_of(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the ids that a token indexer made, the one tensor or `elmo_tokens`.

        Raises `ConfigurationError` for AllenNLP's indexer `characters`: its ids are those of a vocabulary.
        """
        ids = tensors.get("elmo_tokens", next(iter(tensors.values())) if len(tensors) == 1 else None)
        if ids is None or "token_characters" in tensors:
            raise ConfigurationError(
                "ELMo's token indexer: expected 'elmo_characters', or the one that its biLM was made for, got "
                f"{', '.join(map(repr, sorted(tensors))) or 'no tensors'}"
            )
        return ids

    def forward(self, inputs: Tensor, word_inputs: Optional[Tensor] = None) -> ElmoOutput:
        """Character ids (B, T, C), or word ids (B, T), to one (B, T, output dim) a mix.

        Dimensions before B are taken as more sentences and given back as they were. `word_inputs` are AllenNLP's ids
        of cached words; they are not needed and not read, as the words are in `inputs`.
        """
        ids, dims = inputs, self.bilm.token_encoder.input_dims
        if ids.dim() < dims and not ids.numel():
            ids = ids.unsqueeze(-1)  # AllenNLP's indexer gives a batch of empty sentences no C
        if ids.dim() < dims:
            kind = "characters (B, T, C)" if dims == 3 else "words (B, T)"
            raise ConfigurationError(f"ELMo's ids: expected those of {kind}, got shape {tuple(ids.shape)}")
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
        if torch.is_grad_enabled() and next(self.bilm.parameters()).requires_grad and not layers.requires_grad:
            # AllenNLP's interpreters ask all parameters for gradients. A frozen biLM runs without, but what is made of
            # its layers has to have some, also by a mix without parameters.
            layers = layers.detach().requires_grad_()
        layers = layers.to(self.output_like.dtype)
        mixed = [mix(layers, bounded) for mix in self.mixes]  # (B, T + 2, output dim) each
        if self.keep_sentence_boundaries:
            return [bounded, *mixed]
        # A sentence ends one token earlier than its `</S>`, so its mask without both is the mask from `</S>` on.
        mask = bounded[:, 2:]  # (B, T)
        return [mask, *(values[:, 1:-1] * mask.unsqueeze(-1) for values in mixed)]

    def expose_token_layer(self) -> nn.Module:
        """Return a module whose output is the biLM's token layer (B, T, P), for hooks, and let gradients reach it.

        From now on the sentence cache is not read, and a frozen biLM runs with gradients wherever those are enabled.
        """
        self.requires_grad = True
        self.sentence_cache = None
        return self.bilm.expose_token_layer()

    def layers(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """All layers (L, B, T + 2, D) and their mask (B, T + 2), from the sentence cache if there is one."""
        if self.sentence_cache is None:
            return self.run_bilm(ids)[:2]
        return self.sentence_cache.layers(ids, self.bilm, self.initial_state, self.run_bilm)

    def run_bilm(self, ids: Tensor) -> BiLMOutput:
        """All layers in float32, or float64, `<S>` and `</S>` included; moves a carried state on."""
        like = next(self.bilm.parameters())
        warn_of_emulation(like.device, self.precision)
        with nullcontext() if self.requires_grad else torch.no_grad():
            output: BiLMOutput = self.bilm(ids, self.initial_state.before(self.bilm, ids.size(0), like))
        self.initial_state.after(output.state)
        return output._replace(layers=output.layers.to(torch.promote_types(output.layers.dtype, torch.float32)))


def _build_cache(keys: Optional[Union[str, Lazy[SentenceCache]]]) -> Optional[SentenceCache]:
    if keys is None:
        return None
    return build_part("sentence_cache", keys) if isinstance(keys, Lazy) else SentenceCache(keys)


Elmo.register("elmo")(Elmo)
