import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance, Token
from allennlp.data.fields import TextField
from allennlp.predictors import Predictor

from elmo_plugin.bilm import BiLM
from elmo_plugin.models import ElmoClassifierPredictor, ElmoEmbedderPredictor, ElmoTaggerPredictor
from elmo_plugin.text import batch_to_ids
from tests.models.configs import ELMO_ONLY, pooling, stock_tagger, train_archive
from tests.oracles import options
from tests.task_oracles import (
    OPINIONS,
    TOWNS,
    Config,
    D,
    L,
    allennlp,
    bilm_files,
    classifier,
    csv_reader,
    experiment,
    lstm,
    opinions_as_json,
    small_bilm,
    tagger,
    tags_reader,
    vocabulary_folder,
    word_embedder,
)

RAW = {"sentence": "Tove can't leave Quill."}
CUT = {"tokens": ["Tove", "ca", "n't", "leave", "Quill", "."]}
NO_TAGS: Config = {"tokens": [], "tags": [], "probabilities": []}
BLANK: list[Config] = [{"sentence": ""}, {"sentence": " \n\t "}, {"tokens": []}]


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory, trained_tagger: Path) -> dict[str, Path]:
    """Trained models of every kind, whose biLM's file is gone."""
    folder = tmp_path_factory.mktemp("archives")
    files = bilm_files(folder / "bilm")
    elmo: Config = {**files, "dropout": 0.0}
    stock = stock_tagger(elmo=elmo)
    stock_classifier = {
        "type": "basic_classifier",
        "text_field_embedder": stock["text_field_embedder"],
        "seq2vec_encoder": pooling(D),
    }
    bioul = tags_reader(convert_to_coding_scheme="BIOUL")
    json_reader = {"type": "text_classification_json", "tokenizer": "just_spaces", "token_indexers": ELMO_ONLY}
    baseline = tagger(None, encoder=lstm(5), text_field_embedder=word_embedder(5))
    configs = {
        "softmax": experiment(tagger(elmo, crf=False, label_encoding="BIOUL"), bioul, TOWNS),
        "plain": experiment(tagger(elmo, label_encoding=None), tags_reader(coding_scheme=None), TOWNS),
        "classifier": experiment(classifier(elmo), csv_reader(tokenizer="spacy_blank"), OPINIONS),
        "json": experiment(classifier(elmo), json_reader, opinions_as_json(folder)),
        "stock": experiment(stock, tags_reader(token_indexers=ELMO_ONLY), TOWNS),
        "stock_classifier": experiment(stock_classifier, json_reader, opinions_as_json(folder)),
        "baseline": experiment(baseline, tags_reader(), TOWNS),
    }
    trained = {name: train_archive(config, folder / name) for name, config in configs.items()}
    for file in files.values():
        Path(file).unlink()
    return {"tagger": trained_tagger, **trained}


Load = Callable[..., Any]


@pytest.fixture(scope="module")
def load(archives: dict[str, Path]) -> Load:
    """The predictor of an archive, each loaded once."""

    @cache
    def predictor(archive: str, name: Optional[str] = None) -> Predictor:
        return Predictor.from_path(str(archives[archive]), predictor_name=name)

    return predictor


def same(found: Any, wanted: Any) -> bool:
    """Equal, with numbers equal up to rounding."""
    if isinstance(wanted, float):
        return bool(found == pytest.approx(wanted, abs=1e-5))
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    return bool(found == wanted)


QUESTIONS = [RAW, BLANK[0], {"tokens": ["Mirka", "saw", "Harrow"]}, *BLANK[1:], CUT]


@pytest.mark.parametrize(
    ("archive", "name"),
    [
        ("softmax", "elmo_tagger"),
        ("json", "elmo_classifier"),
        ("tagger", "elmo_embedder"),
        ("stock", "elmo_tagger"),
    ],
)
def test_a_batch_has_the_answers_of_its_questions_one_by_one(load: Load, archive: str, name: str) -> None:
    predictor = load(archive, name)
    together = predictor.predict_batch_json(QUESTIONS)
    assert len(together) == len(QUESTIONS)
    for question, answer in zip(QUESTIONS, together, strict=True):
        assert same(predictor.predict_json(question), answer)
    assert predictor.predict_batch_json([]) == []
    assert same(predictor.predict_batch_json(BLANK), [together[1]] * 3)
    json.dumps(together)


def test_the_default_predictors_are_ours(load: Load) -> None:
    assert type(load("tagger")) is ElmoTaggerPredictor
    assert type(load("classifier")) is ElmoClassifierPredictor


@pytest.mark.parametrize("archive", ["tagger", "baseline"])
def test_the_tagger_answers_raw_text_and_tokens_alike(load: Load, archive: str) -> None:
    predictor = load(archive, "elmo_tagger")
    answer = predictor.predict_json(RAW)
    assert answer["tokens"] == CUT["tokens"]
    assert set(answer) == {"tokens", "tags", "probabilities", "spans"}
    assert len(answer["tags"]) == len(answer["probabilities"]) == 6
    assert all(0.0 <= probability <= 1.0 for probability in answer["probabilities"])
    assert same(answer, predictor.predict_json(CUT)) and same(answer, predictor.predict(RAW["sentence"]))


def test_spans_are_read_off_the_tags(load: Load) -> None:
    predictor = load("tagger", "elmo_tagger")
    words = ["Tove", "Lund", "left", "Lower", "Harrow", "Bay"]
    tags = ["B-PER", "I-PER", "O", "B-LOC", "I-LOC", "I-LOC"]
    assert predictor._answer(words, {"tags": tags, "probabilities": [1.0] * 6})["spans"] == [
        {"label": "PER", "start": 0, "end": 2, "text": "Tove Lund"},
        {"label": "LOC", "start": 3, "end": 6, "text": "Lower Harrow Bay"},
    ]
    bioul = load("softmax", "elmo_tagger")
    found = bioul._answer(words, {"tags": ["B-PER", "L-PER", "O", "U-LOC", "L-LOC", "U-LOC"], "probabilities": []})
    assert [(span["label"], span["start"], span["end"]) for span in found["spans"]] == [
        ("PER", 0, 2),
        ("LOC", 3, 5),
        ("LOC", 5, 6),
    ]


def test_plain_tags_have_no_spans(load: Load) -> None:
    assert set(load("plain", "elmo_tagger").predict_json(RAW)) == {"tokens", "tags", "probabilities"}


@pytest.mark.parametrize("question", BLANK)
def test_a_text_without_tokens_has_no_tags(load: Load, question: Config) -> None:
    assert load("tagger", "elmo_tagger").predict_json(question) == {**NO_TAGS, "spans": []}


@pytest.mark.parametrize(("archive", "name"), [("tagger", "elmo_tagger"), ("classifier", "elmo_classifier")])
@pytest.mark.parametrize(
    "question",
    [{}, {"text": "Tove left."}, {"sentence": 7}, {"tokens": "Tove left."}, {"tokens": ["Tove", 3]}, ["Tove"]],
)
def test_other_json_is_an_error_that_names_the_keys(load: Load, archive: str, name: str, question: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"'sentence'.*'tokens'") as caught:
        load(archive, name).predict_json(question)
    assert str(question) in str(caught.value)


@pytest.mark.parametrize("archive", ["classifier", "json"])
def test_the_classifier_names_a_label_for_any_text(load: Load, archive: str) -> None:
    predictor = load(archive, "elmo_classifier")
    answers = predictor.predict_batch_json([{"sentence": "Naïve, warm music."}, *BLANK])
    cut = ["Naïve", ",", "warm", "music", "."] if archive == "classifier" else ["Naïve,", "warm", "music."]
    assert [answer["tokens"] for answer in answers] == [cut, [""], [""], [""]]
    for answer in answers:
        assert set(answer) == {"tokens", "label", "probabilities", "probs"}
        assert set(answer["probabilities"]) == {"good", "bad", "mixed"}
        assert answer["label"] == max(answer["probabilities"], key=answer["probabilities"].get)
        assert answer["probs"] == [*answer["probabilities"].values()]
    assert same(predictor.predict_json({"tokens": cut}), answers[0])


@pytest.mark.parametrize("archive", ["tagger", "stock"])
def test_the_embedder_has_the_keys_and_shapes_of_tf_hub(load: Load, archive: str) -> None:
    predictor = load(archive, "elmo_embedder")
    assert isinstance(predictor, ElmoEmbedderPredictor)
    answer = predictor.predict_json(RAW)
    assert answer == predictor.predict_json(RAW)  # without dropout
    assert set(answer) == {"tokens", "word_emb", "lstm_outputs1", "lstm_outputs2", "elmo", "default"}
    assert answer["tokens"] == CUT["tokens"]
    layers = small_bilm()(batch_to_ids([CUT["tokens"]])).layers[:, 0, 1:-1]  # (L, T, D)
    mix = predictor.elmo.mixes[0]
    mixed = mix(layers.unsqueeze(1), torch.ones(1, 6, dtype=torch.bool))[0]  # (T, D)
    wanted = {
        "word_emb": layers[0, :, : D // 2],  # (T, P)
        "lstm_outputs1": layers[1],
        "lstm_outputs2": layers[2],
        "elmo": mixed,
        "default": mixed.mean(dim=0),  # (D,)
    }
    for key, value in wanted.items():
        torch.testing.assert_close(torch.tensor(answer[key]), value.detach(), atol=1e-5, rtol=0)


def test_the_embedder_gives_a_text_without_tokens_no_vectors_and_a_zero_mean(load: Load) -> None:
    predictor = load("tagger", "elmo_embedder")
    for question in BLANK:
        answer = predictor.predict_json(question)
        assert answer["default"] == [0.0] * D
        assert {key: value for key, value in answer.items() if key != "default"} == {
            "tokens": [],
            "word_emb": [],
            "lstm_outputs1": [],
            "lstm_outputs2": [],
            "elmo": [],
        }


def test_the_embedder_wants_a_model_with_elmo(load: Load) -> None:
    with pytest.raises(ConfigurationError, match="ElmoTagger"):
        load("baseline", "elmo_embedder")


def test_the_embedder_reads_words_where_the_bilm_does(tmp_path: Path) -> None:
    data = tmp_path / "data.txt"
    data.write_text("the O\ncat B-X\nsat O\n\na O\ndog B-X\nsat O\n", encoding="utf-8")
    bilm = {"options": options(char_cnn=None, n_tokens_vocab=7).to_dict(), "seed": 2}
    reader = tags_reader(token_indexers={"elmo": {"type": "single_id"}})
    config = experiment(tagger({"bilm": bilm}), reader, data)
    # Words of the data must not be added, because the biLM has a row only for its own words.
    config["vocabulary"] = {
        "type": "extend",
        "directory": str(vocabulary_folder(tmp_path / "vocabulary")),
        "oov_token": "<UNK>",
        "min_count": {"tokens": 10**9},
    }
    archive = train_archive(config, tmp_path / "run")
    predictor = Predictor.from_path(str(archive), predictor_name="elmo_embedder")
    answer, empty = predictor.predict_batch_json([{"tokens": ["the", "dog", "sat"]}, {"tokens": []}])
    twin = BiLM.random(options(char_cnn=None, n_tokens_vocab=7), seed=2)
    layers = twin(torch.tensor([[4, 3, 6]])).layers[:, 0, 1:-1]  # (L, T, D)
    for depth in range(1, L):
        torch.testing.assert_close(torch.tensor(answer[f"lstm_outputs{depth}"]), layers[depth], atol=1e-5, rtol=0)
    assert empty["elmo"] == []


def predict(archive: Path, data: Path, folder: Path, *arguments: Any) -> list[Config]:
    """The answers of `allennlp predict`."""
    answers = folder / "answers.jsonl"
    allennlp("predict", archive, data, "--batch-size", 3, "--silent", "--output-file", answers, *arguments)
    return [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]


def test_allennlp_predict_answers_a_file_line_by_line(archives: dict[str, Path], load: Load, tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS), encoding="utf-8")
    found = predict(archives["tagger"], questions, tmp_path)
    assert same(found, load("tagger").predict_batch_json(QUESTIONS))


@pytest.mark.parametrize(
    ("archive", "name", "by_command"),
    [
        ("tagger", "elmo_tagger", True),
        ("stock", "elmo_tagger", False),
        ("tagger", "elmo_embedder", True),
        ("classifier", "elmo_classifier", False),
        ("stock_classifier", "elmo_classifier", True),
        ("classifier", "elmo_embedder", False),
    ],
)
def test_every_path_gives_the_same_answer(
    archives: dict[str, Path], load: Load, tmp_path: Path, archive: str, name: str, by_command: bool
) -> None:
    data = TOWNS
    if "classifier" in archive:
        data = opinions_as_json(tmp_path) if archive.startswith("stock") else OPINIONS
    predictor = load(archive, name)
    instances = list(predictor._dataset_reader.read(data))
    questions = [{"tokens": [token.text for token in instance["tokens"].tokens]} for instance in instances]
    expected = predictor.predict_batch_json(questions)
    assert len(expected) > 3 and all(answer["tokens"] for answer in expected)
    assert same([predictor.predict_json(question) for question in questions], expected)
    assert same(predictor.predict_batch_instance(instances), expected)
    assert same([predictor.predict_instance(instance) for instance in instances], expected)
    assert predictor.predict_batch_instance([]) == []
    if by_command:
        assert same(predict(archives[archive], data, tmp_path, "--use-dataset-reader", "--predictor", name), expected)


def test_an_unseen_gold_label_does_not_matter(load: Load, tmp_path: Path) -> None:
    tagged = tmp_path / "tagged.txt"
    tagged.write_text("Tove B-STAR\nleft O\n", encoding="utf-8")
    tagger = load("tagger")
    (instance,) = tagger._dataset_reader.read(tagged)
    assert same(tagger.predict_instance(instance), tagger.predict_json({"tokens": ["Tove", "left"]}))
    classifier = load("classifier")
    instance = classifier._dataset_reader.text_to_instance("Tove left", "unheard of")
    assert same(classifier.predict_instance(instance), classifier.predict_json({"sentence": "Tove left"}))


def test_an_instance_without_a_text_is_an_error_that_names_its_fields(load: Load) -> None:
    with pytest.raises(ConfigurationError, match=r"'tokens'.*'premise'"):
        load("tagger").predict_instance(Instance({"premise": TextField([Token("Tove")])}))


def test_a_text_of_a_dataset_without_tokens_is_answered(load: Load) -> None:
    predictor = load("stock_classifier", "elmo_classifier")
    instance = predictor._dataset_reader.text_to_instance("", "good")
    assert instance["tokens"].tokens == []
    assert same(predictor.predict_instance(instance), predictor.predict_json({"sentence": ""}))
    assert same(load("tagger").predict_instance(Instance({"tokens": TextField([])})), {**NO_TAGS, "spans": []})


def test_another_language_is_an_argument(archives: dict[str, Path]) -> None:
    predictor = Predictor.from_path(str(archives["tagger"]), predictor_name="elmo_tagger", language="de")
    assert predictor.predict_json({"sentence": "z.B. heute."})["tokens"] == ["z.B.", "heute", "."]


def test_our_predictors_answer_with_allennlps_own_models(load: Load) -> None:
    answer = load("stock", "elmo_tagger").predict_json(CUT)
    assert len(answer["probabilities"]) == len(answer["tags"]) == len(CUT["tokens"])
    assert all(0 < probability <= 1 for probability in answer["probabilities"]) and "spans" not in answer
    labels = load("stock_classifier", "elmo_classifier").predict_json({"sentence": "Tove left ."})
    assert labels["label"] == max(labels["probabilities"], key=labels["probabilities"].get)
    assert sum(labels["probabilities"].values()) == pytest.approx(1.0)


def test_a_model_of_another_kind_is_named(load: Load) -> None:
    with pytest.raises(ConfigurationError, match=r"tagger.*ElmoClassifier"):
        load("json", "elmo_tagger")._answer(["Tove"], {"label": "1"})
    with pytest.raises(ConfigurationError, match=r"tagger.*ElmoClassifier"):
        load("classifier", "elmo_tagger").predict("Tove left .")
    with pytest.raises(ConfigurationError, match=r"classifier.*ElmoTagger"):
        load("tagger", "elmo_classifier")._answer(["Tove"], {"tags": []})


@pytest.mark.parametrize("archive", ["tagger", "classifier"])
def test_a_lone_surrogate_is_a_character_like_others(load: Load, archive: str) -> None:
    answer = load(archive).predict_json({"sentence": "\ud83d left \ud83d\ude00"})
    assert answer["tokens"][0] == "\ufffd" and "\U0001f600" in answer["tokens"]


@pytest.mark.parametrize(("archive", "to_file"), [("tagger", True), ("tagger", False), ("stock_classifier", True)])
def test_allennlp_predict_writes_the_answer_for_a_lone_surrogate(
    archives: dict[str, Path], tmp_path: Path, capfdbinary: Any, archive: str, to_file: bool
) -> None:
    questions, answers = tmp_path / "questions.jsonl", tmp_path / "answers.jsonl"
    questions.write_text('{"tokens": ["\\ud83d", "left"]}\n{"sentence": "\\ud83d left"}\n', encoding="utf-8")
    output = ["--silent", "--output-file", answers] if to_file else []
    capfdbinary.readouterr()
    name = "elmo_classifier" if archive == "stock_classifier" else "elmo_tagger"
    allennlp("predict", archives[archive], questions, "--predictor", name, *output)
    written = answers.read_bytes() if to_file else capfdbinary.readouterr().out
    lines = [line.removeprefix("prediction:  ") for line in written.decode("utf-8").splitlines()]
    found = [json.loads(line)["tokens"] for line in lines if line.startswith("{")]
    assert found == [["\ud83d", "left"], ["\ufffd", "left"]]


def test_a_line_that_is_not_json_is_shown(load: Load) -> None:
    with pytest.raises(ConfigurationError, match=r"JSON.*sentence.*Tove"):
        load("tagger").load_line('{"sentence": Tove left.}')
    with pytest.raises(ConfigurationError, match=r"JSON.*levels"):
        load("tagger").load_line('{"tokens": ' + "[" * 100_000 + "]" * 100_000 + "}")


@pytest.mark.parametrize(("archive", "name"), [("tagger", None), ("classifier", None), ("tagger", "elmo_embedder")])
def test_a_text_that_is_too_long_is_an_error_that_says_how_long_it_may_be(
    load: Load, archive: str, name: Optional[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error comes before memory is taken: for tokens, for characters, and for the many tokens of a short text."""
    monkeypatch.setattr("elmo_plugin.text.predictor_input.MOST_TOKENS", 3)
    monkeypatch.setattr("elmo_plugin.text.predictor_input.MOST_CHARACTERS", 9)
    predictor = load(archive, name)
    for question in ({"tokens": ["a"] * 3}, {"sentence": "a b c"}):
        assert len(predictor.predict_json(question)["tokens"]) == 3
    for question, got in (({"tokens": ["a"] * 4}, 4), ({"sentence": "a b cdefgh"}, 10), ({"sentence": "a b c d"}, 4)):
        with pytest.raises(ConfigurationError, match=rf"at most [39] .*got {got};"):
            predictor.predict_json(question)


@pytest.mark.parametrize(("archive", "name"), [("tagger", "elmo_tagger"), ("classifier", "elmo_classifier")])
def test_it_answers_in_inference_mode(load: Load, archive: str, name: str) -> None:
    predictor = load(archive, name)
    with torch.inference_mode():
        found = predictor.predict("Tove left for Port Calder .")
    assert same(found, predictor.predict("Tove left for Port Calder ."))


def test_a_byte_order_mark_before_json_is_dropped(load: Load) -> None:
    assert load("tagger", "elmo_tagger").load_line('\ufeff{"sentence": "a"}') == {"sentence": "a"}
