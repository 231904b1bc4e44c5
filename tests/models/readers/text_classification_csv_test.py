import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Vocabulary
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer
from hypothesis import given
from hypothesis import strategies as st

from elmo_plugin.models.readers import TextClassificationCsvReader
from tests.models.readers.files import assert_rejected, words_of_workers, written

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "csv"
SENTIMENT = {"delimiter": " ", "quote_char": None, "max_splits": 1, "tokenizer": "just_spaces"}


def reader(**keys: Any) -> DatasetReader:
    return DatasetReader.from_params(Params({"type": "text_classification_csv", **keys}))


def labelled(instance: Instance) -> tuple[str | None, str]:
    """The label of a text and its words, and both fields agree."""
    words = [token.text for token in instance["tokens"].tokens]
    assert words == instance["metadata"]["words"]
    return instance["label"].label if "label" in instance.fields else None, " ".join(words)


def read(path: Path, **keys: Any) -> list[tuple[str | None, str]]:
    return [labelled(instance) for instance in reader(**keys).read(path)]


def test_quoted_csv() -> None:
    names = {"1": "World", "2": "Sports", "3": "Business"}
    assert read(FIXTURES / "news.csv", text_columns=[1, 2], label_names=names) == [
        ("World", 'Rain again The river , they say , is " very " high .'),
        ("Sports", "Cup final Two goals and a red card : it # 39;s over\\now ."),
        ("Business", "Bread dearer Wheat & lt;b&gt;up&lt;/b&gt ; 4.5 percent"),
        ("World", ""),
    ]


def test_header_and_quotes_that_are_text() -> None:
    keys = {"delimiter": "\t", "quote_char": None, "has_header": True, "tokenizer": "just_spaces"}
    expected = [("good", 'A "quiet film.'), ("bad", '"Loud and long')]
    assert read(FIXTURES / "header.tsv", text_columns=["text"], label_column="label", **keys) == expected
    assert read(FIXTURES / "header.tsv", text_columns=[1], label_column=-1, **keys) == expected
    joined = read(FIXTURES / "header.tsv", text_columns=["source", 1], label_column="label", **keys)
    assert joined == [("good", 'paper A "quiet film.'), ("bad", 'radio "Loud and long')]


def test_a_label_then_the_rest_of_the_line() -> None:
    assert read(FIXTURES / "sentiment.txt", **SENTIMENT) == [
        ("4", "a warm , funny film , she said , `` go ''"),
        ("0", '"dull" and 100 minutes long'),
        ("2", "it is what it is ."),
    ]


def test_without_labels(tmp_path: Path) -> None:
    path = written(tmp_path, 'a b\n\n""\nc\n')
    assert read(path, text_columns=[0], label_column=None) == [(None, "a b"), (None, ""), (None, "c")]


def test_a_blank_before_a_quote_does_not_cut_the_text(tmp_path: Path) -> None:
    path = written(tmp_path, 'pos, "Good, ok"\nneg,  "Bad, ""no"""\npos, fine\n')
    assert read(path, tokenizer="just_spaces") == [("pos", "Good, ok"), ("neg", 'Bad, "no"'), ("pos", "fine")]


def test_the_text_is_the_column_beside_the_label(tmp_path: Path) -> None:
    path = written(tmp_path, "a b,x\nc,y\n")
    assert read(path, label_column=1) == read(path, label_column=-1) == [("x", "a b"), ("y", "c")]
    assert read(written(tmp_path, "a b\n"), label_column=None) == [(None, "a b")]


def test_names_of_columns_need_no_other_key(tmp_path: Path) -> None:
    path = written(tmp_path, "Kategorie;Text;Datum\nx;a b;1\ny;c;2\n;;\n")
    assert read(path, delimiter=";", text_columns=["Text"], label_column="Kategorie") == [("x", "a b"), ("y", "c")]


@pytest.mark.parametrize("quote_char", ['"', None])
@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfx,a b\r\ny,c\r\n",
        b"\n  \nx,a b\n\n \t\ny,c\n\n",
        b" x ,a b\ny , c",
        gzip.compress(b"x,a b\ny,c\n", mtime=0),
    ],
)
def test_line_ends_byte_order_mark_and_blank_lines_change_nothing(
    tmp_path: Path, content: bytes, quote_char: str | None
) -> None:
    assert read(written(tmp_path, content), quote_char=quote_char) == [("x", "a b"), ("y", "c")]


@pytest.mark.slow
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff")), min_size=1, max_size=5)
)
def test_any_text_that_csv_can_write_comes_back(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows(["label", text] for text in texts)
    path = written(tmp_path_factory.mktemp("written"), buffer.getvalue())
    instances = reader(tokenizer="character").read(path)
    # `csv.writer` does not quote a text that begins with blanks.
    assert ["".join(instance["metadata"]["words"]).lstrip(" ") for instance in instances] == [
        text.lstrip(" ") for text in texts
    ]


def test_a_long_document_is_read_whole(tmp_path: Path) -> None:
    path = written(tmp_path, f'x,"{"word " * 50_000}"\n')
    (instance,) = reader(tokenizer="just_spaces").read(path)
    assert len(instance["metadata"]["words"]) == 50_000
    (instance,) = reader(tokenizer="just_spaces", max_sequence_length=3).read(path)
    assert instance["metadata"]["words"] == ["word"] * 3


@pytest.mark.parametrize(
    ("content", "keys", "line", "facts"),
    [
        ("x,a\ny\n", {}, 2, ["2 columns", "line 1", "1 column ('y')"]),
        ("x\n", {}, 1, ["one column beside 'label_column' 0", "1 column ('x')"]),
        ("1,a,b\n", {}, 1, ["'text_columns'", "3 columns ('1', 'a', 'b')"]),
        ('pos,"Good" ,x\n', {"text_columns": [1]}, 1, ["not CSV", "'quote_char'"]),
        ("x,a\n", {"label_column": -3}, 1, ["'label_column' -3", "('x', 'a')"]),
        ("\nlabel,text\nx,a\n", {"label_column": "class", "has_header": True}, 2, ["'label_column' 'class'"]),
        ("a,x\n", {"text_columns": [1], "label_column": -1}, 1, ["'text_columns' [1]", "'label_column' -1"]),
        ("x,a\n ,b\n", {}, 2, ["a label in 'label_column' 0"]),
        ("1,a\n3,b\n", {"label_names": {"1": "World", "2": "Sports"}}, 2, ["'label_names' (1, 2)", "'3'"]),
        ('x,a\ny,"b\nz,c\n', {}, 2, ["unexpected end of data", "'quote_char'"]),
        (b"x,a\ny,\xe9t\xe9\n", {}, 2, ["expected UTF-8 text, got byte 0xe9"]),
        ("", {}, None, []),
        ("1\ta fine day\n", {}, 1, ["'text_columns'", r"if '\t' separates the columns, set 'delimiter'"]),
    ],
)
def test_an_error_names_the_file_the_line_and_its_content(
    tmp_path: Path, content: str | bytes, keys: dict[str, Any], line: int | None, facts: list[str]
) -> None:
    assert_rejected(reader(**keys), written(tmp_path, content), line, *facts)


@pytest.mark.parametrize(
    ("keys", "facts"),
    [
        ({"text_columns": []}, ["'text_columns'"]),
        ({"text_columns": ["text"], "has_header": False}, ["'text'", "'has_header'"]),
        ({"max_splits": 1}, ["'max_splits'", "'quote_char'"]),
        ({"delimiter": "||"}, ["'delimiter'", "'||'"]),
    ],
)
def test_a_wrong_key_is_named_at_construction(keys: dict[str, Any], facts: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        reader(**keys)
    assert all(fact in str(caught.value) for fact in facts)


def test_instances_from_text_tokens_and_nothing() -> None:
    ours = TextClassificationCsvReader(max_sequence_length=2, token_indexers={"elmo": ELMoTokenCharactersIndexer()})
    assert labelled(ours.text_to_instance("don't go", "x")) == ("x", "do n't")
    assert labelled(ours.text_to_instance(["don't", "go", "now"])) == (None, "don't go")
    for nothing in ("", " \n", []):
        instance = ours.text_to_instance(nothing, "x")
        assert instance["metadata"]["words"] == [""]
        ours.apply_token_indexers(instance)
        instance.index_fields(Vocabulary.from_instances([instance]))
        tensors = instance.as_tensor_dict(instance.get_padding_lengths())
        assert tensors["tokens"]["elmo"]["elmo_tokens"].shape == (1, 50)


def test_max_instances_ends_the_reading(tmp_path: Path) -> None:
    path = written(tmp_path, b"x,a\nx,b\n\xff\n")
    assert read(path, max_instances=2) == [("x", "a"), ("x", "b")]


def test_each_row_goes_to_one_worker(tmp_path: Path) -> None:
    path = written(tmp_path, "".join(f"x,w{index}\n" for index in range(4)))
    assert words_of_workers(reader, path, 3) == ["w0", "w1", "w2", "w3"]
