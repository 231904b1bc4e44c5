"""What our predictors have in common: how they are asked, and what AllenNLP's interpreters find in them."""

from abc import ABC, abstractmethod
from json import JSONDecodeError
from typing import Any, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.common.util import JsonDict
from allennlp.data import DatasetReader, Instance
from allennlp.models import Model
from allennlp.predictors import Predictor
from torch import nn

from elmo_plugin.elmo import Elmo
from elmo_plugin.models.enhanced_text import WholeInput
from elmo_plugin.text import SpacyBlankTokenizer, read_question

INTERPRETABLE_LAYERS = ("input", "token_layer")


class TextPredictor(Predictor, ABC):
    """Reads `{"sentence": raw text}`, cut by spaCy's rule tokenizer, or `{"tokens": [...]}`, taken as they are.

    JSON becomes an instance, and `predict_batch_instance` answers every instance, also those of the dataset reader.
    """

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
        """Return the tokens of a question. Raises `ConfigurationError` if it is neither text nor tokens."""
        question = read_question(json_dict)
        if isinstance(question, list):
            return question
        return [token.ensure_text() for token in self.tokenizer.tokenize(question)]

    def predict(self, sentence: str) -> JsonDict:
        """Answer for raw text."""
        return self.predict_json({"sentence": sentence})

    def predict_instance(self, instance: Instance) -> JsonDict:
        """Answer for one instance."""
        return self.predict_batch_instance([instance])[0]

    @abstractmethod
    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        """Answer for instances; what they hold of gold labels does not matter."""


class LabelPredictor(TextPredictor):
    """Predicts labels, which AllenNLP's interpreters explain and its attackers try to change.

    # Parameters

    interpretable_layer : `str`, optional (default = `"input"`)
        What their gradients are of: `input`, the whole input `[x; ELMo]`, or `token_layer`, ELMo's token layer, in
        which a vector knows nothing of the words beside it.
    """

    def __init__(
        self, model: Model, dataset_reader: DatasetReader, language: str = "en", interpretable_layer: str = "input"
    ) -> None:
        super().__init__(model, dataset_reader, language)
        if interpretable_layer not in INTERPRETABLE_LAYERS:
            wanted = " or ".join(map(repr, INTERPRETABLE_LAYERS))
            raise ConfigurationError(f"'interpretable_layer': expected {wanted}, got {interpretable_layer!r}")
        if interpretable_layer == "token_layer":
            self._layer: Optional[nn.Module] = _find_elmo(model).expose_token_layer()
        else:
            self._layer = next((module for module in model.modules() if isinstance(module, WholeInput)), None)

    def get_interpretable_layer(self) -> nn.Module:
        """Return the module whose output is explained: of AllenNLP's own models, its text field embedder."""
        return super().get_interpretable_layer() if self._layer is None else self._layer

    def get_interpretable_text_field_embedder(self) -> nn.Module:
        """Return the module whose inputs say which word pieces make up a token."""
        # Our layers have one vector a token: a module that never runs has no such inputs.
        return super().get_interpretable_text_field_embedder() if self._layer is None else nn.Identity()

    @abstractmethod
    def predictions_to_labeled_instances(self, instance: Instance, outputs: dict[str, Any]) -> list[Instance]:
        """Return the instance with what the model predicts of it in place of gold labels."""


def _find_elmo(model: Model) -> Elmo:
    """Return the model's first ELMo. Raises `ConfigurationError` if there is none."""
    for module in model.modules():
        if isinstance(module, Elmo):
            return module
    raise ConfigurationError(f"expected a model with ELMo, got a {type(model).__name__} that holds none")
