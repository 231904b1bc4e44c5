"""What a client may take of the server: bytes, time, places, and memory for answers."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from allennlp.common.checks import ConfigurationError
from fastapi import FastAPI
from starlette.responses import Response

from elmo_plugin.serving import Limits, ServedModel, read_limits
from elmo_plugin.serving.limits import Guard
from elmo_plugin.serving.server import MOST_SMALL_CHUNKS
from tests.serving_oracles import Client, serving

HEAD = b"POST /tag HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
BODY = b'{"sentences": ["One"]}'


@pytest.fixture(scope="module")
def small(tagger: ServedModel) -> Iterator[Client]:
    with serving(tagger, Limits(bytes=2000, seconds=1)) as client:
        yield client


def test_a_large_request_is_answered_and_not_kept(small: Client) -> None:
    """Its length may be stated or not."""
    body = b"x" * 2_000_000
    stated = small.raw(HEAD, b"Content-Length: %d\r\n\r\n" % len(body), body)
    chunk = b"%x\r\n%b\r\n" % (len(body), body)
    unstated = small.raw(HEAD, b"Transfer-Encoding: chunked\r\n\r\n", chunk, b"0\r\n\r\n")
    for answer in (stated, unstated):
        assert answer.startswith(b"HTTP/1.1 413 ") and answer.endswith(b'bytes, got more"}')


def test_a_limit_of_more_than_16_mebibytes_is_kept(tagger: ServedModel) -> None:
    body = b'{"sentences": ["One"]' + b" " * 20 * 2**20 + b"}"
    with serving(tagger, Limits(bytes=2**25)) as client:
        assert client.post("/tag", body).status == 200
        more = client.post("/tag", body + b" " * 2**24)
    assert more.status == 413 and "33,554,432" in more.json["error"]


@pytest.mark.slow
def test_a_slow_request_ends(small: Client) -> None:
    answer = small.raw(HEAD, b"Content-Length: 50\r\n\r\n", b'{"sent')
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_request_with_two_lengths_is_rejected_and_its_connection_closed(small: Client) -> None:
    head = HEAD.replace(b"Connection: close\r\n", b"") + b"Content-Length: 22\r\nTransfer-Encoding: chunked\r\n\r\n"
    # In one piece: what arrives after the server has closed the connection resets it, and the answer may be lost.
    answer = small.raw(head + b"16\r\n" + BODY + b"\r\n0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ") and b"Transfer-Encoding" in answer


@pytest.mark.parametrize("encodings", [("gzip",), ("identity", "gzip"), ("gzip", "identity")])
def test_a_compressed_request_is_415(small: Client, encodings: tuple[str, ...]) -> None:
    lines = "".join(f"Content-Encoding: {encoding}\r\n" for encoding in encodings)
    answer = small.raw(HEAD, lines.encode(), b"Content-Length: 22\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 415 ") and ", ".join(encodings).encode() in answer


def error_of(answer: bytes) -> str:
    """The error in an answer that is JSON."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head.lower()
    return str(json.loads(body)["error"])


@pytest.mark.parametrize(
    "request_", [b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", HEAD + b"Content-Length: x\r\n\r\n"]
)
def test_what_is_no_http_gets_an_error_as_json(small: Client, request_: bytes) -> None:
    answer = small.raw(request_)
    assert answer.startswith(b"HTTP/1.1 400 ") and "HTTP" in error_of(answer)


def chunks(body: bytes, size: int) -> bytes:
    parts = (body[at : at + size] for at in range(0, len(body), size))
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def test_chunks_that_cost_more_than_they_bring_are_counted(tagger: ServedModel) -> None:
    """A short request may come byte by byte, and a long one in large chunks."""
    with serving(tagger) as client:
        short = client.raw(HEAD, b"Transfer-Encoding: chunked\r\n\r\n", chunks(BODY, 1))
        long = client.raw(HEAD, b"Transfer-Encoding: chunked\r\n\r\n", chunks(BODY + b" " * 200_000, 1024))
        many = client.raw(HEAD, b"Transfer-Encoding: chunked\r\n\r\n", chunks(BODY + b" " * MOST_SMALL_CHUNKS, 1))
    assert short.startswith(b"HTTP/1.1 200 ") and long.startswith(b"HTTP/1.1 200 ")
    assert many.startswith(b"HTTP/1.1 400 ") and str(MOST_SMALL_CHUNKS) in error_of(many)


@pytest.mark.parametrize("item", [0, {}, [0], [["w"]], 1e5, None])
def test_wrong_items_are_counted_and_then_looked_at_up_to_the_first(
    tagger: ServedModel, item: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else looks at them, and not in the event loop, which answers `/health`."""
    loops: list[Any] = []
    calls: list[Any] = []
    check = Limits.check

    def noted(self: Limits, texts: Any) -> None:
        calls.append(texts)
        with suppress(RuntimeError):
            loops.append(asyncio.get_running_loop())
        check(self, texts)

    monkeypatch.setattr(Limits, "check", noted)
    with serving(tagger) as client:
        many = client.post("/tag", {"sentences": [item] * 10_000})
        first = client.post("/tag", {"sentences": ["One", item, item]})
        further = client.post("/tag", {"sentences": [item] * 3, "further": 1, "more": 2})
    assert many.status == 422 and "10,000" in many.json["error"]
    assert first.status == 422 and first.json["error"].startswith("'sentences[1]': ")
    assert further.status == 422 and "'further'" in further.json["error"]
    assert len(calls) == 2 and not loops


@pytest.fixture
def may_answer(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """No model answers before this is set."""
    event = threading.Event()
    read = ServedModel.read

    def slow(self: ServedModel, texts: Any) -> Any:
        event.wait(30)
        return read(self, texts)

    monkeypatch.setattr(ServedModel, "read", slow)
    yield event
    event.set()


@pytest.mark.slow
def test_a_late_answer_is_503(tagger: ServedModel, may_answer: threading.Event) -> None:
    with serving(tagger, Limits(seconds=1)) as client:
        late = client.post("/tag", BODY)
        assert late.status == 503 and "1 second" in late.json["error"] and late.headers["retry-after"]
        may_answer.set()
        assert client.answers("/tag", ["One"])[0]["tokens"] == ["One"]


def test_a_busy_server_is_alive_but_not_ready(tagger: ServedModel, may_answer: threading.Event) -> None:
    with serving(tagger, Limits(requests=2)) as client:
        assert client.get("/ready").status == 200
        waiting = [threading.Thread(target=client.answers, args=("/tag", "One")) for _ in range(2)]
        for thread in waiting:
            thread.start()
        while client.get("/ready").status == 200:
            assert any(thread.is_alive() for thread in waiting)
            time.sleep(0.01)
        assert client.get("/ready").status == 503 and client.get("/health").status == 200
        busy = client.post("/tag", BODY)
        assert busy.status == 503 and "2" in busy.json["error"]
        may_answer.set()
        for thread in waiting:
            thread.join()
        assert client.get("/ready").status == 200


def streaming(size: int) -> FastAPI:
    """An application whose answers have `size` bytes."""
    app = FastAPI()
    app.state.in_progress, app.state.observe = 0, lambda *request: None
    app.add_middleware(Guard, limits=Limits(seconds=1, sending=3 * size // 2))
    app.add_api_route("/", lambda: Response(b"x" * size))
    return app


def statuses(app: FastAPI, n_requests: int, may_send: Callable[[], Any]) -> list[int]:
    """The statuses of requests that are asked at the same time, whose clients read when `may_send` returns."""

    async def ask() -> int:
        found = []
        messages = [{"type": "http.request"}]

        async def send(message: Any) -> None:
            found.append(message)
            await may_send()

        async def receive() -> Any:
            return messages.pop()

        scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b"", "root_path": ""}
        await app(scope, receive, send)
        assert all(len(message.get("body", b"")) <= 2**16 for message in found)
        return int(found[0]["status"])

    async def ask_all() -> list[int]:
        return list(await asyncio.gather(*(ask() for _ in range(n_requests))))

    return asyncio.run(ask_all())


def test_the_bytes_of_answers_that_nobody_reads_are_bounded() -> None:
    app = streaming(200_000)
    assert sorted(statuses(app, 3, lambda: asyncio.sleep(0.01))) == [200, 503, 503]
    assert statuses(app, 1, lambda: asyncio.sleep(0)) == [200]


def received(connection: socket.socket) -> bytes:
    """What the server sends until it closes the connection, or resets it."""
    found = bytearray()
    with suppress(ConnectionResetError):
        while more := connection.recv(2**20):
            found += more
    return bytes(found)


@pytest.mark.slow
def test_a_connection_without_a_request_is_closed(small: Client) -> None:
    """Neither silence nor half a header holds it, also after another request."""
    half = HEAD[:40]
    whole = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    starts = {b"": b"", half: b"", whole + half: b"HTTP/1.1 200 "}
    with ExitStack() as stack:
        connections = [stack.enter_context(small.connect()) for _ in starts]
        for connection, start in zip(connections, starts, strict=True):
            connection.sendall(start)
        for connection, wanted in zip(connections, starts.values(), strict=True):
            assert received(connection).startswith(wanted)


@pytest.mark.slow
def test_a_client_that_reads_nothing_is_dropped() -> None:
    with serving(streaming(2**26), Limits(seconds=1)) as client, client.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        time.sleep(2)
        assert len(received(connection)) < 2**26


def test_limits_are_named_numbers() -> None:
    assert read_limits(["words=1000000000", "bytes=5"]) == Limits(words=10**9, bytes=5)
    for wrong in ("words=1000000001", "words", "words=1.5", "word=7"):
        with pytest.raises(ConfigurationError, match=r"'limit.*word"):
            read_limits([wrong])


def test_each_request_writes_one_line_without_its_sentences(small: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "elmo_plugin.serving"):
        small.get("/?sentence=secret")
        small.get("/%0Aforged")
        small.post("/tag", {"sentences": ["secret", 5]})
        while "POST '/tag' 422" not in caplog.text:  # it is written when the answer has been sent
            time.sleep(0.01)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("elmo_plugin")]
    assert len(lines) == 3 and lines[0].startswith("GET '/' 200")
    assert not any("secret" in line or "\n" in line for line in lines)
