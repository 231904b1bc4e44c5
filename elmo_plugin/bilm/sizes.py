"""The sizes of a biLM, by their names in bilm-tf's `options.json`.

The keys and defaults come from `bilm/training.py` and `bilm/model.py` of bilm-tf; the block `lexicon` is ours, for
ELMoForManyLangs. A wrong value raises a `ConfigurationError` that names its key.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from allennlp.common.checks import ConfigurationError

from elmo_plugin.common import check_value
from elmo_plugin.text import N_CHARACTERS

# Files from strangers have sizes too. These bounds keep a small file from asking for more than any machine holds.
MOST_LAYERS = 1000
MOST_CHARACTERS = 10_000
MOST_NUMBERS_OF_WORD = 2**20
"""The most numbers that the convolutions read and write for a word: 103,200 at the original size."""
MOST_CLIP = 1e30
"""The largest clip. Float32 cannot hold numbers above 3e38."""
MOST_ROWS = 2**28
"""The most words and the largest width."""

ACTIVATIONS = ("relu", "tanh")
WORD_MARKS = ("<oov>",)
CHARACTER_MARKS = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")
"""Entries that the vocabularies of ELMoForManyLangs must contain."""
BOUNDARY_IDS = (1, 2)
"""The lines of `<S>` and `</S>` in a vocabulary file, counted from 1, as bilm-tf's README recommends."""


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

    @classmethod
    def from_dict(cls, char_cnn: Mapping[str, Any]) -> "CharCnnOptions":
        """Read the `char_cnn` block. `n_characters` is 261 in training runs and 262 in trained models."""
        n_characters = char_cnn.get("n_characters", N_CHARACTERS)
        if n_characters not in (N_CHARACTERS - 1, N_CHARACTERS):
            raise ConfigurationError(f"'char_cnn.n_characters': expected 261 or 262, got {n_characters!r}")
        activation = char_cnn.get("activation", "relu")
        if activation not in ACTIVATIONS:
            raise ConfigurationError(f"'char_cnn.activation': expected {' or '.join(ACTIVATIONS)}, got {activation!r}")
        embedding = read(char_cnn, "char_cnn.embedding", Mapping[str, Any])
        max_characters = whole_number(char_cnn, "char_cnn.max_characters_per_token", 3, MOST_CHARACTERS, default=50)
        pairs = read(char_cnn, "char_cnn.filters", Sequence[Sequence[int]])
        if not pairs or any(len(pair) != 2 or min(pair) < 1 for pair in pairs):
            raise ConfigurationError(f"'char_cnn.filters': expected a list of [width, channels] pairs, got {pairs!r}")
        if len(pairs) > MOST_LAYERS:
            raise ConfigurationError(f"'char_cnn.filters': expected at most {MOST_LAYERS:,} pairs, got {len(pairs):,}")
        widest = max(width for width, _ in pairs)
        if widest > max_characters:
            raise ConfigurationError(
                f"'char_cnn.filters': expected widths up to 'max_characters_per_token', {max_characters}, got {widest}"
            )
        options = cls(
            filters=tuple((width, channels) for width, channels in pairs),
            embedding_dim=whole_number(embedding, "char_cnn.embedding.dim"),
            max_characters_per_token=max_characters,
            n_highway=whole_number(char_cnn, "char_cnn.n_highway", 0, MOST_LAYERS, default=0),
            activation=activation,
        )
        numbers = max_characters * (options.embedding_dim + options.n_filters)
        if numbers > MOST_NUMBERS_OF_WORD:
            raise ConfigurationError(
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

    @classmethod
    def from_dict(cls, lexicon: Mapping[str, Any]) -> "ManyLangsOptions":
        """Read the `lexicon` block."""
        shortest = len(CHARACTER_MARKS[0]) + 2  # `<bos>` is read as a word, and must not be cut
        max_characters = whole_number(
            lexicon, "lexicon.max_characters_per_token", shortest, MOST_CHARACTERS, default=50
        )
        word_dim = whole_number(lexicon, "lexicon.word_dim", 0, default=0)
        char_cnn = read(lexicon, "lexicon.char_cnn", Mapping[str, Any], default=None)
        if char_cnn is not None:
            char_cnn = CharCnnOptions.from_dict({**char_cnn, "max_characters_per_token": max_characters})
        if char_cnn is None and not word_dim:
            raise ConfigurationError("'lexicon': expected 'char_cnn', 'word_dim' or both, got neither")
        return cls(
            words=entries(lexicon, "lexicon.words", WORD_MARKS) if word_dim else (),
            word_dim=word_dim,
            characters=entries(lexicon, "lexicon.characters", CHARACTER_MARKS) if char_cnn else (),
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

    @classmethod
    def from_dict(cls, lstm: Mapping[str, Any]) -> "LstmOptions":
        """Read the `lstm` block."""
        options = cls(
            cell_dim=whole_number(lstm, "lstm.dim"),
            projection_dim=whole_number(lstm, "lstm.projection_dim"),
            n_layers=whole_number(lstm, "lstm.n_layers", most=MOST_LAYERS, default=1),
            cell_clip=read(lstm, "lstm.cell_clip", float, default=None) or None,  # 0 means no clip
            projection_clip=read(lstm, "lstm.proj_clip", float, default=None) or None,
            use_skip_connections=read(lstm, "lstm.use_skip_connections", bool, default=False),
        )
        for key, clip in (("cell_clip", options.cell_clip), ("proj_clip", options.projection_clip)):
            if clip is not None and not 0 <= clip <= MOST_CLIP:
                raise ConfigurationError(f"'lstm.{key}': expected a number from 0 to {MOST_CLIP}, got {clip}")
        if options.projection_dim > options.cell_dim:
            # bilm-tf only projects down: its layers would have unequal widths.
            raise ConfigurationError(
                f"'lstm.projection_dim': expected at most 'lstm.dim', {options.cell_dim}, got {options.projection_dim}"
            )
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
    language : `Optional[str]`
        The code of the language that the biLM was trained on, in which raw text is tokenized. bilm-tf has no such key.
    """

    lstm: LstmOptions
    char_cnn: Optional[CharCnnOptions] = None
    n_tokens_vocab: Optional[int] = None
    many_langs: Optional[ManyLangsOptions] = None
    boundary_ids: tuple[int, int] = BOUNDARY_IDS
    contextualizer: Optional[Mapping[str, Any]] = None
    language: Optional[str] = field(default=None, compare=False)  # the answers do not depend on it

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

    @classmethod
    def from_dict(cls, options: Mapping[str, Any]) -> "BiLMOptions":
        """Read the content of an `options.json`. Keys that are not sizes, such as training options, are ignored.

        Raises `ConfigurationError` for a key that is missing or has a wrong value.
        """
        if not isinstance(options, Mapping):
            raise ConfigurationError(f"expected an object with the key 'lstm', got a {type(options).__name__}")
        block = Mapping[str, Any]
        char_cnn = read(options, "char_cnn", block, default=None)
        lexicon = read(options, "lexicon", block, default=None)
        if char_cnn is not None and lexicon is not None:
            raise ConfigurationError("expected 'char_cnn' or 'lexicon', got both")
        n_tokens_vocab = whole_number(options, "n_tokens_vocab", default=None)
        boundaries = read(options, "boundary_ids", Sequence[int], default=None)
        if boundaries is not None:
            if len(boundaries) != 2 or boundaries[0] == boundaries[1]:
                raise ConfigurationError(f"'boundary_ids': expected the two ids of <S> and </S>, got {boundaries!r}")
            if min(boundaries) < 1 or max(boundaries) > (n_tokens_vocab or MOST_ROWS):
                raise ConfigurationError(f"'boundary_ids': expected ids from 1 to 'n_tokens_vocab', got {boundaries!r}")
        language = read(options, "language", str, default=None)
        if language is not None and not re.fullmatch("[a-z]{2,3}", language):
            raise ConfigurationError(f"'language': expected the code of a language, such as 'de', got {language!r}")
        return cls(
            lstm=LstmOptions.from_dict(read(options, "lstm", block)),
            char_cnn=None if char_cnn is None else CharCnnOptions.from_dict(char_cnn),
            n_tokens_vocab=n_tokens_vocab,
            many_langs=None if lexicon is None else ManyLangsOptions.from_dict(lexicon),
            boundary_ids=BOUNDARY_IDS if boundaries is None else (boundaries[0], boundaries[1]),
            contextualizer=read(options, "contextualizer", block, default=None),
            language=language,
        )

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
        if self.language is not None:
            options["language"] = self.language
        return options


REQUIRED = object()


def read(block: Mapping[str, Any], path: str, kind: Any, default: Any = REQUIRED) -> Any:
    """Return the value of the key at the end of `path`, checked against a type. Null and no key mean the default."""
    value = block.get(path.rpartition(".")[2])
    if value is not None:
        check_value(path, value, kind)
        return value
    if default is REQUIRED:
        raise ConfigurationError(f"'{path}': expected this key, got the keys {sorted(block)}")
    return default


def whole_number(
    block: Mapping[str, Any], path: str, least: int = 1, most: int = MOST_ROWS, default: Any = REQUIRED
) -> Any:
    """Return the number from `least` to `most` of the key at the end of `path`, or the default."""
    number = read(block, path, int, default)
    if number is not None and not least <= number <= most:
        raise ConfigurationError(f"'{path}': expected a whole number from {least} to {most:,}, got {number}")
    return number


def entries(lexicon: Mapping[str, Any], path: str, marks: Sequence[str]) -> tuple[str, ...]:
    """Return the strings of a vocabulary: each occurs once, and all marks are among them."""
    values = read(lexicon, path, Any)
    if not isinstance(values, list | tuple) or not all(isinstance(entry, str) for entry in values):
        raise ConfigurationError(f"'{path}': expected a list of strings, got a {type(values).__name__}")
    different = set(values)
    if len(different) < len(values):
        raise ConfigurationError(
            f"'{path}': expected each entry once, got {len(values):,} entries, {len(different):,} different"
        )
    missing = [mark for mark in marks if mark not in different]
    if missing:
        raise ConfigurationError(
            f"'{path}': expected {', '.join(marks)} among the entries, got no {', '.join(missing)}"
        )
    return tuple(values)
