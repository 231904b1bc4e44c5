"""The base classes of the predictors: they read raw text or tokens, and choose the layer that interpreters explain."""

from abc import ABC, abstractmethod
from typing import Any, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.common.util import JsonDict
from allennlp.data import DatasetReader, Instance
from allennlp.models import Model
from allennlp.predictors import Predictor
from torch import nn

from elmo_plugin.elmo import Elmo
from elmo_plugin.models.enhanced_text import WholeInput
from elmo_plugin.text import SpacyBlankTokenizer, read_line, read_question


class TextPredictor(Predictor, ABC):
    """Answer `{"sentence": "raw text"}`, which spaCy's rules tokenize, or `{"tokens": [...]}`, used unchanged.

    Subclasses turn JSON into an instance, and answer all instances in `predict_batch_instance`.
    """

    def __init__(self, model: Model, dataset_reader: DatasetReader, language: str = "en") -> None:
        super().__init__(model, dataset_reader)
        self.tokenizer = SpacyBlankTokenizer(language)

    def load_line(self, line: str) -> JsonDict:
        """Parse a line of JSON. Raises `ConfigurationError` if it is not JSON."""
        return read_line(line)

    def words(self, json_dict: JsonDict) -> list[str]:
        """Return the tokens of an input. Raises `ConfigurationError` if it has neither text nor tokens."""
        question = read_question(json_dict)
        if isinstance(question, list):
            return question
        return [token.ensure_text() for token in self.tokenizer.tokenize(question)]

    def predict(self, sentence: str) -> JsonDict:
        """Answer raw text."""
        return self.predict_json({"sentence": sentence})

    def predict_instance(self, instance: Instance) -> JsonDict:
        """Answer one instance."""
        return self.predict_batch_instance([instance])[0]

    @abstractmethod
    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        """Answer instances. Their gold labels are ignored."""


class LabelPredictor(TextPredictor):
    """Predict labels, which AllenNLP's interpreters explain and its attackers try to change.

    # Parameters

    language : `str`, optional (default = `"en"`)
        The language of raw text, as in `SpacyBlankTokenizer`.
    interpretable_layer : `str`, optional (default = `"input"`)
        The layer whose gradients the interpreters use: `input`, the whole input `[x; ELMo]`, or `token_layer`, the
        token layer of ELMo, whose vectors do not depend on the neighbouring words.
    """

    def __init__(
        self, model: Model, dataset_reader: DatasetReader, language: str = "en", interpretable_layer: str = "input"
    ) -> None:
        super().__init__(model, dataset_reader, language)
        if interpretable_layer not in ("input", "token_layer"):
            expected = "expected 'input' or 'token_layer'"
            raise ConfigurationError(f"'interpretable_layer': {expected}, got {interpretable_layer!r}")
        self._layer: Optional[nn.Module] = next(
            (part for part in model.modules() if isinstance(part, WholeInput)), None
        )
        if interpretable_layer == "token_layer":
            elmo = next((part for part in model.modules() if isinstance(part, Elmo)), None)
            if elmo is None:
                raise ConfigurationError(
                    f"'interpretable_layer': expected a model with ELMo, got a {type(model).__name__} without"
                )
            self._layer = elmo.expose_token_layer()

    def get_interpretable_layer(self) -> nn.Module:
        """Return the module whose output is explained. In AllenNLP's models it is the text field embedder."""
        return super().get_interpretable_layer() if self._layer is None else self._layer

    def get_interpretable_text_field_embedder(self) -> nn.Module:
        """Return the module whose inputs tell AllenNLP which word pieces make up a token."""
        # Our layers have one vector per token, so AllenNLP's hook gets a module that never runs.
        return super().get_interpretable_text_field_embedder() if self._layer is None else nn.Identity()

    @abstractmethod
    def predictions_to_labeled_instances(self, instance: Instance, outputs: dict[str, Any]) -> list[Instance]:
        """Return the instance with the predictions of the model as gold labels."""
