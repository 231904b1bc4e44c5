"""ELMo: one pass of a biLM, and one mix of its layers per output (ELMo §3.2, §3.3)."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Optional, Union

import torch
from allennlp.common import Lazy, Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from torch import Tensor, nn

from elmo_plugin.bilm import (
    BiLM,
    ElmoLstm,
    InitialState,
    ZeroState,
    check_precision,
    dtype_on,
    is_same_on_gpu,
    set_precision,
    undo_int8,
    warn_of_fallback,
)
from elmo_plugin.checkpoints import bilm_keys, resolve_bilm
from elmo_plugin.config_keys import at_least, probability
from elmo_plugin.elmo.layer_mix import LayerMix, build_part, by_name
from elmo_plugin.elmo.out_of_memory import split_on_out_of_memory
from elmo_plugin.elmo.output import ElmoOutput
from elmo_plugin.elmo.scalar_mix import mix_builder
from elmo_plugin.elmo.sentence_cache import SentenceCache


class Elmo(nn.Module, Registrable):
    """A biLM and the mixes of its layers. A frozen biLM runs once per batch and without gradients.

    The class is built like `allennlp.modules.elmo.Elmo`: its first parameters are the same, in the same order. In
    configs they are the keys, a superset of those of AllenNLP's `elmo_token_embedder`.

        >>> from elmo_plugin import Elmo, batch_to_ids
        >>> elmo = Elmo(bilm="english-tiny", num_output_representations=2, dropout=0.0)
        >>> at_input, at_output = elmo(batch_to_ids([["Two", "words"]]))["elmo_representations"]
        >>> at_input.shape
        torch.Size([1, 2, 512])

    # Parameters

    options_file, weight_file : `Optional[str]`
        Paths or URLs of a bilm-tf pair. The options may be omitted if they lie beside the weights. Without both, and
        without `bilm`, the published pair is loaded.
    num_output_representations : `int`
        The number of mixes.
    requires_grad : `bool`
        Fine-tune the biLM. A training loop in Python may also unfreeze it later, with `elmo.requires_grad_()`.
    do_layer_norm, scalar_mix_parameters
        AllenNLP's short forms for keys of a `scalar` mix. Given weights are not trained.
    dropout : `float`
        The dropout rate of each representation.
    vocab_to_cache, vocab
        Not needed, because every word is computed. A biLM that reads words needs its own `vocab`.
    keep_sentence_boundaries : `bool`
        Keep the vectors of `<S>` and `</S>`, so that T grows by two.
    module
        Not supported; see `from_parts`.
    bilm : `Optional[Union[str, dict[str, Any]]]`
        Replaces the two files: `{"pretrained": source}`, or only the source, which is a path, a URL or a bundled name,
        in any format; or `{"options": {…}, "seed": n}` for random weights.
    mix : `Optional[Lazy[LayerMix]]`
        The mix of each output; a trainable `scalar` by default.
    projection_dim : `Optional[int]`
        The width to project each representation to, after dropout. Each output has its own projection.
    initial_state : `Optional[Lazy[InitialState]]`
        The state that the LSTMs start from; zeros by default.
    precision : `str`
        The type of a frozen biLM's weights and matrix products: `float32`; `bfloat16`, which is float32 on a processor
        that would emulate it; `int8`, which is float32 except on an x86 processor; or `auto`, which is bfloat16 where
        the device computes it natively, else float32. The representations are float32.
    kernel : `str`
        The name of the kernel, or `auto`.
    sentence_cache : `Optional[Union[str, Lazy[SentenceCache]]]`
        A path, or the keys of `SentenceCache`: keep the layers of each sentence on disk, one cache for all mixes. It
        needs a frozen biLM.
    serialization_dir : `Optional[str]`
        The folder where AllenNLP trains or has unpacked an archive. The biLM of an archive is loaded from there.

    Raises `ConfigurationError` for contradictory keys and for unsuitable files.
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
        mix, initial_state = by_name(LayerMix, "mix", mix), by_name(InitialState, "initial_state", initial_state)
        key, build = mix_builder(mix, do_layer_norm, scalar_mix_parameters)
        mixes = [
            build_part(key, build, num_elmo_layers=model.options.num_layers, layer_dim=model.options.layer_dim)
            for _ in range(num_output_representations)
        ]
        state = None if initial_state is None else build_part("initial_state", initial_state)
        cache: Optional[SentenceCache] = None
        if isinstance(sentence_cache, Lazy):
            cache = build_part("sentence_cache", sentence_cache)
        elif sentence_cache is not None:
            cache = SentenceCache(sentence_cache)
        self._set_up(
            model, mixes, dropout, projection_dim, requires_grad, keep_sentence_boundaries, state, precision, cache
        )

    @classmethod
    def from_parts(cls, bilm: BiLM, mixes: Sequence[LayerMix], **keys: Any) -> "Elmo":
        """Build it from a biLM and one mix per output.

        The other keys are `dropout`, `projection_dim`, `requires_grad`, `keep_sentence_boundaries`, `initial_state`,
        `precision` and `sentence_cache`, as in the class. The initial state and the cache are objects.
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
        """Check and store the parts, for both constructors."""
        if not mixes:
            raise ConfigurationError("'mixes': expected at least one, got none")
        super().__init__()
        at_least(1, projection_dim=projection_dim)
        probability(dropout=dropout)
        self.precision = check_precision(precision, requires_grad)
        self.bilm = bilm
        set_precision(bilm, self.precision)
        bilm.requires_grad_(requires_grad)
        if isinstance(bilm.lstm, ElmoLstm):
            bilm.lstm.input_dropout.p = 0.0  # the dropout of its pretraining
        self.requires_grad = requires_grad
        self.mixes = nn.ModuleList(mixes)
        self.dropout = nn.Dropout(dropout)
        widths = [mix.get_output_dim() for mix in mixes]
        self.projections = nn.ModuleList(nn.Linear(width, projection_dim) for width in widths if projection_dim)
        self.output_dim = projection_dim or widths[0]
        self.keep_sentence_boundaries = keep_sentence_boundaries
        self.initial_state = initial_state or ZeroState()
        self.initial_state.before(bilm, 0, next(bilm.parameters()))  # raises if this biLM has no such state
        self.register_buffer("output_like", torch.empty(0), persistent=False)  # `half()` and `double()` convert it
        self.sentence_cache = sentence_cache
        if sentence_cache is not None:
            if requires_grad:
                raise ConfigurationError("'sentence_cache': expected 'requires_grad' to be false, got true")
            if is_same_on_gpu(self.precision):  # otherwise the first batch opens it, on its device
                sentence_cache.open_for(self.bilm, self.initial_state)

    def get_output_dim(self) -> int:
        """Return the width of each representation."""
        return self.output_dim

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Elmo":
        """Cast the biLM when `to` or `cuda` moves it to a device on which `precision` means another type."""
        before = next(self.bilm.parameters())
        device, dtype = before.device, before.dtype  # read now, because `fn` may write to the parameter itself
        undo_int8(self.bilm)
        super()._apply(fn, recurse)
        if dtype == next(self.bilm.parameters()).dtype == dtype_on(device, self.precision):  # false after `half()`
            set_precision(self.bilm, self.precision)
        return self

    def ids_of(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the ids among the tensors of a token indexer: `elmo_tokens`, or the only tensor.

        Raises `ConfigurationError` for AllenNLP's indexer `characters`, whose ids come from a vocabulary.
        """
        ids = tensors.get("elmo_tokens", next(iter(tensors.values())) if len(tensors) == 1 else None)
        if ids is None or "token_characters" in tensors:
            raise ConfigurationError(
                "ELMo's token indexer: expected 'elmo_characters', or the indexer of its biLM, got "
                f"{', '.join(map(repr, sorted(tensors))) or 'no tensors'}"
            )
        return ids

    @split_on_out_of_memory
    def forward(self, inputs: Tensor, word_inputs: Optional[Tensor] = None) -> ElmoOutput:
        """Embed character ids (B, T, C), or word ids (B, T): return one (B, T, output dim) per mix.

        More dimensions before B are allowed and kept. `word_inputs`, AllenNLP's ids of cached words, is ignored because
        `inputs` holds all words.
        """
        ids, dims = inputs, self.bilm.token_encoder.input_dims
        if ids.dim() < dims and not ids.numel():
            ids = ids.unsqueeze(-1)  # AllenNLP's indexer gives a batch of empty sentences no C
        if ids.dim() < dims:
            raise ConfigurationError(
                "ELMo's token indexer: expected 'elmo_characters', or the indexer of its biLM, with ids (B, T, C), got "
                f"ids of shape {tuple(ids.shape)}"
            )
        batch = ids.shape[: ids.dim() - dims + 1]

        layers, mask = self.layers(ids.flatten(0, ids.dim() - dims))  # (L, B, T + 2, D), (B, T + 2)
        if torch.is_grad_enabled() and next(self.bilm.parameters()).requires_grad and not layers.requires_grad:
            # AllenNLP's interpreters ask all parameters for gradients. A frozen biLM runs without them, but what is
            # computed from its layers needs them, even if the mix has no parameters.
            layers = layers.detach().requires_grad_()
        layers = layers.to(self.output_like.dtype)
        representations = [mix(layers, mask) for mix in self.mixes]  # (B, T + 2, output dim) each
        if not self.keep_sentence_boundaries:
            # A sentence ends one token before its `</S>`, so its mask without boundaries is the mask from `</S>` on.
            mask = mask[:, 2:]  # (B, T)
            representations = [values[:, 1:-1] * mask.unsqueeze(-1) for values in representations]
        representations = [self.dropout(values) for values in representations]
        if self.projections:
            pairs = zip(self.projections, representations, strict=True)
            representations = [project(values) for project, values in pairs]
        return ElmoOutput([values.unflatten(0, batch) for values in representations], mask.unflatten(0, batch))

    @property
    def layers(self) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """The function from ids to all layers (L, B, T + 2, D) and their mask (B, T + 2).

        It is `run_bilm`, or the sentence cache around it.
        """
        if self.sentence_cache is None or self.is_trained():
            return self.run_bilm
        return partial(
            self.sentence_cache.layers, bilm=self.bilm, initial_state=self.initial_state, run_bilm=self.run_bilm
        )

    def is_trained(self) -> bool:
        """Return whether gradients reach the biLM: by `requires_grad`, or in training by parameters that ask for them.

        A training loop may unfreeze the parameters of AllenNLP's `Elmo` by hand. AllenNLP's interpreters set all
        parameters so too, but not in training.
        """
        return self.requires_grad or (self.training and any(each.requires_grad for each in self.bilm.parameters()))

    @torch.compiler.disable(reason="a biLM runs its own kernels")
    def run_bilm(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Run the biLM: return all layers in float32 or float64, and their mask. A carried state moves on."""
        like = next(self.bilm.parameters())
        warn_of_fallback(like.device, self.precision)
        is_trained = self.is_trained()
        has_dropout = is_trained and self.training
        if self.bilm.training != has_dropout:
            self.bilm.train(has_dropout)  # that of a contextualizer; the LSTMs have none here
        with nullcontext() if is_trained else torch.no_grad():
            layers, mask, state = self.bilm(ids, self.initial_state.before(self.bilm, ids.size(0), like))
        self.initial_state.after(state)
        return layers.to(torch.promote_types(layers.dtype, torch.float32)), mask

    def expose_token_layer(self) -> nn.Module:
        """Return a module whose output is the biLM's token layer (B, T, P), for hooks, and let gradients reach it.

        From now on the sentence cache is not used, and a frozen biLM runs with gradients where they are enabled.
        """
        self.requires_grad = True
        self.sentence_cache = None
        return self.bilm.expose_token_layer()


Elmo.register("elmo")(Elmo)
