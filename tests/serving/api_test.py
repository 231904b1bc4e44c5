"""The API against the predictors and the embedder alone, and every wrong request as one line of JSON."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.data import Tokenizer
from allennlp.predictors import Predictor

import elmo_plugin
from elmo_plugin.analysis import Query, Search, search
from elmo_plugin.embedding import Corpus
from elmo_plugin.pretraining import BiLMPredictor, TextShardsReader, load_language_model
from elmo_plugin.serving import Limits, ServedModel, Text, load_served, make_app
from elmo_plugin.serving.loading import _bundled_twin
from elmo_plugin.serving.text_index import TextIndex
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


def test_tags_of_one_sentence_are_those_of_the_predictor_bit_for_bit(tagger_client: Client, alone: Predictor) -> None:
    for sentence in SENTENCES:
        assert tagger_client.answers("/tag", sentence) == [alone.predict_json(question(sentence))]


def test_tags_of_many_sentences_are_those_of_the_predictor(tagger_client: Client, alone: Predictor) -> None:
    for found, sentence in zip(tagger_client.answers("/tag", *SENTENCES), SENTENCES, strict=True):
        assert_close(found, alone.predict_json(question(sentence)))


def test_labels_are_those_of_the_predictor(opinions: ServedModel) -> None:
    assert opinions.predictor is not None
    wanted = [opinions.predictor.predict_json(question(sentence)) for sentence in SENTENCES]
    with serving(opinions) as client:
        for found, answer in zip(client.answers("/classify", *SENTENCES), wanted, strict=True):
            assert_close(found, answer)
        assert client.post("/embed", {"sentences": []}).status == 404
        assert b"Label: " in client.get("/?sentence=A+boat").body


def test_log_probabilities_and_vectors_are_those_of_the_library(bilm_client: Client) -> None:
    scorer = BiLMPredictor(load_language_model("english-tiny"), TextShardsReader())
    embedder = elmo_plugin.load("english-tiny")
    scores = bilm_client.answers("/log-probabilities", *SENTENCES)
    for mix, shape in {"all": (3, -1, 512), "average": (-1, 512)}.items():
        vectors = bilm_client.answers("/embed", *SENTENCES, mix=mix)
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


def test_the_nearest_uses_are_those_of_the_command(bilm_client: Client, text: Path) -> None:
    tokens = ["She", "saw", "the", "play", "."]
    layers = bilm_client.post("/nearest", {"sentence": tokens, "position": 3, "k": 4}).json["layers"]
    embedder = elmo_plugin.load("english-tiny")
    for layer, found in enumerate(layers, 1):
        corpus = Corpus(text, Tokenizer.by_name("just_spaces")())
        (wanted,) = search(embedder, corpus, [Query(tokens, 3)], Search(layer, 4, same_word=True))
        assert [use["line"] for use in found] == [use.line for use in wanted.in_context]
        assert np.allclose([use["cosine"] for use in found], [use.cosine for use in wanted.in_context], atol=1e-5)
    assert len(layers) == 2 and len(layers[0]) == 4


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"sentences": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b"9" * 10_000,
        b'{"sentences": NaN}',
        b'{"sentences": ["a", ]}',
        b"null",
    ],
    ids=lambda body: str(body[:20]),
)
def test_an_unreadable_request_is_answered_with_an_error(tagger_client: Client, body: bytes) -> None:
    answer = tagger_client.post("/tag", body)
    assert answer.status in (400, 422) and answer.json.keys() == {"error"}


@pytest.mark.parametrize(
    ("path", "body", "status", "facts"),
    [
        ("/tag", {}, 422, ("'sentences'", "none")),
        ("/tag", b"{", 422, ("character 1",)),
        ("/tag", b"5", 422, ("Content-Type",)),
        ("/tag", {"sentences": ["One"], "sentence": "One"}, 422, ("sentence",)),
        ("/tag", {"sentences": "One"}, 422, ("sentences",)),
        ("/tag", {"sentences": ["One", 5]}, 422, ("sentences[1]", "5")),
        ("/tag", {"sentences": [["One", None]]}, 422, ("sentences[0]", "None")),
        ("/tag", {"sentences": [["\ud800", []]]}, 422, ("sentences[0]",)),
        ("/tag", {"sentences": ["One"] * 9}, 422, ("'sentences'", "8", "9")),
        ("/tag", {"sentences": ["", "w " * 21]}, 422, ("sentences[1]", "20", "21")),
        ("/tag", {"sentences": [["w" * 401]]}, 422, ("sentences[0]", "400", "401")),
        ("/tag", {"sentences": ["w " * 20] * 3}, 422, ("'sentences'", "50", "60")),
        ("/tag", {"sentences": ["w" * 3000]}, 413, ("2,000",)),
        ("/embed", {"sentences": ["w " * 20], "mix": "all"}, 422, ("960", "500")),
        ("/embed", {"sentences": ["w"], "mix": "top"}, 422, ("'mix'", "trained", "top")),
        ("/classify", {"sentences": ["w"]}, 404, ("/tag", "/classify")),
        ("/tag/", {"sentences": ["w"]}, 404, ()),
    ],
)
def test_a_wrong_request_gets_one_line(
    small: Client, path: str, body: Any, status: int, facts: tuple[str, ...]
) -> None:
    answer = small.post(path, body)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/json")
    assert answer.json.keys() == {"error"} and "\n" not in answer.json["error"]
    assert all(fact in answer.json["error"] for fact in facts)


@pytest.fixture(scope="module")
def small(tagger: ServedModel) -> Iterator[Client]:
    """A server with small limits."""
    limits = Limits(bytes=2000, sentences=8, words=50, sentence_words=20, characters=400, numbers=500, seconds=1)
    with serving(tagger, limits) as client:
        yield client


def raw(client: Client, *parts: bytes) -> bytes:
    """Send bytes and return what comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection:
        for part in parts:
            connection.sendall(part)
        return b"".join(iter(lambda: connection.recv(65536), b""))


HEAD = b"POST /tag HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"


def test_a_large_request_is_answered_and_not_kept(small: Client) -> None:
    """Its length may be stated or not."""
    body = b"x" * 2_000_000
    stated = raw(small, HEAD, b"Content-Length: %d\r\n\r\n" % len(body), body)
    chunk = b"%x\r\n%b\r\n" % (len(body), body)
    unstated = raw(small, HEAD, b"Transfer-Encoding: chunked\r\n\r\n", chunk, b"0\r\n\r\n")
    for answer in (stated, unstated):
        assert answer.startswith(b"HTTP/1.1 413 ") and answer.endswith(b'bytes, got more"}')


def test_a_slow_request_ends(small: Client) -> None:
    answer = raw(small, HEAD, b"Content-Length: 50\r\n\r\n", b'{"sent')
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_another_host_and_another_type_are_rejected(tagger_client: Client) -> None:
    body = json.dumps({"sentences": ["One"]}).encode()
    assert tagger_client.ask("POST", "/tag", body, {"Host": "evil.example"}).status == 400
    assert tagger_client.ask("POST", "/tag", body, {"Content-Type": "text/plain"}).status == 422
    assert tagger_client.ask("GET", "/tag").status == 405


@pytest.fixture
def may_answer(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """No model answers before this is set."""
    event = threading.Event()
    read = ServedModel.read

    def slow(self: ServedModel, given: Any) -> Any:
        event.wait(30)
        return read(self, given)

    monkeypatch.setattr(ServedModel, "read", slow)
    yield event
    event.set()


def test_a_late_answer_is_503(tagger: ServedModel, may_answer: threading.Event) -> None:
    with serving(tagger, Limits(seconds=1)) as client:
        late = client.post("/tag", {"sentences": ["One"]})
        assert late.status == 503 and "1 second" in late.json["error"] and late.headers["retry-after"]
        assert client.get("/health").status == 200
        may_answer.set()
        assert client.answers("/tag", ["One"])[0]["tokens"] == ["One"]


def test_too_many_requests_are_503_until_some_are_answered(tagger: ServedModel, may_answer: threading.Event) -> None:
    with serving(tagger, Limits(requests=2)) as client:
        waiting = [threading.Thread(target=client.answers, args=("/tag", "One")) for _ in range(2)]
        for thread in waiting:
            thread.start()
        while (answer := client.get("/health")).status == 200:
            assert any(thread.is_alive() for thread in waiting)
        assert answer.status == 503 and "2" in answer.json["error"]
        may_answer.set()
        for thread in waiting:
            thread.join()
        assert client.get("/health").status == 200


def test_a_failure_is_an_error_without_a_traceback(tagger: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: ServedModel, sentences: Any) -> Any:
        raise RuntimeError("secret")

    monkeypatch.setattr(ServedModel, "label", fail)
    with serving(tagger) as client:
        answer = client.post("/tag", {"sentences": ["One"]})
        assert answer.status == 500 and b"secret" not in answer.body and answer.json.keys() == {"error"}
        assert client.get("/health").json == {"status": "ok"}


def test_eight_clients_get_the_answers_of_one(tagger_client: Client, alone: Predictor) -> None:
    questions = [[f"Greta{number}", "sailed", *["on"] * (number % 5)] for number in range(24)]
    found: dict[int, Any] = {}

    def ask(first: int) -> None:
        for number in range(first, len(questions), 8):
            (found[number],) = tagger_client.answers("/tag", questions[number])

    threads = [threading.Thread(target=ask, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(questions)
    for number, tokens in enumerate(questions):
        assert_close(found[number], alone.predict_json({"tokens": tokens}))


def test_what_is_served_is_described_without_a_network(tagger_client: Client, bilm_client: Client) -> None:
    api = tagger_client.get("/openapi.json").json
    assert {"/tag", "/embed", "/log-probabilities", "/model", "/health"} == set(api["paths"])
    assert "/nearest" in bilm_client.get("/openapi.json").json["paths"]
    page = tagger_client.get("/docs").text
    assert all(f" {path}</code>" in page for path in api["paths"])
    assert "<script" not in page and "https:" not in page and f"http://127.0.0.1:{tagger_client.port}/tag" in page
    model = tagger_client.get("/model").json
    assert model["mixes"] == ["trained", "all", "last", "average"] and model["limits"]["sentences"] == 64
    assert np.isclose(sum(model["layer_weights"]["input"]["weights"]), 1)


@pytest.mark.parametrize(
    ("model", "keys", "fact"),
    [
        (str(FILES / "simple_tagger.tar.gz"), {}, "SimpleTagger"),
        (str(FILES / "native.safetensors"), {"language_model": str(FILES / "bilm_tf")}, "softmax"),
        (str(FILES / "heldout.txt"), {}, "heldout.txt"),
        ("nowhere", {}, "nowhere"),
        (str(FILES / "simple_tagger.tar.gz"), {"predictor": "elmo_classifier"}, "SimpleTagger"),
        (str(FILES / "native.safetensors"), {"cuda_device": 99}, "'cuda_device'"),
    ],
)
def test_other_models_are_rejected(model: str, keys: dict[str, Any], fact: str) -> None:
    with pytest.raises(ConfigurationError, match=fact):
        load_served(model, **keys)


def test_models_of_every_kind_are_served(bilm: ServedModel, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("One word .\n\nTwo .\n", encoding="utf-8")
    theirs = load_served(str(FILES / "simple_tagger.tar.gz"), predictor="elmo_tagger")
    assert theirs.label(theirs.read(["A boat."]))[0]["tokens"] == ["A", "boat", "."]
    language_model = load_served(str(FILES / "bilm.tar.gz"), Text(tmp_path / "text", sentences=1))
    assert language_model.language_model is not None and language_model.label_task is None
    assert language_model.index is not None and len(language_model.index) == 1
    assert load_served(str(FILES / "bilm_tf")).language_model is None
    (tmp_path / "text").write_text("\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="text"):
        TextIndex(tmp_path / "text", bilm.embedders["all"])


def test_an_application_can_be_started_again(bilm: ServedModel) -> None:
    app = make_app(bilm)

    async def start_twice() -> None:
        for _ in range(2):
            async with app.router.lifespan_context(app):
                pass

    asyncio.run(start_twice())


def test_the_answer_of_a_tagger_without_spans_fits_its_schema() -> None:
    with serving(load_served(str(FILES / "simple_tagger.tar.gz"), predictor="elmo_tagger")) as client:
        (answer,) = client.answers("/tag", "A boat.")
        schema = client.get("/openapi.json").json["components"]["schemas"]["TagAnswer"]
    assert "spans" not in answer and {*schema["required"]} <= answer.keys() <= schema["properties"].keys()


def test_a_model_on_a_bundled_bilm_scores_words_with_its_softmax(bilm: ServedModel) -> None:
    twin = _bundled_twin(bilm.embedders)
    assert twin is not None and bilm.language_model is not None
    assert twin.state_dict().keys() == bilm.language_model._model.state_dict().keys()
    changed = deepcopy(bilm.embedders["all"])
    next(changed.elmo.bilm.parameters()).data += 1
    assert _bundled_twin({"all": changed}) is None and _bundled_twin({}) is None
