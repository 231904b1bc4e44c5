"""The page: what it shows, that all text is escaped, and that it needs no script and no other server."""

import math
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from elmo_plugin.serving import ServedModel
from elmo_plugin.serving.page import layer_rows, pieces, word_rows
from tests.serving.conftest import TEXT
from tests.serving_oracles import Client, serving

HOSTILE = "<img src=x onerror=alert(1)>"
TABLE = {"table", "thead", "tbody", "tr", "th", "td"}
ATTACKS = [
    HOSTILE,
    "\"'><script>alert(1)</script>",
    "</title><b>",
    "{{ 7 * 7 }}",
    "\udc80 \u202e &lt;",
    "مرحبا 日本語",
]


class Reader(HTMLParser):
    """The elements of a page and their attributes, its text, and what it may fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, Any]]] = []
        self.shown = ""
        self.open: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: Any) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.shown += data

    @property
    def text(self) -> str:
        return " ".join(self.shown.split())

    def named(self, tag: str) -> list[dict[str, Any]]:
        return [attributes for name, attributes in self.elements if name == tag]


def page(client: Client, **query: Any) -> Reader:
    answer = client.get("/?" + urlencode(query, errors="surrogatepass"))
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/html")
    return Reader(answer.text)


def test_a_tagger_shows_spans_words_and_layers(tagger_client: Client) -> None:
    sentence = "Greta sailed to Saint Orrin."
    (answer,) = tagger_client.answers("/tag", sentence)
    (scores,) = tagger_client.answers("/log-probabilities", sentence)
    shown = page(tagger_client, sentence=sentence)
    for piece in pieces(answer, ["B-LOC", "B-PER"]):
        assert f"{piece.text} {piece.label or ''}".strip() in shown.text
    assert len(shown.named("mark")) == len(answer["spans"])
    assert f"{scores['forward_perplexity']:.1f} from the left" in shown.text
    assert shown.text.count("from the left") == len(scores["tokens"]) + 2  # </S> and the perplexity
    assert "0, token layer" in shown.text and len(shown.named("rect")) == 2 * 3


def test_a_bilm_shows_the_uses_of_a_chosen_word(bilm_client: Client) -> None:
    shown = page(bilm_client, sentence="She saw the play.", word=3)
    links = [link["href"] for link in shown.named("a") if link["href"].startswith("?")]
    assert len(links) == 5 and links[3].endswith("word=3#nearest")
    assert "Layer 1" in shown.text and "Layer 2" in shown.text and "Layer 3" not in shown.text
    assert shown.text.count(TEXT[3]) == 2
    assert "No other sentence" in page(bilm_client, sentence="Greta sailed.", word=0).text


@pytest.mark.parametrize("attack", ATTACKS)
def test_text_is_escaped(bilm_client: Client, tagger_client: Client, attack: str) -> None:
    usual = {tag for tag, _ in page(bilm_client, sentence="A play.", word=1).elements}
    for client in (bilm_client, tagger_client):
        shown = page(client, sentence=f"{attack} play", word=0)
        assert {tag for tag, _ in shown.elements} <= usual | {"mark", "svg", "rect", "b", "small"} | TABLE
        assert not [name for _, attributes in shown.elements for name in attributes if name.startswith("on")]
        assert attack.encode("utf-8", "replace").decode() in shown.shown or "\udc80" in attack


def test_tokens_that_are_markup_are_shown_as_they_are(bilm_client: Client, text: Path) -> None:
    answer = bilm_client.get("/?" + urlencode({"sentence": "A boat", "word": 1}))
    assert TEXT[6] in Reader(answer.text).text
    assert text.name not in answer.text and text.name in unescape(answer.text)


def test_pages_have_no_script_and_fetch_only_their_style(tagger_client: Client, bilm_client: Client) -> None:
    for path in ("/", "/?sentence=A+play&word=1", "/docs"):
        answer = bilm_client.get(path)
        shown = Reader(answer.text)
        assert not shown.named("script") and not shown.named("img") and not shown.named("iframe")
        assert {link["href"] for link in shown.named("link")} == {"style.css", "data:,"}
        assert not [name for _, attributes in shown.elements for name in attributes if name == "style"]
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
    style = tagger_client.get("/style.css")
    assert style.headers["content-type"].startswith("text/css")
    assert "url(" not in style.text and "@import" not in style.text and "prefers-color-scheme: dark" in style.text


def test_the_page_works_with_a_screen_reader_and_a_keyboard(tagger_client: Client) -> None:
    shown = page(tagger_client, sentence="Greta sailed.")
    (field,) = shown.named("input")
    assert [label["for"] for label in shown.named("label")] == [field["id"]]
    ids = [attributes["id"] for _, attributes in shown.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    assert all(section["aria-labelledby"] in ids for section in shown.named("section"))
    assert shown.named("html") == [{"lang": "en"}] and len(shown.named("h1")) == 1
    assert all(cell.get("scope") for cell in shown.named("th"))


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"sentence": "w " * 1001}, 422),
        ({"sentence": "(" * 501}, 422),
        ({"sentence": "w " * 600}, 422),
        ({"sentence": "A play", "word": 2}, 422),
        ({"sentence": "A play", "word": -1}, 422),
        ({"sentence": "A play", "word": "x"}, 422),
        ({"sentence": " "}, 200),
        ({"sentence": ""}, 200),
    ],
)
def test_the_page_shows_an_error_for_a_wrong_request(bilm_client: Client, query: dict[str, Any], status: int) -> None:
    answer = bilm_client.get("/?" + urlencode(query))
    assert answer.status == status
    assert ('role="alert"' in answer.text) == (status != 200)


def test_rows_and_pieces(bilm: ServedModel) -> None:
    answer = {
        "tokens": ["Greta", "Renner", "sailed"],
        "tags": ["B-PER", "L-PER", "O"],
        "probabilities": [0.9, 0.5, 1.0],
        "spans": [{"label": "PER", "start": 0, "end": 2}],
    }
    assert [tuple(piece) for piece in pieces(answer, ["B-LOC", "B-PER", "O"])] == [
        ("Greta Renner", "PER", 2, 0.5),
        ("sailed", None, 0, None),
    ]
    scores = {"tokens": ["A"], "unknown": ["A"], "forward_log_probs": [-1, -9], "backward_log_probs": [-0.1, -4]}
    begin, word, end = word_rows(scores)
    assert (begin["left"], end["right"]) == (None, None) and word["unknown"]
    assert math.isclose(word["left"].value, math.exp(-1)) and math.isclose(word["right"].value, math.exp(-4))
    assert (begin["right"].level, word["left"].level, word["right"].level, end["left"].level) == (4, 3, 2, 0)
    assert layer_rows({}) == []


def luminance(colour: str) -> float:
    """The relative luminance of a colour, as WCAG 2 defines it."""
    digits = colour.removeprefix("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_text_has_contrast_in_both_schemes(tagger_client: Client) -> None:
    light, dark = tagger_client.get("/style.css").text.split("@media (prefers-color-scheme: dark)", 1)
    for scheme in (light, dark.split("* {")[0]):
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6})", scheme))
        shades = [name for name in colours if re.fullmatch(r"[pc]\d|mark|back|raised", name)]
        assert len(shades) == 5 + 8 + 3
        pairs = [("text", shade) for shade in shades] + [("on-accent", "accent")]
        pairs += [(text, back) for text in ("soft", "accent") for back in ("back", "raised")]
        for pair in pairs:
            less, more = sorted(luminance(colours[name]) for name in pair)
            assert (more + 0.05) / (less + 0.05) >= 4.5, pair


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH")
def test_a_browser_runs_nothing_that_was_typed(tagger: ServedModel, tmp_path: Path) -> None:
    assert CHROMIUM is not None
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    with serving(tagger) as client:
        query = urlencode({"sentence": f"{HOSTILE} <script>document.title = 'run'</script>"})
        address = f"http://127.0.0.1:{client.port}/?{query}"
        command = [CHROMIUM, *options, f"--user-data-dir={tmp_path}", "--dump-dom", address]
        dom = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert re.search("<title>[^<]* – elmo_tagger.tar.gz – elmo_plugin</title>", dom)
    assert "<img" not in dom and "<script" not in dom and unescape(dom).count(HOSTILE) >= 1
