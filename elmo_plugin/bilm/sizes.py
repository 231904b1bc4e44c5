"""The sizes of a biLM, by their names in bilm-tf's `options.json`.

The keys and defaults come from `bilm/training.py` and `bilm/model.py` of bilm-tf; the block `lexicon` is ours, for
ELMoForManyLangs. A wrong value raises a `ConfigurationError` that names its key. `option.py` reads, checks and writes
what the fields declare.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Optional

import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm.option import Block, Option
from elmo_plugin.common import Kind, kind_of
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

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}
"""The activations of bilm-tf, which could not read a file that names another one."""
CHARACTER_MARKS = ("<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>")
"""Entries that a vocabulary of characters of ELMoForManyLangs must contain; one of words contains `<oov>`."""
BOUNDARY_IDS = (1, 2)
"""The lines of `<S>` and `</S>` in a vocabulary file, counted from 1, as bilm-tf's README recommends."""


def number(least: int, most: float = MOST_ROWS, of: type = int) -> Kind:
    """Return the kind of numbers from `least` to `most`, whole ones by default."""
    name, is_number = kind_of(of)
    return f"{name} from {least} to {most:,}", lambda value: is_number(value) and least <= value <= most


def one_of(*choices: Any) -> Kind:
    """Return the kind of these values."""
    return " or ".join(map(str, choices)), lambda value: value in choices


def vocabulary(*marks: str) -> Kind:
    """Return the kind of lists of different strings with all of `marks` among them."""
    return (
        f"a list of different strings, among them {', '.join(marks)}",
        lambda value: (
            isinstance(value, list | tuple)
            and all(isinstance(entry, str) for entry in value)
            and len({*value}) == len(value)
            and {*marks} <= {*value}
        ),
    )


def _is_pairs(value: Any) -> bool:
    _, are_whole = kind_of(Sequence[Sequence[int]])
    return bool(value) and are_whole(value) and all(len(pair) == 2 and min(pair) >= 1 for pair in value)


of_bilm_tf = partial(Option, always=True)
"""Declare an option of bilm-tf, which writes its options even at their defaults."""
clip_of_bilm_tf = partial(of_bilm_tf, kind=number(0, MOST_CLIP, of=float), convert=lambda clip: clip or None)


@dataclass(frozen=True)
class CharCnnOptions(Block):
    """Hold the sizes of the character encoder (`char_cnn` in `options.json`).

    >>> CharCnnOptions(filters=((1, 32), (2, 64)), embedding_dim=16).n_filters
    96
    """

    path = "char_cnn."
    is_sorted = True

    filters: Annotated[
        tuple[tuple[int, int], ...],
        of_bilm_tf(
            "The width and the number of channels of each convolution.",
            (
                f"a list of at most {MOST_LAYERS:,} [width, channels] pairs",
                lambda value: _is_pairs(value) and len(value) <= MOST_LAYERS,
            ),
            convert=lambda pairs: tuple((width, channels) for width, channels in pairs),
        ),
    ]
    embedding_dim: Annotated[int, of_bilm_tf("The width of a character's vector.", number(1), "embedding.dim")]
    max_characters_per_token: Annotated[
        int,
        of_bilm_tf("C: the bytes of a word, its begin and end marks and its padding.", number(3, MOST_CHARACTERS)),
    ] = 50
    n_highway: Annotated[
        int, of_bilm_tf("The number of highway layers after the convolutions.", number(0, MOST_LAYERS))
    ] = 0
    activation: Annotated[str, of_bilm_tf("The activation after max-pooling.", one_of(*ACTIVATIONS))] = "relu"
    n_characters: Annotated[
        int,
        of_bilm_tf(
            "The number of character ids, 261 in training runs of bilm-tf and 262 in its trained models.",
            one_of(N_CHARACTERS - 1, N_CHARACTERS),
            convert=lambda _: N_CHARACTERS,
        ),
    ] = N_CHARACTERS

    @property
    def n_filters(self) -> int:
        """Return the number of channels of all convolutions together, the width of a token before the projection."""
        return sum(channels for _, channels in self.filters)

    def check(self) -> None:
        """Raise `ConfigurationError` for a filter wider than a word, and for a word that takes too much memory."""
        widest, most = max(width for width, _ in self.filters), self.max_characters_per_token
        if widest > most:
            raise ConfigurationError(
                f"'char_cnn.filters': expected widths up to 'max_characters_per_token', {most}, got {widest}"
            )
        numbers = most * (self.embedding_dim + self.n_filters)
        if numbers > MOST_NUMBERS_OF_WORD:
            raise ConfigurationError(
                f"'char_cnn': expected 'max_characters_per_token' times the sum of 'embedding.dim' and the channels of "
                f"'filters' to be at most {MOST_NUMBERS_OF_WORD:,}, got {numbers:,}"
            )


@dataclass(frozen=True, kw_only=True)
class ManyLangsOptions(Block):
    """Hold the sizes and vocabularies of ELMoForManyLangs' token encoder (`lexicon` in `options.json`).

    The encoder reads characters, words, or both. Entry i of a vocabulary has the id i + 1, because 0 is the mask.
    """

    path = "lexicon."

    max_characters_per_token: Annotated[
        int,
        Option(
            "C, including the two marks. Words are cut to C − 2 characters, even if only words are read.",
            number(len(CHARACTER_MARKS[0]) + 2, MOST_CHARACTERS),  # `<bos>` is read as a word, and must not be cut
            always=True,
        ),
    ] = 50
    word_dim: Annotated[int, Option("The width of a word's vector; 0 without words.", number(0))] = 0
    words: Annotated[
        tuple[str, ...],
        Option(
            "The vocabulary of words; none for an encoder that reads characters only.",
            vocabulary("<oov>"),
            convert=tuple,
        ),
    ] = field(default=(), repr=False)
    char_cnn: Annotated[
        Optional[CharCnnOptions],
        Option(
            "The sizes of the character encoder, as in `char_cnn`, without its `max_characters_per_token`; none for an "
            "encoder that reads words only."
        ),
    ] = None
    characters: Annotated[
        tuple[str, ...],
        Option(
            "The vocabulary of Unicode characters; none for an encoder that reads words only.",
            vocabulary(*CHARACTER_MARKS),
            convert=tuple,
        ),
    ] = field(default=(), repr=False)

    @property
    def dim(self) -> int:
        """Return the width of a token before the projection."""
        return self.word_dim + (0 if self.char_cnn is None else self.char_cnn.n_filters)

    @classmethod
    def from_dict(cls, block: Mapping[str, Any]) -> "ManyLangsOptions":
        """Read the `lexicon` block, whose characters per token are also those of its `char_cnn`."""
        char_cnn = block.get("char_cnn")
        if isinstance(char_cnn, Mapping):
            width = {"max_characters_per_token": block.get("max_characters_per_token")}
            block = {**block, "char_cnn": {**char_cnn, **width}}
        return super().from_dict(block)

    def check(self) -> None:
        """Raise `ConfigurationError` for a vocabulary without vectors, vectors without a vocabulary, and neither."""
        if self.char_cnn is None and not self.word_dim:
            raise ConfigurationError("'lexicon': expected 'char_cnn', 'word_dim' or both, got neither")
        for key, entries, reason, is_read in (
            ("words", self.words, "word_dim", self.word_dim > 0),
            ("characters", self.characters, "char_cnn", self.char_cnn is not None),
        ):
            if is_read != bool(entries):
                raise ConfigurationError(f"'lexicon.{key}': expected it together with '{reason}', got one of them")

    def to_dict(self) -> dict[str, Any]:
        """Return the `lexicon` block; `from_dict` is the inverse."""
        lexicon = super().to_dict()
        if "char_cnn" in lexicon:
            del lexicon["char_cnn"]["max_characters_per_token"], lexicon["char_cnn"]["n_characters"]
        return lexicon


@dataclass(frozen=True)
class LstmOptions(Block):
    """Hold the sizes of the stacked bidirectional LSTM with projection (`lstm` in `options.json`).

    >>> LstmOptions(cell_dim=4096, projection_dim=512, n_layers=2).has_projection
    True
    """

    path = "lstm."
    is_sorted = True

    cell_dim: Annotated[int, of_bilm_tf("H, the width of the memory cell.", number(1), "dim")]
    projection_dim: Annotated[
        int, of_bilm_tf("P, the width of one direction's output and of a token vector; at most `dim`.", number(1))
    ]
    n_layers: Annotated[int, of_bilm_tf("The number of LSTM layers.", number(1, MOST_LAYERS))] = 1
    cell_clip: Annotated[
        Optional[float],
        clip_of_bilm_tf("The largest absolute value of the cell; 0 for no bound."),
    ] = None
    projection_clip: Annotated[
        Optional[float],
        clip_of_bilm_tf("The same of the projected output.", key="proj_clip"),
    ] = None
    use_skip_connections: Annotated[
        bool, of_bilm_tf("Whether a layer's input is added to its output, from the second layer on.")
    ] = False

    @property
    def has_projection(self) -> bool:
        """Return whether a matrix projects H to P; bilm-tf has none if the two are equal."""
        return self.projection_dim != self.cell_dim

    def check(self) -> None:
        """Raise `ConfigurationError` for a projection to more: in bilm-tf the layers would have unequal widths."""
        if self.projection_dim > self.cell_dim:
            raise ConfigurationError(
                f"'lstm.projection_dim': expected at most 'lstm.dim', {self.cell_dim}, got {self.projection_dim}"
            )


@dataclass(frozen=True)
class BiLMOptions(Block):
    """Hold the sizes of a whole biLM: its LSTM and one token encoder.

    >>> options = BiLMOptions.from_dict({"lstm": {"dim": 64, "projection_dim": 16, "n_layers": 2}, "n_tokens_vocab": 9})
    >>> options.num_layers, options.layer_dim, options.reads_words
    (3, 32, True)
    """

    lstm: Annotated[LstmOptions, Option("The LSTMs.")]
    char_cnn: Annotated[
        Optional[CharCnnOptions], Option("The character encoder; none if the biLM has another token encoder.")
    ] = None
    n_tokens_vocab: Annotated[
        Optional[int],
        Option(
            "V, the size of the vocabulary, including `<S> </S> <UNK>`. Word-input models and the softmax need it.",
            number(1),
        ),
    ] = None
    many_langs: Annotated[
        Optional[ManyLangsOptions],
        Option("The token encoder of ELMoForManyLangs. bilm-tf has no such key.", key="lexicon"),
    ] = None
    boundary_ids: Annotated[
        tuple[int, int],
        Option(
            "The ids of `<S>` and `</S>` in a word-input model: their lines in its vocabulary file, counted from 1. "
            "bilm-tf has no such key; it looks them up in the file each time.",
            ("the two ids of <S> and </S>", lambda value: _is_pairs([value]) and value[0] != value[1]),
            convert=tuple,
        ),
    ] = BOUNDARY_IDS
    contextualizer: Annotated[
        Optional[Mapping[str, Any]],
        Option(
            "The config of a `Seq2SeqEncoder` that replaces the LSTMs. Then only `projection_dim` of `lstm` is used."
        ),
    ] = None
    token_encoder: Annotated[
        Optional[Mapping[str, Any]],
        Option("The config of a registered `TokenEncoder`, instead of `char_cnn`. bilm-tf has no such key."),
    ] = None
    language: Annotated[
        Optional[str],
        Option(
            "The code of the language that the biLM was trained on, in which raw text is tokenized. bilm-tf has no "
            "such key.",
            (
                "the code of a language, such as 'de'",
                lambda value: isinstance(value, str) and re.fullmatch("[a-z]{2,3}", value) is not None,
            ),
        ),
    ] = field(default=None, compare=False)  # the answers do not depend on it

    @property
    def reads_words(self) -> bool:
        """Return whether the biLM reads the ids of words in a vocabulary file, and not their characters."""
        return self.char_cnn is None and self.many_langs is None and self.token_encoder is None

    @property
    def num_layers(self) -> int:
        """Return L: the LSTM layers, or only the last layer of another contextualizer, plus the token layer."""
        return 1 + (self.lstm.n_layers if self.contextualizer is None else 1)

    @property
    def layer_dim(self) -> int:
        """Return D = 2P, the width of both directions of a layer side by side."""
        return 2 * self.lstm.projection_dim

    def check(self) -> None:
        """Raise `ConfigurationError` for two token encoders, a boundary without a row, and LSTMs outside `lstm`.

        Only the last layer of a contextualizer is used, but an `elmo_lstm` returns all of its layers.
        """
        encoders = {"char_cnn": self.char_cnn, "lexicon": self.many_langs, "token_encoder": self.token_encoder}
        given = [key for key, options in encoders.items() if options is not None]
        if len(given) > 1:
            raise ConfigurationError(f"expected 'char_cnn', 'lexicon' or 'token_encoder', got {' and '.join(given)}")
        if self.boundary_ids != BOUNDARY_IDS and max(self.boundary_ids) > (self.n_tokens_vocab or MOST_ROWS):
            raise ConfigurationError(
                f"'boundary_ids': expected ids from 1 to 'n_tokens_vocab', got {list(self.boundary_ids)}"
            )
        contextualizer = self.contextualizer or {}
        if contextualizer.get("type") == "elmo_lstm" and contextualizer.get("num_layers") != 1:
            raise ConfigurationError(
                "'contextualizer': expected the sizes of an 'elmo_lstm' in 'lstm', which describes its layers, got "
                f"{dict(contextualizer)}; leave 'contextualizer' out"
            )
