"""The tagger and the classifier: a task RNN over text with ELMo at its input, its output or both (ELMo §3.3)."""

from collections.abc import Sequence
from typing import Any, Optional, Union

import torch
from allennlp.common import Lazy
from allennlp.common.checks import ConfigurationError, check_dimensions_match
from allennlp.data import TextFieldTensors, Vocabulary
from allennlp.models import Model
from allennlp.modules import (
    ConditionalRandomField,
    FeedForward,
    Seq2SeqEncoder,
    Seq2VecEncoder,
    TextFieldEmbedder,
    TimeDistributed,
)
from allennlp.modules.conditional_random_field import allowed_transitions
from allennlp.nn import InitializerApplicator
from allennlp.nn.util import get_text_field_mask, sequence_cross_entropy_with_logits
from allennlp.training.metrics import BooleanAccuracy, CategoricalAccuracy, FBetaMeasure
from torch import BoolTensor, Tensor, nn

from elmo_plugin.common import probability
from elmo_plugin.elmo import Elmo
from elmo_plugin.models.known_labels import KnownLabels
from elmo_plugin.models.spans import SpanF1, check_label_encoding

PLACES = ("input", "output")
IMPOSSIBLE = -1e4
"""The score of an impossible tag. AllenNLP's CRF gives forbidden transitions the same score."""


class WholeInput(TextFieldEmbedder):
    """Embed all that the task layers read: `[x; ELMo]` for each token, with one ELMo vector for each place.

    AllenNLP's interpreters scale the output of the first `TextFieldEmbedder` of a model and compute its gradient.

    The parameters are as in `EnhancedText`. Both modules are its submodules, because archives store their parameters
    under its names.
    """

    def __init__(
        self, elmo: Optional[Elmo], text_field_embedder: Optional[TextFieldEmbedder], elmo_indexer: str
    ) -> None:
        super().__init__()
        self._embedders = (text_field_embedder, elmo)  # a tuple, so that they are not submodules
        self.elmo_indexer = elmo_indexer

    def forward(self, tokens: TextFieldTensors) -> Tensor:  # type: ignore[override]
        """Embed the tensors of a text field as (B, T, output dim)."""
        embedder, elmo = self._embedders
        if elmo is not None and self.elmo_indexer not in tokens:
            raise ConfigurationError(
                f"'elmo_indexer': expected a token indexer '{self.elmo_indexer}' in the reader, got {sorted(tokens)}; "
                f"add {self.elmo_indexer}: {{ type: 'elmo_characters' }} to its 'token_indexers'"
            )
        others = {key: tensors for key, tensors in tokens.items() if key != self.elmo_indexer}
        vectors = [embedder(others)] if embedder else []
        if elmo is not None:
            vectors += elmo(elmo.ids_of(tokens[self.elmo_indexer])).representations
        return torch.cat(vectors, dim=-1)


class EnhancedText(nn.Module):
    """Encode a text as one vector per token with a task RNN and, optionally, ELMo: `[x; ELMo]` in, `[h; ELMo]` out.

    # Parameters

    encoder : `Seq2SeqEncoder`
        The task RNN. Its `input_size` is the width of x plus, with ELMo at the input, the width of ELMo.
    elmo : `Optional[Elmo]`
        ELMo with one mix for each place, in a config the keys of `Elmo`; null for the baseline without ELMo.
    elmo_at : `Sequence[str]`
        `input`, `output`, or a list of one or both. Each has its own mix.
    text_field_embedder : `Optional[TextFieldEmbedder]`
        Embeds x from all token indexers except ELMo's.
    dropout : `float`
        Applied to the output of the RNN, before ELMo is concatenated.
    elmo_indexer : `str`
        The token indexer whose ids ELMo reads.

    Raises `ConfigurationError` for an encoder whose input size does not fit, and for ELMo with sentence boundaries or
    with another number of mixes than of places.
    """

    def __init__(
        self,
        encoder: Seq2SeqEncoder,
        elmo: Optional[Elmo],
        elmo_at: Sequence[str] = PLACES,
        text_field_embedder: Optional[TextFieldEmbedder] = None,
        dropout: float = 0.0,
        elmo_indexer: str = "elmo",
    ) -> None:
        super().__init__()
        probability(dropout=dropout)
        if elmo and len(elmo.mixes) != len(elmo_at):
            raise ConfigurationError(
                f"'elmo_at': expected one place for each of the {len(elmo.mixes)} mixes of ELMo, got {list(elmo_at)}"
            )
        if elmo and elmo.keep_sentence_boundaries:
            raise ConfigurationError(
                "'keep_sentence_boundaries': expected false, because boundaries have no tags or labels, got true"
            )
        self.whole_input = WholeInput(elmo, text_field_embedder, elmo_indexer)  # first, so that interpreters find it
        self.encoder = encoder
        self.elmo = elmo
        self.elmo_at = tuple(elmo_at) if elmo else ()
        self.text_field_embedder = text_field_embedder
        self.dropout = nn.Dropout(dropout)
        x_dim, elmo_dim = text_field_embedder.get_output_dim() if text_field_embedder else 0, self._elmo_dim("input")
        if x_dim + elmo_dim == 0:
            raise ConfigurationError(
                "'elmo_at': expected 'input', or a 'text_field_embedder', got neither, so the encoder has no input"
            )
        if encoder.get_input_dim() != x_dim + elmo_dim:
            raise ConfigurationError(
                f"'encoder.input_size': expected {x_dim + elmo_dim} ({x_dim} of the text field embedder and {elmo_dim} "
                f"of ELMo at the input), got {encoder.get_input_dim()}"
            )

    @classmethod
    def from_config(
        cls,
        encoder: Seq2SeqEncoder,
        elmo: Optional[Lazy[Elmo]],
        elmo_at: Union[str, Sequence[str]] = PLACES,
        text_field_embedder: Optional[TextFieldEmbedder] = None,
        dropout: float = 0.0,
        elmo_indexer: str = "elmo",
    ) -> "EnhancedText":
        """Build ELMo with one mix for each place in `elmo_at`. Raises `ConfigurationError` for an unknown place."""
        named = [elmo_at] if isinstance(elmo_at, str) else elmo_at
        if not isinstance(named, (list, tuple)) or not named or any(place not in PLACES for place in named):
            raise ConfigurationError(f"'elmo_at': expected one or both of {list(PLACES)}, got {elmo_at!r}")
        places = [place for place in PLACES if place in named]
        built = elmo.construct(num_output_representations=len(places)) if elmo else None
        return cls(encoder, built, places, text_field_embedder, dropout, elmo_indexer)

    def get_output_dim(self) -> int:
        """Return the width of `[h; ELMo]`."""
        return self.encoder.get_output_dim() + self._elmo_dim("output")

    def forward(self, tokens: TextFieldTensors) -> tuple[Tensor, BoolTensor]:
        """Encode the tensors of a text field. Returns vectors (B, T, output dim) and their mask (B, T)."""
        inputs = self.whole_input(tokens)  # (B, T, x and the ELMo of each place)
        mask = get_text_field_mask(tokens)  # (B, T)
        x, elmo_out = inputs.split([self.encoder.get_input_dim(), self._elmo_dim("output")], dim=-1)
        hidden = self.encoder(x, mask)  # (B, T, h)
        return torch.cat([self.dropout(hidden), elmo_out], dim=-1), mask

    def _elmo_dim(self, place: str) -> int:
        return self.elmo.get_output_dim() if self.elmo and place in self.elmo_at else 0


@Model.register("elmo_tagger", constructor="from_config")
class ElmoTagger(Model):
    """Tag tokens with a task RNN that has ELMo at its input, its output or both, and a CRF or a softmax.

    It is the NER system of the paper without its character CNN.

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
        if label_encoding is not None:
            check_label_encoding(label_encoding, self.labels.names.values())
        self.tag_projection = TimeDistributed(nn.Linear(text.get_output_dim(), self.labels.size))
        constraints = allowed_transitions(label_encoding, self.labels.names) if label_encoding else None
        self.crf = ConditionalRandomField(self.labels.size, constraints) if crf else None  # type: ignore[arg-type]
        self.accuracy = BooleanAccuracy()
        self.span_f1 = SpanF1(self.labels.names.values(), label_encoding) if label_encoding or verbose_metrics else None
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
            return [tags for tags, _ in self.crf.viterbi_tags(logits, mask)]  # type: ignore[misc]
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
        self.accuracy(torch.tensor([tag for row in predicted for tag in row], device=tags.device), tags[mask])  # (N,)
        if self.span_f1 is not None:
            gold = [
                [*map(self.labels.name, row[: len(found)])] for found, row in zip(predicted, tags.tolist(), strict=True)
            ]
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
        if feedforward is not None:
            check_dimensions_match(
                seq2vec_encoder.get_output_dim(),
                feedforward.get_input_dim(),
                "seq2vec encoder's output",
                "feedforward's input",
            )
        self.labels = KnownLabels(vocab, label_namespace, ["classification"])
        self.classification = nn.Linear((feedforward or seq2vec_encoder).get_output_dim(), self.labels.size)
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
            losses = nn.functional.cross_entropy(logits[known], label[known], reduction="none")  # of the known labels
            output["loss"] = losses.sum() / known.sum().clamp(min=1)
            self.accuracy(logits, label.where(known, -1))
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

    def get_metrics(self, reset: bool = False) -> dict[str, float]:
        """Return the accuracy, the F1 averaged over the labels and, with `verbose_metrics`, the F1 of each label."""
        has_counts = self.f1._true_sum is not None  # before its first batch, FBetaMeasure raises an error
        by_label = self.f1.get_metric(reset)["fscore"] if has_counts else [0.0] * self.labels.size
        metrics = {"accuracy": self.accuracy.get_metric(reset), "macro_f1": sum(by_label) / len(by_label)}
        if self.verbose_metrics:
            metrics.update({f"f1-measure-{self.labels.name(index)}": f1 for index, f1 in enumerate(by_label)})
        return metrics
