import logging
import lzma
import pickle
from pathlib import Path
from typing import Any

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token, Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.data.dataset_readers import Conll2003DatasetReader
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.readers.files import assert_rejected, words_of_workers, written

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "columns"
TAB = {"delimiter": "\t"}


def reader(**keys: Any) -> DatasetReader:
    return DatasetReader.from_params(Params({"type": "column_tags", **keys}))


def sentence(instance: Instance) -> list[tuple[str, str]]:
    """The words of a sentence, each with its tag, and both fields agree."""
    words = [token.text for token in instance["tokens"].tokens]
    assert words == instance["metadata"]["words"]
    return list(zip(words, instance["tags"].labels, strict=True))


def read(path: Path, **keys: Any) -> list[list[tuple[str, str]]]:
    return [sentence(instance) for instance in reader(**keys).read(path)]


def read_text(folder: Path, content: str, **keys: Any) -> list[list[str]]:
    """The sentences of a file with this content, as `token/tag`."""
    return [[f"{word}/{tag}" for word, tag in tagged] for tagged in read(written(folder, content), **keys)]


def test_conll_2003_is_read_and_converted_as_by_allennlps_reader() -> None:
    ner = read(FIXTURES / "conll2003.txt")
    assert [len(tagged) for tagged in ner] == [7, 4, 1] and ner[1][1] == ("#", "O")
    assert read(FIXTURES / "conll2003.txt", tag_column=1)[2] == [("Paris", "NNP")]
    theirs = Conll2003DatasetReader(convert_to_coding_scheme="BIOUL").read(FIXTURES / "conll2003.txt")
    ours = read(FIXTURES / "conll2003.txt", coding_scheme="IOB1", convert_to_coding_scheme="BIOUL")
    assert ours == [sentence(instance) for instance in theirs]


def test_wnut_17_keeps_everything_between_tabs() -> None:
    first, second, last = read(FIXTURES / "wnut17.conll", delimiter="\t", coding_scheme="BIO")
    assert first[0] == ("#monday", "O") and last == [("#rt", "O")]
    assert first[4:] == [("New\u00a0York", "B-location"), ("City Hall", "I-location")]
    assert [word for word, _ in second] == ["#", "\u3000", "\u2028x\u0085", "Moon", "Song"]


def test_conllu_has_neither_comments_nor_ranges_nor_empty_nodes() -> None:
    first, second = read(FIXTURES / "words.conllu", conllu=True)
    assert [word for word, _ in first] == ["I", "do", "n't", "dig", "10 000", "holes"] and first[2][1] == "PART"
    assert second == [("#", "SYM"), ("1", "NUM"), ("rose", "NOUN")]
    xpos = read(FIXTURES / "words.conllu", conllu=True, token_column=2, tag_column=4)
    assert xpos[0][:3] == [("I", "PRP"), ("do", "VBP"), ("not", "RB")]


@pytest.mark.parametrize(
    ("content", "keys", "expected"),
    [
        # MultiCoNER: the comment has as many columns as the rows
        ("# id 31\tdomain=dev\n#a _ _ B-X\nb _ _ O\n\n# id 32\tdomain=dev\n# _ _ O\n", {}, ["#a/B-X b/O", "#/O"]),
        ("# id 31\tdomain=dev\n#\tO\n# text\tO\n", TAB, ["#/O # text/O"]),
        # GermEval 2014: comments and an index
        ("#\thttps://a.b/c\t[2009]\n1\tEine\tO\tO\n2\tStadt\tB-X\tO\n", {"token_column": 1, "tag_column": 2, **TAB},
         ["Eine/O Stadt/B-X"]),
        ("# text = # O\n# sent_id = 1\n# O\nO O\n", {}, ["#/O O/O"]),
        ("# This file has a licence\n# of its own\n\n#a X\n\nb X\n", {}, ["#a/X", "b/X"]),
        ("#a X\n#b X\n\n#c X\n", {}, ["#a/X #b/X", "#c/X"]),
        ("a X\n# X\n= X\n#b X\n", {}, ["a/X #/X =/X #b/X"]),
        ("# newdoc\n-DOCSTART- -X- O\n\n0 -DOCSTART- -X-\n\na b X\n", {}, ["a/X"]),
        # CoNLL-2009: a column more for each predicate
        ("1\ta\tX\t_\n2\tb\tY\t_\n\n1\tc\tZ\n", {"token_column": 1, "tag_column": 2}, ["a/X b/Y", "c/Z"]),
    ],
)  # fmt: skip
def test_comments_are_left_out_and_tokens_that_begin_with_a_hash_are_not(
    content: str, keys: Any, expected: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert [" ".join(each) for each in read_text(tmp_path, content, **keys)] == expected
    n_comments = sum(line.startswith("# ") and ("=" in line or "licence" in line) for line in content.split("\n"))
    assert not n_comments or any(f"{n_comments} comments" in message or "own" in content for message in caplog.messages)


@pytest.mark.parametrize(
    ("content", "keys", "line", "facts"),
    [
        ("\na b X\n\nc X\n", {}, 4, ["3 columns", "line 2", "2 columns ('c', 'X')"]),
        ("a b X\n", {"tag_column": 3}, 1, ["'tag_column' 3", "('a', 'b', 'X')"]),
        ("Wort;Kategorie\na;X\n", {"delimiter": ";", "tag_column": "Klasse"}, 1,
         ["'tag_column' 'Klasse'", "('Wort', 'Kategorie')"]),
        ("a;a\nb;X\n", {"delimiter": ";", "tag_column": "a"}, 1, ["'tag_column' 'a'", "2 columns"]),
        ('a;"b"c\n', {"delimiter": ";", "quote_char": '"'}, 1, ["'quote_char'"]),
        ("a X\n", TAB, 1, ["'tag_column' -1", r"'\t'", "('a X')", "if ' ' separates the columns, set 'delimiter'"]),
        ("EU,B-ORG\n", {}, 1, ["white space", "('EU,B-ORG')", "if ',' separates the columns, set 'delimiter'"]),
        ("a b\tX\nc\tX\n", {"delimiter": " "}, 2, [r"if '\t' separates the columns"]),
        ("a\tX\n\tX\n", TAB, 2, ["not empty", "('', 'X')"]),
        ("a b c d\n", {"conllu": True, "delimiter": " "}, 1, ["'a'", "'conllu'"]),
        (b"a X\nb\xe9 X\n", {}, 2, ["expected UTF-8 text, got byte 0xe9", "iconv"]),
        (b"a X\nb\rc Y\n", {}, 2, [r"\r"]),
        ("-DOCSTART- O\n \n\n", {}, None, []),
        ("# a comment\n\n1-2\ta\t_\t_\n", {"conllu": True}, None, []),
    ],
)  # fmt: skip
def test_an_error_names_the_file_the_line_and_the_key(
    tmp_path: Path, content: str | bytes, keys: dict[str, Any], line: int | None, facts: list[str]
) -> None:
    assert_rejected(reader(**keys), written(tmp_path, content), line, *facts)


SHEET = (
    '\ufeffWort;Kategorie;Häufigkeit\r\nAnna;NAME;12\r\nsagt;VERB;7\r\n;;\r\n";";ZEICHEN;3\r\n"Das ""Haus""";NAME;1\r\n'
)


def test_a_spreadsheet_is_read_by_the_names_of_its_columns(tmp_path: Path) -> None:
    keys = {"delimiter": ";", "quote_char": '"'}
    expected = [[("Anna", "NAME"), ("sagt", "VERB")], [(";", "ZEICHEN"), ('Das "Haus"', "NAME")]]
    sheet = written(tmp_path, SHEET)
    assert read(sheet, token_column="Wort", tag_column="Kategorie", **keys) == expected
    assert read(sheet, token_column=0, tag_column=-2, has_header=True, **keys) == expected
    assert [tagged[0][1] for tagged in read(sheet, tag_column="Häufigkeit", **keys)] == ["12", "3"]


@pytest.mark.parametrize("content", ["1 X\n2 X\n3 X\n", "_ X\n_ X\n", "text label\na X\n"])
def test_the_reader_reads_what_it_is_told(content: str, tmp_path: Path) -> None:
    assert read_text(tmp_path, content) == [[line.replace(" ", "/") for line in content.splitlines()]]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfa X\r\nb Y\r\n\r\nc X",
        b"\n\n  \na X\nb \t Y  \n \t \n\nc X\n\n\n",
        b"-DOCSTART-\na X\nb Y\n-DOCSTART- -X- O\nc X\n",
        lzma.compress(b"a X\nb Y\n\nc X\n"),
    ],
)
def test_line_ends_byte_order_mark_blank_lines_and_compression_change_nothing(tmp_path: Path, content: bytes) -> None:
    assert read(written(tmp_path, content)) == [[("a", "X"), ("b", "Y")], [("c", "X")]]


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\t\n\r#\ufeff"), min_size=1)
WORDS = CELLS.filter(lambda word: word != "-DOCSTART-")


@settings(max_examples=25)
@given(st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_any_tokens_between_tabs_come_back(
    tmp_path_factory: pytest.TempPathFactory, sentences: list[list[str]]
) -> None:
    lines = ["".join(f"{word}\tX\n" for word in words) for words in sentences]
    path = written(tmp_path_factory.mktemp("written"), "\n".join(lines).encode())
    assert [[word for word, _ in tagged] for tagged in read(path, delimiter="\t")] == sentences


# The same spans, X at 0-2 and 3, Y at 5, X at 6-7, in each scheme (https://github.com/chakki-works/seqeval).
SPANS = {
    "IOB1": "I-X I-X I-X B-X O I-Y I-X I-X",
    "BIO": "B-X I-X I-X B-X O B-Y B-X I-X",
    "IOB2": "B-X I-X I-X B-X O B-Y B-X I-X",
    "IOE1": "I-X I-X E-X I-X O I-Y I-X I-X",
    "IOE2": "I-X I-X E-X E-X O E-Y I-X E-X",
    "BIOUL": "B-X I-X L-X U-X O U-Y B-X L-X",
    "BILOU": "B-X I-X L-X U-X O U-Y B-X L-X",
    "BIOES": "B-X I-X E-X S-X O S-Y B-X E-X",
    "IOBES": "B-X I-X E-X S-X O S-Y B-X E-X",
    "BMES": "B-X M-X E-X S-X O S-Y B-X E-X",
}


@pytest.mark.parametrize("scheme", SPANS)
def test_every_scheme_is_read_checked_and_converted(tmp_path: Path, scheme: str) -> None:
    path = written(tmp_path, "".join(f"w {tag}\n" for tag in SPANS[scheme].split()))
    assert [tag for _, tag in read(path, coding_scheme=scheme)[0]] == SPANS[scheme].split()
    for target in ("BIO", "BIOUL"):
        (tagged,) = read(path, coding_scheme=scheme, convert_to_coding_scheme=target)
        assert [tag for _, tag in tagged] == SPANS[target].split()


@pytest.mark.parametrize(
    ("scheme", "tags", "line", "found"),
    [
        ("BIO", "O X-PER", 3, "'X-PER' between 'O' and the end of the sentence"),
        ("BIO", "B-LOC I-LCO", 3, "'I-LCO' between 'B-LOC' and the end of the sentence; did you mean 'I-LOC'"),
        ("BIO", "O I-PER O", 3, "'I-PER' between 'O' and 'O'; 'coding_scheme' IOB1 allows it"),
        ("BIO", "S-PER O", 2, "'S-PER' between the start and 'O'; 'coding_scheme' BIOES or BMES allows it"),
        ("IOB1", "I-PER L-PER", 3, "'L-PER' between 'I-PER' and the end of the sentence"),
        ("BIOUL", "O B-PER", 3, "'B-PER' between 'O' and the end of the sentence; 'coding_scheme' BIO allows it"),
        ("BMES", "B-PER E-LOC", 3, "'E-LOC' between 'B-PER' and the end of the sentence"),
        ("IOE2", "I-PER O", 2, "'I-PER' between the start and 'O'; 'coding_scheme' IOB1 allows it"),
    ],
)
def test_a_tag_that_the_scheme_forbids_is_named(tmp_path: Path, scheme: str, tags: str, line: int, found: str) -> None:
    path = written(tmp_path, "\n" + "".join(f"w {tag}\n" for tag in tags.split()))
    assert_rejected(reader(coding_scheme=scheme), path, line, found, f"'coding_scheme' {scheme}")
    assert len(read(path)) == 1  # without a scheme any tag is allowed


@pytest.mark.parametrize(
    ("keys", "facts"),
    [
        ({"coding_scheme": "IOB"}, ["'coding_scheme'", "BIO, IOB1, BIOUL, BIOES", "'IOB'"]),
        ({"coding_scheme": "BIO", "convert_to_coding_scheme": "IOB1"}, ["'convert_to_coding_scheme'", "BIO, BIOUL"]),
        ({"delimiter": ";", "quote_char": "''"}, ["'quote_char'", "one character"]),
        ({"quote_char": '"'}, ["'delimiter'", "None"]),
        ({"tag_column": "Kategorie", "has_header": False}, ["'has_header'", "'Kategorie'"]),
        ({"convert_to_coding_scheme": "BIOUL"}, ["'convert_to_coding_scheme' BIOUL", "'coding_scheme'", "null"]),
    ],
)
def test_a_wrong_key_is_named_at_construction(keys: dict[str, Any], facts: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        reader(**keys)
    assert all(fact in str(caught.value) for fact in facts)


def test_instances_from_words_tokens_and_nothing() -> None:
    ours = reader(token_indexers={"elmo": {"type": "elmo_characters"}})
    untagged = ours.text_to_instance(["a", Token("b")])
    assert untagged["metadata"]["words"] == ["a", "b"] and "tags" not in untagged.fields
    empty = ours.text_to_instance([])
    assert empty["metadata"]["words"] == [""]
    ours.apply_token_indexers(empty)
    empty.index_fields(Vocabulary())
    assert empty.as_tensor_dict(empty.get_padding_lengths())["tokens"]["elmo"]["elmo_tokens"].shape == (1, 50)


def test_max_instances_ends_the_reading(tmp_path: Path) -> None:
    path = written(tmp_path, b"a X\n\nb X\n\nc X\n\n\xff\n")
    assert [sentence(instance) for instance in reader(max_instances=2).read(path)] == [[("a", "X")], [("b", "X")]]


def test_workers_neither_lose_nor_repeat_sentences(tmp_path: Path) -> None:
    path = written(tmp_path, "\n".join(f"w{index} X\n" for index in range(11)))
    wanted = sorted(f"w{index}" for index in range(11))
    assert words_of_workers(reader, path, 3) == wanted
    ours = pickle.loads(pickle.dumps(reader()))
    loader = MultiProcessDataLoader(ours, path, batch_size=2, num_workers=2)
    assert sorted(word for instance in loader.iter_instances() for word in instance["metadata"]["words"]) == wanted
