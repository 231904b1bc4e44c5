"""A server in a thread of the test, and a client that needs no library."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple, Optional

import uvicorn
from allennlp.common import Params
from allennlp.data import DatasetReader

from elmo_plugin.embedding import Embedder
from elmo_plugin.models import ElmoClassifierPredictor
from elmo_plugin.serving import Limits, ServedModel, load_served, make_app
from elmo_plugin.serving.server import uvicorn_config
from tests.task_oracles import OPINIONS, build_model, classifier, csv_reader, experiment, random_elmo

FILES = Path(__file__).parent / "fixtures" / "models"
JSON = {"Content-Type": "application/json"}


def served_tagger() -> ServedModel:
    """Return the archive of a tagger, with the softmax of another biLM for its words."""
    return load_served(str(FILES / "elmo_tagger.tar.gz"), language_model=str(FILES / "bilm.tar.gz"))


def served_classifier() -> ServedModel:
    """Return an untrained classifier that reads two words of a text, and an embedder of its biLM."""
    elmo = random_elmo()
    keys = {"bilm": {"options": elmo.bilm.options.to_dict(), "seed": 0}}
    config = experiment(classifier(keys), csv_reader(max_sequence_length=2), OPINIONS)
    model, _ = build_model(config)
    predictor = ElmoClassifierPredictor(model, DatasetReader.from_params(Params(config["dataset_reader"])))
    embedder = Embedder(elmo).with_mix("average")
    return ServedModel("opinions", predictor.tokenizer, {"average": embedder}, predictor)


class Answer(NamedTuple):
    """The status, the headers and the body of an answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode("utf-8")


class Client(NamedTuple):
    """Asks the server at a port, each time over a new connection."""

    port: int

    def ask(self, method: str, path: str, body: Optional[bytes] = None, headers: Any = None) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, JSON if headers is None else headers)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def post(self, path: str, value: Any) -> Answer:
        return self.ask("POST", path, value if isinstance(value, bytes) else json.dumps(value).encode())

    def answers(self, path: str, *sentences: Any, **more: Any) -> Any:
        answer = self.post(path, {"sentences": sentences, **more})
        assert answer.status == 200, answer
        return answer.json["answers"]

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def raw(self, *parts: bytes) -> bytes:
        """Send bytes and return what comes back until the server closes the connection."""
        with self.connect() as connection:
            for part in parts:
                connection.sendall(part)
            return b"".join(iter(lambda: connection.recv(65536), b""))


@contextmanager
def serving(model: Any, limits: Optional[Limits] = None) -> Iterator[Client]:
    """Serve a model, or another application, at a free port until the end of the block."""
    limits = limits or Limits()
    app = make_app(model, limits, frozenset({"127.0.0.1"})) if isinstance(model, ServedModel) else model
    config = uvicorn_config(app, limits)
    config.port, config.timeout_graceful_shutdown = 0, 1
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield Client(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
