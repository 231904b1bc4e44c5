"""ELMo: one run of a biLM, and one mix of its layers per output (ELMo §3.2, §3.3)."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from os import PathLike, fspath
from typing import Any, Optional, Union

import torch
from allennlp.common import Lazy, Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from torch import Tensor, nn

from elmo_plugin.bilm import (
    BiLM,
    InitialState,
    ZeroState,
    is_same_on_gpu,
    warn_of_fallback,
)
from elmo_plugin.checkpoints import bilm_keys, resolve_bilm
from elmo_plugin.common import at_least, probability
from elmo_plugin.elmo.batch_dimensions import merge_batch_dimensions
from elmo_plugin.elmo.layer_mix import LayerMix, build_part, by_name
from elmo_plugin.elmo.out_of_memory import split_on_out_of_memory
from elmo_plugin.elmo.output import ElmoOutput
from elmo_plugin.elmo.scalar_mix import mix_builder
from elmo_plugin.elmo.sentence_cache import SentenceCache


class Elmo(nn.Module, Registrable):
    """A biLM and one mix of its layers per output. A frozen biLM runs once per batch, without gradients.

    The first parameters are those of `allennlp.modules.elmo.Elmo`, in the same order. The keys of a config are the
    parameters, so they include every key of AllenNLP's `elmo_token_embedder`.

        >>> from elmo_plugin import Elmo, batch_to_ids
        >>> elmo = Elmo(bilm="english-tiny", num_output_representations=2, dropout=0.0)
        >>> at_input, at_output = elmo(batch_to_ids([["Two", "words"]]))["elmo_representations"]
        >>> at_input.shape
        torch.Size([1, 2, 512])

    # Parameters

    options_file, weight_file : `Optional[str]`
        The paths or URLs of bilm-tf's two files. `options_file` may be omitted if it lies beside the weights. Without
        both files and without `bilm`, the published biLM is loaded.
    num_output_representations : `int`
        The number of mixes.
    requires_grad : `bool`
        Fine-tune the biLM. A training loop in Python may also unfreeze it later, with `elmo.requires_grad_()`.
    do_layer_norm, scalar_mix_parameters
        AllenNLP's short forms for keys of a `scalar` mix. A mix with given parameters is not trained.
    dropout : `float`
        The dropout rate of each representation.
    vocab_to_cache, vocab
        `vocab_to_cache` is ignored, because every word is computed. A biLM that reads words needs `vocab`.
    keep_sentence_boundaries : `bool`
        Keep the vectors of `<S>` and `</S>`, so that T grows by two.
    module
        Not supported; use `from_parts` for a biLM that is already built.
    bilm : `Optional[Union[str, dict[str, Any]]]`
        The biLM, instead of the two files: `{"pretrained": source}` or just the source, which is a path, a URL or the
        name of a bundled biLM, in any format; or `{"options": {…}, "seed": n}` for random weights.
    mix : `Optional[Lazy[LayerMix]]`
        The mix of each output; a trainable `scalar` by default.
    projection_dim : `Optional[int]`
        The width to project each representation to, after dropout. Each output has its own projection.
    initial_state : `Optional[Lazy[InitialState]]`
        The state that the LSTMs start from; zeros by default.
    precision : `str`
        The number type of a frozen biLM's weights and matrix products: `float32`; `bfloat16`, replaced by float32 on a
        processor that would emulate it; `int8`, replaced by float32 except on an x86 processor; or `auto`, which is
        bfloat16 where the device computes it natively and float32 elsewhere. The representations are float32.
    kernel : `str`
        The name of the LSTM kernel, or `auto`.
    sentence_cache : `Optional[Union[str, Lazy[SentenceCache]]]`
        A path, or the keys of `SentenceCache`: the layers of each sentence are kept on disk. All mixes share the cache.
        It needs a frozen biLM.
    serialization_dir : `Optional[str]`
        The folder that AllenNLP trains in or has unpacked an archive into. The biLM of an archive is loaded from there.

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
        if isinstance(sentence_cache, str | PathLike):
            cache: Optional[SentenceCache] = SentenceCache(fspath(sentence_cache))
        else:
            lazy = by_name(SentenceCache, "sentence_cache", sentence_cache)
            cache = None if lazy is None else build_part("sentence_cache", lazy)
        model.requires_grad_(requires_grad).set_precision(precision)
        self._set_up(model, mixes, dropout, projection_dim, keep_sentence_boundaries, state, cache)

    @classmethod
    def from_parts(cls, bilm: BiLM, mixes: Sequence[LayerMix], **keys: Any) -> "Elmo":
        """Build an `Elmo` from a biLM and one mix per output.

        The biLM stays as it is: it is trained if its parameters ask for gradients, and has the precision that
        `BiLM.set_precision` gave it.

        The other keys are `dropout`, `projection_dim`, `keep_sentence_boundaries`, `initial_state` and
        `sentence_cache`, as in the class, but the initial state and the cache are built already.
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
        keep_sentence_boundaries: bool = False,
        initial_state: Optional[InitialState] = None,
        sentence_cache: Optional[SentenceCache] = None,
    ) -> None:
        """Check and store the parts. Both constructors end here."""
        if not mixes:
            raise ConfigurationError("'mixes': expected at least one, got none")
        super().__init__()
        at_least(1, projection_dim=projection_dim)
        probability(dropout=dropout)
        self.bilm = bilm
        self.mixes = nn.ModuleList(mixes)
        self.dropout = nn.Dropout(dropout)
        widths = [mix.get_output_dim() for mix in mixes]
        self.projections = nn.ModuleList(nn.Linear(width, projection_dim) for width in widths if projection_dim)
        self.output_dim = projection_dim or widths[0]
        self.keep_sentence_boundaries = keep_sentence_boundaries
        self.initial_state = initial_state or ZeroState()
        self.initial_state.before(bilm, 0, bilm.weight)  # raises if this biLM has no such state
        self.register_buffer("output_like", torch.empty(0), persistent=False)  # follows `half()` and `double()`
        self.sentence_cache = sentence_cache
        if sentence_cache is not None:
            if bilm.is_trained:
                raise ConfigurationError("'sentence_cache': expected 'requires_grad' to be false, got true")
            if is_same_on_gpu(bilm.precision):  # otherwise the first batch opens it, on the device that runs it
                sentence_cache.open_for(self.bilm, self.initial_state)

    def get_output_dim(self) -> int:
        """Return the width of each representation, or of the first one if the mixes differ in width."""
        return self.output_dim

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
        """Embed character ids (B, T, C) or word ids (B, T): return one representation (B, T, output dim) per mix.

        The ids may have more dimensions before B; the outputs have the same ones. `word_inputs`, AllenNLP's ids of
        cached words, is ignored because `inputs` holds every word.
        """
        ids, batch = merge_batch_dimensions(inputs, self.bilm.token_encoder.input_dims)  # (B, T, ·)
        layers, mask = self.layers(ids)  # (L, B, T + 2, D), (B, T + 2)
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

    def layers(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return all layers (L, B, T + 2, D) and their mask (B, T + 2), from the sentence cache if it has them."""
        if self.sentence_cache is None or self.bilm.is_trained or self.bilm.token_layer is not None:
            layers, mask = self.run_bilm(ids)
        else:
            layers, mask = self.sentence_cache.layers(ids, self.bilm, self.initial_state, self.run_bilm)
        return layers.to(self.output_like.dtype), mask

    @torch.compiler.disable(reason="a biLM runs its own kernels")
    def run_bilm(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Run the biLM: return all layers, in float32 or float64, and their mask. This updates a carried state."""
        like = self.bilm.weight
        warn_of_fallback(like.device, self.bilm.precision)
        is_trained = self.bilm.is_trained
        has_dropout = is_trained and self.training
        if self.bilm.training != has_dropout:
            self.bilm.train(has_dropout)  # for the dropout of a contextualizer; the LSTMs have none here
        with nullcontext() if is_trained else torch.no_grad():
            layers, mask, state = self.bilm(ids, self.initial_state.before(self.bilm, ids.size(0), like))
        self.initial_state.after(state)
        return layers.to(torch.promote_types(layers.dtype, torch.float32)), mask

    def expose_token_layer(self) -> nn.Module:
        """Return a module whose output is the biLM's token layer (B, T, P), for hooks, and let gradients reach it.

        From then on the sentence cache is not used, and even a frozen biLM computes gradients where they are enabled.
        """
        return self.bilm.expose_token_layer()


Elmo.register("elmo")(Elmo)
