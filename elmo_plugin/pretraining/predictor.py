"""The predictor `bilm`, and the scores and the perplexity of any biLM with its softmax."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.tqdm import Tqdm
from allennlp.common.util import JsonDict
from allennlp.data import DatasetReader, Instance
from allennlp.models import Model
from allennlp.predictors import Predictor
from allennlp.training.util import evaluate

from elmo_plugin.bilm import language_of
from elmo_plugin.checkpoints import load_checkpoint
from elmo_plugin.pretraining.language_model import BidirectionalLanguageModel
from elmo_plugin.pretraining.loaders import SentenceBatches, TextShardsReader
from elmo_plugin.pretraining.metrics import perplexity_of
from elmo_plugin.pretraining.vocabulary import UNKNOWN_ID, WordIds, vocabulary_of
from elmo_plugin.text import AsciiSpacesTokenizer, TextPredictor, by_length, instance_words


@Predictor.register("bilm")
class BiLMPredictor(TextPredictor):
    """Scores `{"tokens": [...]}`, or `{"sentence": "…"}` split at ASCII white space. Both may be empty.

    The answer for n tokens has these keys; logarithms are natural and over the full softmax:

    - `tokens`: the n tokens
    - `forward_log_probs`: n + 1 numbers, for w₁ … wₙ and `</S>`, each given the words to its left
    - `backward_log_probs`: n + 1 numbers, for `<S>` and w₁ … wₙ, each given the words to its right
    - `unknown`: the tokens that are not in the vocabulary; they are scored as `<UNK>`
    - `forward_perplexity`, `backward_perplexity`: exp of minus the mean of each list
    - `perplexity`: exp of minus the mean of both means

    Registered as a `Predictor` with name `bilm`.

    ```python
    predictor = Predictor.from_path("runs/bilm/model.tar.gz")
    predictor.predict_json({"sentence": "the ferry left"})["forward_log_probs"]
    ```
    """

    def __init__(self, model: Model, dataset_reader: DatasetReader) -> None:
        super().__init__(model, dataset_reader, AsciiSpacesTokenizer(), language_of(model))
        if not isinstance(model, BidirectionalLanguageModel):
            raise ConfigurationError(f"the archive: expected a model of type 'bilm', got {type(model).__name__}")
        self.word_ids = WordIds(model.vocab)

    @torch.no_grad()
    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        """Score sentences in one forward pass. All `predict_…` methods end here."""
        sentences = [instance_words(instance) for instance in instances]
        tensors = self.word_ids.of_sentences(sentences)  # (B, T, C) and (B, T)
        scores = self._model.make_output_human_readable(self._model(tokens=tensors))
        unknown = (tensors["words"]["tokens"] == UNKNOWN_ID).tolist()  # (B, T)
        log_probs = scores["forward_log_probs"], scores["backward_log_probs"]
        return [
            {
                "tokens": tokens,
                "forward_log_probs": forward,
                "backward_log_probs": backward,
                "unknown": [token for token, is_unknown in zip(tokens, flags, strict=False) if is_unknown],
                "forward_perplexity": perplexity_of(-fmean(forward)),
                "backward_perplexity": perplexity_of(-fmean(backward)),
                "perplexity": perplexity_of(-(fmean(forward) + fmean(backward)) / 2),
            }
            for tokens, flags, forward, backward in zip(sentences, unknown, *log_probs, strict=True)
        ]


def load_language_model(bilm: str) -> BidirectionalLanguageModel:
    """Load a biLM with its softmax and vocabulary, for evaluation.

    `bilm` is a bundled name, a `.safetensors` file of this package, or an archive or run of the model `bilm`. Raises
    `ConfigurationError` for a file without a softmax.
    """
    checkpoint = load_checkpoint(bilm)
    if checkpoint.vocabulary is None or checkpoint.softmax is None:
        raise ConfigurationError(f"'{bilm}': expected a biLM with its softmax and vocabulary, got one without")
    return BidirectionalLanguageModel(vocabulary_of(checkpoint.vocabulary, bilm), {"pretrained": bilm}).eval()


def sentence_log_probabilities(model: BidirectionalLanguageModel, sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """Return the forward and backward log probability of each sentence (N, 2), in nats over the full softmax.

    Each is a sum over the words and one boundary: `</S>` forward, `<S>` backward. Unknown words count as `<UNK>`.
    """
    predictor = BiLMPredictor(model, TextShardsReader())
    questions = [{"tokens": list(words)} for words in sentences]
    answers = by_length(predictor.predict_batch_json, questions, list(map(len, sentences)))
    scores = np.zeros((len(sentences), 2))  # (N, 2)
    for index, answer in Tqdm.tqdm(answers, desc="scoring", unit=" sentences", total=len(sentences)):
        scores[index] = sum(answer["forward_log_probs"]), sum(answer["backward_log_probs"])
    return scores


def evaluate_language_model(bilm: str, text: str, device: torch.device) -> dict[str, Any]:
    """Return the metrics of a biLM with its softmax on the sentences of a text, each read whole and by itself.

    `bilm` is as in `load_language_model`, and `text` is a path or a pattern of text shards.
    """
    model = load_language_model(bilm).to(device)
    loader = SentenceBatches(TextShardsReader(), text, max_sentence_length=None, shuffle=False)
    loader.index_with(model.vocab)
    return evaluate(model, loader, batch_weight_key="n_tokens")
