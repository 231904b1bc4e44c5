"""Sizes of the LSTMs (the block `lstm`) and of the whole biLM.

The keys and defaults come from `bilm/training.py` and `bilm/model.py` of bilm-tf.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from elmo_plugin.options.encoders import N_CHARACTERS, CharCnnOptions, ManyLangsOptions
from elmo_plugin.options.values import (
    MOST_LAYERS,
    OptionsError,
    boundary_ids,
    check_parameters,
    clip,
    flag,
    object_under,
    positive,
)

BOUNDARY_IDS = (1, 2)
"""The lines of `<S>` and `</S>` in a vocabulary file, counted from 1, as bilm-tf's README recommends."""


@dataclass(frozen=True)
class LstmOptions:
    """Hold the sizes of the stacked bidirectional LSTM with projection (`lstm` in `options.json`).

    # Parameters

    cell_dim : `int`
        H, the width of the memory cell (`dim`).
    projection_dim : `int`
        P, the width of one direction's output and of a token vector.
    n_layers : `int`
        The number of LSTM layers.
    cell_clip, projection_clip : `Optional[float]`
        The largest absolute values of the cell and of the projected output (`cell_clip`, `proj_clip`).
    use_skip_connections : `bool`
        Whether a layer's input is added to its output, from the second layer on.
    """

    cell_dim: int
    projection_dim: int
    n_layers: int = 1
    cell_clip: Optional[float] = None
    projection_clip: Optional[float] = None
    use_skip_connections: bool = False

    @property
    def has_projection(self) -> bool:
        """Return whether a matrix projects H to P; bilm-tf has none if the two are equal."""
        return self.projection_dim != self.cell_dim

    @property
    def n_parameters(self) -> int:
        """Return the number of parameters of both directions."""
        gates = 4 * self.cell_dim * (2 * self.projection_dim + 1)
        projection = self.cell_dim * self.projection_dim if self.has_projection else 0
        return 2 * self.n_layers * (gates + projection)

    @classmethod
    def from_dict(cls, lstm: Mapping[str, Any]) -> "LstmOptions":
        """Read the `lstm` block."""
        options = cls(
            cell_dim=positive(lstm, "lstm", "dim"),
            projection_dim=positive(lstm, "lstm", "projection_dim"),
            n_layers=positive(lstm, "lstm", "n_layers", default=1, most=MOST_LAYERS),
            cell_clip=clip(lstm, "cell_clip"),
            projection_clip=clip(lstm, "proj_clip"),
            use_skip_connections=flag(lstm, "use_skip_connections"),
        )
        if options.projection_dim > options.cell_dim:
            # bilm-tf only projects down: its layers would have unequal widths.
            raise OptionsError(
                f"'lstm.projection_dim': expected at most 'lstm.dim', {options.cell_dim}, got {options.projection_dim}"
            )
        check_parameters(options.n_parameters)
        return options

    def to_dict(self) -> dict[str, Any]:
        """Return the `lstm` block of `options.json`."""
        return {
            "cell_clip": self.cell_clip,
            "dim": self.cell_dim,
            "n_layers": self.n_layers,
            "proj_clip": self.projection_clip,
            "projection_dim": self.projection_dim,
            "use_skip_connections": self.use_skip_connections,
        }


@dataclass(frozen=True)
class BiLMOptions:
    """Hold the sizes of a whole biLM: its LSTM and one token encoder.

    >>> options = BiLMOptions.from_dict({"lstm": {"dim": 64, "projection_dim": 16, "n_layers": 2}, "n_tokens_vocab": 9})
    >>> options.num_layers, options.layer_dim, options.reads_words
    (3, 32, True)

    # Parameters

    lstm : `LstmOptions`
    char_cnn : `Optional[CharCnnOptions]`
        The character encoder; `None` if the biLM has another token encoder.
    n_tokens_vocab : `Optional[int]`
        V, the size of the vocabulary, including `<S> </S> <UNK>`. Word-input models and the softmax need it.
    many_langs : `Optional[ManyLangsOptions]`
        The encoder of ELMoForManyLangs (`lexicon` in `options.json`). bilm-tf has no such key.
    boundary_ids : `tuple[int, int]`
        The ids of `<S>` and `</S>` in a word-input model: their lines in its vocabulary file, counted from 1. bilm-tf
        has no such key; it looks them up in the file each time.
    contextualizer : `Optional[Mapping[str, Any]]`
        The config of a `Seq2SeqEncoder` that replaces the LSTMs. Then only `projection_dim` of `lstm` is used.
    """

    lstm: LstmOptions
    char_cnn: Optional[CharCnnOptions] = None
    n_tokens_vocab: Optional[int] = None
    many_langs: Optional[ManyLangsOptions] = None
    boundary_ids: tuple[int, int] = BOUNDARY_IDS
    contextualizer: Optional[Mapping[str, Any]] = None

    @property
    def reads_words(self) -> bool:
        """Return whether the biLM reads the ids of words in a vocabulary file, and not their characters."""
        return self.char_cnn is None and self.many_langs is None

    @property
    def num_layers(self) -> int:
        """Return L: the LSTM layers, or only the last layer of another contextualizer, plus the token layer."""
        return 1 + (self.lstm.n_layers if self.contextualizer is None else 1)

    @property
    def layer_dim(self) -> int:
        """Return D = 2P, the width of both directions of a layer side by side."""
        return 2 * self.lstm.projection_dim

    @property
    def n_parameters(self) -> int:
        """Return the number of parameters, without those of another contextualizer."""
        width = self.lstm.projection_dim
        lstm = self.lstm.n_parameters if self.contextualizer is None else 0
        if self.many_langs is not None:
            return lstm + self.many_langs.n_parameters(width)
        if self.char_cnn is None:
            return lstm + ((self.n_tokens_vocab or 0) + 1) * width
        size = self.char_cnn.n_filters
        projection = (size + 1) * width if size != width else 0
        return lstm + self.char_cnn.n_parameters(N_CHARACTERS) + projection

    @classmethod
    def from_dict(cls, options: Mapping[str, Any]) -> "BiLMOptions":
        """Read the content of an `options.json`. Keys that are not sizes, such as training options, are ignored.

        Raises `OptionsError` for a key that is missing or has a wrong value.
        """
        if not isinstance(options, Mapping):
            raise OptionsError(f"expected an object with the key 'lstm', got a {type(options).__name__}")
        char_cnn, lexicon = (
            object_under(options, "", key) if options.get(key) is not None else None for key in ("char_cnn", "lexicon")
        )
        if char_cnn is not None and lexicon is not None:
            raise OptionsError("expected 'char_cnn' or 'lexicon', got both")
        n_tokens_vocab, contextualizer = options.get("n_tokens_vocab"), options.get("contextualizer")
        sizes = cls(
            lstm=LstmOptions.from_dict(object_under(options, "", "lstm")),
            char_cnn=None if char_cnn is None else CharCnnOptions.from_dict(char_cnn),
            n_tokens_vocab=None if n_tokens_vocab is None else positive(options, "", "n_tokens_vocab"),
            many_langs=None if lexicon is None else ManyLangsOptions.from_dict(lexicon),
            boundary_ids=boundary_ids(options) if options.get("boundary_ids") is not None else BOUNDARY_IDS,
            contextualizer=None if contextualizer is None else object_under(options, "", "contextualizer"),
        )
        check_parameters(sizes.n_parameters)
        return sizes

    def to_dict(self) -> dict[str, Any]:
        """Return the content of an `options.json`; `from_dict` is the inverse."""
        options: dict[str, Any] = {"lstm": self.lstm.to_dict()}
        if self.char_cnn is not None:
            options["char_cnn"] = self.char_cnn.to_dict()
        if self.n_tokens_vocab is not None:
            options["n_tokens_vocab"] = self.n_tokens_vocab
        if self.many_langs is not None:
            options["lexicon"] = self.many_langs.to_dict()
        if self.boundary_ids != BOUNDARY_IDS:
            options["boundary_ids"] = list(self.boundary_ids)
        if self.contextualizer is not None:
            options["contextualizer"] = dict(self.contextualizer)
        return options
