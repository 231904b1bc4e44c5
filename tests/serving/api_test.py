"""The API against the predictors and the embedder alone, and every wrong request as one line of JSON."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.predictors import Predictor

import elmo_plugin
from elmo_plugin.pretraining import BiLMPredictor, TextShardsReader, load_language_model
from elmo_plugin.serving import Limits, ServedModel, load_served
from tests.serving_oracles import FILES, Client, serving

SENTENCES: list[Any] = [
    "Greta sailed to Saint Orrin, didn't she?",
    ["Greta", "sailed"],
    "",
    [],
    "日本語 नमस्ते مرحبا 🙂 Ünïcödé naïve",
    ["a" * 300, "\ud800", "\x00", " ", ""],
    "lone \udfff surrogate",
]


def question(sentence: Any) -> dict[str, Any]:
    return {"sentence" if isinstance(sentence, str) else "tokens": sentence}


def assert_close(found: Any, wanted: Any) -> None:
    """Equal but for rounding, which depends on the batch."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            assert_close(found[key], value)
    elif isinstance(wanted, float) or (isinstance(wanted, list) and wanted and isinstance(wanted[0], float)):
        assert np.allclose(found, wanted, rtol=1e-4, atol=1e-5)
    else:
        assert found == wanted


@pytest.fixture(scope="module")
def alone() -> Predictor:
    return Predictor.from_path(str(FILES / "elmo_tagger.tar.gz"))


def test_tags_are_those_of_the_predictor_and_of_one_sentence_bit_for_bit(
    tagger_client: Client, alone: Predictor
) -> None:
    together = tagger_client.answers("/tag", *SENTENCES)
    for found, sentence in zip(together, SENTENCES, strict=True):
        wanted = alone.predict_json(question(sentence))
        assert_close(found, wanted)
        assert tagger_client.answers("/tag", sentence) == [wanted]


def test_labels_are_those_of_the_predictor(opinions: ServedModel) -> None:
    assert opinions.predictor is not None
    wanted = [opinions.predictor.predict_json(question(sentence)) for sentence in SENTENCES]
    with serving(opinions) as client:
        for found, answer in zip(client.answers("/classify", *SENTENCES), wanted, strict=True):
            assert_close(found, answer)
        assert client.post("/tag", {"sentences": []}).status == 404
        assert b"Label: " in client.get("/?sentence=A+boat").body


def test_vectors_are_never_cut(opinions: ServedModel) -> None:
    """The reader of this classifier cuts a text after two words."""
    with serving(opinions) as client:
        (found,) = client.answers("/embed", "a quiet , funny film")
    assert found["tokens"] == ["a", "quiet", ",", "funny", "film"] and len(found["vectors"]) == 5


def test_log_probabilities_and_vectors_are_those_of_the_library() -> None:
    """A biLM and its softmax, held once."""
    path = str(FILES / "bilm.tar.gz")
    scorer = BiLMPredictor(load_language_model(path), TextShardsReader())
    embedder = elmo_plugin.load(path)
    served = load_served(path)
    assert served.language_model is not None and served.label_task is None
    assert {each.elmo.bilm for each in served.embedders.values()} == {served.language_model._model.bilm}
    with serving(served) as client:
        scores = client.answers("/log-probabilities", *SENTENCES)
        for mix, shape in {"all": embedder.shape, "average": embedder.shape[1:]}.items():
            vectors = client.answers("/embed", *SENTENCES, mix=mix)
            for found, score, sentence in zip(vectors, scores, SENTENCES, strict=True):
                assert isinstance(sentence, str) or found["tokens"] == sentence
                assert_close(score, scorer.predict_json({"tokens": found["tokens"]}))
                (wanted,) = (embedder if mix == "all" else embedder.with_mix(mix)).embed([found["tokens"]])
                assert np.allclose(np.reshape(found["vectors"], shape), wanted.reshape(shape), atol=1e-5)
    assert scores[0]["tokens"] == ["Greta", "sailed", "to", "Saint", "Orrin", ",", "did", "n't", "she", "?"]


def test_the_mix_of_a_model_is_the_one_that_it_learned(tagger_client: Client, alone: Predictor) -> None:
    embedder = Predictor.by_name("elmo_embedder")(alone._model, alone._dataset_reader)
    (found,) = tagger_client.answers("/embed", ["Greta", "sailed"], mix="trained")
    assert np.allclose(found["vectors"], embedder.predict_json({"tokens": ["Greta", "sailed"]})["elmo"], atol=1e-6)


@pytest.fixture(scope="module")
def small(tagger: ServedModel) -> Iterator[Client]:
    """A server with small limits."""
    limits = Limits(bytes=2000, sentences=8, words=50, sentence_words=20, characters=400, numbers=500)
    with serving(tagger, limits) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "body", "status", "facts"),
    [
        ("/tag", {}, 422, ("'sentences'",)),
        ("/tag", b"{", 422, ("character 1",)),
        ("/tag", b"5", 422, ("Content-Type",)),
        ("/tag", {"sentences": ["One"], "sentence": "One"}, 422, ("'sentence'",)),
        ("/tag", {"sentences": ["One", 5]}, 422, ("sentences[1]", "5")),
        ("/tag", {"sentences": ["One"] * 9}, 422, ("'sentences'", "8", "9")),
        ("/tag", {"sentences": ["", "w " * 21]}, 422, ("sentences[1]", "20", "21")),
        ("/tag", {"sentences": ["(" * 401]}, 422, ("sentences[0]", "400", "401")),
        ("/tag", {"sentences": ["w " * 20] * 3}, 422, ("'sentences'", "50", "60")),
        ("/tag", {"sentences": ["w" * 3000]}, 413, ("2,000",)),
        ("/embed", {"sentences": ["w " * 20], "mix": "all"}, 422, ("960", "500")),
        ("/embed", {"sentences": ["w"], "mix": "top"}, 422, ("'mix'", "trained", "top")),
        ("/classify", {"sentences": ["w"]}, 404, ()),
    ],
)
def test_a_wrong_request_gets_one_line(
    small: Client, path: str, body: Any, status: int, facts: tuple[str, ...]
) -> None:
    answer = small.post(path, body)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/json")
    assert answer.json.keys() == {"error"} and "\n" not in answer.json["error"]
    assert all(fact in answer.json["error"] for fact in facts)


def test_another_host_type_or_method_is_rejected(tagger_client: Client) -> None:
    body = b'{"sentences": ["One"]}'
    assert tagger_client.ask("POST", "/tag", body, {"Host": "evil.example"}).status == 400
    assert tagger_client.ask("POST", "/tag", body, {"Content-Type": "text/plain"}).status == 422
    assert tagger_client.ask("GET", "/tag").status == 405


def test_a_failure_is_an_error_without_a_traceback(tagger: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: ServedModel, sentences: Any) -> Any:
        raise RuntimeError("secret")

    monkeypatch.setattr(ServedModel, "label", fail)
    with serving(tagger) as client:
        answer = client.post("/tag", {"sentences": ["One"]})
        assert answer.status == 500 and b"secret" not in answer.body and answer.json.keys() == {"error"}
        assert client.get("/health").json == {"status": "ok"}


def test_the_api_is_described(tagger_client: Client) -> None:
    paths = tagger_client.get("/openapi.json").json["paths"]
    assert {"/tag", "/embed", "/log-probabilities", "/model", "/health", "/ready"} == set(paths) - {"/metrics"}
    assert tagger_client.get("/docs").status == 200
    model = tagger_client.get("/model").json
    assert set(model["mixes"]) == {"trained", "all", "last", "average"} and model["limits"]["sentences"] == 64


def test_prometheus_reads_counts_and_memory(opinions: ServedModel) -> None:
    pytest.importorskip("prometheus_client")
    with serving(opinions) as client:
        client.answers("/classify", "A boat")
        client.get("/nowhere/1")
        client.get("/nowhere/2")
        while 'path="other"' not in (shown := client.get("/metrics").text):  # counted when the answer has been sent
            pass
    assert 'elmo_requests_total{path="/classify",status="200"} 1.0' in shown
    assert "elmo_requests_in_progress 0.0" in shown and "process_resident_memory_bytes" in shown
    assert "nowhere" not in shown


@pytest.mark.parametrize(
    ("model", "keys", "fact"),
    [
        (str(FILES / "simple_tagger.tar.gz"), {}, "SimpleTagger"),
        (str(FILES / "native.safetensors"), {"language_model": str(FILES / "bilm_tf")}, "softmax"),
        ("nowhere", {}, "nowhere"),
        (str(FILES / "simple_tagger.tar.gz"), {"predictor": "elmo_classifier"}, "SimpleTagger"),
    ],
)
def test_other_models_are_rejected(model: str, keys: dict[str, Any], fact: str) -> None:
    with pytest.raises(ConfigurationError, match=fact):
        load_served(model, **keys)


def test_models_of_every_kind_are_served() -> None:
    theirs = load_served(str(FILES / "simple_tagger.tar.gz"), predictor="elmo_tagger")
    assert theirs.label(["A boat."])[0]["tokens"] == ["A", "boat", "."]
    assert load_served(str(FILES / "bilm_tf")).language_model is None
    tiny = load_served("english-tiny")
    assert tiny.language_model is not None
    assert {each.elmo.bilm for each in tiny.embedders.values()} == {tiny.language_model._model.bilm}
