"""What goes into `prepare-text` comes out, once: with each option and each pair of options, on books that are known.

python -m tests.commands.prepare_text_keeps_all_test LANGUAGE FILE…    # the same on other books, with counts
"""

import gzip
import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr
from io import StringIO
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unicodedata import category, normalize

import pytest

from elmo_plugin.text import HELDOUT, TextFile, prepare_text

BOOK = """\ufeffThe Project Gutenberg eBook of The Ship, by A. Quill

This eBook is for the use of anyone anywhere.

*** START OF THE PROJECT GUTENBERG EBOOK THE SHIP ***

CHAPTER I

{chapter}

End of Project Gutenberg's The Ship, by A. Quill

*** END OF THE PROJECT GUTENBERG EBOOK THE SHIP ***

Project Gutenberg is a mark. Read how to subscribe to our
email newsletter to hear about new eBooks.
"""
PLAIN = """THE FROG

A book of nobody. It rained in the year
1984
and the frogs came (they were green). They said “co-ax”, and
all of them at once! (Nobody knew why.) Then they left.

The frog of 12 years saw the frog of
13
years; all the days of the frog were 365
days, and all the days of the ship were 365
days. All the days of the toad were 777
days; all the days of
all were 99

It was the end. It was the end.

A title without an end

It was the end.
"""
OPTIONS: list[dict[str, Any]] = [
    {"clean": True},
    {"lines": "wrapped"},
    {"lines": "paragraphs"},
    {"lines": "sentences"},
    {"shards": 3},
    {"heldout": 10},
    {"drop_duplicates": True},
]
PAIRS = [{}, *OPTIONS, *({**one, **other} for one, other in combinations(OPTIONS, 2) if one.keys() != other.keys())]


def pages(first: int) -> tuple[str, str]:
    """Return five pages of wrapped text with page numbers and running heads, and the same text without these."""
    text = [f"And it rained on day {first}, so that"]
    clutter = []
    for page in range(first, first + 5):
        text += [f"the {n} men of the village number {page} went" + "." * (n % 4 == 0) for n in range(14)]
        clutter.append(len(text))
        text += ["nobody of them ever ab-", "solutely left and"]
    text.append("the end came.")
    plain = "\n".join(text)
    for page, place in reversed(list(enumerate(clutter, first))):
        text[place:place] = ["", str(page), "", "THE SHIP", ""]
    return "\n".join(text), plain


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Write a file of four books, of which three have a frame; return it, and its text without all clutter."""
    path = tmp_path_factory.mktemp("books") / "books.txt"
    framed, plain = zip(*(pages(10 * number + 1) for number in range(3)), strict=True)
    one, two, three = (BOOK.format(chapter=text) for text in framed)
    path.write_text(one + PLAIN + two + three, encoding="utf-8")
    return path, "CHAPTER I" + plain[0] + PLAIN + "CHAPTER I" + plain[1] + "CHAPTER I" + plain[2]


def characters(text: str) -> str:
    """Return the characters of a text that are neither spaces, nor hyphens, nor without a width."""
    left_out = ("Zs", "Zl", "Zp", "Cc", "Cf", "Pd")
    return "".join(c for c in normalize("NFKC", text) if category(c) not in left_out and c != "¬")


def lines_left_out(raw: Iterable[str], written: Sequence[str]) -> list[str]:
    """Return the lines that are missing in what is written; nothing else may be missing, and nothing added."""
    text, missing, position = characters("".join(written)), [], 0
    for line in raw:
        plain = characters(line)
        if text.startswith(plain, position):
            position += len(plain)
        else:
            missing.append(line.strip())
    assert position == len(text), f"added or moved: {text[position:][:100]!r}"
    return missing


def prepare(raw: Sequence[Path], language: str, folder: Path, options: dict[str, Any]) -> tuple[list[str], str]:
    """Return the lines that are written, those of the held-out text first, and the report."""
    target = folder / "-".join(["text", *map(str, options.items())])
    report = StringIO()
    with redirect_stderr(report):
        prepare_text(list(map(str, raw)), target, language=language, **options)
    if target.is_file():
        return target.read_text(encoding="utf-8").splitlines(), report.getvalue()
    parts = [gzip.decompress(path.read_bytes()).decode().splitlines() for path in sorted(target.iterdir())]
    assert len(parts) == options.get("shards", 1) + ("heldout" in options) and all(parts)
    assert ((target / HELDOUT) in target.iterdir()) == ("heldout" in options)
    return [line for part in parts for line in part], report.getvalue()


def check(raw: Sequence[Path], language: str, folder: Path, options: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Check that nothing is lost or doubled. Return the lines that are written, and those of the text that are not."""
    written, report = prepare(raw, language, folder, options)
    to_order = {name: options[name] for name in ("shards", "heldout", "drop_duplicates") if name in options}
    alone = {name: value for name, value in options.items() if name not in to_order}
    in_order = prepare(raw, language, folder, alone)[0] if to_order else written
    assert in_order == written or sorted(filter(None, written)) == sorted(
        filter(None, dict.fromkeys(in_order) if "drop_duplicates" in options else in_order)
    )
    sentences = [line for line in written if line]
    n_tokens = sum(len(line.split()) for line in sentences)
    assert f"\n{len(sentences):,} sentences of {n_tokens:,} tokens; " in report
    sample = [line[2:] for line in report.splitlines() if line.startswith("  ")]
    assert len(sample) == min(10, len(sentences)) and {line[:200] for line in sentences}.issuperset(sample)
    lines = [line for path in raw for line in TextFile(path).lines()]
    missing = lines_left_out(lines, in_order)
    found = [
        line.split()[2] for line in report.splitlines() if line.startswith("left out: ") and "repeated" not in line
    ]
    assert sum(int(number.replace(",", "")) for number in found) == len(missing)
    if options == {"lines": "sentences"}:
        assert len(written) == len(lines)
    return written, missing


@pytest.mark.parametrize("options", PAIRS, ids=str)
def test_what_goes_in_comes_out_once(books: tuple[Path, str], options: dict[str, Any], tmp_path: Path) -> None:
    path, plain = books
    written, missing = check([path], "en", tmp_path, options)
    if "clean" not in options:
        assert not missing
    elif options == {"clean": True}:
        assert characters("".join(written)) == characters(plain)


def main(language: str, paths: Sequence[Path]) -> None:
    """Print what is written and left out of other books."""
    print("| options | sentences | lines left out |\n|---|---:|---:|")
    for options in PAIRS:
        with TemporaryDirectory() as folder:
            written, missing = check(paths, language, Path(folder), options)
        print(f"| {options or 'none'} | {len(written):,} | {len(missing):,} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], [Path(path) for path in sys.argv[2:]])
