"""The page: what it shows, that all text is escaped, and that it needs no script and no other server."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin

import pytest

from elmo_plugin.serving import page as page_module
from elmo_plugin.serving.page import pieces
from tests.serving_oracles import Client

ATTACKS = ["\"'></title><script>alert(1)</script>", "{{ 7 * 7 }} <img src=x onerror=alert(1)>"]


class Reader(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, Any]]] = []
        self.shown = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.elements.append((tag, dict(attributes)))

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


def test_a_tagger_shows_spans_and_words(tagger_client: Client) -> None:
    sentence = "Greta sailed to Saint Orrin."
    (answer,) = tagger_client.answers("/tag", sentence)
    (scores,) = tagger_client.answers("/log-probabilities", sentence)
    shown = page(tagger_client, sentence=sentence)
    for span in answer["spans"]:
        assert f"{' '.join(answer['tokens'][span['start'] : span['end']])} {span['label']}" in shown.text
    assert len(shown.named("mark")) == len(answer["spans"]) > 0
    assert f"{scores['forward_perplexity']:.1f} from the left" in shown.text
    assert shown.text.count("from the left") == len(scores["tokens"]) + 2  # </S> and the perplexity


def test_each_label_has_a_colour_of_the_style_sheet_and_the_ninth_that_of_the_first() -> None:
    labels = [f"L{number}" for number in range(9)]
    spans = [{"label": label, "start": at, "end": at + 1} for at, label in enumerate([*labels, "L1"])]
    found = pieces({"tokens": ["w"] * 10, "tags": ["B"] * 10, "spans": spans})
    assert [piece.colour for piece in found] == [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]
    style = Path(page_module.__file__).with_name("style.css").read_text(encoding="utf-8")
    assert set(re.findall(r"\.c(\d)\b", style)) == set("01234567")


@pytest.mark.parametrize("attack", ATTACKS)
def test_text_is_escaped(tagger_client: Client, attack: str) -> None:
    usual = {tag for tag, _ in page(tagger_client, sentence="A play.").elements}
    shown = page(tagger_client, sentence=f"{attack} play")
    assert {tag for tag, _ in shown.elements} <= usual | {"mark", "b", "small"}
    assert not [name for _, attributes in shown.elements for name in attributes if name.startswith("on")]
    assert attack in shown.shown


def test_the_page_has_no_script_and_fetches_nothing(tagger_client: Client) -> None:
    shown = page(tagger_client, sentence="Greta sailed.")
    assert not shown.named("script") and not shown.named("img") and not shown.named("iframe")
    assert {link["href"] for link in shown.named("link")} == {"data:,"}
    assert "url(" not in shown.shown and "@import" not in shown.shown
    policy = tagger_client.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script" not in policy
    (field,) = shown.named("input")
    assert [label["for"] for label in shown.named("label")] == [field["id"]]


@pytest.mark.parametrize(("sentence", "status"), [("w " * 1001, 422), ("(" * 501, 422), (" ", 200)])
def test_the_page_shows_an_error_for_a_wrong_request(tagger_client: Client, sentence: str, status: int) -> None:
    answer = tagger_client.get("/?" + urlencode({"sentence": sentence}))
    assert answer.status == status
    assert ('role="alert"' in answer.text) == (status != 200)


@pytest.mark.parametrize(("path", "status"), [("/nowhere", 404), ("/no/<b>where", 404), ("/tag", 405)])
def test_a_browser_gets_the_page_for_an_unknown_address(tagger_client: Client, path: str, status: int) -> None:
    """A program gets JSON. The form and the link lead to the server, also behind a proxy that serves it in a folder."""
    address = path.replace("<", "%3C").replace(">", "%3E")
    browser = tagger_client.ask("GET", address, headers={"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"})
    assert browser.status == status and browser.headers["content-type"].startswith("text/html")
    shown = Reader(browser.text)
    assert path in shown.shown
    (form,) = shown.named("form")
    assert urljoin(f"http://proxy/folder{address}", form["action"]) == "http://proxy/folder/"
    program = tagger_client.ask("GET", address, headers={"Accept": "*/*"})
    assert program.status == status and path in program.json["error"]


def test_words_outside_of_names_have_no_colour() -> None:
    tagged = {"tokens": ["Greta", "sailed", "to", "Calder"], "tags": ["U-PER", "O", "O", "U-LOC"]}
    assert [(piece.label, piece.colour) for piece in pieces(tagged)] == [
        ("U-PER", 0),
        ("O", None),
        ("O", None),
        ("U-LOC", 1),
    ]
