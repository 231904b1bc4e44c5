"""The biLM that comes with the package: it is small, complete, and has learned English."""

import pytest
import torch
from allennlp.predictors import Predictor

from elmo_plugin.checkpoints import Checkpoint, build_bilm, load_checkpoint
from elmo_plugin.pretraining import BidirectionalLanguageModel, TextShardsReader
from elmo_plugin.pretraining.predictor import BiLMPredictor
from elmo_plugin.pretraining.vocabulary import vocabulary_of
from elmo_plugin.text import batch_to_ids


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return load_checkpoint("english-tiny")


@pytest.fixture(scope="module")
def predictor(checkpoint: Checkpoint) -> Predictor:
    assert checkpoint.vocabulary is not None
    model = BidirectionalLanguageModel(vocabulary_of(checkpoint.vocabulary), {"pretrained": "english-tiny"})
    return BiLMPredictor(model.eval(), TextShardsReader())


def test_it_has_a_softmax_over_at_least_thirty_thousand_words(checkpoint: Checkpoint) -> None:
    assert checkpoint.vocabulary is not None and checkpoint.softmax is not None
    assert len(checkpoint.vocabulary) == checkpoint.options.n_tokens_vocab >= 30000
    assert build_bilm(checkpoint).lstm.options == checkpoint.options.lstm


def test_it_expects_words_where_english_has_them_in_both_directions(predictor: Predictor) -> None:
    """Sentences of our own against the same words in another order."""
    for sentence in ("She opened the door and looked at him .", "I have never seen him since that day ."):
        words = sentence.split()
        said, shuffled = (predictor.predict_json({"tokens": tokens}) for tokens in (words, sorted(words)))
        for direction in ("forward_perplexity", "backward_perplexity"):
            assert said[direction] < 100 < shuffled[direction]


def test_it_tells_verbs_from_nouns_by_their_context(checkpoint: Checkpoint) -> None:
    """As a noun, `watch` is nearer to `hand` than to `see`; as a verb, it is nearer to `see`."""
    uses = ["I gave him my watch .", "I gave him my hand .", "I will watch him .", "I will see him ."]
    layers = build_bilm(checkpoint)(batch_to_ids([use.split() for use in uses])).layers[-1]  # (B, T, D)
    at = [use.split().index(word) + 1 for use, word in zip(uses, ("watch", "hand", "watch", "see"), strict=True)]
    noun, other_noun, verb, other_verb = (layers[row, place] for row, place in enumerate(at))
    alike = torch.cosine_similarity
    assert alike(noun, other_noun, dim=0) > alike(noun, other_verb, dim=0)
    assert alike(verb, other_verb, dim=0) > alike(verb, other_noun, dim=0)
