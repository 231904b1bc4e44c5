"""Answers to JSON and to instances: tags, labels and ELMo vectors for raw text or tokens, empty text included."""

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import JsonDict, sanitize
from allennlp.data import DatasetReader, Instance, Token
from allennlp.data.fields import FlagField, LabelField, SequenceLabelField, TextField
from allennlp.models import Model
from allennlp.predictors import Predictor
from torch import Tensor

from elmo_plugin.elmo import trained_elmo
from elmo_plugin.models.spans import TAGS_TO_SPANS, Spans
from elmo_plugin.models.text_predictor import LabelPredictor, TextPredictor
from elmo_plugin.text import instance_words, read_question, without_lone_surrogates


@Predictor.register("elmo_tagger")
class ElmoTaggerPredictor(LabelPredictor):
    """Answers `tokens`, `tags`, `probabilities` (one a token) and, for span labels, `spans`.

    A span has its `label`, `start` and `end` (tokens, the end not included) and `text`.

    Registered as a `Predictor` with name `elmo_tagger`.
    """

    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        """Answer for instances in one forward pass; a text without tokens has no tags."""
        sentences = [instance_words(instance) for instance in instances]
        asked = [_without(instance, "tags") for instance, words in zip(instances, sentences, strict=True) if words]
        outputs = iter(Predictor.predict_batch_instance(self, asked) if asked else [])
        return [self._answer(words, next(outputs) if words else {}) for words in sentences]

    def get_gradients(self, instances: list[Instance]) -> tuple[dict[str, Any], dict[str, Any]]:
        """See `Predictor`. Raises `ConfigurationError` for a text without tokens."""
        if not all(map(instance_words, instances)):
            raise ConfigurationError(
                "expected a text with tokens, got one without; input reduction makes one where no span is predicted"
            )
        return super().get_gradients(instances)

    def json_to_labeled_instances(self, inputs: JsonDict) -> list[Instance]:
        """See `Predictor`. Raises `ConfigurationError` for a text without tokens."""
        if not self.words(inputs):
            raise ConfigurationError(f"expected a text with tokens, whose tags can be explained, got {inputs}")
        return super().json_to_labeled_instances(inputs)

    def predictions_to_labeled_instances(self, instance: Instance, outputs: dict[str, Any]) -> list[Instance]:
        """Return an instance for each predicted span, in which all other tags are O and do not count in the loss.

        Where no span is predicted, and for tags that code none, it is one instance with all tags.
        """
        tags = outputs["tags"][: len(instance_words(instance))]
        namespace = getattr(self._model, "label_namespace", "labels")
        has_outside = "O" in self._model.vocab.get_token_to_index_vocabulary(namespace)
        spans = [
            [tag if start <= place <= end else "O" for place, tag in enumerate(tags)]
            for _, (start, end) in (self._spans(tags) if has_outside else [])
        ]
        attacked = getattr(instance.fields.get("tags"), "labels", None)
        # Attackers look at the first instance only: it is of the span that they attack, as long as that is predicted.
        spans.sort(key=lambda labels: labels != attacked)
        labeled = []
        for labels in spans or [tags]:
            new = instance.duplicate()
            # Attackers compare fields, so that the tags of an attacked text stand beside the very same text.
            text = new["tokens"] if attacked is None else instance["tokens"]
            new.add_field("tags", SequenceLabelField(labels, text, namespace), self._model.vocab)  # type: ignore[arg-type]
            new.add_field("ignore_loss_on_o_tags", FlagField(bool(spans)), self._model.vocab)
            labeled.append(new)
        return labeled

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        words = self.words(json_dict)
        instance = self._dataset_reader.text_to_instance([Token(word) for word in words])
        if not words:  # a reader may put an empty token in its place
            instance["tokens"].tokens = []  # type: ignore[attr-defined]
        return instance

    def _answer(self, words: list[str], output: JsonDict) -> JsonDict:
        if words and "tags" not in output:
            raise ConfigurationError(f"wanted a tagger, found a {type(self._model).__name__}, which gives {[*output]}")
        tags = output.get("tags", [])[: len(words)]  # AllenNLP's own taggers tag the padding of a batch too
        answer = {"tokens": words, "tags": tags, **self._probabilities(output, len(words))}
        if self._label_encoding is not None:
            answer["spans"] = [
                {"label": label, "start": start, "end": end + 1, "text": " ".join(words[start : end + 1])}
                for label, (start, end) in self._spans(tags)
            ]
        return answer

    def _spans(self, tags: list[str]) -> Spans:
        if self._label_encoding is None:
            return []
        return sorted(TAGS_TO_SPANS[self._label_encoding](tags, []), key=lambda span: span[1])

    @property
    def _label_encoding(self) -> Optional[str]:
        metric = getattr(self._model, "_f1_metric", None)  # where `simple_tagger` has it
        return getattr(self._model, "label_encoding", getattr(metric, "_label_encoding", None))

    def _probabilities(self, output: JsonDict, length: int) -> JsonDict:
        """Under their key: ours, or those of AllenNLP's `simple_tagger`; its `crf_tagger` has none."""
        by_tag = output.get("class_probabilities")
        found = output.get("probabilities", [] if by_tag is None else [max(row) for row in by_tag[:length]])
        return {"probabilities": found} if found or not length else {}


@Predictor.register("elmo_classifier")
class ElmoClassifierPredictor(LabelPredictor):
    """Answers `tokens`, `label`, `probabilities`, by label, and `probs`, the same in the order of the labels.

    Raw text is cut as the dataset reader cuts it, `{"tokens": [...]}` is taken as it is. A text without tokens is read
    as one empty word.

    Registered as a `Predictor` with name `elmo_classifier`.
    """

    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        """Answer for instances in one forward pass."""
        asked = [_with_a_token(_without(instance, "label")) for instance in instances]
        outputs = Predictor.predict_batch_instance(self, asked) if asked else []
        return [self._answer(instance_words(instance), output) for instance, output in zip(asked, outputs, strict=True)]

    def predictions_to_labeled_instances(self, instance: Instance, outputs: dict[str, Any]) -> list[Instance]:
        """Return one instance with the best label."""
        new = instance.duplicate()
        new.add_field("label", LabelField(int(np.argmax(_probs(outputs))), skip_indexing=True))
        return [new]

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        question = read_question(json_dict)
        if isinstance(question, str):
            return _with_a_token(self._dataset_reader.text_to_instance(question))
        instance = self._dataset_reader.text_to_instance(without_lone_surrogates(" ".join(question)))
        instance["tokens"].tokens = [Token(word) for word in question]  # type: ignore[attr-defined]
        return _with_a_token(instance)

    def _answer(self, words: list[str], output: JsonDict) -> JsonDict:
        if "label" not in output:
            found = type(self._model).__name__
            raise ConfigurationError(f"wanted a classifier, found a {found}, which gives {[*output]}")
        probs = [float(value) for value in _probs(output)]
        return {"tokens": words, "label": str(output["label"]), "probabilities": self._by_label(probs), "probs": probs}

    def _by_label(self, probs: list[float]) -> dict[str, float]:
        """Name them; labels that the data give as numbers have no names in the vocabulary."""
        namespaces = (getattr(self._model, name, None) for name in ("label_namespace", "_label_namespace"))
        namespace = next(filter(None, namespaces), "labels")
        names = self._model.vocab.get_index_to_token_vocabulary(namespace)
        return {names.get(index, str(index)): value for index, value in enumerate(probs)}


@Predictor.register("elmo_embedder")
class ElmoEmbedderPredictor(TextPredictor):
    """ELMo vectors out of any model that holds an ELMo, with the keys of the TensorFlow-Hub module.

    `word_emb` (T, P) is the token layer, `lstm_outputs1` … (T, D) the layers above it, `elmo` (T, D) the model's first
    mix of them, `default` (D,) the mean of `elmo` over the tokens, zeros where there is none.

    Registered as a `Predictor` with name `elmo_embedder`.
    """

    def __init__(self, model: Model, dataset_reader: DatasetReader, language: str = "en") -> None:
        super().__init__(model, dataset_reader, language)
        self.elmo, self.mix = trained_elmo(model)

    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        """Answer for instances in one biLM pass."""
        if not instances:
            return []
        sentences = [instance_words(instance) for instance in instances]
        with torch.no_grad():
            ids = self.elmo.bilm.ids_of(sentences, self._model.vocab.get_token_index)  # (B, T, ·)
            layers, mask = self.elmo.layers(ids)  # (L, B, T + 2, D), (B, T + 2)
            mixed = self.mix(layers, mask)  # (B, T + 2, D)
        answers = []
        for row, words in enumerate(sentences):
            inside = slice(1, len(words) + 1)
            answers.append({"tokens": words, **_hub_keys(layers[:, row, inside], mixed[row, inside])})
        return sanitize(answers)

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        """Not by the dataset reader, which for other models than ours may want more than a text."""
        return Instance({"tokens": TextField([Token(word) for word in self.words(json_dict)])})


def _hub_keys(layers: Tensor, mixed: Tensor) -> dict[str, Any]:
    """One sentence's layers (L, T, D) and mix (T, D) under the names of TF-Hub's `elmo/3`."""
    width = layers.size(-1) // 2
    contextual = {f"lstm_outputs{depth}": layer for depth, layer in enumerate(layers[1:], start=1)}
    default = mixed.sum(dim=0) / max(len(mixed), 1)
    return {"word_emb": layers[0, :, :width], **contextual, "elmo": mixed, "default": default}


def _probs(output: JsonDict) -> Sequence[float]:
    """Return the probability of each label: the key of ours and of AllenNLP's `basic_classifier`, or that of `bcn`."""
    return output["probs"] if "probs" in output else output.get("class_probabilities", [])


def _without(instance: Instance, name: str) -> Instance:
    """Return the instance without a field, if it has that: a gold label may be one that the model does not know."""
    return Instance({key: field for key, field in instance.fields.items() if key != name})


def _with_a_token(instance: Instance) -> Instance:
    """Return the instance with an empty word in a text that has no tokens: no RNN reads a sequence of length 0."""
    if instance_words(instance):
        return instance
    return Instance({**instance.fields, "tokens": TextField([Token("")])})
