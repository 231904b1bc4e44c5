"""Answers and errors as JSON."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from starlette.responses import Response

JSON_TYPE = "application/json"


def encode(answers: Sequence[Any]) -> list[str]:
    """Return each answer as JSON. All but ASCII is escaped, because UTF-8 cannot encode lone surrogates.

    >>> encode([{"vectors": np.zeros((1, 2))}])
    ['{"vectors": [[0.0, 0.0]]}']
    """
    return [json.dumps(answer, default=np.ndarray.tolist) for answer in answers]


def json_answer(encoded: Sequence[str]) -> Response:
    """Return `{"answers": […]}`."""
    return Response(f'{{"answers": [{", ".join(encoded)}]}}', media_type=JSON_TYPE)


def error_answer(status: int, message: str) -> Response:
    """Return `{"error": "…"}` with an HTTP status."""
    headers = {"retry-after": "1"} if status == 503 else None
    return Response(json.dumps({"error": message}), status, headers, media_type=JSON_TYPE)
