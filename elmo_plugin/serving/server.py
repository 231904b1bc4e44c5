"""Run the web application until a signal stops it."""

import asyncio
import gc
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from elmo_plugin.common import named_errors, on_stop_signal, stop
from elmo_plugin.serving.app import make_app
from elmo_plugin.serving.limits import Limits
from elmo_plugin.serving.model import ServedModel

SMALL_CHUNK, MOST_SMALL_CHUNKS = 1024, 10_000
"""Bytes, and how many chunks of fewer bytes a body may have."""
NOT_HTTP = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"
    b'{"error":"expected a request in HTTP/1.1, with at most %d chunks of less than %d bytes"}'
) % (MOST_SMALL_CHUNKS, SMALL_CHUNK)


class BoundedConnection(h11.Connection):
    """Reads HTTP, but no body of many small chunks: each takes the time of a large one."""

    _n_small = 0

    def next_event(self) -> Any:
        """See `h11.Connection`."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._n_small = 0
        elif isinstance(event, h11.Data) and event.chunk_start and len(event.data) < SMALL_CHUNK:
            self._n_small += 1
            if self._n_small > MOST_SMALL_CHUNKS:
                raise h11.RemoteProtocolError("too many small chunks")
        return event


class TimedProtocol(H11Protocol):
    """HTTP by uvicorn, which closes connections whose client sends no complete header or takes no answer.

    Each has uvicorn's `timeout_keep_alive` for it, which uvicorn itself applies only between two requests: a few idle
    clients would hold connections, and their answers, for ever.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look every few seconds whether a request has come."""
        super().connection_made(transport)
        self.conn = BoundedConnection(h11.SERVER)
        self.loop.call_later(self.timeout_keep_alive, self._close_if_idle, None)

    def _close_if_idle(self, last_request: Any) -> None:
        if self.cycle is last_request and (self.cycle is None or self.cycle.response_complete):
            self.transport.abort()
        elif not self.transport.is_closing():
            self.loop.call_later(self.timeout_keep_alive, self._close_if_idle, self.cycle)

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong as the application does, unless its answer has begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(NOT_HTTP)
        self.transport.close()

    def pause_writing(self) -> None:
        """Give the client some seconds to take what was sent."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.timeout_keep_alive, self.transport.abort)

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`: the client has taken it."""
        super().resume_writing()
        self._unread.cancel()


def uvicorn_config(app: FastAPI, limits: Limits) -> uvicorn.Config:
    """Return how uvicorn runs the application."""
    return uvicorn.Config(
        app,
        http=TimedProtocol,
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,  # the application writes a line for each request, without the sentences in its address
        timeout_keep_alive=limits.seconds,
        timeout_graceful_shutdown=limits.seconds,
        server_header=False,
    )


def serve(
    load: Callable[[], ServedModel],
    limits: Limits,
    host: str = "127.0.0.1",
    port: int = 8000,
    names: Sequence[str] = (),
) -> None:
    """Bind the address, load the model, and answer requests until SIGTERM or Ctrl-C.

    `names` are further names that requests may give the server. They may give it any name if it listens to all machines
    and there are no further ones.

    Requests in progress are answered first, unless there is a second Ctrl-C. Ends with `Stopped`, whose exit code is
    143 or 130. Raises `ConfigurationError` for an address that is in use or of another machine, and the errors of
    `load`.
    """
    literal = f"[{host}]" if ":" in host else host
    is_for_all = host in ("0.0.0.0", "::") and not names
    hosts = None if is_for_all else frozenset(("localhost", "127.0.0.1", "[::1]", literal, *names))
    wanted = f"{literal}:{port}: expected an address of this machine that is free, see --host and --port"
    with on_stop_signal(stop), socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        with named_errors(wanted, OSError):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
        app = make_app(load(), limits, hosts)
        with named_errors(wanted, OSError):
            listener.listen()  # now, so that a client may connect as soon as the address is printed
        print(f"http://{literal}:{listener.getsockname()[1]}/  (Ctrl-C stops the server)", file=sys.stderr, flush=True)
        gc.freeze()  # or Python looks through the million objects of all libraries in some requests, which takes 0.2 s
        uvicorn.Server(uvicorn_config(app, limits)).run(sockets=[listener])
