"""The limits of requests and answers, and the layer of the application that enforces them."""

import asyncio
import logging
import reprlib
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Annotated, Any, Optional

from allennlp.common.checks import ConfigurationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOG = logging.getLogger(__name__)
PROBES = ("/health", "/ready", "/metrics")
"""The paths that are answered even if the server is busy, and that are neither logged nor counted."""
PIECE = 2**16
"""An answer is sent in pieces of this many bytes, each when its reader has taken the one before."""
MOST_DRAINED = 2**24
"""Bytes beyond the limit that are read and dropped, so that the sender of a large request sees the answer and not a
broken connection."""
ERROR_HEADERS = {400: {"connection": "close"}, 503: {"retry-after": "1"}}

Number = Annotated[int, Field(ge=1, le=10**9)]


class Limits(BaseModel):
    """The most that one request may ask for, and that the server does at once.

    # Parameters

    bytes : of a request
    sentences : of a request
    words : of a request
    sentence_words : of a sentence
    characters : of a word
    numbers : of the vectors in an answer
    requests : that are read, waiting or being answered at the same time
    sending : bytes of the answers that are being sent at the same time
    seconds : until a request has arrived, until its answer begins, and until its reader has taken a piece of it
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    bytes: Number = 2**18
    sentences: Number = 64
    words: Number = 4096
    sentence_words: Number = 512
    characters: Number = 500
    numbers: Number = 10**6
    requests: Number = 64
    sending: Number = 2**28
    seconds: Number = 30

    def check(self, texts: Sequence[Any]) -> None:
        """Raise `HTTPException` for the first thing that is no text or list of words, or that is too much."""
        at_most(self.sentences, len(texts), "'sentences'", "sentences")
        n_words = 0
        for number, text in enumerate(texts):
            where = f"'sentences[{number}]'"
            words = text.split() if isinstance(text, str) else text
            if not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
                raise HTTPException(422, f"{where}: expected a text or a list of words, got {reprlib.repr(text)}")
            at_most(self.sentence_words, len(words), where, "words")
            at_most(self.characters, max(map(len, words), default=0), where, "characters in a word")
            n_words += len(words)
        at_most(self.words, n_words, "'sentences'", "words")


def at_most(most: int, got: int, where: str, what: str) -> None:
    """Raise `HTTPException` if there is more of something than allowed."""
    if got > most:
        raise HTTPException(422, f"{where}: expected at most {most:,} {what}, got {got:,}")


def read_limits(assignments: Iterable[str]) -> Limits:
    """Return the default limits, changed by assignments `NAME=NUMBER`. Raises `ConfigurationError` for anything else.

    >>> read_limits(["sentences=8"]).sentences
    8
    """
    try:
        return Limits.model_validate(
            {name: number for name, _, number in (each.partition("=") for each in assignments)}
        )
    except ValidationError as error:
        wrong = error.errors()[0]
        raise ConfigurationError(
            f"'limit': expected NAME=N, where NAME is one of {', '.join(Limits.model_fields)}, and N a whole number "
            f"from 1 to 1,000,000,000, got '{wrong['loc'][0]}' with {wrong['input']!r:.100}"
        ) from error


def error_answer(status: int, message: str) -> JSONResponse:
    """Return `{"error": "…"}` with an HTTP status."""
    return JSONResponse({"error": message}, status, ERROR_HEADERS.get(status))


class Guard:
    """The outermost layer of the application: it bounds what requests take, and writes a line for each to the log.

    It answers 503 when busy, 413 to large requests, 408 to slow ones, and 400 to those whose end is ambiguous.
    `app.state.in_progress` is the number of requests that are being answered, and `app.state.observe` is told the path,
    the status and the seconds of each request.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits
        self.sending = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self.app(scope, receive, send)
            return
        state, start, status = scope["app"].state, perf_counter(), 500

        async def send_and_note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        answer = self._refusal(state.in_progress, Headers(scope=scope)) or self._answer
        state.in_progress += 1
        try:
            await answer(scope, receive, send_and_note)
        finally:
            state.in_progress -= 1
            seconds = perf_counter() - start
            LOG.info("%s %.200r %d, %.3f s", scope["method"], scope["path"], status, seconds)  # %r: one line
            state.observe(scope["path"], status, seconds)

    def _refusal(self, in_progress: int, headers: Headers) -> Optional[JSONResponse]:
        """Return the answer to a request that is refused before it is read, or `None`."""
        if in_progress >= self.limits.requests:
            return self._later(f"{self.limits.requests} requests")
        if "content-length" in headers and "transfer-encoding" in headers:  # RFC 9112, section 6.3: possibly smuggled
            return error_answer(400, "expected Content-Length or Transfer-Encoding, got both")
        encoding = ", ".join(headers.getlist("content-encoding"))
        if encoding not in ("", "identity"):
            return error_answer(415, f"expected JSON, got a body in the encoding {encoding!r}")
        return None

    def _later(self, most: str) -> JSONResponse:
        return error_answer(503, f"expected at most {most} at the same time; try again later")

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        start: Message = {}
        size = 0
        has_arrived = False

        async def receive_some() -> Message:
            nonlocal has_arrived, size
            message = await receive()
            size += len(message.get("body", b""))
            has_arrived = not message.get("more_body", False)
            if size <= self.limits.bytes:
                return message
            if has_arrived or size > self.limits.bytes + MOST_DRAINED:
                raise HTTPException(413, f"the request: expected at most {self.limits.bytes:,} bytes, got more")
            return {**message, "body": b""}  # read and dropped

        async def send_in_pieces(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
                return
            time.reschedule(None)
            body = message.get("body", b"")
            if self.sending and self.sending + len(body) > self.limits.sending:
                await self._later(f"{self.limits.sending:,} bytes of answers")(scope, receive, send)
                return
            self.sending += len(body)
            try:
                await send(start)
                for at in range(0, len(body), PIECE):
                    await send({**message, "body": body[at : at + PIECE], "more_body": True})
                await send({**message, "body": b""})
            finally:
                self.sending -= len(body)

        try:
            async with asyncio.timeout(self.limits.seconds) as time:
                await self.app(scope, receive_some, send_in_pieces)
        except TimeoutError:
            if not time.expired():
                raise
            status, late = (503, "an answer") if has_arrived else (408, "the whole request")
            await error_answer(status, f"expected {late} within {self.limits.seconds} seconds")(scope, receive, send)
