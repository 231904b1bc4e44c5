"""The character encoder: from the bytes of a word to its vector (Kim et al. 2015; Jozefowicz et al. 2016)."""

from collections.abc import Sequence
from typing import Optional

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Highway
from torch import Tensor, nn

from elmo_plugin.bilm.sizes import ACTIVATIONS, CharCnnOptions
from elmo_plugin.bilm.token_encoder import CharacterLevelEncoder
from elmo_plugin.tensors import Linear, linear
from elmo_plugin.text import (
    BEGIN_OF_SENTENCE,
    END_OF_SENTENCE,
    N_CHARACTERS,
    PADDING,
    batch_to_ids,
    boundary_ids,
    fit_width,
)


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
        has_projection = self.output_dim != options.n_filters
        self.projection = Linear(options.n_filters, self.output_dim) if has_projection else None
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


class ByteEncoder(CharacterLevelEncoder):
    """The base class of encoders that read the bytes of a word, as the indexer `elmo_characters` gives them.

    A subclass has one method of its own, `encode_some`.
    """

    max_characters_per_token: int = 50
    """C, with the begin and end marks of a word."""

    def batch_to_ids(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """Return the byte ids (B, T, C) of tokenized sentences."""
        return batch_to_ids(sentences, self.max_characters_per_token)

    def boundaries(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ids of `<S>` and `</S>`, each (C,), on the device of `ids`."""
        width = self.max_characters_per_token
        begin, end = boundary_ids(BEGIN_OF_SENTENCE, width), boundary_ids(END_OF_SENTENCE, width)
        return torch.tensor(begin, device=ids.device), torch.tensor(end, device=ids.device)

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
