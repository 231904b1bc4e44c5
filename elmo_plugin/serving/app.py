"""The web application: the JSON API, the page, and what a monitoring system reads."""

import json
from collections.abc import Sequence
from math import prod
from typing import Annotated, Any, Optional

import numpy as np
from allennlp.common.checks import ConfigurationError
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, WithJsonSchema
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from elmo_plugin.serving.limits import Guard, Limits, at_most, error_answer
from elmo_plugin.serving.model import ModelThread, ServedModel, Task, Text
from elmo_plugin.serving.page import MOST_CHARACTERS, html_answer, pieces, word_rows

ABOUT = """A request holds sentences. The response has one answer for each of them, in the same order.

An error is `{"error": "…"}` with an HTTP status. An answer does not depend on other sentences and requests, apart from
rounding in the last bits."""

# pydantic would check each item in the event loop, collect an error for each of 100,000 wrong ones, and reject lone
# surrogates. `Limits.check` does it in a thread, and stops at the first error.
Texts = Annotated[list[Any], WithJsonSchema(TypeAdapter(list[Text]).json_schema())]


class Sentences(BaseModel):
    """Sentences: raw text, which is split into words, or lists of words, which are used as they are."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"additionalProperties": False})
    sentences: Texts = Field(examples=[["Greta sailed to Saint Orrin.", ["Two", "words"]]])


class EmbedRequest(Sentences):
    """Sentences, and the mix of the layers.

    `all` layers, kept apart; the `last` one, their `average`, or the `trained` mix of a model.
    """

    mix: str = "average"


class Endpoints:
    """What the server answers, path by path."""

    def __init__(self, model: ServedModel, limits: Limits) -> None:
        self.model, self.limits, self.thread = model, limits, ModelThread()

    async def label(self, request: Sentences) -> Response:
        """Tag sentences, or classify texts: the answers of the model's predictor."""
        await self._words(request)
        return await self._respond(self.model.label, request.sentences)

    async def log_probabilities(self, request: Sentences) -> Response:
        """Score each word given the words to its left, and given those to its right."""
        return await self._respond(self.model.log_probabilities, await self._words(request))

    async def embed(self, request: EmbedRequest) -> Response:
        """Embed words. An answer has `tokens` and `vectors`: (T, D), or (L, T, D) for all layers."""
        embedder = self.model.embedders.get(request.mix)
        if embedder is None:
            raise HTTPException(
                422, f"'mix': expected one of {', '.join(self.model.embedders)}, got {request.mix!r:.100}"
            )
        sentences = await self._words(request)
        per_word = prod(size for size in embedder.shape if size > 0)  # (L, T, D), or (T, width); T is -1
        at_most(self.limits.numbers, per_word * sum(map(len, sentences)), "the vectors", "numbers in an answer")
        pairs = zip(sentences, await self.thread.answer(embedder.embed, sentences), strict=True)
        return await self._respond(list, [{"tokens": tokens, "vectors": array} for tokens, array in pairs])

    async def _words(self, request: Sentences) -> list[list[str]]:
        """Split raw text into words. Raises `HTTPException` for what is no text, and for too many or too long words."""
        for key in request.model_extra or ():
            raise HTTPException(422, f"'{key:.100}': expected only the keys {', '.join(type(request).model_fields)}")
        await run_in_threadpool(self.limits.check, request.sentences)
        sentences = await self.thread.answer(self.model.read, request.sentences)
        await run_in_threadpool(self.limits.check, sentences)
        return sentences

    async def _respond(self, task: Task, items: Sequence[Any]) -> Response:
        encoded = await self.thread.answer(_encode, await self.thread.answer(task, items))
        return Response(f'{{"answers": [{", ".join(encoded)}]}}', media_type="application/json")

    async def what_is_served(self) -> dict[str, Any]:
        """Return the model's name and mixes, and the limits of requests."""
        return {"name": self.model.name, "mixes": [*self.model.embedders], "limits": self.limits.model_dump()}

    async def health(self) -> dict[str, str]:
        """Return `ok` while the server lives, busy or not."""
        return {"status": "ok"}

    async def ready(self, request: Request) -> Response:
        """Return `ready`, or 503 while the server would not accept a request."""
        if request.app.state.in_progress >= self.limits.requests:
            return error_answer(503, f"{self.limits.requests} requests are in progress")
        return Response('{"status": "ready"}', media_type="application/json")

    async def page(self, request: Request, sentence: str = "") -> Response:
        """Return the page, with what the models say about a sentence."""
        at_most(MOST_CHARACTERS, len(sentence), "'sentence'", "characters on this page; the API takes more")
        shown: dict[str, Any] = {}
        if sentence.strip():
            (shown["words"],) = await self._words(Sentences(sentences=[sentence]))
            if self.model.label_task is not None:
                (shown["label"],) = await self.thread.answer(self.model.label, [sentence])
            if self.model.label_task == "tag":
                shown["pieces"] = pieces(shown["label"])
            if self.model.language_model is not None:
                (scores,) = await self.thread.answer(self.model.log_probabilities, [shown["words"]])
                shown |= {"scores": scores, "words": word_rows(scores)}
        return html_answer(request, self.model, 200, **shown)

    async def refuse(self, request: Request, error: Exception) -> Response:
        """Return an error: on the page to a browser, as JSON to programs."""
        status, message = getattr(error, "status_code", 422), getattr(error, "detail", str(error))
        if status in (404, 405):
            message = f"{request.method} {request.url.path:.100}: {message}"
        is_page = request.url.path == "/" or "text/html" in request.headers.get("accept", "")
        if is_page and request.method == "GET":
            return html_answer(request, self.model, status, error=message)
        return error_answer(status, message)


def make_app(model: ServedModel, limits: Optional[Limits] = None, hosts: Optional[frozenset[str]] = None) -> FastAPI:
    """Return the web application of a model, for any ASGI server.

    # Parameters

    model : the models that answer
    limits : the limits of requests
    hosts : the names that requests may give the server, `None` for any. A web page of another site could otherwise
        point a name of its own at this machine (DNS rebinding) and read the answers
    """
    limits = limits or Limits()
    endpoints = Endpoints(model, limits)
    app = FastAPI(
        title=f"{model.name}, served by elmo_plugin",
        description=ABOUT,
        version="1",
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={
            RequestValidationError: _invalid,
            HTTPException: endpoints.refuse,
            ConfigurationError: endpoints.refuse,
            Exception: _failed,
        },
    )
    for part, path, endpoint in (
        (model.predictor, f"/{model.label_task}", endpoints.label),
        (model.language_model, "/log-probabilities", endpoints.log_probabilities),
        (model.embedders, "/embed", endpoints.embed),
    ):
        if part:
            app.post(path)(endpoint)
    app.get("/model")(endpoints.what_is_served)
    app.get("/health")(endpoints.health)
    app.get("/ready")(endpoints.ready)
    app.get("/", include_in_schema=False)(endpoints.page)
    add_metrics(app)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*hosts] if hosts else ["*"], www_redirect=False)
    app.add_middleware(Guard, limits=limits)
    return app


def add_metrics(app: FastAPI) -> None:
    """Count the requests that `app.state.observe` is told about, and add the route `/metrics` for Prometheus."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)  # memory, processor time and open files
    requests = Counter("elmo_requests", "Requests, by path and status", ["path", "status"], registry=registry)
    seconds = Histogram("elmo_request_seconds", "Seconds until a request was answered", ["path"], registry=registry)
    Gauge("elmo_requests_in_progress", "Requests that are waiting or being answered", registry=registry).set_function(
        lambda: app.state.in_progress
    )

    def observe(path: str, status: int, duration: float) -> None:
        known = path if path == "/" or path in app.openapi()["paths"] else "other"  # a client may invent any number
        requests.labels(known, status).inc()
        seconds.labels(known).observe(duration)

    app.state.in_progress, app.state.observe = 0, observe

    @app.get("/metrics")
    async def metrics() -> Response:
        """Return counts and durations of requests, and the memory of the process, in Prometheus' text format."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def _encode(answers: Sequence[Any]) -> list[str]:
    """Return each answer as JSON. All but ASCII is escaped, because UTF-8 cannot encode lone surrogates."""
    return [json.dumps(answer, default=np.ndarray.tolist) for answer in answers]


async def _invalid(request: Request, error: RequestValidationError) -> Response:
    """Answer with the first error of a request, as one line that names the key."""
    wrong = error.errors()[0]
    if wrong["type"] == "json_invalid":
        message = f"expected JSON, got an error at character {wrong['loc'][1]}: {wrong['ctx']['error']}"
    elif wrong["loc"] == ("body",):
        message = "expected a JSON object, sent with Content-Type: application/json"
    else:
        message = f"'{wrong['loc'][-1]}': {wrong['msg']}"
    return error_answer(422, message)


async def _failed(request: Request, error: Exception) -> Response:
    return error_answer(500, "the server failed; its log has the reason")
