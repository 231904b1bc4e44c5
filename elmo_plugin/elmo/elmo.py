"""ELMo: one run of a biLM, and one mix of its layers per output (ELMo §3.2, §3.3)."""

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Optional, Union, cast

import torch
from allennlp.common import Lazy, Params, Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.modules.elmo import Elmo as AllenNlpElmo
from allennlp.modules.elmo import _ElmoBiLm
from torch import Tensor, nn

from elmo_plugin.bilm import (
    BiLM,
    BiLMOptions,
    CharacterLevelEncoder,
    InitialState,
    ZeroState,
    warn_of_fallback,
)
from elmo_plugin.checkpoints import (
    ALLENNLP_BILM,
    Checkpoint,
    Conversion,
    SavedMix,
    allennlp_checkpoint,
    bilm_keys,
    build_bilm,
    reject_override,
    resolve_bilm,
    save_bilm,
)
from elmo_plugin.common import at_least, named_errors, probability
from elmo_plugin.compat import Function, replaces
from elmo_plugin.elmo.enhanced_encoder import ElmoEnhancedEncoder
from elmo_plugin.elmo.mixes import ConcatenateMix, LayerMix, ScalarMix, build_mix, build_part
from elmo_plugin.elmo.sentence_cache import SentenceCache
from elmo_plugin.tensors import outside_of_graphs
from elmo_plugin.text import word_to_ids


class ElmoOutput(dict[str, Any]):
    """What `Elmo` returns: the dictionary of AllenNLP's `Elmo`, whose two values also have names.

    `representations`, or `["elmo_representations"]`, has one tensor (B, T, output dim) per mix; `mask` is (B, T).
    """

    @property
    def representations(self) -> list[Tensor]:
        """Return one representation (B, T, output dim) per mix."""
        return cast(list[Tensor], self["elmo_representations"])

    @property
    def mask(self) -> Tensor:
        """Return the mask (B, T)."""
        return cast(Tensor, self["mask"])


class Elmo(nn.Module, Registrable):
    """A biLM and one mix of its layers per output. A frozen biLM runs once per batch, without gradients.

    The first parameters are those of `allennlp.modules.elmo.Elmo`, in the same order. The keys of a config are the
    parameters, so they include every key of AllenNLP's `elmo_token_embedder`. The mixes have AllenNLP's names,
    `scalar_mix_0`, `scalar_mix_1`, …, and a state dict of AllenNLP's `Elmo` can be loaded.

        >>> from elmo_plugin import Elmo, batch_to_ids
        >>> elmo = Elmo(bilm="english-tiny", num_output_representations=2, dropout=0.0)
        >>> at_input, at_output = elmo(batch_to_ids([["Two", "words"]])).representations
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
    vocab_to_cache : `Optional[list[str]]`
        The words that the ids of `word_inputs` stand for, as in AllenNLP's class; see `forward`. Id 0 is padding, so
        the first entry is no word, as `@@PADDING@@` in a vocabulary of AllenNLP. Caching words needs no setting.
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
        processor that is faster in that; `int8`, replaced by float32 except on an x86 processor, and for weights of up
        to 4 MiB, which are as fast in float32; or `auto`, which is bfloat16 where the device is faster in it and
        float32 elsewhere. The representations are float32.
    kernel : `str`
        The name of the LSTM kernel, or `auto`.
    sentence_cache : `Optional[Union[str, Lazy[SentenceCache]]]`
        A path, or the keys of `SentenceCache`: the layers of each sentence are kept on disk. All mixes share the cache.
        It needs a frozen biLM.
    serialization_dir : `Optional[str]`
        The folder that AllenNLP trains in or has unpacked an archive into. The biLM of an archive is loaded from there.
    vocab : `Optional[Vocabulary]`
        The vocabulary of the task, which a biLM that reads words needs.

    Raises `ConfigurationError` for contradictory keys and for unsuitable files.
    """

    default_implementation = "elmo"
    instead_of_a_name = "; the biLM is a key of the object: { bilm: … }"
    """What an error says about a string in its place."""
    cached_words: Optional[Tensor]
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
        model.requires_grad_(requires_grad).set_precision(precision)
        key = "mix" if scalar_mix_parameters is None else "scalar_mix_parameters"
        if mix is None:
            mix = Lazy(
                ScalarMix,
                initial_scalar_parameters=scalar_mix_parameters,
                trainable=scalar_mix_parameters is None,
                do_layer_norm=do_layer_norm,
            )
        elif do_layer_norm or scalar_mix_parameters is not None:
            raise ConfigurationError(
                "'mix': expected 'do_layer_norm' and 'scalar_mix_parameters' inside it, got them beside it"
            )
        if scalar_mix_parameters is not None:
            reject_override(serialization_dir, key, scalar_mix_parameters)
        sizes = model.options.num_layers, model.options.layer_dim
        mixes = [build_mix(key, mix, serialization_dir, *sizes) for _ in range(num_output_representations)]
        state = None if initial_state is None else build_part("initial_state", InitialState, initial_state)
        if isinstance(sentence_cache, str | PathLike):
            sentence_cache = Lazy(SentenceCache, path=fspath(sentence_cache))
        cache = None if sentence_cache is None else build_part("sentence_cache", SentenceCache, sentence_cache)
        self._set_up(model, mixes, dropout, projection_dim, keep_sentence_boundaries, state, cache)
        if vocab_to_cache and isinstance(model.token_encoder, CharacterLevelEncoder):
            self.cached_words = model.token_encoder.batch_to_ids([[word] for word in vocab_to_cache])[:, 0].int()

    @classmethod
    def from_parts(cls, bilm: BiLM, mixes: Sequence[LayerMix], **keys: Any) -> "Elmo":
        """Build an `Elmo` from a biLM and one mix per output, or without mixes for a caller of `layers` alone.

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
        super().__init__()
        at_least(1, projection_dim=projection_dim)
        probability(dropout=dropout)
        self.bilm = bilm
        for number, mix in enumerate(mixes):
            self.add_module(f"scalar_mix_{number}", mix)
        self.dropout = nn.Dropout(dropout)
        widths = [mix.get_output_dim() for mix in mixes]
        self.projections = nn.ModuleList(
            nn.Linear(width, projection_dim) if projection_dim else nn.Identity() for width in widths
        )
        self.output_dim = projection_dim or next(iter(widths), 0)
        self.keep_sentence_boundaries = keep_sentence_boundaries
        self.initial_state = initial_state or ZeroState()
        self.initial_state.before(bilm, 0, bilm.weight)  # raises if this biLM has no such state
        self.sentence_cache = sentence_cache
        if sentence_cache is not None:
            if bilm.is_trained:
                raise ConfigurationError("'sentence_cache': expected 'requires_grad' to be false, got true")
            if not self.initial_state.same_for_every_sentence:
                raise ConfigurationError(
                    "'sentence_cache': expected an 'initial_state' that is the same for every sentence, 'zero' or "
                    f"'warm', got '{self.initial_state.name}'"
                )
        self.register_buffer("cached_words", None, persistent=False)  # (words of `vocab_to_cache`, C)
        self.register_buffer("output_like", torch.empty(0), persistent=False)  # follows `half()` and `double()`

    def get_output_dim(self) -> int:
        """Return the width of each representation, or of the first one if the mixes differ in width."""
        return self.output_dim

    @property
    def mixes(self) -> list[LayerMix]:
        """Return the mix of each output."""
        return [cast(LayerMix, mix) for name, mix in self._modules.items() if name.startswith("scalar_mix_")]

    _scalar_mixes = mixes
    """The mixes by the name that AllenNLP's models read, such as `bcn`."""

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

    def forward(self, inputs: Tensor, word_inputs: Optional[Tensor] = None) -> ElmoOutput:
        """Embed character ids (B, T, C) or word ids (B, T): return one representation (B, T, output dim) per mix.

        The ids may have more dimensions before B; the outputs have the same ones. `word_inputs` (B, T) are AllenNLP's
        ids of cached words, the indices in `vocab_to_cache` from 1 on: they give the characters of a token without any
        in `inputs`. A word of which `inputs` has the characters is computed from those, even if its id means "unknown".
        """
        if not isinstance(inputs, Tensor):
            raise TypeError(
                f"'inputs': expected ids, as `batch_to_ids(sentences)` returns them, got a {type(inputs).__name__}"
            )
        input_dims = self.bilm.token_encoder.input_dims
        if word_inputs is not None and input_dims == 3:
            inputs = self._with_cached_words(inputs, word_inputs)  # (B, T, C)
        ids, batch = merge_batch_dimensions(inputs, input_dims)  # (B, T, ·)
        mixes = self.mixes
        has_boundaries = self.keep_sentence_boundaries or any(mix.reads_boundaries for mix in mixes)
        layers, mask = self.layers(ids, has_boundaries)  # (L, B, T + 2, D), (B, T + 2), or T without boundaries
        representations = [mix(layers, mask) for mix in mixes]  # (B, T + 2, output dim) each
        if has_boundaries and not self.keep_sentence_boundaries:
            mask = mask[:, 2:]  # (B, T)
            representations = [values[:, 1:-1] for values in representations]
        if not self.keep_sentence_boundaries:
            representations = [values * mask.unsqueeze(-1) for values in representations]
        outputs = zip(self.projections, representations, strict=True)
        representations = [project(self.dropout(values)) for project, values in outputs]
        return ElmoOutput(
            elmo_representations=[values.unflatten(0, batch) for values in representations],
            mask=mask.unflatten(0, batch),
        )

    def _with_cached_words(self, inputs: Tensor, word_inputs: Tensor) -> Tensor:
        """Give the tokens that have a word id (…, T) but no characters those of the word, in ids (…, T, C)."""
        encoder = cast(CharacterLevelEncoder, self.bilm.token_encoder)
        if inputs.shape[:-1] != word_inputs.shape:  # a placeholder, which AllenNLP does not read
            inputs = word_inputs.new_zeros(*word_inputs.shape, 1)
        needed = (word_inputs > 0) & (inputs == 0).all(dim=-1)  # (…, T)
        highest = int(word_inputs[needed].max()) if bool(needed.any()) else -1
        if highest < 0:
            return inputs
        if self.cached_words is None or highest >= len(self.cached_words):
            known = "none without it" if self.cached_words is None else f"ids up to {len(self.cached_words) - 1}"
            raise ConfigurationError(
                f"'word_inputs': expected indices in 'vocab_to_cache', {known}, or the characters of the word in "
                f"'inputs', got {highest}"
            )
        return torch.where(
            needed.unsqueeze(-1), self.cached_words[word_inputs * needed], encoder.fit(inputs)
        )  # (…, T, C)

    @outside_of_graphs  # a biLM runs its own kernels
    def layers(self, ids: Tensor, keep_sentence_boundaries: bool = True) -> tuple[Tensor, Tensor]:
        """Return all layers (L, B, T + 2, D) of ids (B, T, ·), and their mask (B, T + 2). A carried state is updated.

        Without `<S>` and `</S>`, which takes less time, the shapes have T. Gradients reach the biLM if any of its
        parameters asks for them.
        """
        bilm, cache = self.bilm, self.sentence_cache
        is_trained = (self.training or torch.is_grad_enabled() or cache is not None) and bilm.is_trained
        has_dropout = is_trained and self.training
        if bilm.training != has_dropout:
            bilm.train(has_dropout)  # for the dropout of a contextualizer; the LSTMs have none here
        if bilm.precision != "float32":
            warn_of_fallback(bilm.weight.device, bilm.precision)
        inside = None  # the state after `<S>`, to leave the boundaries out
        if cache is not None and not is_trained:
            layers, mask = cache.layers(ids, bilm, self.initial_state)
        else:
            inside = None if keep_sentence_boundaries else self.initial_state.after_boundaries(bilm)
            state = self.initial_state.before(bilm, len(ids), bilm.weight) if inside is None else None
            with torch.set_grad_enabled(torch.is_grad_enabled() and is_trained):
                layers, mask, state = bilm(ids, state, inside)
            self.initial_state.after(state)
        if inside is None and not keep_sentence_boundaries:
            mask = mask[:, 2:]  # (B, T): a sentence ends one token before its `</S>`
            layers = layers[:, :, 1:-1] * mask.unsqueeze(-1)
        return layers.to(self.output_like.dtype), mask

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Also read the state dict of AllenNLP's `Elmo`, and the name `mixes.0` that `scalar_mix_0` had before."""
        rename(state_dict, f"{prefix}mixes.", f"{prefix}scalar_mix_")
        theirs = f"{prefix}{ALLENNLP_BILM}."
        names = [name for name in state_dict if name.startswith(theirs)]
        if names:
            try:
                weights = allennlp_checkpoint(state_dict, theirs, self.bilm.options, theirs).state_dict
            except ConfigurationError as error:
                error_msgs.append(str(error))
                weights = {}
            for name in names:  # among them the vectors of `vocab_to_cache`, which follow from the weights
                del state_dict[name]
            ours = {**self.bilm.state_dict(), **weights}  # AllenNLP's biLM has neither `_extra_state` nor a warm state
            state_dict.update({f"{prefix}bilm.{name}": value for name, value in ours.items()})
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


Elmo.register("elmo")(Elmo)


@replaces("allennlp.modules.elmo.Elmo.from_params")
def _build_where_a_config_asks_for_it(
    original: Function, cls: type[AllenNlpElmo], params: Any, *args: Any, **kwargs: Any
) -> Any:
    """Let the configs `elmo: {type: 'elmo', …}` and `elmo: {bilm: …}` of AllenNLP's models build our `Elmo`.

    Symptom: `Extra parameters passed to Elmo: {'type': 'elmo'}`. Cause: the parameter has AllenNLP's class as its type,
    which is not registrable. Guard: AllenNLP's class has neither `type` nor `bilm`, so configs with these keys failed;
    all others build what they built.
    """
    if cls is AllenNlpElmo and isinstance(params, Params) and (params.get("type") == "elmo" or "bilm" in params):
        return Elmo.from_params(params, *args, **kwargs)
    return original(cls, params, *args, **kwargs)


def save(
    elmo: Union[Elmo, BiLM],
    target: Union[str, "PathLike[str]"],
    to: Optional[str] = None,
    dtype: str = "float32",
    license: Optional[str] = None,
    vocabulary: Optional[Sequence[str]] = None,
) -> Conversion:
    """Save the biLM of an `Elmo`, such as one that was fine-tuned, in any format that `convert-elmo` writes.

    >>> save(elmo, "tuned.safetensors")  # doctest: +SKIP
    >>> save(elmo, "tuned", to="bilm-tf")  # doctest: +SKIP

    The mixes are not saved; `torch.save(elmo.state_dict(), …)` keeps them too.

    # Parameters

    elmo : an `Elmo`, or a biLM
    target : the file of the format `native`, or the folder for the files of another format
    to : `native`, `bilm-tf` or `hub`; `native` by default if the target ends with `.safetensors`, else `bilm-tf`
    dtype : the number type of the file: `float32`, `float16` or `bfloat16`; `bilm-tf` has `float32`
    license : the licence in the model card of `hub`
    vocabulary : the lines of the vocabulary file, for a biLM that reads words

    Raises `ConfigurationError` for files that cannot be written, and for a biLM that the format cannot hold, and
    `TypeError` for what is no biLM.
    """
    bilm = elmo.bilm if isinstance(elmo, Elmo) else elmo
    if not isinstance(bilm, BiLM):
        raise TypeError(
            f"'elmo': expected an `Elmo` or a biLM, got {type(elmo).__name__}; that of `load` is its attribute `elmo`"
        )
    return save_bilm(bilm, Path(target), to, dtype, license, None if vocabulary is None else list(vocabulary))


def trained_elmo(model: nn.Module) -> tuple[Elmo, LayerMix]:
    """Return the first ELMo of a model and the first mix trained with it, perhaps in `elmo_enhanced`.

    If the model uses AllenNLP's own `Elmo`, its weights are copied into an `Elmo` of this library.
    Raises `ConfigurationError` for a model without ELMo.
    """
    for module in model.modules():
        if isinstance(module, Elmo):
            mix = module.mixes[0]
            enhanced = next((part for part in model.modules() if isinstance(part, ElmoEnhancedEncoder)), None)
            if enhanced is not None and isinstance(mix, ConcatenateMix):  # it passes all layers on
                mix = enhanced.input_mix or enhanced.output_mix or mix
            return module, mix
        if isinstance(module, AllenNlpElmo) and isinstance(getattr(module, ALLENNLP_BILM), _ElmoBiLm):
            mix, name = module._scalar_mixes[0], type(model).__name__
            options = BiLMOptions.from_dict(getattr(module, ALLENNLP_BILM)._token_embedder._options)
            checkpoint = allennlp_checkpoint(module.state_dict(), f"{ALLENNLP_BILM}.", options, name)
            elmo = elmo_of(checkpoint, SavedMix(mix.state_dict(), mix.do_layer_norm), name)
            return elmo.to(next(module.parameters()).device).eval(), elmo.mixes[0]
    raise ConfigurationError(f"the archive's model: expected one with ELMo, got a {type(model).__name__}")


def elmo_of(checkpoint: Checkpoint, saved: SavedMix, source: str) -> Elmo:
    """Return a frozen `Elmo` without dropout, with the weights and the mix of AllenNLP's own `Elmo`.

    Raises `ConfigurationError` if the mix does not fit the layers.
    """
    bilm = build_bilm(checkpoint, source=source).requires_grad_(False)
    sizes = bilm.options
    mix = ScalarMix(sizes.num_layers, sizes.layer_dim, trainable=False, do_layer_norm=saved.do_layer_norm)
    with named_errors(f"'{source}'", RuntimeError):
        mix.load_state_dict(saved.state_dict)
    return Elmo.from_parts(bilm, [mix], dropout=0.0)


def rename(state_dict: dict[str, Any], old: str, new: str) -> None:
    """Give the tensors whose names begin with `old` names that begin with `new`."""
    for name in [name for name in state_dict if name.startswith(old)]:
        state_dict[new + name.removeprefix(old)] = state_dict.pop(name)


def merge_batch_dimensions(ids: Tensor, input_dims: int) -> tuple[Tensor, torch.Size]:
    """Merge all dimensions before T into B. Return ids (B, T, C) or (B, T), and the sizes of the merged dimensions.

    `input_dims` is 3 for character ids and 2 for word ids. Raises `ConfigurationError` for other tensors.
    """
    if ids.dim() < input_dims and not ids.numel():
        ids = ids.unsqueeze(-1)  # AllenNLP's indexer gives a batch of empty sentences no C
    if ids.dim() < input_dims:
        indexer, shape = ("elmo_characters", "(B, T, C)") if input_dims > 2 else ("single_id", "(B, T)")
        raise ConfigurationError(
            f"ELMo's token indexer: expected '{indexer}', or the indexer of its biLM, with ids {shape}, got ids of "
            f"shape {tuple(ids.shape)}"
        )
    if ids.numel() and (ids.is_floating_point() or ids.dtype == torch.bool):
        raise ConfigurationError(f"ELMo's token indexer: expected ids that are integers, got {ids.dtype}")
    if ids.numel() and ids.dim() > input_dims == 2:  # word ids of several texts, unless each row is a word's characters
        begin, _, end = word_to_ids("a", 3)
        is_word = (ids[..., 0] == begin) & (ids == end).any(dim=-1)  # (…, T)
        if bool(is_word.any() and (is_word | (ids == 0).all(dim=-1)).all()):
            raise ConfigurationError(
                "ELMo's token indexer: expected 'single_id', because the biLM reads words, got the ids of "
                "'elmo_characters'"
            )
    batch = ids.shape[: ids.dim() - input_dims + 1]
    return ids.flatten(0, len(batch) - 1), batch
