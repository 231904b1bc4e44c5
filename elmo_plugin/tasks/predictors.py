"""Answers to JSON: tags, labels and ELMo vectors for raw text or tokens, in batches, empty text included."""

from typing import Any

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import JsonDict, sanitize
from allennlp.data import DatasetReader, Instance, Token
from allennlp.models import Model
from allennlp.predictors import Predictor
from torch import Tensor

from elmo_plugin.bilm import BiLM, SpellingEncoder
from elmo_plugin.mixes import Elmo
from elmo_plugin.tasks.spans import TAGS_TO_SPANS
from elmo_plugin.tasks.tokenizer import SpacyBlankTokenizer


class _TextPredictor(Predictor):
    """Reads `{"sentence": raw text}`, cut by spaCy's rule tokenizer, or `{"tokens": [...]}`, taken as they are."""

    def __init__(self, model: Model, dataset_reader: DatasetReader, language: str = "en") -> None:
        super().__init__(model, dataset_reader)
        self.tokenizer = SpacyBlankTokenizer(language)

    def words(self, json_dict: JsonDict) -> list[str]:
        """The tokens of a question. Raises `ConfigurationError` where there is neither key, or not of its type."""
        question = json_dict if isinstance(json_dict, dict) else {}
        tokens, sentence = question.get("tokens"), question.get("sentence")
        if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
            return tokens
        if tokens is None and isinstance(sentence, str):
            return [token.ensure_text() for token in self.tokenizer.tokenize(sentence)]
        raise ConfigurationError(
            f"wanted 'sentence' (a string) or 'tokens' (a list of strings), found {str(json_dict)[:200]}"
        )

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
        tags = output.get("tags", [])[: len(words)]  # AllenNLP's own taggers tag the padding of a batch too
        answer = {"tokens": words, "tags": tags, "probabilities": output.get("probabilities", [])}
        encoding = getattr(self._model, "label_encoding", None)
        if encoding is not None:
            answer["spans"] = [
                {"label": label, "start": start, "end": end + 1, "text": " ".join(words[start : end + 1])}
                for label, (start, end) in sorted(TAGS_TO_SPANS[encoding](tags, []), key=lambda span: span[1])
            ]
        return answer


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
            {"tokens": _words(instance), "label": output["label"], "probabilities": output["probabilities"]}
            for instance, output in zip(instances, outputs, strict=True)
        ]

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        words = self.words(json_dict)
        is_cut = json_dict.get("tokens") is not None
        instance = self._dataset_reader.text_to_instance(" ".join(words) if is_cut else json_dict["sentence"])
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
        found = [module for module in model.modules() if isinstance(module, Elmo)]
        if not found:
            raise ConfigurationError(f"the archive's {type(model).__name__} holds no ELMo to embed with")
        self.elmo = found[0]

    def predict_batch_json(self, inputs: list[JsonDict]) -> list[JsonDict]:
        """One biLM pass for all questions."""
        if not inputs:
            return []
        sentences = [self.words(json_dict) for json_dict in inputs]
        with torch.no_grad():
            layers, mask = self.elmo.layers(self._ids(self.elmo.bilm, sentences))  # (L, B, T + 2, D), (B, T + 2)
            mixed = self.elmo.mixes[0](layers, mask)  # (B, T + 2, D)
        answers = []
        for row, words in enumerate(sentences):
            inside = slice(1, len(words) + 1)
            answers.append({"tokens": words, **_hub_keys(layers[:, row, inside], mixed[row, inside])})
        return sanitize(answers)

    def _ids(self, bilm: BiLM, sentences: list[list[str]]) -> Tensor:
        device = next(bilm.parameters()).device
        if isinstance(bilm.token_encoder, SpellingEncoder):
            return bilm.token_encoder.batch_to_ids(sentences).to(device)
        index = self._model.vocab.get_token_index
        rows = [torch.tensor([index(word) for word in words], dtype=torch.long) for words in sentences]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(device)


def _hub_keys(layers: Tensor, mixed: Tensor) -> dict[str, Any]:
    """One sentence's layers (L, T, D) and mix (T, D) under the names of TF-Hub's `elmo/3`."""
    width = layers.size(-1) // 2
    contextual = {f"lstm_outputs{depth}": layer for depth, layer in enumerate(layers[1:], start=1)}
    default = mixed.sum(dim=0) / max(len(mixed), 1)
    return {"word_emb": layers[0, :, :width], **contextual, "elmo": mixed, "default": default}


def _words(instance: Instance) -> list[str]:
    return [token.text for token in instance["tokens"].tokens]  # type: ignore[attr-defined]
