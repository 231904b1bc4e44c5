"""The biLM: the token vectors and LSTM layers of whole sentences, with `<S>` and `</S>` around each."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Optional

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from torch import Tensor, nn

from elmo_plugin.bilm.elmo_lstm import ElmoLstm
from elmo_plugin.bilm.extra_state import description_to_tensor, tensor_to_description
from elmo_plugin.bilm.precision import FALLBACKS, check_precision, dtype_on, is_int8, precision_on, to_int8, undo_int8
from elmo_plugin.bilm.registered import build_contextualizer, build_registered, last_layer
from elmo_plugin.bilm.sizes import BiLMOptions
from elmo_plugin.bilm.token_encoder import (
    IDS,
    CharacterEncoder,
    CharacterLevelEncoder,
    ManyLangsEncoder,
    TokenEncoder,
    TokenTable,
    WordEncoder,
    check_padding,
)
from elmo_plugin.bilm.word_cache import WordCache
from elmo_plugin.common import named_errors, without_memory
from elmo_plugin.lstm import LstmState
from elmo_plugin.tensors import Int8Weight, Kept


class BiLMOutput(NamedTuple):
    """All layers of a batch of sentences. T includes `<S>` and `</S>`, unless they were left out.

    *Shape:* layers (L, B, T, D) · mask (B, T) · state (n_layers, 2, B, P) and (n_layers, 2, B, H).
    """

    layers: Tensor
    mask: Tensor
    state: LstmState


class BiLM(nn.Module):
    """A bidirectional language model without its softmax, whose layers ELMo mixes (ELMo §3.1).

    Layer 0 is the token vector twice, side by side. Layer k is `[forward; backward]` of LSTM layer k.

    # Parameters

    options : `BiLMOptions`
    kernel : `str`
        The name of the kernel, or `auto`.
    source : `str`
        The source of the weights, as the config names it. An archive identifies the weights by this name.
    is_trusted : `bool`
        Whether the options are those of a config, which may name any registered part. By default they may come from a
        stranger's file; see `CONTEXTUALIZERS`.
    """

    keeps_weights = True
    """Tells the `initializer` of a model that holds this biLM to leave its weights as they are."""

    precision: str = "float32"
    """What `set_precision` was called with."""

    def __init__(self, options: BiLMOptions, kernel: str = "auto", source: str = "", is_trusted: bool = False) -> None:
        super().__init__()
        self.options = options
        self.source = source
        width = options.lstm.projection_dim
        self.token_encoder: TokenEncoder
        if options.char_cnn is not None:
            self.token_encoder = CharacterEncoder(options.char_cnn, width)
        elif options.many_langs is not None:
            self.token_encoder = ManyLangsEncoder(options.many_langs, width)
        elif options.token_encoder is not None:
            self.token_encoder = build_registered(
                TokenEncoder, options.token_encoder, "token_encoder", is_trusted, output_dim=width
            )
        elif options.n_tokens_vocab is not None:
            self.token_encoder = WordEncoder(options.n_tokens_vocab, width, options.boundary_ids)
        else:
            raise ConfigurationError(
                "'options': expected 'token_encoder', 'char_cnn', 'lexicon' or 'n_tokens_vocab', which say what the "
                "biLM reads, got none"
            )
        self.lstm: Seq2SeqEncoder = (
            ElmoLstm(options.lstm, kernel=kernel)
            if options.contextualizer is None
            else build_contextualizer(options.contextualizer, width, is_trusted)
        )
        self.word_cache = WordCache()
        self.after_boundaries = Kept()
        self.register_buffer("warm_hidden", None)  # (n_layers, 2, 1, P)
        self.register_buffer("warm_cell", None)  # (n_layers, 2, 1, H)

    @classmethod
    def random(cls, options: BiLMOptions, seed: int, kernel: str = "auto") -> "BiLM":
        """Return a biLM with random weights that depend only on the seed, as the control of an experiment.

        The options are those of a config, which may name any registered part.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return cls(options, kernel, source=f"random:{seed}", is_trusted=True)

    @property
    def weight(self) -> Tensor:
        """Return one of the weights: its device and type are those of the biLM, also in a replica of `DataParallel`."""
        return self.token_encoder.weight

    @property
    def is_trained(self) -> bool:
        """Return whether any weight asks for gradients. Raises `ConfigurationError` if int8 weights do."""
        # A replica of `DataParallel` has no parameters. It keeps its copies of them under another name.
        copies = [weight for each in self.modules() for weight in each.__dict__.get("_former_parameters", {}).values()]
        trained = [weight for weight in (*self.parameters(), *copies) if weight.requires_grad]
        if any(isinstance(weight, Int8Weight) for weight in trained):
            raise ConfigurationError(
                "'precision': expected 'float32' for a biLM that is trained, got 'int8'; `set_precision` changes it, "
                "and `requires_grad_(False)` freezes the biLM"
            )
        return bool(trained)

    def set_precision(self, precision: str) -> "BiLM":
        """Convert the weights to what a config's `precision` means on their device.

        `to` and `cuda` convert them again if it means another type on the new device. `half`, `double` and `to` with a
        type are the caller's own choice.

        Raises `ConfigurationError` for a value that is not in `CHOICES`, and for bfloat16 or int8 if the biLM is
        trained.
        """
        check_precision(precision)
        if self.is_trained:
            if precision in FALLBACKS:
                raise ConfigurationError(
                    f"'precision': expected 'float32' or 'auto' with 'requires_grad', got {precision!r}"
                )
            precision = "float32"
        self.precision = precision
        undo_int8(self)
        self._convert_weights()
        return self

    @property
    def precision_of_weights(self) -> str:
        """Return `int8`, or the name of the type of the weights."""
        return "int8" if is_int8(self) else str(self.weight.dtype).removeprefix("torch.")

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "BiLM":
        """Convert the weights to `precision` again after a move to a device on which it means another type."""
        device, dtype = self.weight.device, self.weight.dtype  # read now: `fn` may write to the parameter itself
        undo_int8(self)
        super()._apply(fn, recurse)
        if dtype == self.weight.dtype == dtype_on(device, self.precision):  # false after `half()`
            self._convert_weights()
        return self

    def _convert_weights(self) -> None:
        """Convert the weights, none of which is int8, to what `precision` means on their device."""
        device = self.weight.device
        dtype = dtype_on(device, self.precision)
        if self.weight.dtype != dtype:
            super()._apply(lambda weight: weight.to(dtype) if weight.is_floating_point() else weight)
        if precision_on(device, self.precision) == "int8":
            to_int8(self)

    @property
    def warm_state(self) -> Optional[LstmState]:
        """Return the calibrated initial state stored with the weights, for one sentence, or `None`."""
        return None if self.warm_hidden is None else LstmState(self.warm_hidden, self.warm_cell)

    @warm_state.setter
    def warm_state(self, state: LstmState) -> None:
        """Store the initial state with the weights."""
        self.warm_hidden, self.warm_cell = state

    def forward(
        self, ids: Tensor, state: Optional[LstmState] = None, after_boundaries: Optional[LstmState] = None
    ) -> BiLMOutput:
        """Compute all layers of a batch.

        # Parameters

        ids : `Tensor` (B, T, C) of characters, or (B, T) of words, on any device
            Sentences without boundaries, padded with 0 on the right.
        state : `Optional[LstmState]`
            The state before each sentence; zeros by default.
        after_boundaries : `Optional[LstmState]` (n_layers, 2, 1, ·), as `read_boundaries` returns it
            Read the tokens of each sentence from this state on, not from `state`, and without `<S>` and `</S>`. That is
            two steps less, and the tokens get the same vectors. T does not include the boundaries then.
        """
        if torch.jit.is_tracing() or torch.compiler.is_exporting():
            self.__prepare_scriptable__()
        encoder, ids = self.token_encoder, ids.cpu()
        fitted = encoder.bounded(ids) if after_boundaries is None else encoder.fit(ids).long()  # (B, T + 2, ·)
        present = encoder.mask(fitted)  # (B, T + 2)
        if after_boundaries is not None:
            check_padding(present, IDS)
            hidden, cell = after_boundaries
            state = LstmState(hidden.expand(-1, -1, len(ids), -1), cell.expand(-1, -1, len(ids), -1))
        mask = present.to(self.weight.device, non_blocking=True)
        words = self.word_cache.look_up(encoder, fitted) or TokenTable.of(encoder(fitted))
        tokens = words.dense() * mask.unsqueeze(-1)  # (B, T + 2, P)
        state = state or self.zero_state(len(ids), tokens)
        if isinstance(self.lstm, ElmoLstm):
            contextual, state = self.lstm(words, present, state)  # (B, T + 2, D) each
        else:
            contextual = [last_layer(self.lstm, tokens, mask)]
        layers = torch.stack([torch.cat([tokens, tokens], dim=-1).to(contextual[0].dtype), *contextual])
        return BiLMOutput(layers, mask, state)  # (L, B, T + 2, D)

    def read_boundaries(self, state: LstmState) -> LstmState:
        """Return the state after `<S>` (forward) and after `</S>` (backward), from which the first token is predicted.

        *Shape:* state (n_layers, 2, 1, P) and (n_layers, 2, 1, H), before and after.
        """
        assert isinstance(self.lstm, ElmoLstm)
        nothing = torch.zeros((1, 0, 1)[: self.token_encoder.input_dims], dtype=torch.long)
        both = self.token_encoder(self.token_encoder.bounded(nothing)).view(2, 1, 1, -1)  # (2, 1, 1, P)
        return self.lstm.read_windows(both, torch.ones(1, dtype=torch.long), state)[1]

    def __prepare_scriptable__(self) -> "BiLM":
        """Raise `ConfigurationError`: PyTorch calls this before it scripts a module."""
        raise ConfigurationError(
            "a biLM cannot be traced, scripted or exported, because its time steps depend on the lengths of the "
            "sentences; `torch.compile` leaves it as it is"
        )

    @property
    def has_state(self) -> bool:
        """Return whether a sentence may start from another state than zero: whether the LSTMs read it."""
        return isinstance(self.lstm, ElmoLstm)

    def zero_state(self, batch_size: int, like: Tensor) -> LstmState:
        """Return an all-zero state for a batch of `batch_size` sentences. Without LSTMs, it has no layers."""
        if isinstance(self.lstm, ElmoLstm):
            return self.lstm.zero_state(batch_size, like)
        empty = like.new_zeros(0, 2, batch_size, self.options.lstm.projection_dim)
        return LstmState(empty, empty)

    def ids_of(self, sentences: Sequence[Sequence[str]], word_id: Optional[Callable[[str], int]] = None) -> Tensor:
        """Return the ids of tokenized sentences: of characters (B, T, C), or of words (B, T), by `word_id`."""
        if isinstance(self.token_encoder, CharacterLevelEncoder):
            return self.token_encoder.batch_to_ids(sentences)
        vocab_size = self.options.n_tokens_vocab
        assert word_id is not None and vocab_size is not None
        rows = {word: word_id(word) for words in sentences for word in words}
        for word, row in rows.items():
            if row > vocab_size:
                raise ConfigurationError(f"expected one of the {vocab_size} words that the biLM reads, got {word!r}")
        longest = max(map(len, sentences), default=0)
        padded = [[rows[word] for word in words] + [0] * (longest - len(words)) for words in sentences]
        return torch.tensor(padded, dtype=torch.long).view(len(padded), longest)  # (B, T)

    def get_extra_state(self) -> Tensor:
        """Return the sizes and the source, so that a state dict needs no options file beside it."""
        return description_to_tensor({"options": self.options.to_dict(), "source": self.source})

    def set_extra_state(self, state: Tensor) -> None:
        """Check that the weights about to be loaded have the sizes of this biLM."""
        place = "the biLM's '_extra_state' in the state dict"
        with named_errors(place, AttributeError, KeyError, ValueError, ConfigurationError):
            options, _ = read_extra_state(state)
        if options != self.options:
            raise ConfigurationError(f"{place}: expected {self.options}, got {options}")


def count_parameters(options: BiLMOptions) -> int:
    """Return the number of parameters of a biLM with these sizes, which is not made."""
    with without_memory():
        return sum(parameter.numel() for parameter in BiLM(options).parameters())


def read_extra_state(state: Tensor) -> tuple[BiLMOptions, str]:
    """Return the sizes and the source that `BiLM.get_extra_state` stored in a state dict."""
    description = tensor_to_description(state)
    return BiLMOptions.from_dict(description["options"]), description["source"]


def language_of(module: nn.Module) -> Optional[str]:
    """Return the language that the first biLM in a module was trained on, or `None` if it does not say."""
    return next((part.options.language for part in module.modules() if isinstance(part, BiLM)), None)
