"""Predictors: tags, labels and ELMo vectors for raw text or tokens, as JSON or as instances of a dataset reader."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional, Union

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import JsonDict, sanitize
from allennlp.data import DatasetReader, Instance, Token
from allennlp.data.fields import FlagField, LabelField, SequenceLabelField, TextField
from allennlp.models import Model
from allennlp.predictors import Predictor

from elmo_plugin.bilm import language_of
from elmo_plugin.common import installed
from elmo_plugin.elmo import trained_elmo
from elmo_plugin.models.spans import TAGS_TO_SPANS, Spans
from elmo_plugin.text import (
    SpacyBlankTokenizer,
    TextPredictor,
    as_tokens,
    instance_words,
    read_question,
    without_lone_surrogates,
)


class SpacyPredictor(TextPredictor):
    """A predictor that splits raw text by spaCy's rules for a language: by default that of the biLM, or English."""

    def __init__(self, model: Model, dataset_reader: DatasetReader, language: Optional[str] = None) -> None:
        language = language or language_of(model)
        super().__init__(model, dataset_reader, SpacyBlankTokenizer(language or "en"), language)


class LabelPredictor(SpacyPredictor, ABC):
    """Answer with the labels of a model.

    What a reader and a model of one's own must do for it stands in docs/extend.md, which the errors about both name.
    """

    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        """Answer instances in one forward pass. Their gold labels, which may be unseen, are ignored."""
        if not instances:
            return []
        unlabelled = [
            Instance({key: field for key, field in instance.fields.items() if key not in ("tags", "label")})
            for instance in map(_with_a_token, instances)
        ]
        with explained(self._model, "'forward' and 'make_output_human_readable' to answer instances without labels"):
            outputs = super().predict_batch_instance(unlabelled)
        return [self._answer(*pair) for pair in zip(map(instance_words, instances), outputs, strict=True)]

    @abstractmethod
    def _answer(self, words: list[str], output: JsonDict) -> JsonDict:
        """Return the answer for a text. Without words, the output is that of one empty word."""

    def _instance(self, text: Union[str, list[Token]]) -> Instance:
        """Return the instance that the dataset reader makes of a text without labels."""
        expected = f"'text_to_instance' to make an instance with a field 'tokens' of a {type(text).__name__}"
        with explained(self._dataset_reader, expected):
            instance = self._dataset_reader.text_to_instance(text)
            instance_words(instance)
            return instance


@contextmanager
def explained(part: object, expected: str) -> Iterator[None]:
    """Turn the error of a reader or a model of one's own that lacks something into one that says what it needs."""
    try:
        yield
    except (AssertionError, AttributeError, LookupError, NotImplementedError, TypeError) as error:
        if type(part).__module__.partition(".")[0] in ("elmo_plugin", "allennlp", "allennlp_models"):
            raise
        raise ConfigurationError(
            f"{type(part).__name__}: expected {expected}, got {error!r}; see {installed('docs/extend.md')}"
        ) from error


@Predictor.register("elmo_tagger")
class ElmoTaggerPredictor(LabelPredictor):
    """Predict `tokens`, `tags`, `probabilities` (one per token) and, if the tags encode spans, `spans`.

    A span has a `label`, a `text`, and the tokens `start` to `end`, exclusive.

    ```python
    predictor = Predictor.from_path("model.tar.gz", "elmo_tagger")
    predictor.predict_json({"sentence": "Greta sailed to Saint Orrin."})["spans"]
    ```

    Registered as a `Predictor` with name `elmo_tagger`. `language` is the language of raw text, as in
    `SpacyBlankTokenizer`; the default is that of the biLM, or English if it does not say.
    """

    def predictions_to_labeled_instances(self, instance: Instance, outputs: dict[str, Any]) -> list[Instance]:
        """Return one instance per predicted span, in which all other tags are O and left out of the loss.

        If no span is predicted, or the tags encode no spans, return one instance with all tags.
        """
        tags = outputs["tags"][: len(instance_words(instance))]
        namespace = getattr(self._model, "label_namespace", "labels")
        has_outside = "O" in self._model.vocab.get_token_to_index_vocabulary(namespace)
        spans = [
            [tag if start <= index <= end else "O" for index, tag in enumerate(tags)]
            for _, (start, end) in self._spans(tags) or []
            if has_outside
        ]
        labeled = []
        for labels in spans or [tags]:
            new = instance.duplicate()
            # Attackers compare fields, so the tags refer to the text field of the same instance.
            field = SequenceLabelField(labels, instance["tokens"], namespace)  # type: ignore[arg-type]
            new.add_field("tags", field, self._model.vocab)
            new.add_field("ignore_loss_on_o_tags", FlagField(bool(spans)), self._model.vocab)
            labeled.append(new)
        return labeled

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        tokens = self._tokens(json_dict)
        instance = self._instance(tokens)
        if not tokens:  # a reader may add an empty token
            instance["tokens"].tokens = []  # type: ignore[attr-defined]
        return instance

    def _answer(self, words: list[str], output: JsonDict) -> JsonDict:
        if "tags" not in output:
            raise ConfigurationError(
                "'elmo_tagger': expected a tagger, which returns 'tags', got "
                f"{type(self._model).__name__}, which returns {[*output]}; see {installed('docs/extend.md')}"
            )
        tags = output["tags"][: len(words)]  # AllenNLP's taggers also tag the padding of a batch
        answer: JsonDict = {"tokens": words, "tags": tags}
        # AllenNLP's `simple_tagger` has class probabilities, its `crf_tagger` neither.
        probabilities = output.get("probabilities") or [max(row) for row in output.get("class_probabilities", [])]
        if probabilities:
            answer["probabilities"] = probabilities[: len(words)]
        spans = self._spans(tags)
        if spans is not None:
            answer["spans"] = [
                {"label": label, "start": start, "end": end + 1, "text": " ".join(words[start : end + 1])}
                for label, (start, end) in spans
            ]
        return answer

    def _spans(self, tags: list[str]) -> Optional[Spans]:
        """Return the spans in their order, or `None` if the tags of the model encode no spans."""
        metric = getattr(self._model, "_f1_metric", None)  # `simple_tagger` keeps its encoding in the metric
        encoding = getattr(self._model, "label_encoding", getattr(metric, "_label_encoding", None))
        return sorted(TAGS_TO_SPANS[encoding](tags, []), key=lambda span: span[1]) if encoding else None


@Predictor.register("elmo_classifier")
class ElmoClassifierPredictor(LabelPredictor):
    """Predict `tokens`, `label`, `probabilities` (by label), and `probs` (the same in the order of the labels).

    The dataset reader tokenizes raw text. `{"tokens": [...]}` is used unchanged. The reader's `max_sequence_length`
    cuts both. A text without tokens becomes one empty word.

    ```python
    predictor = Predictor.from_path("model.tar.gz", "elmo_classifier")
    predictor.predict_json({"sentence": "A quiet, funny film."})["label"]
    ```

    Registered as a `Predictor` with name `elmo_classifier`. `language` is the language of raw text, as in
    `SpacyBlankTokenizer`; the default is that of the biLM, or English if it does not say.
    """

    def predictions_to_labeled_instances(self, instance: Instance, outputs: dict[str, Any]) -> list[Instance]:
        """Return one instance with the best label."""
        new = instance.duplicate()
        new.add_field("label", LabelField(int(np.argmax(_probs(outputs))), skip_indexing=True))
        return [new]

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        question = read_question(json_dict)
        text = question if isinstance(question, str) else " ".join(question)
        instance = self._instance(without_lone_surrogates(text))
        if isinstance(question, list):
            kept = question[: getattr(self._dataset_reader, "_max_sequence_length", None)]
            instance["tokens"].tokens = as_tokens(kept)  # type: ignore[attr-defined]
        return _with_a_token(instance)

    def _answer(self, words: list[str], output: JsonDict) -> JsonDict:
        if "label" not in output:
            raise ConfigurationError(
                "'elmo_classifier': expected a classifier, which returns 'label' and 'probs', got "
                f"{type(self._model).__name__}, which returns {[*output]}; see {installed('docs/extend.md')}"
            )
        namespace = getattr(self._model, "label_namespace", getattr(self._model, "_label_namespace", "labels"))
        names = self._model.vocab.get_index_to_token_vocabulary(namespace)
        probs = _probs(output)
        by_label = {names.get(index, str(index)): value for index, value in enumerate(probs)}  # integers have no names
        return {"tokens": words or [""], "label": str(output["label"]), "probabilities": by_label, "probs": probs}


@Predictor.register("elmo_embedder")
class ElmoEmbedderPredictor(SpacyPredictor):
    """Return the ELMo vectors of any model that contains ELMo, under the keys of the TensorFlow Hub module `elmo/3`.

    `word_emb` (T, P) is the token layer, `lstm_outputs1` … (T, D) are the LSTM layers, `elmo` (T, D) is the first mix
    of the model, and `default` (D,) is the mean of `elmo` over the tokens, or zeros without tokens.

    ```python
    predictor = Predictor.from_path("model.tar.gz", "elmo_embedder")
    predictor.predict_json({"tokens": ["Greta", "sailed"]})["elmo"]
    ```

    Registered as a `Predictor` with name `elmo_embedder`.
    """

    def __init__(self, model: Model, dataset_reader: DatasetReader, language: Optional[str] = None) -> None:
        super().__init__(model, dataset_reader, language)
        self.elmo, self.mix = trained_elmo(model)

    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        """Embed instances in one biLM pass."""
        sentences = [instance_words(instance) for instance in instances]
        with torch.no_grad():
            ids = self.elmo.bilm.ids_of(sentences, self._model.vocab.get_token_index)  # (B, T, ·)
            layers, mask = self.elmo.layers(ids)  # (L, B, T + 2, D), (B, T + 2)
            mixed = self.mix(layers, mask)  # (B, T + 2, D)
        answers = []
        for row, words in enumerate(sentences):
            inside = slice(1, len(words) + 1)
            token_layer, *lstm_layers = layers[:, row, inside]  # (T, D) each
            elmo = mixed[row, inside]  # (T, D)
            answers.append(
                {
                    "tokens": words,
                    "word_emb": token_layer[:, : token_layer.size(-1) // 2],
                    **{f"lstm_outputs{depth}": layer for depth, layer in enumerate(lstm_layers, start=1)},
                    "elmo": elmo,
                    "default": elmo.sum(dim=0) / max(len(words), 1),
                }
            )
        return sanitize(answers)


def _probs(output: JsonDict) -> list[float]:
    """Return the probability of each label, which AllenNLP's `bcn` calls `class_probabilities`."""
    probs = output["probs"] if "probs" in output else output.get("class_probabilities", [])
    return [float(value) for value in probs]


def _with_a_token(instance: Instance) -> Instance:
    """Return the instance, with one empty word if it has no tokens: no RNN reads a sequence of length 0."""
    return instance if instance_words(instance) else Instance({**instance.fields, "tokens": TextField([Token("")])})
