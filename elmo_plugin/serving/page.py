"""The web pages: what the models predict for one sentence, and the documentation of the API."""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.common.util import JsonDict
from fastapi import FastAPI, Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from elmo_plugin.analysis import LearnedMix
from elmo_plugin.serving.answering import Answering
from elmo_plugin.serving.limits import RequestError, at_most
from elmo_plugin.serving.served_model import Sentence

FOLDER = Path(__file__).parent
TEMPLATES = Environment(
    loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
MOST_CHARACTERS = 2000
"""The longest sentence that the page takes, because it becomes a part of the address."""
USES = 5
"""The number of uses of a word that the page shows in each layer."""
LEVELS = (0.001, 0.01, 0.1, 0.5)
"""The probabilities at which the next shade begins."""
COLOURS = 8
"""The number of label colours in the style sheet."""
EXAMPLE = "They went to the play last night."


class Piece(NamedTuple):
    """A part of a tagged sentence: its text and, for a span or a tagged word, its label, colour and probability."""

    text: str
    label: Optional[str] = None
    colour: int = 0
    probability: Optional[float] = None


class Probability(NamedTuple):
    """A probability and its shade, from 0 to the number of `LEVELS`."""

    value: float
    level: int


def pieces(answer: JsonDict, tags: Iterable[str]) -> list[Piece]:
    """Split a tagged sentence into pieces. The probability of a span is that of its least certain tag.

    `tags` are all tags of the model, so that a label has the same colour in every sentence.

    >>> pieces({"tokens": ["Hi", "."], "tags": ["A", "B"], "probabilities": [0.5, 0.25]}, ["A", "B"])[1]
    Piece(text='.', label='B', colour=1, probability=0.25)
    """
    tokens, probabilities, spans = answer["tokens"], answer.get("probabilities"), answer.get("spans")
    labels = sorted(set(tags) if spans is None else {tag.partition("-")[2] or tag for tag in tags})
    if spans is None:
        spans = [{"label": tag, "start": at, "end": at + 1} for at, tag in enumerate(answer["tags"])]
    found, end = [], 0
    for span in spans:
        found += [Piece(word) for word in tokens[end : span["start"]]]
        end = span["end"]
        least = min(probabilities[span["start"] : end]) if probabilities else None
        text = " ".join(tokens[span["start"] : end])
        colour = labels.index(span["label"]) % COLOURS if span["label"] in labels else 0
        found.append(Piece(text, span["label"], colour, least))
    return found + [Piece(word) for word in tokens[end:]]


def word_rows(scores: JsonDict) -> list[dict[str, Any]]:
    """Return each word, boundaries included, with its probability from the left and from the right.

    `<S>` has none from the left and `</S>` none from the right.
    """
    words = ["<S>", *scores["tokens"], "</S>"]
    forward = [None, *map(_probability, scores["forward_log_probs"])]
    backward = [*map(_probability, scores["backward_log_probs"]), None]
    unknown = set(scores["unknown"])
    rows = zip(words, forward, backward, strict=True)
    return [
        {"word": word, "left": left, "right": right, "position": at - 1, "unknown": word in unknown}
        for at, (word, left, right) in enumerate(rows)
    ]


def layer_rows(mixes: dict[str, LearnedMix]) -> list[dict[str, Any]]:
    """Return one row per layer, with the share of the layer in the mix at each place."""
    depth = max((len(mix.weights) for mix in mixes.values()), default=0)
    names = ["0, token layer", *map(str, range(1, depth))][:depth]
    return [
        {"name": name, "shares": [mix.weights[at] if at < len(mix.weights) else None for mix in mixes.values()]}
        for at, name in enumerate(names)
    ]


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


def code(text: str) -> Markup:
    """Return a text as HTML, with the parts between backticks as code.

    >>> code("`<S>` & words")
    Markup('<code>&lt;S&gt;</code> &amp; words')
    """
    parts = text.split("`")
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


TEMPLATES.filters |= {"percent": percent, "code": code}


def add_pages(app: FastAPI, answering: Answering) -> None:
    """Add the page at `/`, the documentation of the API at `/docs`, and their style sheet."""

    @app.get("/", include_in_schema=False)
    async def page(sentence: str = "", word: str = "") -> Response:
        shown: dict[str, Any] = {"sentence": sentence, "word": None, "error": None, "read": None}
        status = 200
        try:
            if sentence.strip():
                shown |= await _shown(answering, sentence, word)
        except (RequestError, ConfigurationError) as error:
            shown["error"], status = str(error), getattr(error, "status", 422)
        return _html("page.html.j2", status, model=answering.model, most=MOST_CHARACTERS, example=EXAMPLE, **shown)

    @app.get("/docs", include_in_schema=False)
    async def documentation(request: Request) -> Response:
        api, address = app.openapi(), str(request.base_url).rstrip("/")
        return _html("docs.html.j2", 200, api=api, examples=_examples(api), address=address)

    @app.get("/style.css", include_in_schema=False)
    async def style() -> Response:
        return Response((FOLDER / "style.css").read_text(encoding="utf-8"), media_type="text/css")


async def _shown(answering: Answering, text: str, word: str) -> dict[str, Any]:
    """Return what the page shows for a sentence."""
    at_most(MOST_CHARACTERS, len(text), "'sentence'", "characters on this page; the API takes more")
    model = answering.model
    (sentence,) = await answering.read([text])
    shown: dict[str, Any] = {"read": sentence, "word": None, "layers": layer_rows(model.mixes), "nearest": None}
    shown["label"] = await _first(answering, model.label, sentence) if model.predictor else None
    shown["pieces"] = pieces(shown["label"], model.tags) if model.label_task == "tag" else []
    scores = await _first(answering, model.log_probabilities, sentence) if model.language_model else None
    shown |= {"scores": scores, "words": word_rows(scores) if scores else _unscored(sentence)}
    if word and model.index is not None:
        shown["word"] = int(word[:9]) if word.isascii() and word.isdecimal() else -1
        shown["nearest"] = await answering.nearest(sentence, shown["word"], USES)
    return shown


async def _first(answering: Answering, task: Any, sentence: Sentence) -> JsonDict:
    (answer,) = await answering.ask(task, [sentence])
    return dict(answer)


def _unscored(sentence: Sentence) -> list[dict[str, Any]]:
    empty = {"left": None, "right": None, "unknown": False}
    return [{"word": word, "position": at, **empty} for at, word in enumerate(sentence.tokens)]


def _probability(log_probability: float) -> Probability:
    value = math.exp(log_probability)
    return Probability(value, sum(value >= level for level in LEVELS))


def _examples(api: dict[str, Any]) -> dict[str, str]:
    """Return an example request as JSON for each path that takes one."""
    schemas = api["components"]["schemas"]
    found = {}
    for path, methods in api["paths"].items():
        body = methods.get("post", {}).get("requestBody", {"content": {}})["content"].get("application/json")
        if body:
            schema = schemas[body["schema"]["$ref"].rpartition("/")[2]]
            found[path] = json.dumps(schema["examples"][0])
    return found


def _html(template: str, status: int, **values: Any) -> Response:
    """Fill in a template. Lone surrogates, which UTF-8 cannot encode, become question marks."""
    text = TEMPLATES.get_template(template).render(**values)
    return HTMLResponse(text.encode("utf-8", "replace"), status)
