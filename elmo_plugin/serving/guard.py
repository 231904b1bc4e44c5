"""The outermost layer of the server: it limits requests and adds headers to answers."""

import asyncio
from collections.abc import MutableMapping
from typing import Any, Optional

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo_plugin.serving.answers import error_answer
from elmo_plugin.serving.limits import Limits, RequestError

CONTENT_POLICY = (
    b"default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""No script runs on our pages, and nothing is fetched from another server."""
HEADERS = [
    (b"content-security-policy", CONTENT_POLICY),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]
"""The headers of every answer."""
MOST_DRAINED = 2**24
"""Bytes of a too large request that are read and dropped, so that its sender sees the answer and not a broken
connection."""


class Guard:
    """Answers 413 to large requests, 408 to slow ones, 400 to those meant for another host, and 503 when busy.

    # Parameters

    app : the application behind it
    limits : the limits
    hosts : the names of the server, or `None` for any. A web page of another site could otherwise point a name of its
        own at this machine (DNS rebinding) and read the answers
    """

    def __init__(self, app: ASGIApp, limits: Limits, hosts: Optional[frozenset[str]] = None) -> None:
        self._app, self._limits, self._hosts = app, limits, hosts
        self._in_progress = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on with its whole body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._in_progress += 1
        try:
            await self._answer(scope, receive, _with_headers(send))
        finally:
            self._in_progress -= 1

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if self._in_progress > self._limits.requests:
                raise RequestError(503, f"expected at most {self._limits.requests} requests at the same time")
            self._check_host(scope)
            body = await self._body(receive)
        except RequestError as error:
            await error_answer(error.status, str(error))(scope, receive, send)
            return
        if body is not None:
            await self._pass_on(body, scope, receive, send)

    async def _pass_on(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer. The time limit ends when the answer begins: clients may read slowly."""
        try:
            async with asyncio.timeout(self._limits.seconds) as time:

                async def send_in_time(message: Message) -> None:
                    time.reschedule(None)
                    await send(message)

                await self._app(scope, _replay(body, receive), send_in_time)
        except TimeoutError:
            if time.expired():
                message = f"expected an answer within {self._limits.seconds} seconds; try again later"
                await error_answer(503, message)(scope, receive, send)
            else:
                raise

    def _check_host(self, scope: Scope) -> None:
        host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if self._hosts is not None and name.lower() not in self._hosts:
            names = ", ".join(sorted(self._hosts))
            raise RequestError(400, f"'Host': expected one of {names}, got {name[:100]!r}; see --allow-host")

    async def _body(self, receive: Receive) -> Optional[bytes]:
        """Return the body, or `None` if the client has left."""
        body, size = bytearray(), 0
        try:
            async with asyncio.timeout(self._limits.seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    size += len(message.get("body", b""))
                    if size <= self._limits.bytes:
                        body += message.get("body", b"")
                    if size > MOST_DRAINED or not message.get("more_body", False):
                        break
        except TimeoutError as error:
            raise RequestError(408, f"expected the whole request within {self._limits.seconds} seconds") from error
        if size > self._limits.bytes:
            raise RequestError(413, f"the request: expected at most {self._limits.bytes:,} bytes, got more")
        return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first gives the body."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> MutableMapping[str, Any]:
        return messages.pop() if messages else await receive()

    return receive_again


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *HEADERS]
        await send(message)

    return send_with_headers
