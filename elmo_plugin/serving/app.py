"""The web application: the JSON API, its documentation, and the page."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from math import prod
from typing import Any, Optional, Union

from allennlp.common.checks import ConfigurationError
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, create_model
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from elmo_plugin.serving.answering import Answering
from elmo_plugin.serving.answers import encode, error_answer, json_answer
from elmo_plugin.serving.guard import Guard
from elmo_plugin.serving.limits import Limits, RequestError, at_most
from elmo_plugin.serving.model_thread import ModelThread, Task
from elmo_plugin.serving.page import add_pages
from elmo_plugin.serving.requests import (
    ClassifyAnswer,
    EmbedRequest,
    Error,
    LogProbabilities,
    Nearest,
    NearestRequest,
    Sentences,
    TagAnswer,
    Vectors,
)
from elmo_plugin.serving.served_model import ServedModel

ERRORS = {
    400: "The request names another host, or is not JSON.",
    408: "The request took too long to arrive.",
    413: "The request has too many bytes.",
    422: "A key or a value of the request is wrong, or it asks for too much.",
    503: "The server is busy, or the answer took too long.",
}
ABOUT = """A request holds sentences. The response has one answer for each of them, in the same order.

An error is `{"error": "…"}` with an HTTP status. An answer does not depend on other sentences and requests, apart from
rounding in the last bits."""


def make_app(model: ServedModel, limits: Optional[Limits] = None, hosts: Optional[frozenset[str]] = None) -> FastAPI:
    """Return the web application of a model, for any ASGI server.

    # Parameters

    model : the models that answer
    limits : the limits of requests
    hosts : the names that requests may give the server, `None` for any
    """
    answering = Answering(model, limits or Limits())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        answering.thread.start()
        yield
        answering.thread.stop()
        answering.thread = ModelThread()  # for another start, because a stopped one stays stopped

    app = FastAPI(
        title=f"{model.name}, served by elmo_plugin",
        description=ABOUT,
        version="1",
        docs_url=None,  # FastAPI's pages load scripts from other servers; `add_pages` has one that does not
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        exception_handlers=HANDLERS,
        responses={status: {"model": Error, "description": text} for status, text in ERRORS.items()},
    )
    _add_tasks(app, answering)
    _add_vectors(app, answering)
    _add_information(app, answering)
    add_pages(app, answering)
    app.add_middleware(Guard, limits=answering.limits, hosts=hosts)
    return app


def _add_tasks(app: FastAPI, answering: Answering) -> None:
    """Add the routes from sentences to the answers of a predictor."""
    model = answering.model

    async def answer(task: Task, request: Sentences) -> Response:
        found = await answering.ask(task, await answering.read(request.sentences))
        return json_answer(await answering.ask(encode, found))

    if model.label_task == "tag":

        @app.post("/tag", responses=_answers(TagAnswer))
        async def tag(request: Sentences) -> Response:
            """Tag sentences."""
            return await answer(model.label, request)

    if model.label_task == "classify":

        @app.post("/classify", responses=_answers(ClassifyAnswer))
        async def classify(request: Sentences) -> Response:
            """Classify texts."""
            return await answer(model.label, request)

    if model.language_model is not None:

        @app.post("/log-probabilities", responses=_answers(LogProbabilities))
        async def log_probabilities(request: Sentences) -> Response:
            """Score each word given the words to its left, and given those to its right."""
            return await answer(model.log_probabilities, request)


def _add_vectors(app: FastAPI, answering: Answering) -> None:
    """Add the routes from words to their vectors and to their nearest uses."""
    model, limits = answering.model, answering.limits
    if model.embedders:

        @app.post("/embed", responses=_answers(Vectors))
        async def embed(request: EmbedRequest) -> Response:
            """Embed the words of sentences."""
            embedder = model.embedders.get(request.mix)
            if embedder is None:
                raise RequestError(422, f"'mix': expected one of {', '.join(model.embedders)}, got {request.mix!r}")
            sentences = [each.tokens for each in await answering.read(request.sentences)]
            per_word = prod(size for size in embedder.shape if size > 0)  # (L, T, D), or (T, width); T is -1
            numbers = per_word * sum(map(len, sentences))
            at_most(limits.numbers, numbers, "the vectors", "numbers in an answer")
            arrays = await answering.ask(embedder.embed, sentences)
            pairs = zip(sentences, arrays, strict=True)
            found = [{"tokens": tokens, "vectors": array} for tokens, array in pairs]
            return json_answer(await answering.ask(encode, found))

    if model.index is not None:

        @app.post("/nearest", responses={200: {"model": Nearest}})
        async def nearest(request: NearestRequest) -> Response:
            """Find the sentences of the text that use a word as a given sentence does, layer by layer."""
            (sentence,) = await answering.read([request.sentence])
            return JSONResponse({"layers": await answering.nearest(sentence, request.position, request.k)})


def _add_information(app: FastAPI, answering: Answering) -> None:
    """Add the routes that describe the server."""
    model = answering.model

    @app.get("/model")
    async def what_is_served() -> dict[str, Any]:
        """Return the model's name, mixes and learned layer weights, the text, and the limits of requests."""
        return {
            "name": model.name,
            "mixes": [*model.embedders],
            "layer_weights": {place: mix._asdict() for place, mix in model.mixes.items()},
            "text": None if model.index is None else {"name": model.index.name, "sentences": len(model.index)},
            "limits": asdict(answering.limits),
        }

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Return `ok`, because the server answers."""
        return {"status": "ok"}


def _answers(answer: type[BaseModel]) -> dict[Union[int, str], dict[str, Any]]:
    """Describe a response that holds one such answer for each sentence."""
    return {200: {"model": create_model(f"AnswersOf{answer.__name__}", answers=(list[answer], ...))}}  # type: ignore[valid-type]


async def _invalid(request: Request, error: RequestValidationError) -> Response:
    return error_answer(422, _what_is_wrong(error.errors()[0]))


async def _refused(request: Request, error: Exception) -> Response:
    return error_answer(getattr(error, "status", 422), str(error))


async def _http(request: Request, error: HTTPException) -> Response:
    message = str(error.detail)
    if error.status_code == 404:
        message = f"expected one of {', '.join(request.app.openapi()['paths'])}, got {request.url.path[:100]!r}"
    return error_answer(error.status_code, message)


async def _unexpected(request: Request, error: Exception) -> Response:
    return error_answer(500, "the server failed; its log has the reason")


HANDLERS: dict[Union[int, type[Exception]], Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    RequestValidationError: _invalid,
    RequestError: _refused,
    ConfigurationError: _refused,
    HTTPException: _http,
    Exception: _unexpected,
}
"""The functions that answer errors with JSON."""


def _what_is_wrong(error: Mapping[str, Any]) -> str:
    """Return the first error of a request as one line that names the key."""
    place, kind = error["loc"][1:], error["type"]
    if kind == "json_invalid":
        return f"the request: expected JSON, got an error at character {place[0]}: {error['ctx']['error']}"
    if not place:
        return "the request: expected a JSON object, sent with Content-Type: application/json"
    where = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).removeprefix(".")
    if kind == "missing":
        return f"'{where}': expected a value, got none"
    if kind == "extra_forbidden":
        return f"'{where}': expected no such key"
    message = error["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    return f"'{where}': {message}" + ("" if ", got " in message else f", got {error['input']!r:.100}")
