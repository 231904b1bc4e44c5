"""Sizes of the LSTM, the block `lstm`, and of the whole biLM.

Source: `bilm/training.py` and `bilm/model.py` of bilm-tf, which read these keys and default them as here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from elmo_plugin.options.encoders import N_CHARACTERS, CharCnnOptions, ManyLangsOptions
from elmo_plugin.options.values import (
    MOST_LAYERS,
    OptionsError,
    block,
    boundary_ids,
    check_parameters,
    clip,
    flag,
    positive,
)

BOUNDARY_IDS = (1, 2)
"""Where bilm-tf's README on training wants `<S>` and `</S>` in a vocabulary file."""


@dataclass(frozen=True)
class LstmOptions:
    """Sizes of the stacked bidirectional LSTM with projection (`lstm` in `options.json`).

    # Parameters

    cell_dim : `int`
        H, width of the memory cell (`dim`).
    projection_dim : `int`
        P, width of one direction's output and of a token vector.
    n_layers : `int`
    cell_clip, projection_clip : `Optional[float]`
        Bounds on the cell and on the projected output (`cell_clip`, `proj_clip`); absent, null or 0 for none.
    use_skip_connections : `bool`
        Add a layer's input to its output, from the second layer on.
    """

    cell_dim: int
    projection_dim: int
    n_layers: int = 1
    cell_clip: Optional[float] = None
    projection_clip: Optional[float] = None
    use_skip_connections: bool = False

    @property
    def has_projection(self) -> bool:
        """Whether a matrix takes the cell's H to P; bilm-tf leaves it out where the two are equal."""
        return self.projection_dim != self.cell_dim

    @property
    def n_parameters(self) -> int:
        """Numbers to learn, both directions."""
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
            # bilm-tf would then emit cells of `dim` over token vectors of `projection_dim`: layers of unequal width.
            raise OptionsError(
                f"'lstm.projection_dim' is {options.projection_dim}; wanted at most 'lstm.dim', {options.cell_dim}"
            )
        check_parameters(options.n_parameters)
        return options

    def to_dict(self) -> dict[str, Any]:
        """The `lstm` block of `options.json`."""
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
    """Sizes of a whole biLM: its LSTM and its token encoder, of characters or of words.

    # Parameters

    lstm : `LstmOptions`
    char_cnn : `Optional[CharCnnOptions]`
        `None` for a word-input model and for one with a lexicon.
    n_tokens_vocab : `Optional[int]`
        V, rows of the vocabulary, `<S> </S> <UNK>` included; needed by word-input models and by the softmax.
    lexicon : `Optional[ManyLangsOptions]`
        Of a model of ELMoForManyLangs. No key of bilm-tf's.
    boundary_ids : `tuple[int, int]`
        The ids of `<S>` and `</S>` in a word-input model: their lines in its vocabulary file, counted from 1. No key of
        bilm-tf's, which looks them up in the file each time.
    """

    lstm: LstmOptions
    char_cnn: Optional[CharCnnOptions] = None
    n_tokens_vocab: Optional[int] = None
    lexicon: Optional[ManyLangsOptions] = None
    boundary_ids: tuple[int, int] = BOUNDARY_IDS

    @property
    def reads_words(self) -> bool:
        """Whether the biLM reads words by a vocabulary file, and not their characters."""
        return self.char_cnn is None and self.lexicon is None

    @property
    def num_layers(self) -> int:
        """L: the LSTM's layers and the token layer below them."""
        return self.lstm.n_layers + 1

    @property
    def layer_dim(self) -> int:
        """D = 2P: both directions of a layer side by side."""
        return 2 * self.lstm.projection_dim

    @property
    def n_parameters(self) -> int:
        """Numbers to learn."""
        width = self.lstm.projection_dim
        if self.lexicon is not None:
            return self.lstm.n_parameters + self.lexicon.n_parameters(width)
        if self.char_cnn is None:
            return self.lstm.n_parameters + ((self.n_tokens_vocab or 0) + 1) * width
        size = self.char_cnn.n_filters
        projection = (size + 1) * width if size != width else 0
        return self.lstm.n_parameters + self.char_cnn.n_parameters(N_CHARACTERS) + projection

    @classmethod
    def from_dict(cls, options: Mapping[str, Any]) -> "BiLMOptions":
        """Read the content of an `options.json`; keys of the training run that say nothing of sizes are ignored.

        Raises `OptionsError` where a key is missing or makes no sense.
        """
        if not isinstance(options, Mapping):
            raise OptionsError(f"the options are {type(options).__name__}; wanted an object with the key 'lstm'")
        char_cnn, lexicon = (
            block(options, "", key) if options.get(key) is not None else None for key in ("char_cnn", "lexicon")
        )
        if char_cnn is not None and lexicon is not None:
            raise OptionsError("the options have both 'char_cnn' and 'lexicon'; wanted the one inside the other")
        n_tokens_vocab = options.get("n_tokens_vocab")
        sizes = cls(
            lstm=LstmOptions.from_dict(block(options, "", "lstm")),
            char_cnn=None if char_cnn is None else CharCnnOptions.from_dict(char_cnn),
            n_tokens_vocab=None if n_tokens_vocab is None else positive(options, "", "n_tokens_vocab"),
            lexicon=None if lexicon is None else ManyLangsOptions.from_dict(lexicon),
            boundary_ids=boundary_ids(options) if options.get("boundary_ids") is not None else BOUNDARY_IDS,
        )
        check_parameters(sizes.n_parameters)
        return sizes

    def to_dict(self) -> dict[str, Any]:
        """The content of an `options.json`; `from_dict` reads it back equal."""
        options: dict[str, Any] = {"lstm": self.lstm.to_dict()}
        if self.char_cnn is not None:
            options["char_cnn"] = self.char_cnn.to_dict()
        if self.n_tokens_vocab is not None:
            options["n_tokens_vocab"] = self.n_tokens_vocab
        if self.lexicon is not None:
            options["lexicon"] = self.lexicon.to_dict()
        if self.boundary_ids != BOUNDARY_IDS:
            options["boundary_ids"] = list(self.boundary_ids)
        return options
