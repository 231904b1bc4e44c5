"""The predictors: the same answers for text, tokens and instances, one by one and in batches, here and by command."""

import json
import logging
import random
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import cache
from pathlib import Path
from threading import Barrier
from typing import Any, Optional

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token, Vocabulary
from allennlp.data.fields import TextField
from allennlp.models import Model, load_archive
from allennlp.predictors import Predictor

from elmo_plugin.bilm import BiLM
from elmo_plugin.commands import console
from elmo_plugin.models import ElmoClassifierPredictor, ElmoTaggerPredictor
from elmo_plugin.text import batch_to_ids
from tests.models.configs import ELMO, ELMO_ONLY, pooling, stock_tagger
from tests.oracles import options
from tests.task_oracles import (
    OPINIONS,
    TOWNS,
    Config,
    D,
    L,
    allennlp,
    bilm_files,
    build_model,
    classifier,
    csv_reader,
    experiment,
    lstm,
    opinions_as_json,
    same,
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
QUESTIONS = [RAW, BLANK[0], {"tokens": ["Mirka", "saw", "Harrow"]}, *BLANK[1:], CUT]


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the predictor of an untrained model, each built once."""
    folder = tmp_path_factory.mktemp("predictors")
    elmo: Config = {**bilm_files(folder / "bilm"), "dropout": 0.0}
    stock = stock_tagger(elmo=elmo)
    embedder = stock["text_field_embedder"]
    stock_classifier = {"type": "basic_classifier", "text_field_embedder": embedder, "seq2vec_encoder": pooling(D)}
    json_reader = {"type": "text_classification_json", "tokenizer": "just_spaces", "token_indexers": ELMO_ONLY}
    bioul = tags_reader(convert_to_coding_scheme="BIOUL")
    configs = {
        "tagger": experiment(tagger(elmo), tags_reader(), TOWNS),
        "softmax": experiment(tagger(elmo, crf=False, label_encoding="BIOUL"), bioul, TOWNS),
        "plain": experiment(tagger(elmo, label_encoding=None), tags_reader(coding_scheme=None), TOWNS),
        "classifier": experiment(classifier(elmo), csv_reader(tokenizer="spacy_blank"), OPINIONS),
        "stock": experiment(stock, tags_reader(token_indexers=ELMO_ONLY), TOWNS),
        "stock_classifier": experiment(stock_classifier, json_reader, opinions_as_json(folder)),
        "baseline": experiment(
            tagger(None, encoder=lstm(5), text_field_embedder=word_embedder(5)), tags_reader(), TOWNS
        ),
    }

    @cache
    def predictor(kind: str, name: Optional[str] = None, **reader_keys: Any) -> Any:
        config = configs[kind]
        model, _ = build_model(config)
        reader = DatasetReader.from_params(Params(deepcopy({**config["dataset_reader"], **reader_keys})))
        return Predictor.by_name(name or model.default_predictor or "")(model, reader)

    return predictor


@pytest.mark.parametrize(
    ("kind", "name"), [("stock", "elmo_tagger"), ("classifier", "elmo_classifier"), ("tagger", "elmo_embedder")]
)
def test_a_batch_has_the_answers_of_its_questions_one_by_one(load: Any, kind: str, name: str) -> None:
    predictor = load(kind, name)
    together = predictor.predict_batch_json(QUESTIONS)
    assert len(together) == len(QUESTIONS)
    for question, answer in zip(QUESTIONS, together, strict=True):
        assert same(predictor.predict_json(question), answer)
    assert predictor.predict_batch_json([]) == predictor.predict_batch_instance([]) == []
    assert same(predictor.predict_batch_json(BLANK), [together[1]] * 3)
    json.dumps(together)


@pytest.mark.parametrize("kind", ["tagger", "baseline"])
def test_the_tagger_answers_raw_text_and_tokens_alike(load: Any, kind: str) -> None:
    predictor = load(kind)
    assert type(predictor) is ElmoTaggerPredictor
    answer = predictor.predict_json(RAW)
    assert answer["tokens"] == CUT["tokens"] and set(answer) == {"tokens", "tags", "probabilities", "spans"}
    assert len(answer["tags"]) == 6 and all(0.0 <= probability <= 1.0 for probability in answer["probabilities"])
    assert same(answer, predictor.predict_json(CUT)) and same(answer, predictor.predict(RAW["sentence"]))
    assert predictor.predict_json(BLANK[1]) == {**NO_TAGS, "spans": []}


def test_spans_are_read_off_the_tags(load: Any) -> None:
    words = ["Tove", "Lund", "left", "Lower", "Harrow", "Bay"]
    tags = ["B-PER", "I-PER", "O", "B-LOC", "I-LOC", "I-LOC"]
    assert load("tagger")._answer(words, {"tags": tags, "probabilities": [1.0] * 6})["spans"] == [
        {"label": "PER", "start": 0, "end": 2, "text": "Tove Lund"},
        {"label": "LOC", "start": 3, "end": 6, "text": "Lower Harrow Bay"},
    ]
    tags = ["B-PER", "L-PER", "O", "U-LOC", "L-LOC", "U-LOC"]
    found = load("softmax")._answer(words, {"tags": tags, "probabilities": []})["spans"]
    assert [(span["start"], span["end"]) for span in found] == [(0, 2), (3, 5), (5, 6)]
    assert set(load("plain").predict_json(RAW)) == {"tokens", "tags", "probabilities"}


@pytest.mark.parametrize("question", [{}, {"sentence": 7}, {"tokens": ["Tove", 3]}, ["Tove"]])
def test_other_json_is_an_error_that_names_the_keys(load: Any, question: Any) -> None:
    for kind in ("tagger", "classifier"):
        with pytest.raises(ConfigurationError, match=r"'sentence'.*'tokens'") as caught:
            load(kind).predict_json(question)
        assert str(question) in str(caught.value)


@pytest.mark.parametrize("kind", ["classifier", "stock_classifier"])
def test_the_classifier_names_a_label_for_any_text(load: Any, kind: str) -> None:
    predictor = load(kind, "elmo_classifier")
    assert type(predictor) is ElmoClassifierPredictor
    answers = predictor.predict_batch_json([{"sentence": "Naïve, warm music."}, *BLANK])
    cut = ["Naïve", ",", "warm", "music", "."] if kind == "classifier" else ["Naïve,", "warm", "music."]
    assert [answer["tokens"] for answer in answers] == [cut, [""], [""], [""]]
    for answer in answers:
        assert set(answer) == {"tokens", "label", "probabilities", "probs"}
        assert set(answer["probabilities"]) == {"good", "bad", "mixed"}
        assert answer["label"] == max(answer["probabilities"], key=answer["probabilities"].get)
        assert answer["probs"] == [*answer["probabilities"].values()]
    assert same(predictor.predict_json({"tokens": cut}), answers[0])


def test_the_reader_cuts_text_and_tokens_alike(load: Any) -> None:
    kind, question = "classifier", {"sentence": "one two three four"}
    tokens = {"tokens": ["one", "two", "three", "four"]}
    classifier = load(kind, "elmo_classifier", max_sequence_length=3)
    cut = classifier.predict_json(question)
    assert cut["tokens"] == ["one", "two", "three"] and same(classifier.predict_json(tokens), cut)


def test_the_embedder_has_the_keys_and_shapes_of_tf_hub(load: Any) -> None:
    """Source: https://tfhub.dev/google/elmo/3."""
    predictor = load("stock", "elmo_embedder")
    answer, padded = predictor.predict_batch_json([RAW, {"tokens": ["Tove"]}])
    assert answer["tokens"] == CUT["tokens"]
    layers = small_bilm()(batch_to_ids([CUT["tokens"]])).layers[:, 0, 1:-1]  # (L, T, D)
    mixed = predictor.elmo.mixes[0](layers.unsqueeze(1), torch.ones(1, 6, dtype=torch.bool))[0]  # (T, D)
    wanted = {
        "word_emb": layers[0, :, : D // 2],  # (T, P)
        "lstm_outputs1": layers[1],
        "lstm_outputs2": layers[2],
        "elmo": mixed,
        "default": mixed.mean(dim=0),  # (D,)
    }
    assert set(answer) == {"tokens", *wanted}
    for key, value in wanted.items():
        torch.testing.assert_close(torch.tensor(answer[key]), value.detach(), atol=1e-5, rtol=0)
    assert padded["default"] == padded["elmo"][0]  # padding does not count
    empty = predictor.predict_json(BLANK[0])
    assert empty["default"] == [0.0] * D and not any(value for key, value in empty.items() if key != "default")


def test_the_embedder_wants_a_model_with_elmo(load: Any) -> None:
    with pytest.raises(ConfigurationError, match="ElmoTagger"):
        load("baseline", "elmo_embedder")


def test_the_embedder_reads_words_where_the_bilm_does(tmp_path: Path) -> None:
    bilm = {"options": options(char_cnn=None, n_tokens_vocab=7).to_dict(), "seed": 2}
    vocab = Vocabulary.from_files(str(vocabulary_folder(tmp_path / "vocabulary")), oov_token="<UNK>")
    vocab.add_tokens_to_namespace(["O", "B-X"], "labels")
    reader = DatasetReader.from_params(Params(tags_reader(token_indexers={"elmo": {"type": "single_id"}})))
    model = Model.from_params(Params(tagger({"bilm": bilm})), vocab=vocab)
    predictor = Predictor.by_name("elmo_embedder")(model, reader)
    answer, empty = predictor.predict_batch_json([{"tokens": ["the", "dog", "sat"]}, {"tokens": []}])
    twin = BiLM.random(options(char_cnn=None, n_tokens_vocab=7), seed=2)
    layers = twin(torch.tensor([[4, 3, 6]])).layers[:, 0, 1:-1]  # (L, T, D)
    for depth in range(1, L):
        torch.testing.assert_close(torch.tensor(answer[f"lstm_outputs{depth}"]), layers[depth], atol=1e-5, rtol=0)
    assert empty["elmo"] == []


@pytest.mark.slow
@pytest.mark.parametrize("use_reader", [True, False])
def test_allennlp_predict_writes_the_predictors_answers(trained_tagger: Path, tmp_path: Path, use_reader: bool) -> None:
    odd = [{"tokens": ["\ud83d", "left"]}, {"sentence": "\ud83d left"}]  # lone surrogates
    questions, answers = tmp_path / "questions.jsonl", tmp_path / "answers.jsonl"
    lines = [json.dumps(question) for question in [*QUESTIONS, *odd]]
    questions.write_text("\ufeff" + "\n".join(lines), encoding="utf-8")
    given = [TOWNS, "--use-dataset-reader"] if use_reader else [questions]
    allennlp("predict", trained_tagger, *given, "--batch-size", 3, "--silent", "--output-file", answers)
    found = [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]
    predictor = Predictor.from_archive(load_archive(trained_tagger))
    if use_reader:
        instances = predictor._dataset_reader.read(TOWNS)
        wanted = predictor.predict_batch_json(
            [{"tokens": [str(token) for token in each["tokens"]]} for each in instances]
        )
    else:
        wanted = predictor.predict_batch_json([*QUESTIONS, *odd])
        assert [answer["tokens"] for answer in wanted[-2:]] == [["\ud83d", "left"], ["\ufffd", "left"]]
    assert same(found, wanted)


def test_a_line_that_is_not_json_is_an_error_with_its_number_and_an_example(load: Any) -> None:
    for kind in ("tagger", "classifier"):
        predictor = load(kind)
        predictor.load_line('{"sentence": "fine"}')
    with pytest.raises(ConfigurationError, match=r'input line 2 .*\{"sentence": "Tove left\."\}.*got'):
        load("tagger").load_line("Tove left.\n")


def test_an_unseen_gold_label_does_not_matter(load: Any, tmp_path: Path) -> None:
    tagged = tmp_path / "tagged.txt"
    tagged.write_text("Tove B-STAR\nleft O\n", encoding="utf-8")
    (instance,) = load("tagger")._dataset_reader.read(tagged)
    assert same(load("tagger").predict_instance(instance), load("tagger").predict_json({"tokens": ["Tove", "left"]}))
    instance = load("classifier")._dataset_reader.text_to_instance("Tove left", "unheard of")
    wanted = load("classifier").predict_json({"sentence": "Tove left"})
    assert same(load("classifier").predict_instance(instance), wanted)


def test_instances_without_a_text_and_without_tokens(load: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"'tokens'.*'premise'"):
        load("tagger").predict_instance(Instance({"premise": TextField([Token("Tove")])}))
    predictor = load("stock_classifier", "elmo_classifier")
    instance = predictor._dataset_reader.text_to_instance("", "good")
    assert instance["tokens"].tokens == []
    assert same(predictor.predict_instance(instance), predictor.predict_json({"sentence": ""}))
    assert same(load("tagger").predict_instance(Instance({"tokens": TextField([])})), {**NO_TAGS, "spans": []})


@pytest.mark.slow
def test_another_language_is_an_argument(trained_tagger: Path) -> None:
    predictor = Predictor.from_path(str(trained_tagger), predictor_name="elmo_tagger", language="de")
    assert predictor.predict_json({"sentence": "z.B. heute."})["tokens"] == ["z.B.", "heute", "."]


@pytest.mark.parametrize(("kind", "name"), [("classifier", "elmo_tagger"), ("tagger", "elmo_classifier")])
def test_a_model_of_another_kind_is_named(load: Any, kind: str, name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name.removeprefix('elmo_')}.*Elmo{kind.title()}"):
        load(kind, name)._answer(["Tove"], {})


def test_it_answers_in_inference_mode(load: Any) -> None:
    for kind in ("tagger", "classifier"):
        with torch.inference_mode():
            found = load(kind).predict("Tove left for Port Calder .")
        assert same(found, load(kind).predict("Tove left for Port Calder ."))


N_THREADS = 8


@pytest.mark.slow
def test_threads_get_the_answers_of_one_thread(load: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    elmo = {**ELMO, "sentence_cache": str(tmp_path / "cache")}
    model, _ = build_model(experiment(tagger(elmo), tags_reader(), TOWNS))
    shared: Any = Predictor.by_name("elmo_tagger")(model, load("tagger")._dataset_reader)
    barrier = Barrier(N_THREADS)
    questions = [{"sentence": " ".join(f"Word{n % 7}{word} isn't" for word in range(n % 5 + 1))} for n in range(12)]

    def ask(seed: int) -> list[Any]:
        barrier.wait()
        order = random.Random(seed).sample(range(len(questions)), len(questions))
        answers = {number: shared.predict_json(questions[number]) for number in order}
        return [answers[number] for number in range(len(questions))]

    with ThreadPoolExecutor(N_THREADS) as threads:
        answers = list(threads.map(ask, range(N_THREADS)))
    wanted = [shared.predict_json(question) for question in questions]
    assert all(same(each, wanted) for each in answers)
    assert not [record.message for record in caplog.records if record.levelno >= logging.WARNING]


class BareReader(DatasetReader):
    """A reader of one's own that reads files only."""


class NamelessReader(DatasetReader):
    """One whose text is in a field of another name."""

    def text_to_instance(self, *inputs: Any) -> Instance:
        return Instance({"text": TextField(inputs[0], {})})


class ModelWithGold(Model):
    """A model of one's own that needs gold tags."""

    def forward(self, tokens: Any, tags: Any, metadata: Any = None) -> dict[str, Any]:  # type: ignore[override]
        return {"loss": tags}


class ModelWithoutTags(Model):
    """One that returns scores alone."""

    def forward(self, tokens: Any, metadata: Any = None) -> dict[str, Any]:  # type: ignore[override]
        return {"scores": torch.zeros(1, 1)}


@pytest.mark.parametrize(
    ("model", "reader", "lacking"),
    [
        (ModelWithoutTags, BareReader, "BareReader: expected 'text_to_instance'"),
        (ModelWithoutTags, NamelessReader, "'tokens', got"),
        (ModelWithGold, tags_reader, "ModelWithGold: expected 'forward'"),
        (ModelWithoutTags, tags_reader, "returns 'tags', got ModelWithoutTags"),
    ],
)
def test_what_a_reader_and_a_model_of_ones_own_lack_is_named_with_the_page_about_them(
    model: type[Model], reader: Any, lacking: str
) -> None:
    built = reader() if isinstance(reader, type) else DatasetReader.from_params(Params(reader()))
    own = model(Vocabulary())
    own.weight = torch.nn.Parameter(torch.zeros(1))  # AllenNLP asks a parameter for the device
    with pytest.raises(ConfigurationError, match=lacking) as error:
        ElmoTaggerPredictor(own, built).predict_json({"tokens": ["Tove", "left"]})
    assert "docs/extend.md" in str(error.value)
    with pytest.raises(NotImplementedError) as bare:
        Predictor(own, built).predict_json({"tokens": ["Tove"]})
    assert console.is_users_mistake(bare.value) and "docs/extend.md" in console.with_hint(bare.value)
