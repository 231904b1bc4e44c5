"""The web application: the JSON API and the page."""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from math import prod
from typing import Annotated, Any, Optional, Union

import numpy as np
from allennlp.common.checks import ConfigurationError
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, PlainValidator
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import Response

from elmo_plugin.serving.limits import Guard, Limits, at_most, error_answer
from elmo_plugin.serving.model import ModelThread, ServedModel, Task, Text
from elmo_plugin.serving.page import add_page

ABOUT = """A request holds sentences. The response has one answer for each of them, in the same order.

An error is `{"error": "…"}` with an HTTP status. An answer does not depend on other sentences and requests, apart from
rounding in the last bits."""


def _check_text(value: Any) -> Text:
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(word, str) for word in value)):
        return value
    raise ValueError(f"expected a text or a list of words, got {value!r:.100}")


# A validator of our own, because pydantic rejects lone surrogates and names both types of a union in its errors.
AnyText = Annotated[Text, PlainValidator(_check_text, json_schema_input_type=Text)]


class Sentences(BaseModel):
    """Sentences: raw text, which is split into words, or lists of words, which are used as they are."""

    model_config = ConfigDict(extra="forbid")
    sentences: list[AnyText] = Field(examples=[["Greta sailed to Saint Orrin.", ["Two", "words"]]])


class EmbedRequest(Sentences):
    """Sentences, and the mix of the layers.

    `all` layers, kept apart; the `last` one, their `average`, or the `trained` mix of a model.
    """

    mix: str = "average"


def make_app(model: ServedModel, limits: Optional[Limits] = None, hosts: Optional[frozenset[str]] = None) -> FastAPI:
    """Return the web application of a model, for any ASGI server.

    # Parameters

    model : the models that answer
    limits : the limits of requests
    hosts : the names that requests may give the server, `None` for any. A web page of another site could otherwise
        point a name of its own at this machine (DNS rebinding) and read the answers
    """
    limits = limits or Limits()
    thread = ModelThread()
    app = FastAPI(
        title=f"{model.name}, served by elmo_plugin",
        description=ABOUT,
        version="1",
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers=HANDLERS,
    )
    app.state.in_progress, app.state.observe = 0, lambda *request: None
    if find_spec("prometheus_client") is not None:
        from elmo_plugin.serving.metrics import add_metrics

        add_metrics(app)

    async def read(texts: Sequence[Text]) -> list[list[str]]:
        """Split raw text into words. Raises `HTTPException` for too many or too long ones."""
        limits.check([text.split() if isinstance(text, str) else text for text in texts])
        sentences = await thread.answer(model.read, texts)
        limits.check(sentences)
        return sentences

    async def respond(task: Task, items: Sequence[Any]) -> Response:
        answers = await thread.answer(task, items)
        encoded = await thread.answer(_encode, answers)
        return Response(f'{{"answers": [{", ".join(encoded)}]}}', media_type="application/json")

    if model.label_task is not None:

        @app.post(f"/{model.label_task}")
        async def label(request: Sentences) -> Response:
            """Tag sentences, or classify texts: the answers of the model's predictor."""
            await read(request.sentences)
            return await respond(model.label, request.sentences)

    if model.language_model is not None:

        @app.post("/log-probabilities")
        async def log_probabilities(request: Sentences) -> Response:
            """Score each word given the words to its left, and given those to its right."""
            return await respond(model.log_probabilities, await read(request.sentences))

    if model.embedders:

        @app.post("/embed")
        async def embed(request: EmbedRequest) -> Response:
            """Embed words. An answer has `tokens` and `vectors`: (T, D), or (L, T, D) for all layers."""
            embedder = model.embedders.get(request.mix)
            if embedder is None:
                raise HTTPException(422, f"'mix': expected one of {', '.join(model.embedders)}, got {request.mix!r}")
            sentences = await read(request.sentences)
            per_word = prod(size for size in embedder.shape if size > 0)  # (L, T, D), or (T, width); T is -1
            numbers = per_word * sum(map(len, sentences))
            at_most(limits.numbers, numbers, "the vectors", "numbers in an answer")
            arrays = await thread.answer(embedder.embed, sentences)
            pairs = zip(sentences, arrays, strict=True)
            return await respond(list, [{"tokens": tokens, "vectors": array} for tokens, array in pairs])

    @app.get("/model")
    async def what_is_served() -> dict[str, Any]:
        """Return the model's name and mixes, and the limits of requests."""
        return {"name": model.name, "mixes": [*model.embedders], "limits": limits.model_dump()}

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Return `ok` while the server lives, busy or not."""
        return {"status": "ok"}

    @app.get("/ready")
    async def ready() -> Response:
        """Return `ready`, or 503 while the server would not accept a request."""
        if app.state.in_progress >= limits.requests:
            return error_answer(503, f"{limits.requests} requests are in progress")
        return Response('{"status": "ready"}', media_type="application/json")

    add_page(app, model, read, thread.answer)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*hosts] if hosts else ["*"], www_redirect=False)
    app.add_middleware(Guard, limits=limits)
    return app


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
        where = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in wrong["loc"][1:])
        message = f"'{where.removeprefix('.')}': {wrong['msg'].removeprefix('Value error, ')}"
    return error_answer(422, message)


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return error_answer(error.status_code, error.detail)
    return error_answer(422, str(error))


async def _failed(request: Request, error: Exception) -> Response:
    return error_answer(500, "the server failed; its log has the reason")


HANDLERS: dict[Union[int, type[Exception]], Any] = {
    RequestValidationError: _invalid,
    HTTPException: _refused,
    ConfigurationError: _refused,
    Exception: _failed,
}
