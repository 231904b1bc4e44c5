"""A pretrained biLM with its softmax, ready to score sentences."""

from collections.abc import Sequence

import numpy as np
from allennlp.common.checks import ConfigurationError
from allennlp.common.tqdm import Tqdm

from elmo_plugin.checkpoints import load_checkpoint
from elmo_plugin.pretraining.language_model import BidirectionalLanguageModel
from elmo_plugin.pretraining.predictor import BiLMPredictor
from elmo_plugin.pretraining.shards import TextShardsReader
from elmo_plugin.pretraining.vocabulary import vocabulary_of
from elmo_plugin.text import length_batches


def load_language_model(bilm: str) -> BidirectionalLanguageModel:
    """Load a biLM with its softmax and vocabulary, for evaluation.

    `bilm` is a bundled name, a `.safetensors` file of this package, or an archive or run of the model `bilm`. Raises
    `ConfigurationError` for a file without a softmax.
    """
    checkpoint = load_checkpoint(bilm)
    if checkpoint.vocabulary is None or checkpoint.softmax is None:
        raise ConfigurationError(f"'{bilm}': expected a biLM with its softmax and vocabulary, got one without")
    vocab = vocabulary_of(checkpoint.vocabulary)
    vocab.keep_checkpoint(bilm, checkpoint)
    return BidirectionalLanguageModel(vocab, {"pretrained": bilm}).eval()


def sentence_log_probabilities(model: BidirectionalLanguageModel, sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """Return the forward and backward log probability of each sentence (N, 2), in nats over the full softmax.

    Each is a sum over the words and one boundary: `</S>` forward, `<S>` backward. Unknown words count as `<UNK>`.
    """
    predictor = BiLMPredictor(model, TextShardsReader())
    scores = np.zeros((len(sentences), 2))  # (N, 2)
    with Tqdm.tqdm(total=len(sentences), desc="scoring", unit=" sentences") as progress:
        for batch in length_batches([len(sentence) for sentence in sentences]):
            answers = predictor.predict_batch_json([{"tokens": list(sentences[index])} for index in batch])
            for index, answer in zip(batch, answers, strict=True):
                scores[index] = sum(answer["forward_log_probs"]), sum(answer["backward_log_probs"])
            progress.update(len(batch))
    return scores
