"""Answers and errors as JSON."""

import json
from collections.abc import Iterable
from typing import Any

from starlette.responses import Response

JSON_TYPE = "application/json"


def json_answer(answers: Iterable[Any]) -> Response:
    """Return `{"answers": […]}`. Lone surrogates are escaped, because UTF-8 cannot encode them."""
    return Response('{"answers": [' + ", ".join(map(json.dumps, answers)) + "]}", media_type=JSON_TYPE)


def error_answer(status: int, message: str) -> Response:
    """Return `{"error": "…"}` with an HTTP status."""
    headers = {"retry-after": "1"} if status == 503 else None
    return Response(json.dumps({"error": message}), status, headers, media_type=JSON_TYPE)
