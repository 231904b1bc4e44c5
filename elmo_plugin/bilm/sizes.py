"""The sizes of a biLM, by their names in bilm-tf's `options.json`.

The keys and defaults come from `bilm/training.py` and `bilm/model.py` of bilm-tf; the block `lexicon` is ours, for
ELMoForManyLangs. A wrong value raises a `ConfigurationError` that names its key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from allennlp.common.checks import ConfigurationError

from elmo_plugin.text import N_CHARACTERS

MOST = 2**63 - 1
"""The largest integer that torch accepts."""
MOST_LAYERS = 1000
MOST_CHARACTERS = 10_000
MOST_NUMBERS_OF_WORD = 2**20
"""The most numbers that the convolutions read and write for a word: 103,200 at the original size."""
MOST_CLIP = 1e18
"""The largest clip. A larger one would never clip anything."""
MOST_PARAMETERS = 10_000_000_000
"""No machine holds more parameters. A file that asks for more is damaged or malicious."""

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
            raise ConfigurationError(f"'char_cnn.n_characters': expected 261 or 262, got {n_characters!r}")
        activation = char_cnn.get("activation", "relu")
        if activation not in ACTIVATIONS:
            raise ConfigurationError(f"'char_cnn.activation': expected {' or '.join(ACTIVATIONS)}, got {activation!r}")
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
            raise ConfigurationError("'lexicon': expected 'char_cnn', 'word_dim' or both, got neither")
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
            raise ConfigurationError(
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

        Raises `ConfigurationError` for a key that is missing or has a wrong value.
        """
        if not isinstance(options, Mapping):
            raise ConfigurationError(f"expected an object with the key 'lstm', got a {type(options).__name__}")
        char_cnn, lexicon = (
            object_under(options, "", key) if options.get(key) is not None else None for key in ("char_cnn", "lexicon")
        )
        if char_cnn is not None and lexicon is not None:
            raise ConfigurationError("expected 'char_cnn' or 'lexicon', got both")
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


def required(block: Mapping[str, Any], path: str, key: str) -> Any:
    """Return the value of a key that must exist."""
    if key not in block:
        raise ConfigurationError(f"'{_name(path, key)}': expected this key, got the keys {sorted(block)}")
    return block[key]


def object_under(options: Mapping[str, Any], path: str, key: str) -> Mapping[str, Any]:
    """Return the value of a key that must hold an object."""
    value = required(options, path, key)
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"'{_name(path, key)}': expected an object, got {value!r}")
    return value


def integer(value: Any, name: str, least: int = 0, most: int = MOST) -> int:
    """Return an integer from `least` to `most`; `name` is the full key."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(f"'{name}': expected a whole number of {least} or more, got {value!r}")
    if value > most:
        raise ConfigurationError(f"'{name}': expected at most {most:,}, got {value!r}")
    return value


def positive(block: Mapping[str, Any], path: str, key: str, default: Optional[int] = None, most: int = MOST) -> int:
    """Return the value of a key that holds an integer of 1 or more."""
    value = required(block, path, key) if default is None else block.get(key, default)
    return integer(value, _name(path, key), 1, most)


def flag(lstm: Mapping[str, Any], key: str) -> bool:
    """Return a truth value of the `lstm` block; a missing key and null mean false."""
    value = lstm.get(key)
    if value is not None and not isinstance(value, bool):
        raise ConfigurationError(f"'lstm.{key}': expected true or false, got {value!r}")
    return bool(value)


def clip(lstm: Mapping[str, Any], key: str) -> Optional[float]:
    """Return a clip of the `lstm` block; a missing key, null and 0 mean no clip."""
    value = lstm.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MOST_CLIP:
        raise ConfigurationError(f"'lstm.{key}': expected null or a number from 0 to {MOST_CLIP:g}, got {value!r}")
    return value or None


def boundary_ids(options: Mapping[str, Any]) -> tuple[int, int]:
    """Return the ids of `<S>` and `</S>`, two different lines of a vocabulary file."""
    ids, most = options["boundary_ids"], options.get("n_tokens_vocab") or MOST
    if not isinstance(ids, (list, tuple)) or len(ids) != 2 or ids[0] == ids[1]:
        raise ConfigurationError(f"'boundary_ids': expected the two ids of <S> and </S>, got {ids!r}")
    return integer(ids[0], "boundary_ids", 1, most), integer(ids[1], "boundary_ids", 1, most)


def filters(pairs: Any, max_characters: int) -> tuple[tuple[int, int], ...]:
    """Return the width and channels of each convolution. None may be wider than a word."""
    try:
        checked = tuple((integer(width, "width", 1), integer(channels, "channels", 1)) for width, channels in pairs)
    except (TypeError, ValueError, ConfigurationError):
        checked = ()
    if not checked:
        raise ConfigurationError(f"'char_cnn.filters': expected a list of [width, channels] pairs, got {pairs!r}")
    widest = max(width for width, _ in checked)
    if widest > max_characters:
        raise ConfigurationError(
            f"'char_cnn.filters': expected widths up to 'max_characters_per_token', {max_characters}, got {widest}"
        )
    return checked


def entries(lexicon: Mapping[str, Any], key: str, marks: Sequence[str]) -> tuple[str, ...]:
    """Return the strings under a key of the `lexicon` block: each occurs once, and all marks are among them."""
    values = required(lexicon, "lexicon", key)
    if not isinstance(values, (list, tuple)) or not all(isinstance(entry, str) for entry in values):
        raise ConfigurationError(f"'lexicon.{key}': expected a list of strings, got a {type(values).__name__}")
    different = set(values)
    if len(different) < len(values):
        raise ConfigurationError(
            f"'lexicon.{key}': expected each entry once, got {len(values):,} entries, {len(different):,} different"
        )
    missing = [mark for mark in marks if mark not in different]
    if missing:
        raise ConfigurationError(
            f"'lexicon.{key}': expected {', '.join(marks)} among the entries, got no {', '.join(missing)}"
        )
    return tuple(values)


def check_parameters(parameters: int) -> None:
    """Raise `ConfigurationError` for more parameters than any machine holds."""
    if parameters > MOST_PARAMETERS:
        raise ConfigurationError(f"the options ask for {parameters:,} parameters; expected at most {MOST_PARAMETERS:,}")


def _name(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
