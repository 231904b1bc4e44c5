"""A text classifier with ELMo: one task RNN, one vector per text, one label."""

from collections.abc import Sequence
from typing import Any, Optional, Union

import torch
from allennlp.common import Lazy
from allennlp.common.checks import ConfigurationError, check_dimensions_match
from allennlp.data import TextFieldTensors, Vocabulary
from allennlp.models import Model
from allennlp.modules import FeedForward, Seq2SeqEncoder, Seq2VecEncoder, TextFieldEmbedder
from allennlp.nn import InitializerApplicator
from allennlp.training.metrics import CategoricalAccuracy, FBetaMeasure
from torch import Tensor, nn

from elmo_plugin.elmo import Elmo
from elmo_plugin.models.enhanced_text import PLACES, EnhancedText
from elmo_plugin.models.known_labels import KnownLabels


@Model.register("elmo_classifier", constructor="from_config")
class ElmoClassifier(Model):
    """Classify texts with a task RNN that has ELMo at its input, its output or both, pooled into one vector.

    Registered as a `Model` with name `elmo_classifier`. In a config, with `english-tiny`, whose vectors are 512 wide:

    ```jsonnet
    model: {
      type: 'elmo_classifier',
      elmo: { bilm: 'english-tiny' },
      encoder: { type: 'lstm', input_size: 512, hidden_size: 50, bidirectional: true },
      seq2vec_encoder: { type: 'boe', embedding_dim: 100 + 512, averaged: true },
    },
    ```

    `text` is the task RNN with ELMo; `from_config` explains the other parameters.
    """

    default_predictor = "elmo_classifier"

    def __init__(
        self,
        vocab: Vocabulary,
        text: EnhancedText,
        seq2vec_encoder: Seq2VecEncoder,
        feedforward: Optional[FeedForward] = None,
        dropout: float = 0.0,
        label_namespace: str = "labels",
        initializer: InitializerApplicator = InitializerApplicator(),  # noqa: B008
        verbose_metrics: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(vocab, **kwargs)
        self.text = text
        self.label_namespace = label_namespace
        self.seq2vec_encoder = seq2vec_encoder
        self.feedforward = feedforward
        self.dropout = nn.Dropout(dropout)
        width, h_dim = text.get_output_dim(), text.encoder.get_output_dim()
        if seq2vec_encoder.get_input_dim() != width:
            raise ConfigurationError(
                f"the input size of 'seq2vec_encoder': expected {width} ({h_dim} of the encoder and {width - h_dim} of "
                f"ELMo at the output), got {seq2vec_encoder.get_input_dim()}"
            )
        pooled = seq2vec_encoder.get_output_dim()
        if feedforward is not None:
            check_dimensions_match(
                pooled, feedforward.get_input_dim(), "seq2vec encoder's output", "feedforward's input"
            )
            pooled = feedforward.get_output_dim()
        self.labels = KnownLabels(vocab, label_namespace, ["classification"])
        self.classification = nn.Linear(pooled, self.labels.size)
        self.accuracy = CategoricalAccuracy()
        self.f1 = FBetaMeasure(labels=[*range(self.labels.size)])
        self.verbose_metrics = verbose_metrics
        initializer(self)

    @classmethod
    def from_config(
        cls,
        vocab: Vocabulary,
        elmo: Optional[Lazy[Elmo]],
        encoder: Seq2SeqEncoder,
        seq2vec_encoder: Seq2VecEncoder,
        elmo_at: Union[str, Sequence[str]] = PLACES,
        text_field_embedder: Optional[TextFieldEmbedder] = None,
        feedforward: Optional[FeedForward] = None,
        dropout: float = 0.0,
        elmo_indexer: str = "elmo",
        label_namespace: str = "labels",
        initializer: InitializerApplicator = InitializerApplicator(),  # noqa: B008
        verbose_metrics: bool = False,
        **kwargs: Any,
    ) -> "ElmoClassifier":
        """Build the classifier from the keys of a config.

        # Parameters

        vocab : `Vocabulary`
        elmo, encoder, elmo_at, text_field_embedder, elmo_indexer
            As in `EnhancedText`.
        seq2vec_encoder : `Seq2VecEncoder`
            Pools the token vectors: the output of the RNN, with ELMo beside it if `elmo_at` has `output`.
        feedforward : `Optional[FeedForward]`
            Applied to the pooled vector before the softmax.
        dropout : `float`
            Applied to the output of the RNN and to the pooled vector.
        label_namespace : `str`
            The namespace of the labels in the vocabulary.
        initializer : `InitializerApplicator`
            Initializes the parameters, as in AllenNLP's models.
        verbose_metrics : `bool`
            Whether to report the F1 of each label as well as their mean.
        """
        text = EnhancedText.from_config(encoder, elmo, elmo_at, text_field_embedder, dropout, elmo_indexer)
        return cls(
            vocab, text, seq2vec_encoder, feedforward, dropout, label_namespace, initializer, verbose_metrics, **kwargs
        )

    def forward(
        self,
        tokens: TextFieldTensors,
        label: Optional[Tensor] = None,
        metadata: Optional[list[dict[str, Any]]] = None,
    ) -> dict[str, Any]:
        """Score and predict labels.

        # Parameters

        tokens : `TextFieldTensors`
        label : `Optional[Tensor]` (B,)
        metadata : `Optional[list[dict[str, Any]]]`
            The `words` of each text, which are returned unchanged.

        # Returns

        `logits` and `probs` (B, labels), and `loss`, the mean negative log likelihood of the labels. A gold label that
        is not in the training data counts as an error of the classifier, and is left out of the loss.
        """
        encoded, mask = self.text(tokens)
        # `boe` averages in float32, also after `half()`.
        pooled = self.dropout(self.seq2vec_encoder(encoded, mask).to(encoded.dtype))  # (B, pooled)
        hidden = self.feedforward(pooled) if self.feedforward else pooled
        logits = self.classification(hidden)  # (B, labels)
        output: dict[str, Any] = {"logits": logits, "probs": logits.softmax(dim=-1)}
        if label is not None:
            known = self.labels.known(label, self.training)
            gold = label.where(known, -1)
            losses = nn.functional.cross_entropy(logits, gold, ignore_index=-1, reduction="none")  # (B,)
            output["loss"] = losses.sum() / known.sum().clamp(min=1)
            self.accuracy(logits, gold)
            # Unseen labels form an extra class that is never predicted. Its F1 is not part of the mean.
            scores = nn.functional.pad(logits, (0, 1), value=-torch.inf)  # (B, labels + 1)
            self.f1(scores, label.where(known, self.labels.size))
        if metadata is not None:
            output["words"] = [each.get("words", []) for each in metadata]
        return output

    def make_output_human_readable(self, output_dict: dict[str, Any]) -> dict[str, Any]:
        """Add the name of the best label and the probability of each label."""
        probs: Tensor = output_dict["probs"]
        output_dict["label"] = [self.labels.name(index) for index in probs.argmax(dim=-1).tolist()]
        output_dict["probabilities"] = [
            {self.labels.name(index): value for index, value in enumerate(row)} for row in probs.tolist()
        ]
        return output_dict

    def metric_names(self) -> list[str]:
        """Return the names of all metrics."""
        return [*self.get_metrics()]

    def get_metrics(self, reset: bool = False) -> dict[str, float]:
        """Return the accuracy, the F1 averaged over the labels and, with `verbose_metrics`, the F1 of each label."""
        has_counts = self.f1._true_sum is not None  # before its first batch, FBetaMeasure raises an error
        by_label = self.f1.get_metric(reset)["fscore"] if has_counts else [0.0] * self.labels.size
        metrics = {"accuracy": self.accuracy.get_metric(reset), "macro_f1": sum(by_label) / len(by_label)}
        if self.verbose_metrics:
            metrics.update({f"f1-measure-{self.labels.name(index)}": f1 for index, f1 in enumerate(by_label)})
        return metrics
