"""The web page: what the models predict for one sentence."""

import math
from pathlib import Path
from typing import Any, NamedTuple, Optional

from allennlp.common.util import JsonDict
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from elmo_plugin.checkpoints import BEGIN, END
from elmo_plugin.serving.model import ServedModel

MOST_CHARACTERS = 2000
"""The longest sentence that the page takes, because it becomes a part of the address."""
LEVELS = (0.001, 0.01, 0.1, 0.5)
"""The probabilities at which the next shade begins."""
COLOURS = 8
"""The number of label colours in the style sheet."""
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
}
"""No script runs on the page, and nothing is fetched."""


class Piece(NamedTuple):
    """A part of a tagged sentence: its text and, for a span or a tagged word, its label, colour and probability.

    What is in no span has the tag `O`, and no colour.
    """

    text: str
    label: Optional[str] = None
    colour: Optional[int] = None
    probability: Optional[float] = None


def pieces(answer: JsonDict) -> list[Piece]:
    """Split a tagged sentence into pieces. The probability of a span is that of its least certain tag.

    >>> pieces({"tokens": ["Hi", "."], "tags": ["A", "B"], "probabilities": [0.5, 0.25]})[1].probability
    0.25
    """
    tokens, probabilities, spans = answer["tokens"], answer.get("probabilities"), answer.get("spans")
    if spans is None:
        spans = [{"label": tag, "start": at, "end": at + 1} for at, tag in enumerate(answer["tags"])]
    labels = list(dict.fromkeys(span["label"] for span in spans if span["label"] != "O"))
    found, end = [], 0
    for span in spans:
        found += [Piece(word) for word in tokens[end : span["start"]]]
        end = span["end"]
        least = min(probabilities[span["start"] : end]) if probabilities else None
        colour = labels.index(span["label"]) % COLOURS if span["label"] in labels else None
        found.append(Piece(" ".join(tokens[span["start"] : end]), span["label"], colour, least))
    return found + [Piece(word) for word in tokens[end:]]


def word_rows(scores: JsonDict) -> list[dict[str, Any]]:
    """Return each word, boundaries included, with its probability from the left and from the right.

    `<S>` has none from the left and `</S>` none from the right.
    """
    rows = zip(
        [BEGIN, *scores["tokens"], END],
        [None, *map(math.exp, scores["forward_log_probs"])],
        [*map(math.exp, scores["backward_log_probs"]), None],
        strict=True,
    )
    return [
        {"word": word, "left": left, "right": right, "unknown": word in scores["unknown"]} for word, left, right in rows
    ]


def percent(probability: float) -> str:
    """Return a probability as a percentage with two significant digits.

    >>> [percent(p) for p in (1.0, 0.996, 0.123, 0.01, 0.0042, 0.00001)]
    ['100 %', '>99 %', '12 %', '1.0 %', '0.42 %', '<0.01 %']
    """
    if probability < 0.0001:
        return "<0.01 %"
    if probability >= 0.995:
        return ">99 %" if probability < 1 else "100 %"
    return f"{100 * probability:#.2g}".removesuffix(".") + " %"


def shade(probability: float) -> int:
    """Return the shade of a probability, from 0 to the number of `LEVELS`."""
    return sum(probability >= level for level in LEVELS)


TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
TEMPLATES.filters |= {"percent": percent, "shade": shade}


def html_answer(request: Request, model: ServedModel, status: int, **shown: Any) -> Response:
    """Return the page with what is shown, in answer to a request."""
    html = TEMPLATES.get_template("page.html.j2").render(
        model=model,
        home="./" + "../" * (request.url.path.count("/") - 1),
        sentence=request.query_params.get("sentence", ""),
        most=MOST_CHARACTERS,
        **shown,
    )
    return HTMLResponse(html.encode("utf-8", "replace"), status, HEADERS)  # lone surrogates become question marks
