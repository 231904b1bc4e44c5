"""The web page: what the models predict for one sentence."""

import math
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.common.util import JsonDict
from fastapi import FastAPI
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from elmo_plugin.checkpoints import BEGIN, END
from elmo_plugin.serving.limits import at_most
from elmo_plugin.serving.model import ServedModel, Task, Text

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
    """A part of a tagged sentence: its text and, for a span or a tagged word, its label, colour and probability."""

    text: str
    label: Optional[str] = None
    colour: int = 0
    probability: Optional[float] = None


def pieces(answer: JsonDict) -> list[Piece]:
    """Split a tagged sentence into pieces. The probability of a span is that of its least certain tag.

    >>> pieces({"tokens": ["Hi", "."], "tags": ["A", "B"], "probabilities": [0.5, 0.25]})[1].probability
    0.25
    """
    tokens, probabilities, spans = answer["tokens"], answer.get("probabilities"), answer.get("spans")
    if spans is None:
        spans = [{"label": tag, "start": at, "end": at + 1} for at, tag in enumerate(answer["tags"])]
    labels = list(dict.fromkeys(span["label"] for span in spans))
    found, end = [], 0
    for span in spans:
        found += [Piece(word) for word in tokens[end : span["start"]]]
        end = span["end"]
        least = min(probabilities[span["start"] : end]) if probabilities else None
        colour = labels.index(span["label"]) % COLOURS
        found.append(Piece(" ".join(tokens[span["start"] : end]), span["label"], colour, least))
    return found + [Piece(word) for word in tokens[end:]]


def word_rows(scores: JsonDict) -> list[dict[str, Any]]:
    """Return each word, boundaries included, with its probability from the left and from the right.

    `<S>` has none from the left and `</S>` none from the right.
    """
    words = [BEGIN, *scores["tokens"], END]
    left = [None, *map(math.exp, scores["forward_log_probs"])]
    right = [*map(math.exp, scores["backward_log_probs"]), None]
    unknown = set(scores["unknown"])
    rows = zip(words, left, right, strict=True)
    return [{"word": word, "left": before, "right": after, "unknown": word in unknown} for word, before, after in rows]


def percent(probability: float) -> str:
    """Return a probability as a percentage with two significant digits.

    >>> [percent(p) for p in (1.0, 0.996, 0.123, 0.01, 0.0042, 0.00001)]
    ['100 %', '>99 %', '12 %', '1.0 %', '0.42 %', '<0.01 %']
    """
    if probability < 0.0001:
        return "<0.01 %"
    if 0.995 <= probability < 1:
        return ">99 %"
    decimals = 0 if probability >= 0.0995 else 1 if probability >= 0.00995 else 2
    return f"{100 * probability:.{decimals}f} %"


def shade(probability: float) -> int:
    """Return the shade of a probability, from 0 to the number of `LEVELS`."""
    return sum(probability >= level for level in LEVELS)


TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
TEMPLATES.filters |= {"percent": percent, "shade": shade}


def add_page(
    app: FastAPI,
    model: ServedModel,
    read: Callable[[Sequence[Text]], Awaitable[list[list[str]]]],
    answer: Callable[[Task, Sequence[Any]], Awaitable[list[Any]]],
) -> None:
    """Add the page at `/`, given the functions of the application that read sentences and answer tasks."""

    @app.get("/", include_in_schema=False)
    async def page(sentence: str = "") -> Response:
        shown: dict[str, Any] = {"words": None, "pieces": None, "label": None, "scores": None, "error": None}
        status = 200
        try:
            at_most(MOST_CHARACTERS, len(sentence), "'sentence'", "characters on this page; the API takes more")
            if sentence.strip():
                (shown["words"],) = await read([sentence])
                if model.label_task is not None:
                    (shown["label"],) = await answer(model.label, [sentence])
                if model.label_task == "tag":
                    shown["pieces"] = pieces(shown["label"])
                if model.language_model is not None:
                    (scores,) = await answer(model.log_probabilities, [shown["words"]])
                    shown |= {"scores": scores, "words": word_rows(scores)}
        except HTTPException as error:
            shown["error"], status = error.detail, error.status_code
        except ConfigurationError as error:
            shown["error"], status = str(error), 422
        html = TEMPLATES.get_template("page.html.j2").render(
            model=model, sentence=sentence, most=MOST_CHARACTERS, **shown
        )
        return HTMLResponse(html.encode("utf-8", "replace"), status, HEADERS)  # lone surrogates become question marks
