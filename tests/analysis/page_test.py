from base64 import b64decode
from html.parser import HTMLParser
from typing import Optional

from elmo_plugin.analysis.page import Picture, Section, Table, Text, html, markdown

VOID = {"meta", "img"}
PAGE = [
    Section("One & two", [Text("a **b** `c<d>`"), Table(["", "x|y"], [["one", "**1**"]], folded="More")]),
    Section("Three", [Picture("p.png", b"\x89PNG", 'what "it" shows')]),
]


class Outline(HTMLParser):
    """Every element that was opened; fails where one is closed that is not the last opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, Optional[str]]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Optional[str]]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_markdown_has_tables_that_survive_a_bar_and_links_to_pictures() -> None:
    text = markdown("Title", PAGE)
    assert text.startswith("# Title\n\n## One & two\n\na **b** `c<d>`\n\n<details><summary>More</summary>\n\n|")
    assert "|  | x\\|y |\n| --- | ---: |\n| one | **1** |\n" in text
    assert text.endswith('## Three\n\n![what "it" shows](p.png)\n')


def test_html_is_closed_where_it_was_opened_and_needs_no_other_file() -> None:
    outline = Outline()
    text = html("Title", PAGE)
    outline.feed(text)
    assert outline.open == []
    links = [attributes["href"] for tag, attributes in outline.seen if tag == "a"]
    assert links == ["#" + str(attributes["id"]) for tag, attributes in outline.seen if tag == "section"]
    ((image),) = [attributes for tag, attributes in outline.seen if tag == "img"]
    assert image["alt"] == 'what "it" shows'
    head, content = str(image["src"]).split(",")
    assert (head, b64decode(content)) == ("data:image/png;base64", b"\x89PNG")
    assert not [value for _, attributes in outline.seen for value in attributes.values() if "http" in str(value)]


def test_html_escapes_and_knows_strong_and_code() -> None:
    text = html("a < b", PAGE)
    assert "<title>a &lt; b</title>" in text
    assert "<p>a <strong>b</strong> <code>c&lt;d&gt;</code></p>" in text
    assert '<td class="name">one</td><td><strong>1</strong></td>' in text
