"""A language model asked about sentences: how likely it finds each word, from the left and from the right."""

from statistics import fmean

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import JsonDict
from allennlp.data import DatasetReader, Instance, Token
from allennlp.data.fields import TextField
from allennlp.models import Model
from allennlp.nn.util import move_to_device
from allennlp.predictors import Predictor

from elmo_plugin.pretraining.language_model import BidirectionalLanguageModel
from elmo_plugin.pretraining.perplexity import perplexity_of
from elmo_plugin.pretraining.vocabulary import UNKNOWN_ID
from elmo_plugin.pretraining.word_ids import WordIds
from elmo_plugin.text import instance_words, read_question


@Predictor.register("bilm")
class BiLMPredictor(Predictor):
    """Scores `{"tokens": [...]}`, or `{"sentence": "…"}` cut at its blanks; both may be empty.

    The answer, of n tokens; logarithms are natural, over the full softmax:

    - `tokens`: the n tokens
    - `forward_log_probs`: n + 1 numbers, of w₁ … wₙ and `</S>`, each given what is left of it
    - `backward_log_probs`: n + 1 numbers, of `<S>` and w₁ … wₙ in the order of the text, each given what is right of it
    - `unknown`: those of the tokens that are not in the vocabulary, which are scored as `<UNK>`
    - `forward_perplexity`, `backward_perplexity`: exp of minus the mean of a list
    - `perplexity`: exp of minus the mean of both means

    Registered as a `Predictor` with name `bilm`.
    """

    def __init__(self, model: Model, dataset_reader: DatasetReader) -> None:
        super().__init__(model, dataset_reader)
        if not isinstance(model, BidirectionalLanguageModel):
            raise ConfigurationError(f"the archive's {type(model).__name__} is no language model; wanted a 'bilm'")
        self.word_ids = WordIds(model.vocab)

    def predict_instance(self, instance: Instance) -> JsonDict:
        """Answer for one sentence."""
        return self.predict_batch_instance([instance])[0]

    @torch.no_grad()
    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        """Answer for all sentences in one forward pass; JSON and the dataset reader both end here."""
        if not instances:
            return []
        sentences = [instance_words(instance) for instance in instances]
        tensors = self.word_ids.of_sentences(sentences)  # (B, T, C) and (B, T)
        output = self._model(tokens=move_to_device(tensors, next(self._model.parameters()).device))
        scores = self._model.make_output_human_readable(output)
        return [
            _answer(*sentence)
            for sentence in zip(
                sentences,
                (tensors["words"]["tokens"] == UNKNOWN_ID).tolist(),  # (B, T)
                scores["forward_log_probs"],
                scores["backward_log_probs"],
                strict=True,
            )
        ]

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        """Raises `ConfigurationError` for a question without either key."""
        question = read_question(json_dict)
        words = question.split() if isinstance(question, str) else question
        return Instance({"tokens": TextField([Token(word) for word in words])})


def _answer(tokens: list[str], unknown: list[bool], forward: list[float], backward: list[float]) -> JsonDict:
    forward_nats, backward_nats = -fmean(forward), -fmean(backward)
    return {
        "tokens": tokens,
        "forward_log_probs": forward,
        "backward_log_probs": backward,
        "unknown": [token for token, is_unknown in zip(tokens, unknown, strict=False) if is_unknown],  # beyond: padding
        "forward_perplexity": perplexity_of(forward_nats),
        "backward_perplexity": perplexity_of(backward_nats),
        "perplexity": perplexity_of((forward_nats + backward_nats) / 2),
    }
