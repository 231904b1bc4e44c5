"""`elmo-plugin prepare-text`: raw text to tokenized sentences."""

import gzip
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from elmo_plugin.text import SentenceSplitter, TextFile
from tests.commands.alone import run

WRAPPED = """Chapter I

Greta didn't sail to Port
Orrin. "Why?" asked Mr.
Quill.

It rained.
"""


def test_wrapped_lines_are_joined_and_paragraphs_kept_apart(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(WRAPPED, encoding="utf-8")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"It rained.\n"))
    run("prepare-text", tmp_path / "*.txt*", tmp_path / "text.txt", "--drop-duplicates")
    assert (tmp_path / "text.txt").read_text(encoding="utf-8").splitlines() == [
        "Chapter I",
        "Greta did n't sail to Port Orrin .",
        '" Why ? " asked Mr. Quill .',
        "It rained .",
    ]


def test_shards_and_heldout_text_share_no_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "raw.txt").write_text("".join(f"This is sentence {n}.\n\n" for n in range(400)), encoding="utf-8")
    run("prepare-text", tmp_path / "raw.txt", tmp_path / "corpus", "--shards", 2, "--heldout", 10)
    parts = {path.name: list(TextFile(path).lines()) for path in sorted((tmp_path / "corpus").iterdir())}
    assert [name[:11] for name in parts] == ["heldout.txt", "train-00000", "train-00001"]
    assert [len(lines) for lines in parts.values()] == [40, 180, 180]
    assert len({line for lines in parts.values() for line in lines}) == 400
    run("prepare-text", tmp_path / "raw.txt", tmp_path / "all", "--shards", 2)
    assert "LM_HELDOUT" not in capsys.readouterr().err.splitlines()[-1]


def test_an_error_is_one_line_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("raw.txt").write_text("One sentence.\n", encoding="utf-8")
    Path("windows.txt").write_text("One sentence.\n", encoding="utf-16")
    Path("blank.txt").write_text("\n \n", encoding="utf-8")
    Path("folder").mkdir()
    Path("page.txt").write_text("<!DOCTYPE html>\n<html><body>One sentence.</body></html>\n", encoding="utf-8")
    Path("numbers.txt").write_text("12 34 56\n78 90\n" * 50, encoding="utf-8")
    Path("words.txt").write_text("".join(f"word{chr(97 + n % 26)}\n" for n in range(300)), encoding="utf-8")
    for arguments, fact in (
        (["windows.txt", "out.txt"], "iconv -f UTF-16"),
        (["blank.txt", "out.txt"], "blank.txt: expected text"),
        (["folder", "out.txt"], r"folder/\*"),
        (["nowhere*.txt", "out.txt"], "nowhere"),
        (["raw.txt", "raw.txt"], "exists already"),
        (["raw.txt"], "INPUT… OUTPUT"),
        (["page.txt", "out.txt"], "page.txt: expected plain text, got a page of HTML"),
        (["numbers.txt", "out.txt"], "0% of the tokens"),
        (["numbers.txt", "out", "--shards", 2], "0% of the tokens"),
        (["words.txt", "out.txt"], "expected sentences"),
        (["raw.txt", "out.txt", "--language", "ja"], "sudachipy"),
        (["raw.txt", "out.txt", "--language", "zzq"], "'language': .*'zzq'"),
        (["raw.txt", "out.txt", "--language", "german"], "'language': .*'german'"),
        (["raw.txt", "out", "--heldout", 2], "1 sentences"),
    ):
        with pytest.raises(SystemExit, match=fact):
            run("prepare-text", *arguments)
    assert {path.name for path in tmp_path.rglob("*.txt")} == {
        "blank.txt",
        "numbers.txt",
        "page.txt",
        "raw.txt",
        "windows.txt",
        "words.txt",
    }
    assert not Path("out").exists()


GERMAN = """*** START OF THE PROJECT GUTENBERG EBOOK X ***
KAPITEL I

    Es war einmal ein alter Mann, der auf einer Bank saß und erzäh-
len wollte, was er ge¬
sehen hatte. »Komm!« sagte er. Im Haus war der Haupt- und
Nebenweg leer. Man musste es erzählen, wie der alte

12

Mann es sagte. Die Conſtitution be­fiehlt es. Am 3. Mai kam
der 2. Band.
*** END OF THE PROJECT GUTENBERG EBOOK X ***
Licence.
"""
SENTENCES = [
    "KAPITEL I",
    "Es war einmal ein alter Mann , der auf einer Bank saß und erzählen wollte , was er gesehen hatte .",
    "» Komm ! « sagte er .",
    "Im Haus war der Haupt- und Nebenweg leer .",
    "Man musste es erzählen , wie der alte Mann es sagte .",
    "Die Constitution befiehlt es .",
    "Am 3. Mai kam der 2. Band .",
]


def test_a_messy_german_file_becomes_sentences_and_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "raw.txt").write_text(GERMAN, encoding="utf-8")
    run("prepare-text", tmp_path / "raw.txt", tmp_path / "text.txt", "--clean")
    assert (tmp_path / "text.txt").read_text(encoding="utf-8").splitlines() == SENTENCES
    report = capsys.readouterr().err
    for part in (
        "language: de (",
        "lines: 1 wrapped",
        "2 joined (erzählen, gesehen)",
        "1 long s",
        "left out: 1 page numbers: 12",
        "left out: 3 lines of Project Gutenberg",
        "7 sentences of 64 tokens; the longest has 21; 14.3% have no final mark",
        "BILM",
    ):
        assert part in report
    assert "english-tiny" not in report


@pytest.mark.parametrize(
    ("language", "bilm"), [("en", "english-tiny"), ("la", "latin-tiny"), ("de", "BILM    # a biLM that reads de")]
)
def test_the_next_command_names_the_bundled_bilm_of_the_language(
    language: str, bilm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "raw.txt").write_text("Roma magna est. Et pulchra est.", encoding="utf-8")
    run("prepare-text", tmp_path / "raw.txt", tmp_path / "text.txt", "--language", language)
    assert capsys.readouterr().err.splitlines()[-1].endswith(f" --bilm {bilm}")


def test_without_clean_the_report_says_what_was_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "raw.txt").write_text(GERMAN, encoding="utf-8")
    run("prepare-text", tmp_path / "raw.txt", tmp_path / "text.txt", "--language", "en")
    text, report = (tmp_path / "text.txt").read_text(encoding="utf-8"), capsys.readouterr().err
    assert "\n12\n" in text and "Licence ." in text
    assert "warning: seen: 1 page numbers: 12" in report
    assert "looks like de" in report


def test_a_preview_prints_twenty_sentences_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raw.txt").write_text("It rained. We went home. " * 50, encoding="utf-8")
    for names in ((), (tmp_path / "text.txt",)):
        run("prepare-text", tmp_path / "raw.txt", *names, "--preview")
        assert capsys.readouterr().out.splitlines() == ["It rained .", "We went home ."] * 10
    monkeypatch.setattr("sys.stdin", (tmp_path / "raw.txt").open(encoding="utf-8"))
    run("prepare-text", "-", "--preview")
    assert len(capsys.readouterr().out.splitlines()) == 20
    assert [path.name for path in tmp_path.iterdir()] == ["raw.txt"]


def test_the_form_of_lines_is_guessed_for_each_file_and_can_be_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrapped = "".join(f"The men of the village number {n} went home, and\nnobody came.\n" for n in range(40))
    (tmp_path / "a.txt").write_text(wrapped, encoding="utf-8")
    (tmp_path / "b.txt").write_text("A title\nAnother title\n", encoding="utf-8")
    run("prepare-text", tmp_path / "*.txt", tmp_path / "text")
    assert f"1 wrapped, 1 one sentence per line ({tmp_path}/b.txt)" in capsys.readouterr().err
    lines = (tmp_path / "text").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 42 and lines[-2:] == ["A title", "Another title"]
    run("prepare-text", tmp_path / "*.txt", tmp_path / "cut", "--lines", "sentences")
    assert len((tmp_path / "cut").read_text(encoding="utf-8").splitlines()) == 82


@pytest.mark.parametrize("n_lines", [1000, 1001, 2003])
def test_no_line_of_a_file_is_lost(tmp_path: Path, n_lines: int) -> None:
    raw = "".join(f"The {n}th man went home, and nobody came{'.' * (n % 3 == 0)}\n" for n in range(n_lines))
    (tmp_path / "raw.txt").write_text(raw, encoding="utf-8")
    run("prepare-text", tmp_path / "raw.txt", tmp_path / "text.txt", "--language", "en")
    text = (tmp_path / "text.txt").read_text(encoding="utf-8")
    assert "".join(text.split()) == "".join(raw.split())


def test_two_runs_at_once_write_what_one_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.txt").write_text("It rained .\n\n" * 300, encoding="utf-8")
    sentences = SentenceSplitter.sentences

    def with_another_run(splitter: SentenceSplitter, blocks: Iterable[str]) -> Iterator[list[str]]:
        for number, sentence in enumerate(sentences(splitter, blocks)):
            if number == 200:
                monkeypatch.undo()
                run("prepare-text", tmp_path / "text.txt", tmp_path / "output.txt")
            yield sentence

    monkeypatch.setattr(SentenceSplitter, "sentences", with_another_run)
    run("prepare-text", tmp_path / "text.txt", tmp_path / "output.txt")
    assert (tmp_path / "output.txt").read_text(encoding="utf-8") == "It rained .\n" * 300
    assert len(list(tmp_path.iterdir())) == 2


def test_a_line_stays_a_line_where_each_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text(
        "One day it rained. Then it stopped.\n\n\u200b\n  (Why?) No.\nA title\n12\n", encoding="utf-8"
    )
    run("prepare-text", tmp_path / "raw.txt", tmp_path / "given.txt", "--lines", "sentences", "--language", "en")
    assert (tmp_path / "given.txt").read_text(encoding="utf-8").split("\n") == [
        "One day it rained . Then it stopped .",
        "",
        "",
        "( Why ? ) No .",
        "A title",
        "12",
        "",
    ]
    titles = "".join(f"Title {n}\n\n" for n in range(30)) + "He came. He saw\n"
    (tmp_path / "titles.txt").write_text(titles, encoding="utf-8")
    run("prepare-text", tmp_path / "titles.txt", tmp_path / "guessed.txt", "--language", "en")
    assert (tmp_path / "guessed.txt").read_text(encoding="utf-8").splitlines()[-2:] == ["Title 29", "He came . He saw"]


@pytest.mark.parametrize(("n_shards", "n_heldout"), [(1, 0), (7, 0), (20, 0), (20, 2), (100, 0), (3, 50)])
@pytest.mark.parametrize("n_sentences", [159, 160, 161, 3000])
def test_every_shard_has_text(tmp_path: Path, n_shards: int, n_heldout: int, n_sentences: int) -> None:
    (tmp_path / "raw.txt").write_text("".join(f"It rained {n} days.\n" for n in range(n_sentences)), encoding="utf-8")
    options = ["--shards", n_shards, *(["--heldout", n_heldout] if n_heldout else [])]
    run("prepare-text", tmp_path / "raw.txt", tmp_path / "corpus", *options, "--language", "en")
    parts = [list(TextFile(path).lines()) for path in sorted((tmp_path / "corpus").iterdir())]
    assert len(parts) == n_shards + (n_heldout > 0) and all(parts)
    assert len({line for part in parts for line in part}) == sum(map(len, parts)) == n_sentences


def test_too_few_sentences_for_all_shards_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text("It rained.\nIt stopped.\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="2 sentences"):
        run("prepare-text", tmp_path / "raw.txt", tmp_path / "corpus", "--shards", 3)
    assert not (tmp_path / "corpus").exists()


def test_the_report_is_of_what_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"It rained {n % 43} days and the \u0958लम came.\n" for n in range(160)]
    (tmp_path / "raw.txt").write_text("".join(lines), encoding="utf-8")
    run("prepare-text", tmp_path / "raw.txt", tmp_path / "text.txt", "--drop-duplicates", "--language", "en")
    report = capsys.readouterr().err
    assert "left out: 117 repeated sentences" in report
    assert "43 sentences of 387 tokens" in report
    samples = [line for line in report.splitlines() if line.startswith("  ")]
    assert len(set(samples)) == len(samples) == 10
    assert "characters replaced: 160 composed letters" in report


def test_bars_count_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "It rained all day. We went home.\n" * 1000
    (tmp_path / "raw.txt").write_text(text, encoding="utf-8")
    (tmp_path / "packed.txt.gz").write_bytes(gzip.compress(text.encode()))
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    seen = Counter[str]()

    class Bar:
        def __init__(self, **options: object) -> None:
            self.options, self.n = options, 0

        def update(self, n: int) -> None:
            self.n += n
            seen[str(self.options["desc"])] += n

    @contextmanager
    def tqdm(**options: object) -> Iterator[Bar]:
        assert options["total"] == size and options["unit"] == "B"
        yield Bar(**options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("allennlp.common.tqdm.Tqdm.tqdm", tqdm)
        run("prepare-text", tmp_path / "raw.txt", tmp_path / "packed.txt.gz", tmp_path / "text.txt")
    assert seen == {"looking at the text": size, "writing": size}
