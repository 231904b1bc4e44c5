"""The predictor `bilm`: its log probabilities against those worked out by hand, and AllenNLP's `predict`."""

import json
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.predictors import Predictor

from elmo_plugin.pretraining import BidirectionalLanguageModel, BiLMPredictor
from tests.language_model_oracles import HELDOUT, Config, experiment, nats_by_hand, perplexities, write_corpus
from tests.task_oracles import allennlp, same, train

QUESTIONS: list[Config] = [
    {"sentence": "the gull left"},
    {"tokens": []},
    {"tokens": ["a", "whale", "read", "the", "東京", "letter", "whale"]},
    {"sentence": " "},
    {"sentence": "  fog \t came\n"},
]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a language model briefly, and delete its text."""
    folder = tmp_path_factory.mktemp("archive")
    corpus = write_corpus(folder)
    train(experiment(corpus, {"type": "sentence_batches", "max_tokens": 60, "max_sentence_length": 20}), folder / "run")
    for path in corpus.values():
        Path(path).unlink()
    return folder / "run/model.tar.gz"


@pytest.fixture(scope="module")
def predictor(archive: Path) -> BiLMPredictor:
    """Load the predictor without its name, because it is the model's default."""
    found = Predictor.from_path(str(archive))
    assert isinstance(found, BiLMPredictor)
    return found


def predict(archive: Path, text: Path, *options: object) -> list[Config]:
    """Return the answers that `allennlp predict` writes."""
    answers = text.with_name("answers.jsonl")
    allennlp("predict", archive, text, "--silent", "--output-file", answers, *options)
    return [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("question", [QUESTIONS[1], QUESTIONS[2], QUESTIONS[4]])
def test_each_direction_scores_each_word(predictor: BiLMPredictor, question: Config) -> None:
    """Forward w₁ … wₙ </S>, and backward <S> w₁ … wₙ."""
    tokens = question["tokens"] if "tokens" in question else question["sentence"].split()
    answer = predictor.predict_json(question)
    model = predictor._model
    assert isinstance(model, BidirectionalLanguageModel)
    nats = nats_by_hand(model, tokens)
    forward, backward = -nats.forward, -nats.backward[::-1]
    assert len(forward) == len(tokens) + 1
    assert answer.pop("tokens") == tokens
    assert answer.pop("unknown") == [token for token in tokens if token in ("whale", "東京")]
    assert answer.pop("forward_log_probs") == pytest.approx(forward, abs=1e-5)
    assert answer.pop("backward_log_probs") == pytest.approx(backward, abs=1e-5)
    wanted = perplexities([nats])
    del wanted["n_tokens"]
    assert answer == pytest.approx(wanted, rel=1e-5)


def test_other_questions_are_rejected(predictor: BiLMPredictor) -> None:
    with pytest.raises(ConfigurationError, match=r"'sentence'.*'tokens'"):
        predictor.predict_json({"text": "a"})
    with pytest.raises(ConfigurationError, match="JSON"):
        predictor.load_line('{"sentence": fog}')


def test_allennlp_predict_answers_questions_and_a_text(archive: Path, predictor: BiLMPredictor, tmp_path: Path) -> None:
    questions, text = tmp_path / "sentences.jsonl", tmp_path / "text.txt"
    questions.write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS), encoding="utf-8")
    text.write_text("\n".join(HELDOUT) + "\n", encoding="utf-8")
    found = predict(archive, questions, "--predictor", "bilm", "--batch-size", 2)
    assert same(found, [predictor.predict_json(question) for question in QUESTIONS])
    found = predict(archive, text, "--use-dataset-reader", "--batch-size", 4)
    assert same(found, predictor.predict_batch_json([{"sentence": line} for line in HELDOUT]))
