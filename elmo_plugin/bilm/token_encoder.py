"""The first layer of a biLM: token vectors from the ids of characters or words.

The encoder of characters is that of Kim et al. (2015) and Jozefowicz et al. (2016).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import torch
from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Highway
from torch import Tensor, nn

from elmo_plugin.bilm.sizes import ACTIVATIONS, CharCnnOptions, ManyLangsOptions
from elmo_plugin.tensors import Linear, linear
from elmo_plugin.text import (
    BEGIN_OF_SENTENCE,
    BEGIN_OF_WORD,
    BOUNDARY_WORDS,
    N_CHARACTERS,
    PADDING,
    batch_to_code_points,
    batch_to_ids,
    boundary_ids,
    character_ids,
    fit_width,
    spellings,
    word_ids,
)

WORDS_AT_ONCE = 256
"""The number of words that are encoded at once, which bounds the memory of their convolutions."""
WORDS_AT_ONCE_ON_GPU = 4096
"""The same on a GPU, which is faster with fewer and larger operations."""

MULTIPLIER = 6364136223846793005
"""The base of the polynomial that hashes a word: the multiplier of Knuth's 64-bit random generator MMIX."""

IDS = "the ids of ELMo's tokens"
"""What errors call the ids of a batch."""
FEWEST_WORDS = 16
"""The number to which fewer words are padded: a CPU multiplies fewer rows by routines with other rounding errors."""


class TokenTable(NamedTuple):
    """The vectors of distinct words, and the row of each token: a repeated word is computed once.

    *Shape:* vectors (M, P) · where (B, T).
    """

    vectors: Tensor
    where: Tensor

    @classmethod
    def of(cls, tokens: Tensor) -> "TokenTable":
        """Return a table with one row per token (B, T, P)."""
        rows = torch.arange(tokens[..., 0].numel(), device=tokens.device)  # (B·T,)
        return cls(tokens.flatten(0, 1), rows.view(tokens.shape[:2]))

    def dense(self) -> Tensor:
        """Return the vector of each token, (B, T, P)."""
        return self.vectors[self.where]


def check_padding(mask: Tensor, name: str) -> None:
    """Raise `ConfigurationError`, which calls the rows `name`, if a row of a mask (B, T) has padding before a token."""
    wrong = (mask[:, 1:] > mask[:, :-1]).any(dim=1).nonzero()  # (rows, 1)
    if len(wrong):
        raise ConfigurationError(
            f"{name}: expected padding only at the end of a row, got padding before a token in row {int(wrong[0])}; "
            "`batch_to_ids` pads so, and Keras with padding='post'"
        )


def add_boundaries(ids: Tensor, mask: Tensor, begin: Any, end: Any) -> Tensor:
    """Put the ids of `<S>` and `</S>` around each sentence: (B, T, ·) with mask (B, T) to (B, T + 2, ·).

    The result equals AllenNLP's `add_sentence_boundary_token_ids`, which copies the ids of one sentence after the other
    and needs up to 2B launches on a GPU. Raises `ConfigurationError` for padding before a token.
    """
    check_padding(mask, IDS)
    bounded = nn.functional.pad(ids, (0, 0) * (ids.dim() - 2) + (1, 1))
    bounded[:, 0] = begin
    bounded[torch.arange(len(ids), device=ids.device), mask.sum(dim=1) + 1] = end
    return bounded


def distinct_rows(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct rows (M, C) of ids (N, C), and the number of each row among them (N,).

    Sorting a 64-bit hash of the rows is faster than sorting the rows, as `unique(dim=0)` does.
    """
    powers = torch.tensor([pow(MULTIPLIER, k, 2**63) for k in range(ids.size(1))], device=ids.device)  # (C,)
    hashes, where = (ids * powers).sum(dim=1).unique(return_inverse=True)  # (M,), (N,)
    one_of_each = torch.empty_like(hashes).scatter_(0, where, torch.arange(len(ids), device=ids.device))
    words = ids[one_of_each]  # (M, C)
    if torch.equal(words[where], ids):
        return words, where
    return ids.unique(dim=0, return_inverse=True)  # two rows have the same hash


class TokenEncoder(nn.Module, ABC, Registrable):
    """Computes token vectors from ids, without context.

    The ids may be on any device. On the CPU no GPU has to be waited for to know the lengths and the distinct words.

    An encoder of your own that reads bytes is a subclass of `ByteEncoder`, and one that reads other ids of a word's
    characters is a subclass of `CharacterLevelEncoder`. Register it as a `TokenEncoder`; the key `token_encoder` of a
    biLM's `options` names it, and its constructor gets the width of the vectors as `output_dim`. Errors are a
    `ConfigurationError`, `'key': expected X, got Y`. See docs/extend.md.
    """

    input_dims: int
    """The number of dimensions of the ids: 3 for characters (B, T, C), 2 for words (B, T)."""

    @property
    def weight(self) -> Tensor:
        """Return one of the weights, which has the device and the type of all."""
        return next(self.parameters())

    @abstractmethod
    def boundaries(self, ids: Tensor) -> tuple[Any, Any]:
        """Return the ids of `<S>` and `</S>`, on the device of `ids`."""

    @abstractmethod
    def fit(self, ids: Tensor) -> Tensor:
        """Convert the ids of an indexer to the form that this encoder reads."""

    def mask(self, ids: Tensor) -> Tensor:
        """Return where there is a token, (B, T): where the id of a word, or one of its characters, is not 0."""
        return (ids > 0).unsqueeze(-1).flatten(2).any(dim=-1)

    @abstractmethod
    def look_up(self, ids: Tensor) -> TokenTable:
        """Return a table of vectors (M, P) and the row of each token (B, T), on the device of the weights."""

    def bounded(self, ids: Tensor) -> Tensor:
        """Convert the ids of an indexer to this encoder's form, with `<S>` and `</S>` around each sentence."""
        fitted = self.fit(ids).long()  # (B, T, ·)
        present, (begin, end) = self.mask(fitted), self.boundaries(fitted)
        return add_boundaries(fitted, present, begin, end)  # (B, T + 2, ·)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the vector of each token (B, T, P)."""
        return self.look_up(ids).dense()


class WordEncoder(TokenEncoder):
    """An embedding of the words of a vocabulary file: its first line has the id 1, and 0 is the mask.

    AllenNLP's `single_id` indexer gives these ids when its vocabulary is read from that file (`"oov_token": "<UNK>"`).

    # Parameters

    n_tokens_vocab : `int`
        The number of lines of the vocabulary file (V).
    output_dim : `int`
        The width of a word's vector (P).
    boundary_ids : `tuple[int, int]`
        The ids of `<S>` and `</S>`.
    """

    input_dims = 2

    def __init__(self, n_tokens_vocab: int, output_dim: int, boundary_ids: tuple[int, int] = (1, 2)) -> None:
        super().__init__()
        self.boundary_ids = boundary_ids
        self.embedding = nn.Embedding(n_tokens_vocab + 1, output_dim, padding_idx=0)

    @property
    def weight(self) -> Tensor:
        """Return the vectors of words."""
        return self.embedding.weight

    def boundaries(self, ids: Tensor) -> tuple[int, int]:
        """Return the ids of `<S>` and `</S>`."""
        return self.boundary_ids

    def fit(self, ids: Tensor) -> Tensor:
        """Return the ids (B, T) as they are."""
        return ids

    def look_up(self, ids: Tensor) -> TokenTable:
        """Return the whole embedding and the ids (B, T). Raises `ValueError` for an id that has no row."""
        highest = int(ids.max()) if ids.numel() else 0
        if highest >= self.embedding.num_embeddings:
            raise ValueError(
                f"expected word ids up to {self.embedding.num_embeddings - 1}, got the id {highest}: read the text "
                "with the vocabulary that the biLM was trained with; if that has no <UNK>, it must have every word"
            )
        return TokenTable(self.embedding.weight, ids.to(self.weight.device, non_blocking=True))


class CharacterLevelEncoder(TokenEncoder):
    """Encodes a word from its ids (C,) alone."""

    input_dims = 3
    boundary_words: tuple[str, str] = ("<S>", "</S>")
    """The words of which `batch_to_ids` makes the ids of `<S>` and `</S>`."""

    @abstractmethod
    def batch_to_ids(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """Return the ids of tokenized sentences, (B, T, C), without boundaries, padded with 0."""

    def boundaries(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ids of `<S>` and `</S>`, each (C,), on the device of `ids`."""
        begin, end = self.batch_to_ids([self.boundary_words])[0].to(ids.device)
        return begin, end

    @abstractmethod
    def encode_some(self, words: Tensor) -> Tensor:
        """Encode ids (N, C) as vectors (N, P), all at once."""

    def look_up(self, ids: Tensor) -> TokenTable:
        """Return the vectors (M, P) of the distinct words in ids (B, T, C), and the row of each token (B, T)."""
        words, where = distinct_rows(ids.flatten(0, 1))  # (M, C), (B·T,)
        vectors = self.encode_all(words)  # (M, P)
        return TokenTable(vectors, where.view(ids.shape[:2]).to(vectors.device, non_blocking=True))

    def encode_all(self, words: Tensor) -> Tensor:
        """Encode ids (M, C) as vectors (M, P), `WORDS_AT_ONCE` at a time."""
        vectors = []
        for some in words.split(WORDS_AT_ONCE if self.weight.device.type == "cpu" else WORDS_AT_ONCE_ON_GPU):
            added = some.new_zeros(max(0, FEWEST_WORDS - len(some)), some.size(1))
            vectors.append(self.encode_some(torch.cat([some, added]))[: len(some)])
        return torch.cat(vectors)


class CharCnn(nn.Module):
    """Convolutions over the characters of a word, max-pooling, highway layers and a projection (ELMo §3.4).

    # Parameters

    options : `CharCnnOptions`
    n_characters : `int`
        The number of character ids.
    padding : `int`
        The id of a padding character.
    output_dim : `Optional[int]`
        The width of a word's vector. By default, or if it is the sum of all channels, there is no projection.
    """

    def __init__(
        self, options: CharCnnOptions, n_characters: int, padding: int, output_dim: Optional[int] = None
    ) -> None:
        super().__init__()
        self.options = options
        self.padding = padding
        self.output_dim = output_dim or options.n_filters
        self.char_embedding = nn.Embedding(n_characters, options.embedding_dim)
        self.convolutions = nn.ModuleList(
            Convolution(options.embedding_dim, channels, kernel_size=width) for width, channels in options.filters
        )
        self.activation = ACTIVATIONS[options.activation]
        self.highways = Highway(options.n_filters, options.n_highway)
        self.highways._layers = nn.ModuleList(
            Linear(options.n_filters, 2 * options.n_filters) for _ in range(options.n_highway)
        )
        self.projection = Linear(options.n_filters, self.output_dim) if self.output_dim != options.n_filters else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialize as bilm-tf's `training.py` does: characters by U(−1, 1), filters by U(−0.05, 0.05) or normal.

        Highway layers start by carrying 88 % of their input. Despite its name, bilm-tf's `b_carry` of −2 belongs to
        the gate of the transformed part. AllenNLP's `Highway` gates the carried part, so its bias is +2.
        """
        nn.init.uniform_(self.char_embedding.weight, -1.0, 1.0)
        self.char_embedding.weight[0] = 0.0
        for name, parameter in self.convolutions.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif self.options.activation == "relu":
                nn.init.uniform_(parameter, -0.05, 0.05)
            else:
                nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5)
        for name, parameter in self.highways.named_parameters():
            if name.endswith("weight"):
                nn.init.normal_(parameter, std=self.options.n_filters**-0.5)
            else:
                transform_bias, gate_bias = parameter.chunk(2)
                transform_bias.zero_()
                gate_bias.fill_(2.0)
        if self.projection is not None:
            nn.init.normal_(self.projection.weight, std=self.options.n_filters**-0.5)
            nn.init.zeros_(self.projection.bias)

    def forward(self, words: Tensor) -> Tensor:
        """Encode ids (N, C) as vectors (N, output dim), without the columns that are padding in all words.

        One window of padding for the widest filter stays: max-pooling sees it, and further ones would equal it. An id 0
        inside a word, which no indexer gives, is not padding for the convolutions. With ids on the CPU a GPU need not
        be waited for.
        """
        present = (words > 0).any(dim=1, keepdim=True)  # (N, 1)
        written = ((words != self.padding) & present).any(dim=0)  # (C,)
        longest = int(written.nonzero().max()) + 1 if bool(written.any()) else 0
        widest = max(width for width, _ in self.options.filters)
        return self.encode(words[:, : longest + widest].to(self.char_embedding.weight.device, non_blocking=True))

    def encode(self, words: Tensor) -> Tensor:
        """Encode each word: ids (N, C) to vectors (N, output dim)."""
        characters = self.char_embedding(words)  # (N, C, character dim)
        # bilm-tf has no mask here: padding characters are convolved like all others, and max-pooling sees them.
        pooled = [self.activation(largest(convolution(characters))) for convolution in self.convolutions]
        token = self.highways(torch.cat(pooled, dim=-1))  # (N, filters)
        return token if self.projection is None else self.projection(token)  # (N, output dim)


class Convolution(nn.Conv1d):
    """A `torch.nn.Conv1d` over the characters of words, by one matrix product.

    PyTorch's own convolution is slower on a CPU. On a GPU it rounds to the 11 bits of TF32, unless a setting of the
    whole process forbids that.
    """

    def forward(self, characters: Tensor) -> Tensor:
        """Map (N, C, character dim) to (N, windows, channels)."""
        windows = characters.unfold(1, self.kernel_size[0], 1).transpose(2, 3)  # (N, windows, width, character dim)
        weight = self.weight.transpose(1, 2).flatten(1)  # (channels, width · character dim)
        return linear(windows.flatten(2).flatten(0, 1), weight, self.bias).unflatten(0, windows.shape[:2])


def largest(values: Tensor) -> Tensor:
    """Return the maximum over windows, (N, windows, channels) to (N, channels), with the gradient of the first maximum.

    The forward pass of `amax` is faster, but its backward pass divides the gradient among equal values, which is slow.
    """
    return values.max(dim=1).values if torch.is_grad_enabled() else values.amax(dim=1)


class ByteEncoder(CharacterLevelEncoder):
    """The base class of encoders that read the bytes of a word, as the indexer `elmo_characters` gives them.

    A subclass has one method of its own, `encode_some`.
    """

    max_characters_per_token: int = 50
    """C, with the begin and end marks of a word."""

    def batch_to_ids(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """Return the byte ids (B, T, C) of tokenized sentences."""
        return batch_to_ids(sentences, self.max_characters_per_token)

    def fit(self, ids: Tensor) -> Tensor:
        """Cut or pad byte ids to the C of this model, (B, T, C). AllenNLP's `elmo_characters` has a C of 50.

        Raises `ConfigurationError` for ids that are not byte ids, such as the word ids of several texts (B, texts, T).
        """
        lowest, highest = torch.stack(ids.aminmax()).tolist() if ids.numel() else (0, 0)
        if lowest < 0 or highest >= N_CHARACTERS:
            raise ConfigurationError(
                "the biLM reads bytes, as the indexer 'elmo_characters' gives them: expected ids from 0 to "
                f"{N_CHARACTERS - 1}, got {lowest} to {highest}; perhaps the indexer is 'elmo_many_langs' or "
                "'single_id'"
            )
        width = self.max_characters_per_token
        begin, *_ = boundary_ids(BEGIN_OF_SENTENCE, width)
        if (
            ids.numel()
            and ids.size(-1) not in (50, width)
            and not bool(((ids[..., 0] == begin) | (ids[..., 0] == 0)).all())
        ):
            widths = " or ".join(map(str, sorted({50, width})))
            raise ConfigurationError(
                f"the biLM reads bytes, as the indexer 'elmo_characters' gives them: expected {widths} ids for a "
                f"token, or tokens that begin with the id {begin}, got {ids.size(-1)} other ids"
            )
        return fit_width(ids, width)


class CharacterEncoder(ByteEncoder, CharCnn):
    """A `CharCnn` that reads the bytes of a word, the token encoder of bilm-tf's models.

    It is a `CharCnn` instead of having one, because weight files name its parts `token_encoder.convolutions` and so on.

    # Parameters

    options : `CharCnnOptions`
    output_dim : `int`
        The width of a word's vector (P).
    """

    def __init__(self, options: CharCnnOptions, output_dim: int) -> None:
        super().__init__(options, N_CHARACTERS, PADDING, output_dim)
        self.max_characters_per_token = options.max_characters_per_token

    @property
    def weight(self) -> Tensor:
        """Return the vectors of characters."""
        return self.char_embedding.weight

    def encode_some(self, words: Tensor) -> Tensor:
        """Encode ids (N, C) as vectors (N, P)."""
        return CharCnn.forward(self, words)


class ManyLangsEncoder(CharacterLevelEncoder):
    """Encodes a word by its own vocabularies of Unicode characters and words.

    It computes what `ConvTokenEmbedder` in `elmoformanylangs/modules/token_embedder.py` computes.

    # Parameters

    options : `ManyLangsOptions`
    output_dim : `int`
        The width of a word's vector (P). There is always a projection.
    """

    boundary_words = BOUNDARY_WORDS

    def __init__(self, options: ManyLangsOptions, output_dim: int) -> None:
        super().__init__()
        self.options = options
        self.word_vocabulary = {word: row for row, word in enumerate(options.words, start=1)}
        self.character_vocabulary = {character: row for row, character in enumerate(options.characters, start=1)}
        self.word_embedding = (
            nn.Embedding(len(options.words) + 1, options.word_dim, padding_idx=0) if options.words else None
        )
        self.characters = (
            CharCnn(options.char_cnn, len(options.characters) + 1, self.character_vocabulary["<pad>"])
            if options.char_cnn is not None
            else None
        )
        self.projection = Linear(options.dim, output_dim)

    @property
    def weight(self) -> Tensor:
        """Return the bias of the projection."""
        return self.projection.bias

    def batch_to_ids(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """Return the code points of tokenized sentences, (B, T, C − 1)."""
        return batch_to_code_points(sentences, self.options.max_characters_per_token)

    def fit(self, ids: Tensor) -> Tensor:
        """Cut or pad code points to the width of this model, (B, T, C − 1), so words to C − 2 characters.

        Raises `ConfigurationError` for byte ids.
        """
        if ids.numel() and not bool(((ids[..., 0] == BEGIN_OF_WORD) | (ids[..., 0] == 0)).all()):
            raise ConfigurationError(
                "ELMo's token indexer: expected 'elmo_many_langs', because the biLM reads Unicode characters, got "
                "other ids, perhaps those of 'elmo_characters'"
            )
        return nn.functional.pad(ids, (0, self.options.max_characters_per_token - 1 - ids.size(-1)))

    def encode_some(self, words: Tensor) -> Tensor:
        """Encode code points (N, C − 1) as vectors (N, P)."""
        spelled, device = spellings(words), self.weight.device
        parts = []
        if self.word_embedding is not None:
            parts.append(self.word_embedding(word_ids(spelled, self.word_vocabulary).to(device)))  # (N, word dim)
        if self.characters is not None:
            ids = character_ids(spelled, self.character_vocabulary, self.options.max_characters_per_token)  # (N, C)
            parts.append(self.characters(ids.to(device)))  # (N, filters)
        return self.projection(torch.cat(parts, dim=-1))  # (N, P)
