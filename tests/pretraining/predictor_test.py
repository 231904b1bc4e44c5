"""The predictor `bilm`: its log probabilities against values computed with NumPy from exported files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.predictors import Predictor
from numpy.typing import NDArray

from elmo_plugin.pretraining import BidirectionalLanguageModel, BiLMPredictor
from tests.language_model_oracles import HELDOUT, WORDS, Config, experiment, write_corpus
from tests.oracles import file_layers, write_files
from tests.task_oracles import allennlp, train

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


def in_tensorflows_terms(model: Any, tokens: list[str], folder: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """Compute log probabilities forward, of w₁ … wₙ </S>, and backward, of <S> w₁ … wₙ, from exported files."""
    assert isinstance(model, BidirectionalLanguageModel)
    write_files(folder, model.bilm)
    forward, backward = np.split(file_layers(folder, tokens)[-1].numpy(), 2, axis=-1)  # (T + 2, P) each
    rows = [0, *(WORDS.index(token) if token in WORDS else 2 for token in tokens), 1]  # (T + 2,)
    state = {name: value.double().numpy() for name, value in model.softmax.state_dict().items() if name[0] != "_"}
    found = []
    for vectors, targets in ((forward[:-1], rows[1:]), (backward[1:], rows[:-1])):
        odds = np.exp(vectors @ state["weight"].T + state["bias"])  # (T + 1, V)
        found.append(np.log(odds / odds.sum(axis=1, keepdims=True))[np.arange(len(targets)), targets])
    return found[0], found[1]


def cut(question: Config) -> list[str]:
    tokens = question.get("tokens")
    return question["sentence"].split() if tokens is None else tokens


def assert_same(found: list[Config], wanted: list[Config]) -> None:
    """Check that answers are equal, numbers up to rounding."""
    for answer, other in zip(found, wanted, strict=True):
        assert answer.keys() == other.keys()
        for key, value in other.items():
            assert answer[key] == (value if key in ("tokens", "unknown") else pytest.approx(value, abs=1e-5)), key


def predict(archive: Path, text: Path, *options: object) -> list[Config]:
    """Return the answers that `allennlp predict` writes."""
    answers = text.with_name("answers.jsonl")
    allennlp("predict", archive, text, "--silent", "--output-file", answers, *options)
    return [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("question", [QUESTIONS[1], QUESTIONS[2], QUESTIONS[4]])
def test_each_direction_scores_each_word_as_the_exported_files_do(
    predictor: BiLMPredictor, tmp_path: Path, question: Config
) -> None:
    tokens = cut(question)
    answer = predictor.predict_json(question)
    forward, backward = in_tensorflows_terms(predictor._model, tokens, tmp_path)
    assert len(forward) == len(tokens) + 1
    assert answer.pop("tokens") == tokens
    assert answer.pop("unknown") == [token for token in tokens if token in ("whale", "東京")]
    assert answer.pop("forward_log_probs") == pytest.approx(forward, abs=1e-5)
    assert answer.pop("backward_log_probs") == pytest.approx(backward, abs=1e-5)
    nats = -forward.mean(), -backward.mean()
    names = ("forward_perplexity", "backward_perplexity", "perplexity")
    wanted = dict(zip(names, np.exp([*nats, sum(nats) / 2]), strict=True))
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
    assert_same(found, [predictor.predict_json(question) for question in QUESTIONS])
    found = predict(archive, text, "--use-dataset-reader", "--batch-size", 4)
    assert_same(found, predictor.predict_batch_json([{"sentence": line} for line in HELDOUT]))
