"""Sizes of what makes token vectors: the block `char_cnn` of bilm-tf, and `lexicon`, of ELMoForManyLangs.

Source: `bilm/training.py` and `bilm/model.py` of bilm-tf, which read these keys and default them as here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from elmo_plugin.options.values import (
    MOST_CHARACTERS,
    MOST_LAYERS,
    OptionsError,
    block,
    count,
    entries,
    filters,
    positive,
    wanted,
)

ACTIVATIONS = ("relu", "tanh")
N_CHARACTERS = 262
"""Rows of a table of bilm-tf's characters: 256 bytes, five marks, and row 0 for what is masked."""
WORD_MARKS = ("<oov>",)
CHARACTER_MARKS = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")
"""Entries without which ELMoForManyLangs runs no lexicon."""


@dataclass(frozen=True)
class CharCnnOptions:
    """Sizes of the character encoder (`char_cnn` in `options.json`).

    # Parameters

    filters : `tuple` of `(width, channels)` pairs, one for each convolution.
    embedding_dim : `int`
        Width of a character's vector.
    max_characters_per_token : `int`
        C: a word's bytes, its begin and end marks and its padding; at least 3, so that a boundary has its mark.
    n_highway : `int`
        Highway layers after the convolutions; 0 for none.
    activation : `str`
        `relu` or `tanh`, after max-pooling.
    """

    filters: tuple[tuple[int, int], ...]
    embedding_dim: int
    max_characters_per_token: int = 50
    n_highway: int = 0
    activation: str = "relu"

    @property
    def n_filters(self) -> int:
        """Channels of all convolutions together: the width of a token before the projection."""
        return sum(channels for _, channels in self.filters)

    def n_parameters(self, n_characters: int) -> int:
        """Numbers to learn, the projection left out, with a table of so many rows."""
        dim, size = self.embedding_dim, self.n_filters
        convolutions = sum((width * dim + 1) * channels for width, channels in self.filters)
        return n_characters * dim + convolutions + self.n_highway * (size + 1) * 2 * size

    @classmethod
    def from_dict(cls, char_cnn: Mapping[str, Any]) -> "CharCnnOptions":
        """Read the `char_cnn` block. `n_characters` (261 in training runs, 262 in trained models) is checked only."""
        n_characters = char_cnn.get("n_characters", N_CHARACTERS)
        if n_characters not in (N_CHARACTERS - 1, N_CHARACTERS):
            raise OptionsError(f"'char_cnn.n_characters' is {n_characters!r}; wanted 261 or 262")
        activation = char_cnn.get("activation", "relu")
        if activation not in ACTIVATIONS:
            raise OptionsError(f"'char_cnn.activation' is {activation!r}; wanted one of {', '.join(ACTIVATIONS)}")
        n_highway = char_cnn.get("n_highway")
        max_characters = count(
            char_cnn.get("max_characters_per_token", 50), "char_cnn.max_characters_per_token", 3, MOST_CHARACTERS
        )
        return cls(
            filters=filters(wanted(char_cnn, "char_cnn", "filters"), max_characters),
            embedding_dim=positive(block(char_cnn, "char_cnn", "embedding"), "char_cnn.embedding", "dim"),
            max_characters_per_token=max_characters,
            n_highway=0 if n_highway is None else count(n_highway, "char_cnn.n_highway", 0, MOST_LAYERS),
            activation=activation,
        )

    def to_dict(self) -> dict[str, Any]:
        """The `char_cnn` block as a trained bilm-tf model carries it."""
        return {
            "activation": self.activation,
            "embedding": {"dim": self.embedding_dim},
            "filters": [list(pair) for pair in self.filters],
            "max_characters_per_token": self.max_characters_per_token,
            "n_characters": N_CHARACTERS,
            "n_highway": self.n_highway,
        }


@dataclass(frozen=True)
class ManyLangsOptions:
    """The token encoder of ELMoForManyLangs: it reads characters, words, or both, by lexicons of its own (`lexicon`).

    Entry i of a lexicon has id i + 1; 0 is masked. An empty lexicon is not read.

    # Parameters

    words : `tuple[str, ...]`
    word_dim : `int`
        Width of a word's vector; 0 without words.
    characters : `tuple[str, ...]`
        Unicode characters.
    char_cnn : `Optional[CharCnnOptions]`
        `None` without characters.
    max_characters_per_token : `int`
        C, its two marks included. A word is cut to C − 2 characters, also where only words are read.
    """

    words: tuple[str, ...] = field(default=(), repr=False)
    word_dim: int = 0
    characters: tuple[str, ...] = field(default=(), repr=False)
    char_cnn: Optional[CharCnnOptions] = None
    max_characters_per_token: int = 50

    @property
    def dim(self) -> int:
        """Width of a token before the projection."""
        return self.word_dim + (0 if self.char_cnn is None else self.char_cnn.n_filters)

    def n_parameters(self, output_dim: int) -> int:
        """Numbers to learn, the projection to `output_dim` included."""
        characters = 0 if self.char_cnn is None else self.char_cnn.n_parameters(len(self.characters) + 1)
        words = (len(self.words) + 1) * self.word_dim if self.words else 0
        return characters + words + (self.dim + 1) * output_dim

    @classmethod
    def from_dict(cls, lexicon: Mapping[str, Any]) -> "ManyLangsOptions":
        """Read the `lexicon` block."""
        longest = lexicon.get("max_characters_per_token", 50)
        most = count(longest, "lexicon.max_characters_per_token", len(CHARACTER_MARKS[0]) + 2, MOST_CHARACTERS)
        char_cnn, word_dim = None, lexicon.get("word_dim")
        word_dim = 0 if word_dim is None else count(word_dim, "lexicon.word_dim")
        if lexicon.get("char_cnn") is not None:
            sizes = {**block(lexicon, "lexicon", "char_cnn"), "max_characters_per_token": most}
            char_cnn = CharCnnOptions.from_dict(sizes)
        if char_cnn is None and not word_dim:
            raise OptionsError("'lexicon' has neither 'char_cnn' nor 'word_dim'; wanted characters, words, or both")
        return cls(
            words=entries(lexicon, "words", WORD_MARKS) if word_dim else (),
            word_dim=word_dim,
            characters=entries(lexicon, "characters", CHARACTER_MARKS) if char_cnn else (),
            char_cnn=char_cnn,
            max_characters_per_token=most,
        )

    def to_dict(self) -> dict[str, Any]:
        """The `lexicon` block; `from_dict` reads it back equal."""
        lexicon: dict[str, Any] = {"max_characters_per_token": self.max_characters_per_token}
        if self.words:
            lexicon |= {"word_dim": self.word_dim, "words": list(self.words)}
        if self.char_cnn is not None:
            told = {"max_characters_per_token", "n_characters"}  # by the lexicon itself
            char_cnn = {key: value for key, value in self.char_cnn.to_dict().items() if key not in told}
            lexicon |= {"char_cnn": char_cnn, "characters": list(self.characters)}
        return lexicon
