"""AllenNLP's own language model, to compare a training step: the same sizes, batches and number of samples as ours."""

from collections.abc import Sequence
from typing import Any

import allennlp_models.lm  # noqa: F401  registers `language_model`
import torch
from allennlp.common import Params
from allennlp.models import Model
from allennlp.modules import Seq2SeqEncoder
from allennlp.modules.elmo_lstm import ElmoLstm as AllenNlpElmoLstm
from allennlp.training.optimizers import Optimizer
from torch import Tensor, nn

from elmo_plugin.bilm import BiLMOptions, add_boundaries
from elmo_plugin.pretraining import BidirectionalLanguageModel
from elmo_plugin.pretraining.vocabulary import BEGIN_ID, END_ID
from elmo_plugin.text import N_CHARACTERS


class AllenNlpContextualizer(Seq2SeqEncoder):
    """AllenNLP's ELMo LSTM. Its last layer is the input of a language model's softmax."""

    def __init__(self, options: BiLMOptions, dropout: float) -> None:
        super().__init__()
        sizes = options.lstm
        self.width = sizes.projection_dim
        self.lstm = AllenNlpElmoLstm(
            input_size=self.width,
            hidden_size=self.width,
            cell_size=sizes.cell_dim,
            num_layers=sizes.n_layers,
            requires_grad=True,
            recurrent_dropout_probability=dropout,
            memory_cell_clip_value=sizes.cell_clip,
            state_projection_clip_value=sizes.projection_clip,
        )

    def get_input_dim(self) -> int:
        return self.width

    def get_output_dim(self) -> int:
        return 2 * self.width

    def is_bidirectional(self) -> bool:
        return True

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """Map (B, T, P) to the last layer, (B, T, 2P)."""
        last: Tensor = self.lstm(inputs, mask)[-1]
        return last


class Peer(nn.Module):
    """AllenNLP's `language_model` with sampled softmax, as in its config for pretraining, but with ELMo's LSTMs."""

    def __init__(self, ours: BidirectionalLanguageModel, n_samples: int, dropout: float) -> None:
        super().__init__()
        options, vocab = ours.bilm.options, ours.vocab
        char_cnn = options.char_cnn
        assert char_cnn is not None
        self.bounded = ours.bilm.token_encoder.bounded
        encoder = {
            "type": "cnn-highway",
            "embedding_dim": char_cnn.embedding_dim,
            "filters": [list(each) for each in char_cnn.filters],
            "num_highway": char_cnn.n_highway,
            "projection_dim": options.lstm.projection_dim,
            "activation": char_cnn.activation,
            "projection_location": "after_highway",
        }
        embedding = {"num_embeddings": N_CHARACTERS, "embedding_dim": char_cnn.embedding_dim}
        characters = {"type": "character_encoding", "embedding": embedding, "encoder": encoder}
        self.model = Model.from_params(
            Params(
                {
                    "type": "language_model",
                    "bidirectional": True,
                    "num_samples": n_samples,
                    "sparse_embeddings": True,
                    "dropout": dropout,
                    "text_field_embedder": {"token_embedders": {"tokens": {"type": "empty"}, "characters": characters}},
                }
            ),
            vocab=vocab,
            contextualizer=AllenNlpContextualizer(options, dropout),
        )

    def forward(self, tokens: dict[str, dict[str, Tensor]]) -> dict[str, Any]:
        """Score a batch of sentences, given the tensors that our model reads."""
        words = tokens["words"]["tokens"]  # (B, T)
        with_boundaries = {
            "tokens": {"tokens": add_boundaries(words, words > 0, BEGIN_ID, END_ID)},  # (B, T + 2)
            "characters": {"elmo_tokens": self.bounded(tokens["characters"]["elmo_tokens"])},  # (B, T + 2, C)
        }
        output: dict[str, Any] = self.model(with_boundaries)
        return output


def peer_optimizer(peer: Peer, learning_rate: float) -> torch.optim.Optimizer:
    """Return the optimizer of AllenNLP's config, which updates only the softmax rows that a batch used."""
    parameters: Sequence[Any] = [*peer.named_parameters()]
    return Optimizer.from_params(
        Params({"type": "dense_sparse_adam", "lr": learning_rate}), model_parameters=parameters
    )
