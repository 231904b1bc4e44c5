"""Run the web application until a signal stops it."""

import logging
import socket
import sys
from collections.abc import Callable
from typing import NamedTuple, Optional

import uvicorn

from elmo_plugin.common import on_stop_signal, stop
from elmo_plugin.serving.app import make_app
from elmo_plugin.serving.limits import Limits
from elmo_plugin.serving.served_model import ServedModel

EVERYWHERE = ("0.0.0.0", "::")
LOCAL = ("localhost", "127.0.0.1", "[::1]")
CONNECTIONS = 256
"""The most connections at the same time. Uvicorn answers 503 to others."""


class Address(NamedTuple):
    """The address at which a server listens, and further names that requests may give it."""

    host: str = "127.0.0.1"
    port: int = 8000
    names: tuple[str, ...] = ()

    @property
    def hosts(self) -> Optional[frozenset[str]]:
        """Return the names that requests may give the server, or `None` for any name if it listens to all machines."""
        if self.host in EVERYWHERE and not self.names:
            return None
        own = f"[{self.host}]" if ":" in self.host else self.host
        return frozenset(map(str.lower, (*LOCAL, own, *self.names)))


def serve(load: Callable[[], ServedModel], address: Address, limits: Limits) -> None:
    """Bind the address, load the model, and answer requests until SIGTERM or Ctrl-C.

    Requests in progress are answered first, unless there is a second Ctrl-C. Ends with `Stopped`, whose exit code is
    143 or 130. Raises `OSError` for an address that is in use or of another machine, and the errors of `load`.
    """
    with on_stop_signal(stop), _bound(address) as listener:
        app = make_app(load(), limits, address.hosts)
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            limit_concurrency=CONNECTIONS,
            timeout_graceful_shutdown=limits.seconds,
            server_header=False,
        )
        listener.listen()  # now, so that a client may connect as soon as the address is printed
        host = f"[{address.host}]" if ":" in address.host else address.host
        print(f"http://{host}:{listener.getsockname()[1]}/  (Ctrl-C stops the server)", file=sys.stderr, flush=True)
        uvicorn.Server(config).run(sockets=[listener])


def _bound(address: Address) -> socket.socket:
    """Return a socket that is bound to the address and does not listen yet. Raises `OSError` naming the address."""
    try:
        (family, kind, _, _, place), *_ = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
    except (OSError, OverflowError) as error:
        raise OSError(f"{address.host}:{address.port}: {getattr(error, 'strerror', None) or error}") from error
    return listener
