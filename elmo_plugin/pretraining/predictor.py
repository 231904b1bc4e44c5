"""A language model asked about sentences: how likely it finds each word, from the left and from the right."""

from statistics import fmean
from typing import Any

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import JsonDict
from allennlp.data import DatasetReader, Instance
from allennlp.models import Model
from allennlp.nn.util import move_to_device
from allennlp.predictors import Predictor

from elmo_plugin.pretraining.language_model import BidirectionalLanguageModel
from elmo_plugin.pretraining.perplexity import perplexity_of
from elmo_plugin.pretraining.vocabulary import UNKNOWN_ID
from elmo_plugin.pretraining.word_ids import WordIds


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

    def predict_json(self, inputs: JsonDict) -> JsonDict:
        """The answer for one sentence."""
        return self.predict_batch_json([inputs])[0]

    def predict_batch_json(self, inputs: list[JsonDict]) -> list[JsonDict]:
        """One forward pass for all sentences. Raises `ConfigurationError` for a question without either key."""
        return self._score([_tokens(json_dict) for json_dict in inputs])

    def predict_instance(self, instance: Instance) -> JsonDict:
        """The answer for a sentence of the dataset reader's."""
        return self.predict_batch_instance([instance])[0]

    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        """One forward pass for all sentences of the dataset reader's."""
        fields: list[Any] = [instance["tokens"] for instance in instances]
        return self._score([[token.text for token in field] for field in fields])

    @torch.no_grad()
    def _score(self, sentences: list[list[str]]) -> list[JsonDict]:
        if not sentences:
            return []
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


def _tokens(json_dict: Any) -> list[str]:
    question = json_dict if isinstance(json_dict, dict) else {}
    tokens, sentence = question.get("tokens"), question.get("sentence")
    if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
        return tokens
    if tokens is None and isinstance(sentence, str):
        return sentence.split()
    raise ConfigurationError(
        f"wanted 'sentence' (a string) or 'tokens' (a list of strings), found {str(json_dict)[:200]}"
    )
