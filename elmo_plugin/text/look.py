"""What a file is: one look at its first lines, which every command takes that opens a text.

`MARKUP`, `_columns`, `_table` and `_plain` say how each kind of file is recognized, `ADVICE` what to do about it, and a
`Use` which kinds a command takes, which of them with a warning, and what it calls the options that fit.
"""

import csv
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Optional

from allennlp.common.checks import ConfigurationError

from elmo_plugin.text.line_forms import WRAPPED, LineForm
from elmo_plugin.text.text_file import read_ahead

SAMPLE = 1000
"""The number of lines that are looked at."""
ROWS = 100
"""The number of lines of a table that are looked at."""
HTML, XML, RTF, LATEX, MAIL = "a page of HTML", "XML", "RTF", "LaTeX", "mail"
SUBTITLES, MARKDOWN, JSON, JSON_LINES = "subtitles", "Markdown", "JSON", "JSON lines"
CONLLU, COLUMNS, TABLE = "CoNLL-U", "columns with a word per line", "a table"
PLAIN, UNTOKENIZED, HARD_WRAPPED, LABELLED = "tokenized", "untokenized", "hard-wrapped", "labelled"

TAGS_OF_HTML = "html|head|body|article|blockquote|div|h[1-6]|img|li|ol|p|section|span|table|td|tr|ul"
HEADERS = (
    "Cc|Content-Type|Date|Delivered-To|From|In-Reply-To|Lines|Message-ID|MIME-Version|Newsgroups|Organization|Path|"
    r"Received|References|Reply-To|Return-Path|Sender|Subject|To|X-[\w-]+|Xref"
)
TIME = r"(?:\d+:)?\d\d:\d\d[.,]\d{3}"
MARKUP = {
    HTML: rf"(?i)\A\s*(?:<\?xml[^>]*>\s*)?(?:<!--[^>]*-->\s*)*<(?:!doctype\s+html|(?:{TAGS_OF_HTML})[\s>])",
    XML: r"(?i)\A\s*<(?:[?!]|[a-z][\w.:-]*\s+[\w.:-]+\s*=|(?!(?:s|unk)>)[a-z][\w.:-]*>(?s:.*?)</(?!s>)[a-z])",
    RTF: r"\A\s*\{\\rtf",
    LATEX: r"^\s*\\(?:documentclass|usepackage|begin\{document\}|(?:chapter|section)\*?\{)",
    SUBTITLES: rf"\A\s*(?:WEBVTT\b|\[Script Info\])|^{TIME} --> {TIME}",
    MAIL: rf"\A(?:From \S+ +[A-Z][a-z]{{2}} [A-Z][a-z]{{2}} .*\d{{4}}$|(?:(?:{HEADERS}): .*\n(?:[ \t].*\n)*){{2}})",
    JSON_LINES: r'\A\s*\{\s*"[^"\n]*"\s*:.*\}\s*$',
    JSON: r'\A\s*(?:\[\s*)?[{\[]\s*"[^"\n]*"\s*[:,\]]',
}
"""What the first lines match."""
HEADING = re.compile(r"^#{1,6} .*\n\s*\n", re.MULTILINE)
MARK_OF_MARKDOWN = re.compile(r"\]\([^)\s]+\)|\*\*\w|^(?:```|[-*+] \w|\||> )", re.MULTILINE)

ADVICE = {
    HTML: "extract its text first, for example with `pip install trafilatura` and `trafilatura < page.html > page.txt`",
    XML: "extract its text first, for example with xmllint --xpath 'string(/)' FILE > NEW",
    RTF: "convert it first, for example with pandoc -f rtf -t plain FILE > NEW",
    LATEX: "convert it first, for example with pandoc -f latex -t plain FILE > NEW",
    MARKDOWN: "convert it first, for example with pandoc -f markdown -t plain FILE > NEW",
    SUBTITLES: 'extract its text first, for example with `pip install pysubs2` and python -c "import pysubs2; '
    "print(*(line.plaintext for line in pysubs2.load('FILE')), sep='\\n')\" > NEW",
    MAIL: "extract its texts first, for example with Python's module mailbox",
    JSON: "write one object per line, for example with jq -c '.[]' FILE > NEW",
    CONLLU: "write its sentences as lines, for example with sed -n 's/^# text = //p' FILE > NEW",
    COLUMNS: 'write its sentences as lines, for example with awk \'{printf "%s", NF ? $1 " " : "\\n"}\' FILE > NEW',
    UNTOKENIZED: "`elmo-plugin prepare-text` makes tokenized sentences",
    HARD_WRAPPED: "`elmo-plugin prepare-text` makes sentences",
    LABELLED: "cut -d' ' -f2- FILE > NEW leaves the labels out",
}
"""What to do about each kind of file that a command does not take, or takes with a warning."""


class Use(NamedTuple):
    """A use of a file: what it expects, the kinds that it takes, and what it does with those that it doubts.

    `of_a_table` says how to read a column of a table, with `{}` for its name, and `advice` is for single kinds, better
    than that for all uses.
    """

    expected: str
    takes: Sequence[str] = ()
    doubts: Mapping[str, str] = {}
    of_a_table: str = "elmo-plugin prepare-text FILE NEW --text-column {} writes the sentences of a column"
    advice: Mapping[str, str] = {}


TOKENIZED = Use(
    "one tokenized sentence per line",
    [PLAIN],
    {
        UNTOKENIZED: "only white space separates its tokens",
        HARD_WRAPPED: "each line is taken for a sentence",
        LABELLED: "the number or label that begins each line is taken for a word",
    },
)
PROSE = Use(
    "plain text",
    [PLAIN, UNTOKENIZED, HARD_WRAPPED],
    {LABELLED: TOKENIZED.doubts[LABELLED]},
    "--text-column {} reads one of its columns",
)
TEXTS = [PLAIN, UNTOKENIZED, HARD_WRAPPED, LABELLED]
TABLES = [TABLE, COLUMNS, CONLLU]
IN_CELLS = [LATEX, MARKDOWN, SUBTITLES]
"""What may stand in the cells of a table."""
A_TABLE = Use("a table or JSON lines", [*TEXTS, *TABLES, *IN_CELLS, JSON_LINES])
LABELLED_TEXTS = Use(
    "a label and a text per row",
    [*TEXTS, *TABLES, *IN_CELLS],
    advice={JSON_LINES: "AllenNLP's reader 'text_classification_json' reads the keys 'text' and 'label'"},
)
TAGGED_WORDS = Use(
    "a word and its tag per line", [*TEXTS, *TABLES], advice={JSON_LINES: "write a word and its tag per line"}
)
TO_EMBED = TOKENIZED._replace(
    of_a_table=f"{PROSE.of_a_table}, and --split space its lines as they are",
    advice={
        CONLLU: "--split conll reads its sentences",
        COLUMNS: "--split conll reads its sentences",
        UNTOKENIZED: "--split spacy splits them, and `elmo-plugin prepare-text` makes sentences",
    },
)
RAW_TO_EMBED = TO_EMBED._replace(
    expected="one sentence per line",
    takes=[PLAIN, UNTOKENIZED],
    doubts={kind: TOKENIZED.doubts[kind] for kind in (HARD_WRAPPED, LABELLED)},
)
TABS_TO_EMBED = RAW_TO_EMBED._replace(takes=[*TEXTS, TABLE], doubts={})
CONLL_TO_EMBED = TO_EMBED._replace(
    expected="columns with a word per line, such as CoNLL-U",
    takes=[CONLLU, COLUMNS],
    advice={kind: "leave --split conll out, or name another" for kind in (*TEXTS, TABLE)},
)

CONLLU_ID = re.compile(r"[0-9]+([-.][0-9]+)?")
SPAN_TAG = re.compile(r"O|[BIESLUM]-.+")
TAG = re.compile(r"[A-Z][A-Z0-9]*\$?([-_|:+=]\S*)?|_|-[A-Z]+-|``|''|[^\w\s]")
NUMBER = re.compile(r"[-+]?[0-9]+([.,][0-9]+)*")
LABEL = re.compile(r"__label__\S+|[0-9]")
NAME = re.compile(r"[^\W\d][\w.# -]{0,30}")
DOCUMENT = "-DOCSTART-"
"""The first token of the line that begins a document in CoNLL-2003. It stands after the index if there is one."""
DELIMITERS = "\t,;|"
MARKS = ".,;:!?。，、；：！？"
FEWEST_LINES = 20
"""In fewer lines, the ends of lines say nothing about the ends of sentences."""
ROWS_PER_LABEL = 5
"""Labels are recognized by their repetition: there is at most one of them in as many rows."""

logger = logging.getLogger(__name__)


class Look(NamedTuple):
    """What a file is: its kind, and of a table its first row, the column with most text, and how it is written."""

    kind: str
    first_row: Sequence[str] = ()
    text_column: str = ""
    delimiter: Optional[str] = None
    quote_char: Optional[str] = None


def look_at(lines: Iterable[str], name: str, use: Use, quiet: bool = False) -> tuple[Look, Iterator[str]]:
    """Return what a file is by its first lines, and an iterator over all lines.

    Log what `use` doubts unless `quiet`. Raises `ConfigurationError` for a kind of file that `use` does not take.
    """
    head, everything = read_ahead(lines, SAMPLE)
    found = look(head)
    advice = {**ADVICE, **dict.fromkeys([TABLE, JSON_LINES], use.of_a_table.format(found.text_column)), **use.advice}
    if found.kind in use.doubts:
        if not quiet:
            logger.warning("%s looks %s: %s; %s", name, found.kind, use.doubts[found.kind], advice[found.kind])
    elif found.kind not in use.takes and any(map(str.strip, head)):
        got = f"a text that looks {found.kind}" if found.kind in TEXTS else found.kind
        columns = f" with {show_columns(found.first_row)}" * bool(found.first_row)
        raise ConfigurationError(f"{name}: expected {use.expected}, got {got}{columns}; {advice[found.kind]}")
    return found, everything


def look(lines: Sequence[str]) -> Look:
    """Return what a file is by its first lines.

    >>> look(['{"id": 7, "text": "It rained."}\\n']).kind
    'JSON lines'
    """
    text = "".join(lines)
    for kind, pattern in MARKUP.items():
        if re.search(pattern, text, re.MULTILINE):
            return _json_lines(lines) if kind == JSON_LINES else Look(kind)
    headings = HEADING.findall(text)
    if len(headings) > 1 or (headings and MARK_OF_MARKDOWN.search(text)):
        return Look(MARKDOWN)
    return _columns(lines) or _table(lines) or _plain(lines)


def is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row looks like names of columns, in any language.

    No cell of a header occurs again in its column, although numbers, or labels that repeat, follow in one of them.
    """
    first, *others = rows
    if len(others) < 2 or any(len(row) != len(first) for row in others):
        return False
    below = [list(column) for column in zip(*others, strict=True)]
    if any(NUMBER.fullmatch(cell) or cell in column for cell, column in zip(first, below, strict=True)):
        return False
    numbers = any(all(map(NUMBER.fullmatch, column)) for column in below)
    return numbers or any(1 < len({*column}) <= len(others) // ROWS_PER_LABEL for column in below)


def _json_lines(lines: Sequence[str]) -> Look:
    row: dict[str, object] = {}
    with suppress(ValueError, RecursionError):
        row = json.loads(next(filter(str.strip, lines)))
    texts = {key: value for key, value in row.items() if isinstance(value, str)}
    return Look(JSON_LINES, [*row], max(texts, key=lambda key: len(texts[key]), default="NAME"))


def _columns(lines: Sequence[str]) -> Optional[Look]:
    """Return the look of a file with a word and something about it, such as its tag, on each line.

    Tokens are in the first column, or in the second one of rows that are numbered.
    """
    content = [line.strip() for line in lines if line.strip() and not line.startswith(("#", DOCUMENT))]
    rows = [line.split("\t") if "\t" in line else line.split() for line in content]
    if len(rows) < 2 or len({*map(len, rows)}) > 1 or len(rows[0]) < 2:
        return None
    has_blanks = any(line.isspace() or line.startswith(DOCUMENT) for line in lines)
    has_tabs = all("\t" in line and " " not in row[1] for line, row in zip(content, rows, strict=True))
    ids, tags = [row[0] for row in rows], [row[-1] for row in rows]
    numbers = [int(id) for id in ids if id.isdecimal()]
    rises = all(number in (0, 1, former + 1) for former, number in zip([0, *numbers], numbers, strict=False))
    is_counted = rises and max(numbers, default=0) > 1 and all(map(CONLLU_ID.fullmatch, ids))
    are_spans = any(tag != "O" for tag in tags) and all(map(SPAN_TAG.fullmatch, tags))
    below = tags[1:]  # the first row may be a header
    are_tags = all(map(TAG.fullmatch, below)) and 2 * sum(tag[0].isalpha() for tag in below) > len(below)
    are_tags = has_blanks and not any(" " in id for id in ids) and (are_tags or below.count("O") > 0.3 * len(below))
    if not (are_spans or are_tags or (is_counted and (has_blanks or has_tabs))):
        return None
    kind = CONLLU if is_counted and not are_spans and "\t" in content[0] else COLUMNS
    return Look(kind, rows[0], "2" if is_counted or (are_spans and all(map(str.isdecimal, ids))) else "1")


def _table(lines: Sequence[str]) -> Optional[Look]:
    """Return the look of a file whose rows have the same number of cells, or as many as a header or more."""
    for delimiter in DELIMITERS:
        rows, quote_char = _cells(lines[:ROWS], delimiter)
        has_names = len(rows) > 1 and len(rows[0]) > 1 and all(map(NAME.fullmatch, rows[0]))
        has_names = has_names and not any({*rows[0]} & {*row} for row in rows[1:])
        widths = {*map(len, rows)}
        is_even = len(widths) == 1 and len(rows) > (1 if quote_char or has_names else 2)
        fits = (is_even or (has_names and min(widths) == len(rows[0]))) and min(widths) > 1
        # In a text, a comma stands before a space or inside of a number.
        if fits and (quote_char or delimiter == "\t" or all(any(map(_is_edge, row, row[1:])) for row in rows)):
            sizes = [sum(map(len, column)) for column in zip(*rows[has_names:], strict=False)]
            longest = sizes.index(max(sizes))
            column = rows[0][longest] if has_names else str(longest + 1)
            return Look(TABLE, rows[0], column, delimiter, quote_char)
    return None


def _cells(lines: Sequence[str], delimiter: str) -> tuple[list[list[str]], Optional[str]]:
    """Return the first rows of a file as if it were a table, and the quote around its cells, if they have one.

    Quotes around a cell are no text if there are some inside, or a delimiter or a line end, or if every row has them.
    """
    edge = re.escape(delimiter)
    quoted = re.findall(rf'(?:^|{edge})"((?:[^"]|"")*)"(?={edge}|\s*$)', "".join(lines), re.MULTILINE)
    if len(quoted) >= len(lines) or any('""' in cell or (delimiter in cell) != ("\n" in cell) for cell in quoted):
        rows: list[list[str]] = []
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        with suppress(csv.Error):
            rows.extend(reader)
        if reader.line_num == len(lines):  # without an error, or with one in the cell that these lines cut off
            return list(filter(any, rows)), '"'
    return [line.rstrip("\r\n").split(delimiter) for line in lines if line.strip()], None


def _is_edge(former: str, cell: str) -> bool:
    return not cell[:1].isspace() and not (former[-1:].isdigit() and cell[:1].isdigit())


def _plain(lines: Sequence[str]) -> Look:
    """Return whether sentences are tokenized, one on each line.

    In untokenized text, one token in 20 or more ends in a punctuation mark after a letter; English texts have 8 to 15 %
    of such tokens, and tokenized ones, where these are abbreviations, below 2 %.
    """
    rows = [row for line in lines if (row := line.split())]
    tokens = [token for row in rows for token in row]
    labels = Counter(row[0] for row in rows)
    if len(rows) >= ROWS_PER_LABEL and len(labels) > 1 and all(map(LABEL.fullmatch, labels)):
        return Look(LABELLED)
    if sum(token[-1] in MARKS and token[-2:-1].isalpha() for token in tokens) > len(tokens) / 20:
        return Look(UNTOKENIZED)
    form = LineForm()
    form.add(lines)
    return Look(HARD_WRAPPED if len(rows) >= FEWEST_LINES and form.guess() == WRAPPED else PLAIN)


def show_columns(columns: Sequence[str]) -> str:
    """Return the number and the content of columns, shortened, for an error."""
    cut = ", ".join(repr(column if len(column) <= 30 else column[:29] + "…") for column in columns[:8])
    return f"{len(columns)} column{'s' * (len(columns) != 1)} ({cut}{', …' * (len(columns) > 8)})"
