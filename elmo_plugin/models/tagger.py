"""A sequence tagger with ELMo: the NER system of the paper without its character CNN."""

from collections.abc import Sequence
from typing import Any, Optional, Union

import torch
from allennlp.common import Lazy
from allennlp.data import TextFieldTensors, Vocabulary
from allennlp.models import Model
from allennlp.modules import ConditionalRandomField, Seq2SeqEncoder, TextFieldEmbedder, TimeDistributed
from allennlp.modules.conditional_random_field import allowed_transitions
from allennlp.nn import InitializerApplicator
from allennlp.nn.util import sequence_cross_entropy_with_logits
from allennlp.training.metrics import BooleanAccuracy
from torch import BoolTensor, Tensor, nn

from elmo_plugin.elmo import Elmo
from elmo_plugin.models.enhanced_text import PLACES, EnhancedText
from elmo_plugin.models.known_labels import KnownLabels
from elmo_plugin.models.spans import SpanF1, check_label_encoding

IMPOSSIBLE = -1e4
"""The score of an impossible tag. AllenNLP's CRF gives forbidden transitions the same score."""


@Model.register("elmo_tagger", constructor="from_config")
class ElmoTagger(Model):
    """Tag tokens with a task RNN that has ELMo at its input, its output or both, and a CRF or a softmax.

    Registered as a `Model` with name `elmo_tagger`. In a config, with `english-tiny`, whose vectors are 512 wide:

    ```jsonnet
    model: {
      type: 'elmo_tagger',
      elmo: { bilm: 'english-tiny' },
      encoder: { type: 'lstm', input_size: 512, hidden_size: 50, bidirectional: true },
      label_encoding: 'BIO',
    },
    ```

    `text` is the task RNN with ELMo; `from_config` explains the other parameters.
    """

    default_predictor = "elmo_tagger"

    def __init__(
        self,
        vocab: Vocabulary,
        text: EnhancedText,
        crf: bool = True,
        label_encoding: Optional[str] = None,
        label_namespace: str = "labels",
        verbose_metrics: bool = False,
        initializer: InitializerApplicator = InitializerApplicator(),  # noqa: B008
        **kwargs: Any,
    ) -> None:
        super().__init__(vocab, **kwargs)
        self.text = text
        self.label_namespace = label_namespace
        self.label_encoding = label_encoding
        self.verbose_metrics = verbose_metrics
        self.labels = KnownLabels(vocab, label_namespace, ["tag_projection", "crf"])
        labels = vocab.get_index_to_token_vocabulary(label_namespace)
        if label_encoding is not None:
            check_label_encoding(label_encoding, labels.values())
        self.tag_projection = TimeDistributed(nn.Linear(text.get_output_dim(), len(labels)))
        constraints = allowed_transitions(label_encoding, labels) if label_encoding else None
        self.crf = ConditionalRandomField(len(labels), constraints) if crf else None  # type: ignore[arg-type]
        self.accuracy = BooleanAccuracy()
        self.span_f1 = SpanF1(labels.values(), label_encoding) if label_encoding or verbose_metrics else None
        initializer(self)

    @classmethod
    def from_config(
        cls,
        vocab: Vocabulary,
        elmo: Optional[Lazy[Elmo]],
        encoder: Seq2SeqEncoder,
        elmo_at: Union[str, Sequence[str]] = PLACES,
        text_field_embedder: Optional[TextFieldEmbedder] = None,
        crf: bool = True,
        label_encoding: Optional[str] = None,
        dropout: float = 0.0,
        elmo_indexer: str = "elmo",
        label_namespace: str = "labels",
        verbose_metrics: bool = False,
        initializer: InitializerApplicator = InitializerApplicator(),  # noqa: B008
        **kwargs: Any,
    ) -> "ElmoTagger":
        """Build the tagger from the keys of a config.

        # Parameters

        vocab : `Vocabulary`
        elmo, encoder, elmo_at, text_field_embedder, elmo_indexer
            As in `EnhancedText`.
        crf : `bool`
            Whether to use a conditional random field, with the constraints of `label_encoding`, or a softmax per token.
        label_encoding : `Optional[str]`
            `BIO`, `BIOUL`, `IOB1` or `BMES` to predict spans and measure their F1, or `None` for tags that encode no
            spans. The reader `column_tags` converts other schemes.
        dropout : `float`
            Applied to the output of the RNN.
        label_namespace : `str`
            The namespace of the tags in the vocabulary.
        verbose_metrics : `bool`
            Whether to report span scores for each label as well as overall. Without a label encoding, the scores are
            those of tokens: for each label, and overall for all tokens with a label other than O.
        initializer : `InitializerApplicator`
            Initializes the parameters, as in AllenNLP's models.
        """
        text = EnhancedText.from_config(encoder, elmo, elmo_at, text_field_embedder, dropout, elmo_indexer)
        return cls(vocab, text, crf, label_encoding, label_namespace, verbose_metrics, initializer, **kwargs)

    def forward(
        self,
        tokens: TextFieldTensors,
        tags: Optional[Tensor] = None,
        metadata: Optional[list[dict[str, Any]]] = None,
        ignore_loss_on_o_tags: bool = False,
    ) -> dict[str, Any]:
        """Score and predict tags.

        # Parameters

        tokens : `TextFieldTensors`
        tags : `Optional[Tensor]` (B, T)
            Gold labels.
        metadata : `Optional[list[dict[str, Any]]]`
            The `words` of each sentence, which are returned unchanged.
        ignore_loss_on_o_tags : `bool`
            Leave tokens tagged O out of the loss. AllenNLP's interpreters set it to explain a single span.

        # Returns

        `logits` (B, T, labels), `mask` (B, T), `tags` (a list of label indices per sentence), and `loss`, the mean over
        sentences of the CRF's negative log likelihood, or of the mean cross entropy of a sentence's tokens. A gold
        label that is not in the training data counts as an error of the tagger, and is left out of the loss.
        """
        encoded, mask = self.text(tokens)
        logits = self.tag_projection(encoded)  # (B, T, labels)
        predicted = self._decode(logits, mask)
        output: dict[str, Any] = {"logits": logits, "mask": mask, "tags": predicted}
        if tags is not None:
            output["loss"] = self._loss(logits, tags, mask, ignore_loss_on_o_tags)
            self._measure(predicted, tags, mask)
        if metadata is not None:
            output["words"] = [each["words"] for each in metadata]
        return output

    def make_output_human_readable(self, output_dict: dict[str, Any]) -> dict[str, Any]:
        """Replace tag indices by names and add the probability of each tag, which for a CRF is its marginal.

        AllenNLP's CRF is normalized over all tag sequences, including those that the label encoding forbids.
        """
        probabilities = self._probabilities(output_dict["logits"], output_dict["mask"]).tolist()
        output_dict["probabilities"] = [
            [row[tag] for row, tag in zip(rows, tags, strict=False)]
            for rows, tags in zip(probabilities, output_dict["tags"], strict=True)
        ]
        output_dict["tags"] = [[*map(self.labels.name, tags)] for tags in output_dict["tags"]]
        return output_dict

    def get_metrics(self, reset: bool = False) -> dict[str, float]:
        """Return the accuracy and, with a label encoding or `verbose_metrics`, precision, recall and F1."""
        spans = self.span_f1.get_metric(reset) if self.span_f1 else {}
        shown = {key: value for key, value in spans.items() if self.verbose_metrics or "overall" in key}
        return {"accuracy": self.accuracy.get_metric(reset), **shown}

    def metric_names(self) -> list[str]:
        """Return the names of all metrics, including those of labels that are not counted yet."""
        per_label = [name for name in self.span_f1.names() if self.verbose_metrics] if self.span_f1 else []
        return [*dict.fromkeys([*self.get_metrics(), *per_label])]

    def _decode(self, logits: Tensor, mask: BoolTensor) -> list[list[int]]:
        if self.crf is not None:
            best: list[Any] = self.crf.viterbi_tags(logits, mask)
            return [tags for tags, _ in best]
        rows = zip(logits.argmax(dim=-1).tolist(), mask.sum(dim=1).tolist(), strict=True)
        return [tags[:length] for tags, length in rows]

    def _loss(self, logits: Tensor, tags: Tensor, mask: BoolTensor, ignore_o: bool) -> Tensor:
        counted = self.labels.known(tags, self.training)  # (B, T)
        if ignore_o:
            counted = counted & (tags != self.vocab.get_token_index("O", self.label_namespace))  # type: ignore[assignment]
        if self.crf is None:
            return sequence_cross_entropy_with_logits(logits, tags.where(counted, 0), mask & counted)  # type: ignore[arg-type]
        if counted.all():
            return -self.crf(logits, tags, mask) / logits.size(0)
        # The likelihood of the counted tags is the sum of the likelihoods of all sequences that contain them.
        wanted = nn.functional.one_hot(tags.where(counted, 0), logits.size(-1))  # (B, T, labels)
        excluded = counted.unsqueeze(-1) & (wanted == 0)
        log_likelihood = self.crf._input_likelihood(
            logits.masked_fill(excluded, IMPOSSIBLE), self.crf.transitions, mask
        ) - self.crf._input_likelihood(logits, self.crf.transitions, mask)  # (B,)
        return -log_likelihood.mean()

    def _measure(self, predicted: list[list[int]], tags: Tensor, mask: BoolTensor) -> None:
        best = torch.tensor([tag for row in predicted for tag in row], device=tags.device)  # (N,)
        self.accuracy(best, tags[mask])
        if self.span_f1 is not None:
            rows = zip(predicted, tags.tolist(), strict=True)
            gold = [[*map(self.labels.name, row[: len(found)])] for found, row in rows]
            self.span_f1([[*map(self.labels.name, row)] for row in predicted], gold)

    def _probabilities(self, logits: Tensor, mask: BoolTensor) -> Tensor:
        """Return the probability of each label of each token, (B, T, labels)."""
        if self.crf is None:
            return logits.softmax(dim=-1)
        # The marginals of a CRF are the gradient of its log partition function with respect to the logits.
        with torch.inference_mode(False), torch.enable_grad():
            # Copies, because tensors of inference mode cannot have gradients.
            leaf, present = logits.detach().clone().requires_grad_(), mask.clone()
            log_partition = self.crf._input_likelihood(leaf, self.crf.transitions, present).sum()  # type: ignore[arg-type]
            (marginals,) = torch.autograd.grad(log_partition, leaf)
        return marginals
