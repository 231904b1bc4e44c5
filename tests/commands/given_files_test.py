"""What each command does with a file that is not what it expects: one line that says what it is, or an error."""

import bz2
import gzip
import io
import json
import os
import sys
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.integrations import ElmoComponent
from elmo_plugin.pretraining import TextShardsReader
from elmo_plugin.text import TextFile
from tests.commands.alone import run
from tests.oracles import write_files
from tests.task_oracles import small_bilm

RAW = "The ship sank off the coast.\nNobody came, he said.\n"
TOKENIZED = "The ship sank off the coast .\nNobody came , he said .\n"
CSV = 'id,review\na,"The ship sank, and ""nobody"" came."\nb,They sailed on.\n'
JSON_LINES = '{"id": "a", "review": "The ship sank."}\n{"id": "b", "review": "They sailed on."}\n'
COLUMNS = "EU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\nPeter NNP B-NP B-PER\nsailed VBD B-VP O\n"
HTML = "<!DOCTYPE html>\n<html><body>The ship sank.</body></html>\n"
SUBTITLES = "1\n00:00:01,000 --> 00:00:04,000\nThe ship sank.\n\n2\n00:00:05,000 --> 00:00:06,000\nNobody came.\n"
GERMAN = "Das Schiff sank vor der Küste im Sturm , und niemand kam den Männern zu Hilfe .\n"
LATIN = "Gallia est omnis divisa in partes tres , quarum unam incolunt Belgae , aliam Aquitani .\n"
ENGLISH = "The ship sank off the coast in the storm , and nobody came to help the men in the water .\n"
MAC = "The ship sank .\rNobody came .\r"

REFUSED = {
    "csv": (CSV, "a table with 2 columns ('id', 'review')"),
    "jsonl": (JSON_LINES, "JSON lines with 2 columns"),
    "json": ('[\n  {"review": "The ship sank."}\n]\n', "JSON"),
    "html": (HTML, "trafilatura"),
    "xml": ('<?xml version="1.0"?>\n<TEI>The ship sank.</TEI>\n', "xmllint"),
    "srt": (SUBTITLES, "pysubs2"),
    "mbox": ("From: greta@port\nSubject: The ship\n\nIt sank.\n", "mailbox"),
    "tex": ("\\documentclass{article}\n\\begin{document}\nThe ship sank.\n\\end{document}\n", "pandoc -f latex"),
    "rtf": ("{\\rtf1 The ship sank.}\n", "pandoc -f rtf"),
    "md": ("# Ships\n\nIt *sank* off [the coast](coast.md).\n", "pandoc -f markdown"),
    "conll": (COLUMNS, "columns with a word per line"),
    "mac": (MAC, "line ends of old Macs"),
}
COMMANDS = {
    "embed-corpus": ["{}", "out.npz", "--options-file", "options.json", "--weight-file", "weights.hdf5"],
    "nearest-contexts": ["weights.hdf5", "{}"],
    "prepare-text": ["{}", "out.txt"],
    "probe-layers": ["weights.hdf5", "--pseudowords", "{}"],
    "convert-elmo": ["weights.hdf5", "out.safetensors", "--warm-on", "{}"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the small biLM."""
    write_files(tmp_path, small_bilm())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def embed(*arguments: object) -> dict[str, np.ndarray]:
    """Run `embed-corpus` with the small biLM, and return its arrays."""
    Path("out.npz").unlink(missing_ok=True)
    run("embed-corpus", *arguments, "out.npz", "--options-file", "options.json", "--weight-file", "weights.hdf5")
    with np.load("out.npz") as file:
        return dict(file)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_text_is_an_error_of_one_line(folder: Path, command: str, name: str) -> None:
    content, fact = REFUSED[name]
    Path(f"given.{name}").write_text(content, encoding="utf-8", newline="")
    arguments = [argument.format(f"given.{name}") for argument in COMMANDS[command]]
    with pytest.raises(SystemExit) as ended:
        run(command, *arguments)
    message = str(ended.value)
    assert fact in message and f"given.{name}" in message and "\n" not in message.strip().replace("\\n", "")
    assert not list(folder.glob("out*"))


@pytest.mark.parametrize("name", REFUSED)
def test_training_and_evaluation_read_none_of_them(folder: Path, name: str) -> None:
    content, fact = REFUSED[name]
    Path("given").write_text(content, encoding="utf-8", newline="")
    for read in (lambda: list(TextShardsReader().read("given")), lambda: run("evaluate", "english-tiny", "given")):
        with pytest.raises(ConfigurationError, match="given") as raised:
            read()
        assert fact in str(raised.value)


@pytest.mark.parametrize("command", ["embed-corpus", "nearest-contexts", "convert-elmo"])
def test_raw_text_is_said_once(folder: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("raw.txt").write_text(RAW, encoding="utf-8")
    run(command, *(argument.format("raw.txt") for argument in COMMANDS[command]))
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "raw.txt looks untokenized" in line]
    assert "prepare-text" in said and ("--split spacy" in said) == (command == "embed-corpus")


def test_raw_text_to_train_or_evaluate_on_is_said_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    Path("raw.txt").write_text(RAW, encoding="utf-8")
    config = {"dataset_reader": "text_shards", "train_data_path": "raw.txt", "vocabulary": {"type": "empty"}}
    Path("config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(SystemExit, match="1"):  # the config has no model
        run("check-data", "config.json")
    assert sum("raw.txt looks untokenized" in message for message in caplog.messages) == 1
    caplog.clear()
    run("evaluate", "english-tiny", "raw.txt")
    assert sum("raw.txt looks untokenized" in message for message in caplog.messages) == 1


def test_tokenized_text_is_no_cause_for_a_word(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("text").write_text(TOKENIZED, encoding="utf-8")
    assert [array.shape[1] for array in embed("text").values()] == [7, 6]
    Path("raw").write_text(RAW, encoding="utf-8")
    embed("raw", "--split", "spacy")
    assert "warning" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("table", CSV),
        ("table.csv", CSV),
        ("table", CSV.replace(",", "\t")),
        ("table", CSV.replace(",", ";").replace("sank;", "sank,")),
        ("table.jsonl", JSON_LINES),
    ],
)
def test_a_column_of_a_table_is_read_with_ids_and_without(folder: Path, name: str, content: str) -> None:
    Path(name).write_text(content, encoding="utf-8")
    without = embed(name, "--text-column", "review", "--split", "spacy")
    assert list(without) == ["0", "1"] and without["1"].shape[1] == 4
    assert list(embed(name, "--id-column", "id", "--text-column", "review")) == ["a", "b"]
    run("prepare-text", name, "out.txt", "--text-column", "review")
    first, second = Path("out.txt").read_text(encoding="utf-8").splitlines()
    assert first in (
        'The ship sank , and " nobody " came .',
        'The ship sank and " nobody " came .',
        "The ship sank .",
    )
    assert second == "They sailed on ."


def test_a_long_cell_is_read_and_errors_name_the_line(folder: Path) -> None:
    Path("long.csv").write_text(f'id,review\n1,"{"ab " * 50_000}"\n2,ab\n', encoding="utf-8")
    run("prepare-text", "long.csv", "out.txt", "--text-column", "review", "--language", "en")
    assert len(Path("out.txt").read_text(encoding="utf-8").split()) == 50_001
    for content, fact in (
        ("id\treview\n1\ta\n2\n", "line 3: expected a row with the columns"),
        ('{"review": "a"}\n{"text": "b"}\n', "line 2: expected an object with the text 'review'"),
        ('{"review": "a"}\n{"review": 7}\n', "line 2"),
        ('{"review": "a"}\n{"review": \n', "line 2: expected a JSON object"),
        ("id,text\n1,a\n", "line 1: expected one column 'text_column' 'review'"),
        ('id,review\n1,"a"b\n', "line 2"),
    ):
        Path("given").write_text(content, encoding="utf-8")
        with pytest.raises(SystemExit, match=fact):
            embed("given", "--text-column", "review")


def test_a_guess_is_overridden(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("lines").write_text("It\tsank .\nHe\tcame .\nWe\tsang .\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="--split space"):
        embed("lines")
    assert [array.shape[1] for array in embed("lines", "--split", "space").values()] == [3, 3, 3]
    assert "warning" not in capsys.readouterr().err


def test_columns_of_words_are_read_as_sentences(folder: Path) -> None:
    Path("words").write_text(COLUMNS, encoding="utf-8")
    assert [array.shape[1] for array in embed("words", "--split", "conll").values()] == [2, 2]
    numbered = "1 EU NNP B-ORG\n2 rejects VBZ O\n\n1 Peter NNP B-PER\n"
    Path("words").write_text(numbered, encoding="utf-8")
    assert [array.shape[1] for array in embed("words", "--split", "conll").values()] == [2, 1]


@pytest.mark.parametrize(
    ("bilm", "text", "said"),
    [
        ("english-tiny", LATIN, "looks like la (100%)"),
        ("english-tiny", GERMAN, "looks like de (100%)"),
        ("latin-tiny", ENGLISH, "looks like en (100%)"),
        ("english-tiny", ENGLISH + GERMAN, "de ("),
        ("english-tiny", ENGLISH, None),
        ("latin-tiny", LATIN, None),
    ],
)
def test_another_language_than_that_of_the_bilm_is_said_once(
    folder: Path, capsys: pytest.CaptureFixture[str], bilm: str, text: str, said: str | None
) -> None:
    Path("text").write_text(text * 3, encoding="utf-8")
    pairs = [json.dumps({"sentence_good": line, "sentence_bad": line}) for line in text.splitlines()]
    Path("pairs").write_text("\n".join(pairs), encoding="utf-8")
    commands: list[tuple[str, list[str]]] = [
        ("embed-corpus", ["text", "out.hdf5", "--bilm", bilm]),
        ("nearest-contexts", [bilm, "text", "--query", "a b", "--word", "a"]),
    ]
    if bilm == "english-tiny":  # which has a softmax
        commands.append(("minimal-pairs", [bilm, "pairs"]))
    for command, arguments in commands:
        run(command, *arguments)
        found = [line for line in capsys.readouterr().err.splitlines() if "the text looks like" in line]
        assert len(found) == (said is not None) and all(said or "" in line for line in found), command


def test_spacys_component_says_it_too(caplog: pytest.LogCaptureFixture) -> None:
    import spacy

    nlp = spacy.blank("de")
    nlp.add_pipe("elmo", config={"bilm": "english-tiny"})
    assert isinstance(nlp.get_pipe("elmo"), ElmoComponent)
    for _ in range(2):
        nlp(GERMAN)
    assert sum("looks like de" in message for message in caplog.messages) == 1


def test_mixed_text_is_said_with_its_shares(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in (ENGLISH * 9 + GERMAN * 9, (ENGLISH + GERMAN) * 9):
        Path("mixed.txt").write_text(text, encoding="utf-8")
        run("prepare-text", "mixed.txt", "-")
        said = capsys.readouterr().err
        assert "en (" in said and "de (" in said and "1.00 sure" not in said


def test_a_guessed_language_without_rules_falls_back(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    korean = "배가 해안에서 가라앉았고 아무도 오지 않았다. 그들은 물 속에 있는 사람들을 도와주지 않았다.\n"
    Path("text").write_text(korean * 9, encoding="utf-8")
    run("prepare-text", "text", "-")
    ended = capsys.readouterr()
    assert "xx" in ended.err and ended.out.count("오지") == 9


def test_a_file_is_read_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("sub").mkdir()
    Path("sub/a.txt").write_text("It rained. We went home.", encoding="utf-8")
    Path("sub/link.txt").symlink_to("a.txt")
    run("prepare-text", "sub/*.txt", "sub/a.txt", "./sub/a.txt", "-")
    assert capsys.readouterr().out == "It rained .\nWe went home .\n"


def test_sentences_are_printed_or_packed_as_the_name_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.txt").write_text("It rained.\n", encoding="utf-8")
    run("prepare-text", "a.txt", "-")
    assert capsys.readouterr().out == "It rained .\n" and not Path("-").exists()
    run("prepare-text", "a.txt", "out.txt.bz2")
    assert bz2.decompress(Path("out.txt.bz2").read_bytes()) == b"It rained .\n"
    assert list(TextFile(Path("out.txt.bz2")).lines()) == ["It rained .\n"]
    for arguments in (["out.txt.zst"], ["-", "--shards", 2]):
        with pytest.raises(SystemExit, match="expected"):
            run("prepare-text", "a.txt", *arguments)
    for command, arguments in (
        ("embed-corpus", ["a.txt", "-"]),
        ("convert-elmo", ["weights.hdf5", "-"]),
        ("minimal-pairs", ["english-tiny", "a.txt", "--scores", "-"]),
    ):
        with pytest.raises(SystemExit):
            run(command, *arguments)
    assert not list(folder.glob("-*"))


def test_scores_go_through_pipes_and_links(folder: Path) -> None:
    pair = {"sentence_good": "The ship sank.", "sentence_bad": "The ship sink."}
    Path("pairs").write_text(json.dumps(pair) + "\n", encoding="utf-8")
    os.mkfifo("pipe")
    Path("link").symlink_to("scores")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_text(encoding="utf-8")))
    reader.start()
    run("minimal-pairs", "english-tiny", "pairs", "--scores", "pipe")
    reader.join(60)
    run("minimal-pairs", "english-tiny", "pairs", "--scores", "link")
    assert Path("pipe").is_fifo() and Path("link").is_symlink()
    assert read == [Path("scores").read_text(encoding="utf-8")] and "forward_good" in read[0]


def packed(*names: str) -> bytes:
    """Return a zip file with these files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, "The ship sank.")
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (packed("[Content_Types].xml", "_rels/.rels", "word/document.xml"), "a Word document"),
        (packed("docProps/app.xml", "xl/workbook.xml"), "a spreadsheet"),
        (packed("a.txt"), "a zip file"),
        (b"\x28\xb5\x2f\xfd\x04", "zstd -d"),
        ("It rained.".encode("utf-32"), "iconv -f UTF-32"),
        ("It rained.".encode("utf-16"), "iconv -f UTF-16"),
        (gzip.compress("It rained.".encode("utf-16"), mtime=0), "iconv -f UTF-16"),
        ("It rained.\n".encode("utf-16-le"), "UTF-16"),
        (b"%PDF-1.7\n", "pdftotext"),
        ("It raíned.".encode("latin-1"), "iconv -f WINDOWS-1252"),
    ],
)
def test_other_files_are_named_with_the_tool_that_converts_them(folder: Path, content: bytes, fact: str) -> None:
    Path("given").write_bytes(content)
    for command in ("embed-corpus", "prepare-text"):
        with pytest.raises(SystemExit, match=f"^{command}: given.*{fact}"):
            run(command, *(argument.format("given") for argument in COMMANDS[command]))


def test_the_content_says_the_compression(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("a.txt", gzip.compress(TOKENIZED.encode())), ("b.gz", TOKENIZED.encode())):
        Path(name).write_bytes(content)
        assert len(embed(name)) == 2
    buffer = io.BufferedReader(io.BytesIO(bz2.compress(TOKENIZED.encode())))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=buffer))
    assert len(embed("-")) == 2
    with h5py.File("x.hdf5", "w"), pytest.raises(SystemExit, match="HDF5"):
        embed("x.hdf5")
