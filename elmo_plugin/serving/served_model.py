"""The models of a server, and their tasks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional, Union

from allennlp.common.util import JsonDict
from allennlp.data import Tokenizer
from allennlp.predictors import Predictor

from elmo_plugin.analysis import LearnedMix
from elmo_plugin.embedding import Embedder
from elmo_plugin.models import ElmoClassifierPredictor
from elmo_plugin.pretraining import BiLMPredictor
from elmo_plugin.serving.text_index import TextIndex
from elmo_plugin.text import instance_words, length_batches, read_question


class Sentence(NamedTuple):
    """A sentence as it was given, raw text or tokens, and its tokens."""

    given: Union[str, list[str]]
    tokens: list[str]

    @property
    def question(self) -> JsonDict:
        """Return the input of a predictor."""
        return {"sentence" if isinstance(self.given, str) else "tokens": self.given}


@dataclass(frozen=True, eq=False)
class ServedModel:
    """The models of a server. Every task takes sentences and returns one answer per sentence.

    # Parameters

    name : the name of the archive or biLM
    tokenizer : splits raw text if there is no predictor
    embedders : an embedder for each mix; none for a model without ELMo
    predictor : the predictor of a tagger or a classifier
    language_model : the predictor of a biLM with its softmax
    mixes : the learned layer weights at each place
    index : a text in which uses of a word are found
    """

    name: str
    tokenizer: Tokenizer
    embedders: dict[str, Embedder] = field(default_factory=dict)
    predictor: Optional[Predictor] = None
    language_model: Optional[BiLMPredictor] = None
    mixes: dict[str, LearnedMix] = field(default_factory=dict)
    index: Optional[TextIndex] = None

    @property
    def label_task(self) -> Optional[str]:
        """Return the task of the predictor, `tag` or `classify`, or `None` without one."""
        if self.predictor is None:
            return None
        return "classify" if isinstance(self.predictor, ElmoClassifierPredictor) else "tag"

    @property
    def tags(self) -> list[str]:
        """Return all tags or labels of the model."""
        if self.predictor is None:
            return []
        model = self.predictor._model
        return list(model.vocab.get_token_to_index_vocabulary(getattr(model, "label_namespace", "labels")))

    def read(self, given: Sequence[Union[str, list[str]]]) -> list[Sentence]:
        """Split raw text as the model's predictor does. Lists of tokens are used as they are."""
        return [Sentence(each, self._tokens(each)) for each in given]

    def label(self, sentences: Sequence[Sentence]) -> list[JsonDict]:
        """Return the predictor's answers: tags or labels."""
        assert self.predictor is not None
        return _in_batches(self.predictor, [each.question for each in sentences], sentences)

    def log_probabilities(self, sentences: Sequence[Sentence]) -> list[JsonDict]:
        """Return the answers of the predictor `bilm`: the log probability of each token."""
        assert self.language_model is not None
        return _in_batches(self.language_model, [{"tokens": each.tokens} for each in sentences], sentences)

    def _tokens(self, given: Union[str, list[str]]) -> list[str]:
        if isinstance(given, list):
            return given
        if self.predictor is not None:
            return instance_words(self.predictor._json_to_instance({"sentence": given}))
        return [token.ensure_text() for token in self.tokenizer.tokenize(str(read_question({"sentence": given})))]


def _in_batches(predictor: Predictor, questions: list[JsonDict], sentences: Sequence[Sentence]) -> list[JsonDict]:
    answers: dict[int, Any] = {}
    for batch in length_batches([len(each.tokens) for each in sentences]):
        found = predictor.predict_batch_json([questions[index] for index in batch])
        answers |= dict(zip(batch, found, strict=True))
    return [answers[index] for index in range(len(sentences))]
