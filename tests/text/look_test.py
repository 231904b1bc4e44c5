"""What a file looks like: each kind by a small example, and the committed text in several forms."""

import re
import textwrap
from pathlib import Path

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.text import LABELLED_TEXTS, PROSE, RAW_TO_EMBED, TAGGED_WORDS, TO_EMBED, look_at
from elmo_plugin.text import TOKENIZED as SENTENCES
from elmo_plugin.text.look import look
from tests.loader_oracles import build_loader

TOKENIZED = (Path(__file__).parents[2] / "examples/corpus/sentences.txt").read_text(encoding="utf-8").splitlines()
RAW = [re.sub(r" ([.,;?!])", r"\1", line) for line in TOKENIZED]


TIMED = "1\n00:00:01,000 --> 00:00:04,000\nThe ship sank.\n"
TAGGED = "EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\nPeter NNP B-NP B-PER\n"
NUMBERED = "# text = It sank\n1\tIt\tit\tPRON\n2\tsank\tsink\tVERB\n\n"


def kind(*lines: str) -> str:
    return look([f"{line}\n" for line in lines]).kind


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<!DOCTYPE html>\n<html><body>The ship sank.</body></html>\n", "a page of HTML"),
        ("<p>The ship sank.</p>\n<p>Nobody came.</p>\n", "a page of HTML"),
        ('<?xml version="1.0"?>\n<TEI><text>The ship sank.</text></TEI>\n', "XML"),
        ('<doc id="12" title="Ship">\nThe ship sank.\n</doc>\n', "XML"),
        ("<s> The ship sank . </s>\n<unk> came .\n", "tokenized"),
        ("{\\rtf1\\ansi The ship sank.}\n", "RTF"),
        ("% a comment\n\\documentclass{article}\n\\begin{document}\n", "LaTeX"),
        (TIMED, "subtitles"),
        ("WEBVTT\n\n00:01.000 --> 00:04.000\nThe ship sank.\n", "subtitles"),
        ("From greta@port Mon Jan  5 10:00:00 2026\nFrom: Greta <greta@port>\n", "mail"),
        ("From: greta@port\nSubject: The ship\n\nIt sank.\n", "mail"),
        ("From London in 1840 he sailed .\nNobody came .\n", "tokenized"),
        ("# The ship\n\nIt *sank* off [the coast](coast.md).\n", "Markdown"),
        ("# The ship\n\nIt sank.\n\n## The port\n\nNobody came.\n", "Markdown"),
        ("# monday again\n- Hello .\n", "tokenized"),
        ('{"id": 1, "text": "The ship sank."}\n{"id": 2, "text": "Nobody came."}\n', "JSON lines"),
        ('[{"id": 1, "text": "The ship sank."}]\n', "JSON"),
        ('{\n  "text": "The ship sank."\n}\n', "JSON"),
        (NUMBERED, "CoNLL-U"),
        (TAGGED, "columns with a word per line"),
        ("-DOCSTART- -X- -X- O\n" + TAGGED, "columns with a word per line"),
        ("Greta B-PER\nsailed O\n", "columns with a word per line"),
        ("The\tO\nbank\tmoney\nlent\tO\n\n", "columns with a word per line"),
        ("id,review\n1,The ship sank.\n", "a table"),
        ("pos,The ship sank.\nneg,Nobody came.\npos,They sailed on.\n", "a table"),
        ('"3","The ship sank, and ""nobody"" came."\n"4","They sailed on."\n', "a table"),
        ("label,text\nham,Go until the port, crazy\nspam,Win, win, win\n", "a table"),
        ("P1\tM A L\nP2\tM K\nP3\tM V\n", "a table"),
        ("id;review\n1;The ship sank.\n", "a table"),
        ("Yes, it sank.\nNo, it sailed.\nOh, look.\n", "untokenized"),
        ("It cost 1,000 crowns .\nIt cost 2,000 crowns .\nIt cost 3,000 crowns .\n", "tokenized"),
        ("1 It sank .\n0 It sailed .\n1 Nobody came .\n0 They sang .\n1 It rained .\n", "labelled"),
        ("", "tokenized"),
    ],
)
def test_each_kind_of_file_is_recognized(text: str, wanted: str) -> None:
    assert look(text.splitlines(keepends=True)).kind == wanted


def test_the_column_with_most_text_is_named() -> None:
    assert look(["id\treview\n", '1\t"He said ""hi"" ."\n'])[2:] == ("review", "\t", '"')
    assert look(["1,The ship sank.\n", "2,Nobody came.\n", "3,x\n"])[2:] == ("2", ",", None)
    assert look(['{"id": "7", "text": "It rained."}\n'])[1:3] == (["id", "text"], "text")


def test_tokenized_sentences_are_no_raw_text() -> None:
    assert kind(*TOKENIZED) == "tokenized"
    assert kind(*TOKENIZED, "Mr. Quill had gone ashore .") == "tokenized"
    encyclopedia = ["= Ship =", "", "It sank , he said , and " * 30 + "nobody came .", "", "= = Port = =", ""] * 20
    assert kind(*encyclopedia) == "tokenized"


def test_text_that_is_untokenized_or_hard_wrapped_is_recognized() -> None:
    assert kind(*RAW) == "untokenized"
    assert kind("今天下雨。", "我们回家，好吗？") == "untokenized"
    for width in (50, 72, 100):
        assert kind(*textwrap.wrap(" ".join(TOKENIZED * 50), width)) == "hard-wrapped"


def test_tokenized_sentences_that_were_cut_at_line_ends_are_recognized() -> None:
    sentences = ["It rained , and", "the men of the village ,", "Greta among them , went home .", "Nobody came ."]
    assert kind(*sentences * 50) == "hard-wrapped"
    assert kind(*["where are you", "at home , in bed since noon", "ok", "fine"] * 50) == "tokenized"  # a chat


def test_pretraining_warns_of_a_raw_text_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.txt").write_text("\n".join(RAW))
    for shuffle in (True, False):  # the loaders of training and validation
        list(build_loader(str(tmp_path / "a.txt"), type="unrolled_streams", streams=1, window=2, shuffle=shuffle))
    (message,) = [record.getMessage() for record in caplog.records if "prepare-text" in record.getMessage()]
    assert "a.txt looks untokenized" in message


PAGE = Path(__file__).parents[2] / "docs/guides/text-files.md"
ROWS = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
TABLE = [[cell.strip() for cell in row.split("|")[1:-1]] for row in ROWS]
USES = [TO_EMBED, RAW_TO_EMBED, PROSE, SENTENCES, TAGGED_WORDS, LABELLED_TEXTS]
EXAMPLES = {
    "tokenized sentences": "The ship sank .\n",
    "untokenized sentences": "The ship sank.\n",
    "hard-wrapped text": "It rained , and\nthe men of the village ,\nGreta too , went home .\nNobody came .\n" * 50,
    "lines that begin": "1 It sank .\n0 It sailed on .\n1 Nobody came .\n0 They sang .\n1 It rained .\n",
    "a table": "id,review\n1,The ship sank.\n",
    "JSON lines": '{"text": "The ship sank."}\n',
    "CoNLL-U": NUMBERED,
    "other columns": TAGGED,
    "JSON": '[{"text": "The ship sank."}]\n',
    "HTML": "<html>\n",
    "XML": "<?xml version='1.0'?>\n",
    "RTF": "{\\rtf1 It sank.}\n",
    "LaTeX": "\\documentclass{book}\n",
    "Markdown": "# Ships\n\n- **One** sank\n",
    "subtitles": TIMED,
    "mail": "From: greta@port\nSubject: The ship\n\nIt sank.\n",
}


@pytest.mark.parametrize("row", TABLE[2:], ids=lambda row: row[0])
def test_the_page_says_what_happens(row: list[str], caplog: pytest.LogCaptureFixture) -> None:
    text = max((name for name in EXAMPLES if row[0].startswith(name)), key=len)
    for use, cell in zip(USES, row[1:], strict=True):
        lines = EXAMPLES[text].splitlines(keepends=True)
        if cell.startswith("error"):
            with pytest.raises(ConfigurationError) as raised:
                look_at(lines, "given", use)
            assert all(tool in str(raised.value) for tool in re.findall("`(.*?)`", cell)), (use, cell)
        else:
            caplog.clear()
            assert list(look_at(lines, "given", use)[1]) == lines
            assert len(caplog.messages) == (cell == "warning"), (use, cell)


def test_the_page_has_each_kind() -> None:
    assert len(TABLE) == 2 + len(EXAMPLES)
