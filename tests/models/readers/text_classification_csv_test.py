import csv
import io
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.data.dataset_readers.dataset_reader import WorkerInfo
from hypothesis import given
from hypothesis import strategies as st

from elmo_plugin.models.readers import TextClassificationCsvReader

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


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "some file.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_quoted_csv() -> None:
    assert read(FIXTURES / "news.csv", text_columns=[1, 2]) == [
        ("1", 'Rain again The river , they say , is " very " high .'),
        ("2", "Cup final Two goals and a red card : it # 39;s over\\now ."),
        ("3", "Bread dearer Wheat & lt;b&gt;up&lt;/b&gt ; 4.5 percent"),
        ("1", ""),
    ]


def test_label_names() -> None:
    names = {"1": "World", "2": "Sports", "3": "Business"}
    labels = [label for label, _ in read(FIXTURES / "news.csv", label_names=names, text_columns=[2])]
    assert labels == ["World", "Sports", "Business", "World"]


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


@pytest.mark.parametrize(
    "content",
    [
        b"x,a b\ny,c\n",
        b"x,a b\ny,c",
        b"x,a b\r\ny,c\r\n",
        b"\xef\xbb\xbfx,a b\ny,c\n",
        b'\xef\xbb\xbf"x",a b\ny,c\n',
        b"\n  \nx,a b\n\n \t\ny,c\n\n",
        b" x ,a b\ny , c\n",
    ],
)
@pytest.mark.parametrize("quote_char", ['"', None])
def test_line_ends_byte_order_mark_and_blank_lines_change_nothing(
    tmp_path: Path, content: bytes, quote_char: str | None
) -> None:
    if quote_char is None:
        content = content.replace(b'"', b"")
    assert read(written(tmp_path, content), quote_char=quote_char) == [("x", "a b"), ("y", "c")]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_any_text_that_csv_can_write_comes_back(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerows(["label", text] for text in texts)
    path = written(tmp_path_factory.mktemp("written"), buffer.getvalue())
    instances = reader(tokenizer="character").read(path)
    assert ["".join(instance["metadata"]["words"]) for instance in instances] == texts


def test_a_long_document_is_read_whole(tmp_path: Path) -> None:
    path = written(tmp_path, f'x,"{"word " * 50_000}"\n')
    (instance,) = reader(tokenizer="just_spaces").read(path)
    assert len(instance["metadata"]["words"]) == 50_000
    (instance,) = reader(tokenizer="just_spaces", max_sequence_length=3).read(path)
    assert instance["metadata"]["words"] == ["word"] * 3


NO_CSV = "wanted fields quoted whole with \", or 'quote_char' null where quotes are text"


@pytest.mark.parametrize(
    ("content", "keys", "message"),
    [
        ("x,a\ny\n", {}, ", line 2: found 1 column ('y'); wanted 2, as in line 1"),
        ('x,"a\nb"\n\ny,c,d\n', {}, ", line 4: found 3 columns ('y', 'c', 'd'); wanted 2, as in line 1"),
        ("x\n", {}, ", line 1: found 1 column ('x'); wanted 'text_columns' 1 to name one of them"),
        (
            "x,a\n",
            {"label_column": -3},
            ", line 1: found 2 columns ('x', 'a'); wanted 'label_column' -3 to name one of them",
        ),
        (
            "label,text,text\n",
            {"text_columns": ["text"], "has_header": True},
            ", line 1: found 3 columns ('label', 'text', 'text'); wanted 'text_columns' 'text' to name one of them",
        ),
        (
            "\nlabel,text\nx,a\n",
            {"label_column": "class", "has_header": True},
            ", line 2: found 2 columns ('label', 'text'); wanted 'label_column' 'class' to name one of them",
        ),
        (
            "a,x\n",
            {"label_column": -1},
            ", line 1: found 2 columns ('a', 'x'); wanted 'text_columns' [1] without 'label_column' -1",
        ),
        ("x,a\n ,b\n", {}, ", line 2: found 2 columns (' ', 'b'); wanted a label in column 0"),
        (
            "1,a\n3,b\n",
            {"label_names": {"1": "World", "2": "Sports"}},
            ", line 2: found label '3'; wanted one of 'label_names': 1, 2",
        ),
        ('x,a\ny,"b\nz,c\n', {}, f", line 2: found a row that is not CSV (unexpected end of data); {NO_CSV}"),
        ('x,a\n\ny,"b"c\n', {}, f", line 3: found a row that is not CSV (',' expected after '\"'); {NO_CSV}"),
        (b"x,a\ny,\xe9t\xe9\n", {}, ", line 2: found byte 0xe9; wanted UTF-8 (invalid continuation byte)"),
        (b"x a\ny \xff\n", SENTIMENT, ", line 2: found byte 0xff; wanted UTF-8 (invalid start byte)"),
        ("", {}, ": found no row; wanted a text in each"),
        ("label,text\n\n", {"has_header": True}, ": found no row; wanted a text in each"),
        (
            "1\ta fine day\n",
            {},
            ", line 1: found 1 column ('1\\ta fine day'); wanted 'text_columns' 1 to name one of them; if '\\t' "
            "divides the columns, set 'delimiter' to it",
        ),
        (
            "1\ta day, fine\n0\tno day\n",
            {},
            ", line 2: found 1 column ('0\\tno day'); wanted 2, as in line 1; if '\\t' divides the columns, set "
            "'delimiter' to it",
        ),
        (
            "Class Index,Title,Description\n1,a,b\n",
            {"text_columns": [1, 2]},
            ", line 1: found the names of 3 columns ('Class Index', 'Title', 'Description'); wanted 'has_header' true",
        ),
        ("4 a b\n3\n", SENTIMENT, ", line 2: found 1 column ('3'); wanted 2, as in line 1"),
    ],
)
def test_a_wrong_file_is_named_with_line_found_and_wanted(
    tmp_path: Path, content: str | bytes, keys: dict[str, Any], message: str
) -> None:
    path = written(tmp_path, content)
    with pytest.raises(ConfigurationError) as caught:
        read(path, **keys)
    assert str(caught.value) == f"{path}{message}"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"text_columns": []}, "'text_columns' is []; wanted at least one column"),
        ({"text_columns": ["text"]}, "found columns ['text'] and 'has_header' false; wanted a header, or numbers"),
        ({"label_column": "y"}, "found columns ['y'] and 'has_header' false; wanted a header, or numbers of columns"),
        ({"max_sequence_length": 0}, "'max_sequence_length': expected 1 or more, got 0"),
        ({"max_splits": 1}, "'max_splits' is 1 and 'quote_char' '\"'; wanted it null"),
        ({"delimiter": "||"}, "'delimiter' is '||' and 'quote_char' '\"'; wanted one character each"),
        ({"quote_char": ""}, "'quote_char': expected a non-empty string or null"),
        ({"delimiter": "", "quote_char": None}, "'delimiter': expected a non-empty string"),
        ({"no_such_key": 1}, "no_such_key"),
    ],
)
def test_a_wrong_key_is_named_at_construction(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        reader(**keys)


def test_instances_of_text_of_tokens_and_of_nothing() -> None:
    ours = TextClassificationCsvReader(max_sequence_length=2)
    assert labelled(ours.text_to_instance("don't go", "x")) == ("x", "do n't")
    assert labelled(ours.text_to_instance(["don't", "go", "now"])) == (None, "don't go")
    for nothing in ("", " \n", []):
        assert ours.text_to_instance(nothing)["metadata"]["words"] == [""]


def test_an_empty_text_can_be_indexed() -> None:
    ours = reader(token_indexers={"elmo": {"type": "elmo_characters"}})
    instance = ours.text_to_instance("", "x")
    ours.apply_token_indexers(instance)
    instance.index_fields(Vocabulary.from_instances([instance]))
    tensors = instance.as_tensor_dict(instance.get_padding_lengths())
    assert tensors["tokens"]["elmo"]["elmo_tokens"].shape == (1, 50)
    assert tensors["label"] == 0


def test_stops_where_told_and_reads_no_further(tmp_path: Path) -> None:
    path = written(tmp_path, b"x,a\nx,b\n\xff\n")
    assert read(path, max_instances=2) == [("x", "a"), ("x", "b")]


@pytest.mark.parametrize("num_workers", [1, 2, 3, 5])
def test_each_row_goes_to_one_worker(tmp_path: Path, num_workers: int) -> None:
    path = written(tmp_path, "".join(f"x,w{index}\n" for index in range(4)))
    words = []
    for worker in range(num_workers):
        ours = reader()
        ours._set_worker_info(WorkerInfo(num_workers, worker))
        words += [instance["metadata"]["words"][0] for instance in ours.read(path)]
    assert sorted(words) == ["w0", "w1", "w2", "w3"]


def test_two_real_workers_lose_and_double_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, "".join(f"x,w{index}\n" for index in range(11)))
    ours = pickle.loads(pickle.dumps(reader()))
    loader = MultiProcessDataLoader(ours, path, batch_size=2, num_workers=2)
    words = [word for instance in loader.iter_instances() for word in instance["metadata"]["words"]]
    assert sorted(words) == sorted(f"w{index}" for index in range(11))
