"""Answers to JSON: tags, labels and ELMo vectors for raw text or tokens, in batches, empty text included."""

from abc import ABC, abstractmethod
from json import JSONDecodeError
from typing import Any

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import JsonDict, sanitize
from allennlp.data import DatasetReader, Instance, Token
from allennlp.models import Model
from allennlp.predictors import Predictor
from torch import Tensor

from elmo_plugin.mixes.trained_mix import trained_elmo
from elmo_plugin.tasks.spans import TAGS_TO_SPANS
from elmo_plugin.tasks.tokenizer import SpacyBlankTokenizer


class _TextPredictor(Predictor, ABC):
    """Reads `{"sentence": raw text}`, cut by spaCy's rule tokenizer, or `{"tokens": [...]}`, taken as they are."""

    def __init__(self, model: Model, dataset_reader: DatasetReader, language: str = "en") -> None:
        super().__init__(model, dataset_reader)
        self.tokenizer = SpacyBlankTokenizer(language)

    def load_line(self, line: str) -> JsonDict:
        """A line of JSON. Raises `ConfigurationError` for one that is none."""
        try:
            return super().load_line(line)
        except JSONDecodeError as error:
            raise ConfigurationError(f"wanted an object of JSON a line, found {line[:200]!r}: {error}") from error

    def words(self, json_dict: JsonDict) -> list[str]:
        """The tokens of a question. Raises `ConfigurationError` where there is neither key, or not of its type."""
        question = json_dict if isinstance(json_dict, dict) else {}
        tokens, sentence = question.get("tokens"), question.get("sentence")
        if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
            return tokens
        if tokens is None and isinstance(sentence, str):
            return [token.ensure_text() for token in self.tokenizer.tokenize(_text(sentence))]
        raise ConfigurationError(
            f"wanted 'sentence' (a string) or 'tokens' (a list of strings), found {str(json_dict)[:200]}"
        )

    @abstractmethod
    def predict_batch_json(self, inputs: list[JsonDict]) -> list[JsonDict]:
        """The answers for questions."""

    def predict(self, sentence: str) -> JsonDict:
        """The answer for raw text."""
        return self.predict_json({"sentence": sentence})

    def predict_json(self, inputs: JsonDict) -> JsonDict:
        """The answer for one question."""
        return self.predict_batch_json([inputs])[0]


@Predictor.register("elmo_tagger")
class ElmoTaggerPredictor(_TextPredictor):
    """Answers `tokens`, `tags`, `probabilities` (one a token) and, for span labels, `spans`.

    A span has its `label`, `start` and `end` (tokens, the end not included) and `text`.

    Registered as a `Predictor` with name `elmo_tagger`.
    """

    def predict_batch_json(self, inputs: list[JsonDict]) -> list[JsonDict]:
        """One forward pass for all questions; a text without tokens has no tags."""
        sentences = [self.words(json_dict) for json_dict in inputs]
        instances = [self._instance(words) for words in sentences if words]
        outputs = iter(self.predict_batch_instance(instances) if instances else [])
        return [self._answer(words, next(outputs) if words else {}) for words in sentences]

    def _instance(self, words: list[str]) -> Instance:
        return self._dataset_reader.text_to_instance([Token(word) for word in words])

    def _answer(self, words: list[str], output: JsonDict) -> JsonDict:
        if words and "tags" not in output:
            raise ConfigurationError(f"wanted a tagger, found a {type(self._model).__name__}, which gives {[*output]}")
        tags = output.get("tags", [])[: len(words)]  # AllenNLP's own taggers tag the padding of a batch too
        answer = {"tokens": words, "tags": tags, **self._probabilities(output, len(words))}
        metric = getattr(self._model, "_f1_metric", None)  # where `simple_tagger` has it
        encoding = getattr(self._model, "label_encoding", getattr(metric, "_label_encoding", None))
        if encoding is not None:
            answer["spans"] = [
                {"label": label, "start": start, "end": end + 1, "text": " ".join(words[start : end + 1])}
                for label, (start, end) in sorted(TAGS_TO_SPANS[encoding](tags, []), key=lambda span: span[1])
            ]
        return answer

    def _probabilities(self, output: JsonDict, length: int) -> JsonDict:
        """Under their key: ours, or those of AllenNLP's `simple_tagger`; its `crf_tagger` has none."""
        by_tag = output.get("class_probabilities")
        found = output.get("probabilities", [] if by_tag is None else [max(row) for row in by_tag[:length]])
        return {"probabilities": found} if found or not length else {}


@Predictor.register("elmo_classifier")
class ElmoClassifierPredictor(_TextPredictor):
    """Answers `tokens`, `label` and `probabilities`, by label. A text without tokens is read as one empty word.

    Raw text is cut as the dataset reader cuts it, `{"tokens": [...]}` is taken as it is.

    Registered as a `Predictor` with name `elmo_classifier`.
    """

    def predict_batch_json(self, inputs: list[JsonDict]) -> list[JsonDict]:
        """One forward pass for all questions."""
        instances = [self._json_to_instance(json_dict) for json_dict in inputs]
        outputs = self.predict_batch_instance(instances) if instances else []
        return [
            {"tokens": _words(instance), "label": self._label(output), "probabilities": self._probabilities(output)}
            for instance, output in zip(instances, outputs, strict=True)
        ]

    def _label(self, output: JsonDict) -> str:
        if "label" not in output:
            found = type(self._model).__name__
            raise ConfigurationError(f"wanted a classifier, found a {found}, which gives {[*output]}")
        return str(output["label"])

    def _probabilities(self, output: JsonDict) -> dict[str, float]:
        """By label: ours, or those of AllenNLP's `basic_classifier` and `bcn`."""
        if "probabilities" in output:
            return dict(output["probabilities"])
        labels = self._model.vocab.get_index_to_token_vocabulary(getattr(self._model, "_label_namespace", "labels"))
        found: list[float] = output.get("probs") or output.get("class_probabilities") or []
        return {labels[place]: value for place, value in enumerate(found)}

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        words = self.words(json_dict)
        is_cut = json_dict.get("tokens") is not None
        instance = self._dataset_reader.text_to_instance(" ".join(words) if is_cut else _text(json_dict["sentence"]))
        if is_cut:
            instance["tokens"].tokens = [Token(word) for word in words]  # type: ignore[attr-defined]
        if not _words(instance):
            instance["tokens"].tokens.append(Token(""))  # type: ignore[attr-defined]
        return instance


@Predictor.register("elmo_embedder")
class ElmoEmbedderPredictor(_TextPredictor):
    """ELMo vectors out of any model that holds an ELMo, with the keys of the TensorFlow-Hub module.

    `word_emb` (T, P) is the token layer, `lstm_outputs1` … (T, D) the layers above it, `elmo` (T, D) the model's first
    mix of them, `default` (D,) the mean of `elmo` over the tokens, zeros where there is none.

    Registered as a `Predictor` with name `elmo_embedder`.
    """

    def __init__(self, model: Model, dataset_reader: DatasetReader, language: str = "en") -> None:
        super().__init__(model, dataset_reader, language)
        self.elmo, self.mix = trained_elmo(model)

    def predict_batch_json(self, inputs: list[JsonDict]) -> list[JsonDict]:
        """One biLM pass for all questions."""
        if not inputs:
            return []
        sentences = [self.words(json_dict) for json_dict in inputs]
        with torch.no_grad():
            ids = self.elmo.bilm.ids_of(sentences, self._model.vocab.get_token_index)  # (B, T, ·)
            layers, mask = self.elmo.layers(ids)  # (L, B, T + 2, D), (B, T + 2)
            mixed = self.mix(layers, mask)  # (B, T + 2, D)
        answers = []
        for row, words in enumerate(sentences):
            inside = slice(1, len(words) + 1)
            answers.append({"tokens": words, **_hub_keys(layers[:, row, inside], mixed[row, inside])})
        return sanitize(answers)


def _hub_keys(layers: Tensor, mixed: Tensor) -> dict[str, Any]:
    """One sentence's layers (L, T, D) and mix (T, D) under the names of TF-Hub's `elmo/3`."""
    width = layers.size(-1) // 2
    contextual = {f"lstm_outputs{depth}": layer for depth, layer in enumerate(layers[1:], start=1)}
    default = mixed.sum(dim=0) / max(len(mixed), 1)
    return {"word_emb": layers[0, :, :width], **contextual, "elmo": mixed, "default": default}


def _text(sentence: str) -> str:
    """The same text; half a surrogate pair, which JSON can say and no tokenizer reads, becomes U+FFFD."""
    return sentence.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _words(instance: Instance) -> list[str]:
    return [token.text for token in instance["tokens"].tokens]  # type: ignore[attr-defined]
