"""Sizes of the token encoders: the block `char_cnn` of bilm-tf, and our block `lexicon` for ELMoForManyLangs.

The keys and defaults of `char_cnn` come from `bilm/training.py` and `bilm/model.py` of bilm-tf.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from elmo_plugin.options.values import (
    MOST_CHARACTERS,
    MOST_LAYERS,
    MOST_NUMBERS_OF_WORD,
    OptionsError,
    entries,
    filters,
    integer,
    object_under,
    positive,
    required,
)

ACTIVATIONS = ("relu", "tanh")
N_CHARACTERS = 262
"""The rows of bilm-tf's character embedding: 256 bytes, five marks, and row 0 for masked positions."""
WORD_MARKS = ("<oov>",)
CHARACTER_MARKS = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")
"""Entries that the vocabularies of ELMoForManyLangs must contain."""


@dataclass(frozen=True)
class CharCnnOptions:
    """Hold the sizes of the character encoder (`char_cnn` in `options.json`).

    # Parameters

    filters : `tuple[tuple[int, int], ...]`
        The width and the number of channels of each convolution.
    embedding_dim : `int`
        The width of a character's vector.
    max_characters_per_token : `int`
        C: the bytes of a word, its begin and end marks and its padding; at least 3.
    n_highway : `int`
        The number of highway layers after the convolutions.
    activation : `str`
        The activation after max-pooling, `relu` or `tanh`.
    """

    filters: tuple[tuple[int, int], ...]
    embedding_dim: int
    max_characters_per_token: int = 50
    n_highway: int = 0
    activation: str = "relu"

    @property
    def n_filters(self) -> int:
        """Return the number of channels of all convolutions together, the width of a token before the projection."""
        return sum(channels for _, channels in self.filters)

    def n_parameters(self, n_characters: int) -> int:
        """Return the number of parameters without the projection, for a table of `n_characters` rows."""
        dim, size = self.embedding_dim, self.n_filters
        convolutions = sum((width * dim + 1) * channels for width, channels in self.filters)
        return n_characters * dim + convolutions + self.n_highway * (size + 1) * 2 * size

    @classmethod
    def from_dict(cls, char_cnn: Mapping[str, Any]) -> "CharCnnOptions":
        """Read the `char_cnn` block. `n_characters` is 261 in training runs and 262 in trained models."""
        n_characters = char_cnn.get("n_characters", N_CHARACTERS)
        if n_characters not in (N_CHARACTERS - 1, N_CHARACTERS):
            raise OptionsError(f"'char_cnn.n_characters': expected 261 or 262, got {n_characters!r}")
        activation = char_cnn.get("activation", "relu")
        if activation not in ACTIVATIONS:
            raise OptionsError(f"'char_cnn.activation': expected {' or '.join(ACTIVATIONS)}, got {activation!r}")
        n_highway = char_cnn.get("n_highway")
        max_characters = integer(
            char_cnn.get("max_characters_per_token", 50), "char_cnn.max_characters_per_token", 3, MOST_CHARACTERS
        )
        options = cls(
            filters=filters(required(char_cnn, "char_cnn", "filters"), max_characters),
            embedding_dim=positive(object_under(char_cnn, "char_cnn", "embedding"), "char_cnn.embedding", "dim"),
            max_characters_per_token=max_characters,
            n_highway=0 if n_highway is None else integer(n_highway, "char_cnn.n_highway", 0, MOST_LAYERS),
            activation=activation,
        )
        numbers = max_characters * (options.embedding_dim + options.n_filters)
        if numbers > MOST_NUMBERS_OF_WORD:
            raise OptionsError(
                f"'char_cnn': expected 'max_characters_per_token' times the sum of 'embedding.dim' and the channels of "
                f"'filters' to be at most {MOST_NUMBERS_OF_WORD:,}, got {numbers:,}"
            )
        return options

    def to_dict(self) -> dict[str, Any]:
        """Return the `char_cnn` block as it is in the options of a trained bilm-tf model."""
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
    """Hold the sizes and vocabularies of ELMoForManyLangs' token encoder (`lexicon` in `options.json`).

    The encoder reads characters, words, or both. Entry i of a vocabulary has the id i + 1, because 0 is the mask.

    # Parameters

    words : `tuple[str, ...]`
        The vocabulary of words; empty for an encoder that reads characters only.
    word_dim : `int`
        The width of a word's vector; 0 without words.
    characters : `tuple[str, ...]`
        The vocabulary of Unicode characters; empty for an encoder that reads words only.
    char_cnn : `Optional[CharCnnOptions]`
        The sizes of the character encoder; `None` for an encoder that reads words only.
    max_characters_per_token : `int`
        C, including the two marks. Words are cut to C − 2 characters, even if only words are read.
    """

    words: tuple[str, ...] = field(default=(), repr=False)
    word_dim: int = 0
    characters: tuple[str, ...] = field(default=(), repr=False)
    char_cnn: Optional[CharCnnOptions] = None
    max_characters_per_token: int = 50

    @property
    def dim(self) -> int:
        """Return the width of a token before the projection."""
        return self.word_dim + (0 if self.char_cnn is None else self.char_cnn.n_filters)

    def n_parameters(self, output_dim: int) -> int:
        """Return the number of parameters, with the projection to `output_dim`."""
        characters = 0 if self.char_cnn is None else self.char_cnn.n_parameters(len(self.characters) + 1)
        words = (len(self.words) + 1) * self.word_dim if self.words else 0
        return characters + words + (self.dim + 1) * output_dim

    @classmethod
    def from_dict(cls, lexicon: Mapping[str, Any]) -> "ManyLangsOptions":
        """Read the `lexicon` block."""
        shortest = len(CHARACTER_MARKS[0]) + 2  # `<bos>` is read as a word, and must not be cut
        max_characters = integer(
            lexicon.get("max_characters_per_token", 50), "lexicon.max_characters_per_token", shortest, MOST_CHARACTERS
        )
        char_cnn, word_dim = None, lexicon.get("word_dim")
        word_dim = 0 if word_dim is None else integer(word_dim, "lexicon.word_dim")
        if lexicon.get("char_cnn") is not None:
            sizes = {**object_under(lexicon, "lexicon", "char_cnn"), "max_characters_per_token": max_characters}
            char_cnn = CharCnnOptions.from_dict(sizes)
        if char_cnn is None and not word_dim:
            raise OptionsError("'lexicon': expected 'char_cnn', 'word_dim' or both, got neither")
        return cls(
            words=entries(lexicon, "words", WORD_MARKS) if word_dim else (),
            word_dim=word_dim,
            characters=entries(lexicon, "characters", CHARACTER_MARKS) if char_cnn else (),
            char_cnn=char_cnn,
            max_characters_per_token=max_characters,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the `lexicon` block; `from_dict` is the inverse."""
        lexicon: dict[str, Any] = {"max_characters_per_token": self.max_characters_per_token}
        if self.words:
            lexicon |= {"word_dim": self.word_dim, "words": list(self.words)}
        if self.char_cnn is not None:
            char_cnn = self.char_cnn.to_dict()
            del char_cnn["max_characters_per_token"], char_cnn["n_characters"]  # the `lexicon` block has both
            lexicon |= {"char_cnn": char_cnn, "characters": list(self.characters)}
        return lexicon
