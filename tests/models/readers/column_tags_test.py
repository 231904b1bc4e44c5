import gzip
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
from allennlp.data.dataset_readers.dataset_utils.span_utils import bio_tags_to_spans, bioul_tags_to_spans
from hypothesis import given
from hypothesis import strategies as st

from elmo_plugin.models.readers import ColumnTagsReader
from tests.models.readers.files import assert_rejected, words_of_workers, written

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "columns"


def reader(**keys: Any) -> DatasetReader:
    return DatasetReader.from_params(Params({"type": "column_tags", **keys}))


def sentence(instance: Instance) -> list[tuple[str, str]]:
    """The words of a sentence, each with its tag, and both fields agree."""
    words = [token.text for token in instance["tokens"].tokens]
    assert words == instance["metadata"]["words"]
    return list(zip(words, instance["tags"].labels, strict=True))


def read(path: Path, **keys: Any) -> list[list[tuple[str, str]]]:
    return [sentence(instance) for instance in reader(**keys).read(path)]


def test_conll_2003() -> None:
    ner = read(FIXTURES / "conll2003.txt")
    assert [len(tagged) for tagged in ner] == [7, 4, 1]
    assert ner[0][:3] == [("Ada", "I-PER"), ("Lovelace", "I-PER"), ("Babbage", "B-PER")]
    assert ner[1][1] == ("#", "O")
    pos = read(FIXTURES / "conll2003.txt", tag_column=1)
    assert pos[2] == [("Paris", "NNP")]


def test_conll_2003_is_converted_as_by_allennlps_reader() -> None:
    theirs = Conll2003DatasetReader(convert_to_coding_scheme="BIOUL").read(FIXTURES / "conll2003.txt")
    ours = read(FIXTURES / "conll2003.txt", coding_scheme="IOB1", convert_to_coding_scheme="BIOUL")
    assert ours == [sentence(instance) for instance in theirs]
    tagged = read(FIXTURES / "conll2003.txt", coding_scheme="IOB1", convert_to_coding_scheme="BIO")
    assert [tag for _, tag in tagged[0]] == ["B-PER", "I-PER", "B-PER", "O", "B-LOC", "B-ORG", "O"]
    assert [tag for _, tag in tagged[1]] == ["O", "O", "B-LOC", "B-LOC"]


def test_conll_2000() -> None:
    tagged = read(FIXTURES / "conll2000.txt", coding_scheme="BIO")
    assert [len(each) for each in tagged] == [5, 8]
    assert tagged[1][3:6] == [("as", "B-CONJP"), ("well", "I-CONJP"), ("as", "I-CONJP")]
    bioul = read(FIXTURES / "conll2000.txt", coding_scheme="BIO", convert_to_coding_scheme="BIOUL")
    assert [tag for _, tag in bioul[0]] == ["B-NP", "I-NP", "L-NP", "U-VP", "O"]


def test_wnut_17_keeps_everything_between_tabs() -> None:
    tagged = read(FIXTURES / "wnut17.conll", delimiter="\t", coding_scheme="BIO")
    assert tagged == [
        [
            ("#monday", "O"),
            ("again", "O"),
            ("@nora_b", "O"),
            ("in", "O"),
            ("New\u00a0York", "B-location"),
            ("City Hall", "I-location"),
        ],
        [
            ("#", "O"),
            ("\u3000", "O"),
            ("\u2028x\u0085", "O"),
            ("Moon", "B-creative-work"),
            ("Song", "I-creative-work"),
        ],
        [("#rt", "O")],
    ]


def test_conllu_has_neither_comments_nor_ranges_nor_empty_nodes() -> None:
    upos = read(FIXTURES / "words.conllu", conllu=True)
    assert upos[0] == [
        ("I", "PRON"),
        ("do", "AUX"),
        ("n't", "PART"),
        ("dig", "VERB"),
        ("10 000", "NUM"),
        ("holes", "NOUN"),
    ]
    assert upos[1] == [("#", "SYM"), ("1", "NUM"), ("rose", "NOUN")]
    assert len(upos) == 2
    xpos = read(FIXTURES / "words.conllu", conllu=True, token_column=2, tag_column=4)
    assert xpos[0][:3] == [("I", "PRP"), ("do", "VBP"), ("not", "RB")]


def test_only_spaces_and_tabs_separate_columns_by_default(tmp_path: Path) -> None:
    assert read(written(tmp_path, "  a\u00a0b \t X  \n\x1cc\u3000d Y\n")) == [
        [("a\u00a0b", "X"), ("\x1cc\u3000d", "Y")]
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"a X\nb Y\n\nc X\n",
        b"a X\nb Y\n\nc X",
        b"a X\r\nb Y\r\n\r\nc X\r\n",
        b"\xef\xbb\xbfa X\nb Y\n\nc X\n",
        b"\n\n  \na X\nb Y\n \t \n\nc X\n\n\n",
        b"-DOCSTART-\na X\nb Y\n-DOCSTART- -X- O\nc X\n",
        gzip.compress(b"a X\nb Y\n\nc X\n", mtime=0),
        lzma.compress(b"a X\nb Y\n\nc X\n"),
    ],
)
def test_line_ends_byte_order_mark_blank_lines_and_compression_change_nothing(tmp_path: Path, content: bytes) -> None:
    assert read(written(tmp_path, content)) == [[("a", "X"), ("b", "Y")], [("c", "X")]]


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\t\n\r"), min_size=1)
WORDS = CELLS.filter(lambda word: word != "-DOCSTART-")


@given(st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_any_tokens_between_tabs_come_back(
    tmp_path_factory: pytest.TempPathFactory, sentences: list[list[str]]
) -> None:
    lines = ["".join(f"{word}\tX\n" for word in words) for words in sentences]
    path = written(tmp_path_factory.mktemp("written"), "\n".join(lines).encode())
    # A file cannot say whether a mark in front is its own or the first token's.
    sentences[0][0] = sentences[0][0].removeprefix("\ufeff")
    if sentences[0][0]:
        assert [[word for word, _ in tagged] for tagged in read(path, delimiter="\t")] == sentences


@given(st.lists(st.sampled_from(["O", "B-a", "I-a", "B-b", "I-b"]), min_size=1, max_size=9))
def test_iob1_names_the_same_spans_in_each_scheme(tags: list[str]) -> None:
    def spans(target: str) -> list[str]:
        converter = ColumnTagsReader(coding_scheme="IOB1", convert_to_coding_scheme=target)
        return converter.text_to_instance(["w"] * len(tags), tags)["tags"].labels

    assert sorted(bio_tags_to_spans(spans("BIO"))) == sorted(bioul_tags_to_spans(spans("BIOUL")))
    back = ColumnTagsReader(coding_scheme="BIOUL", convert_to_coding_scheme="BIO")
    assert back.text_to_instance(["w"] * len(tags), spans("BIOUL"))["tags"].labels == spans("BIO")


@pytest.mark.parametrize("scheme", ["BIO", "BIOUL"])
def test_conversion_to_the_scheme_of_the_file_changes_nothing(scheme: str) -> None:
    tags = {"BIO": ["B-x", "I-x", "B"], "BIOUL": ["B-x", "L-x", "U"]}[scheme]
    converter = ColumnTagsReader(coding_scheme=scheme, convert_to_coding_scheme=scheme)
    assert converter.text_to_instance(["a", "b", "c"], tags)["tags"].labels == tags


TAB = {"delimiter": "\t"}


@pytest.mark.parametrize(
    ("content", "keys", "line", "facts"),
    [
        ("\na b X\n\nc X\n", {}, 4, ["3 columns", "line 2", "2 columns ('c', 'X')"]),
        ("a X\nb c X\n", {}, 2, ["2 columns", "line 1", "3 columns ('b', 'c', 'X')"]),
        ("a b X\n", {"tag_column": 3}, 1, ["'token_column' 0", "'tag_column' 3", "('a', 'b', 'X')"]),
        ("a X\n", TAB, 1, ["'tag_column' -1", r"'\t'", "('a X')", "if ' ' separates the columns, set 'delimiter'"]),
        ("EU,B-ORG\n", {}, 1, ["spaces and tabs", "('EU,B-ORG')", "if ',' separates the columns, set 'delimiter'"]),
        ("a b\tX\nc\tX\n", {"delimiter": " "}, 2, [r"if '\t' separates the columns"]),
        ("a\tX\n\tX\n", TAB, 2, ["not empty", "('', 'X')"]),
        ("a\tX\nb\t \n", TAB, 2, ["not empty", "('b', ' ')"]),
        ("a b c d\n", {"conllu": True, "delimiter": " "}, 1, ["'a'", "'conllu'"]),
        (b"a X\nb\xe9 X\n", {}, 2, ["expected UTF-8 text, got byte 0xe9"]),
        (b"\xff\xfea\x00", {}, 1, ["expected UTF-8 text, got byte 0xff"]),
        ("a X\n" + "b" * 99 + " c" * 99, {}, 2, ["100 columns ('bbbbbbbbbbbbbbbbbbbbbbbbbbbbb…', 'c', ", ", …)"]),
        (b"a X\nb\rc Y\n", {}, 2, [r"\r"]),
        (b"a X\rb Y\r\rc Z\r", {}, None, [r"\r"]),
        ("word ner\na O\n", {"coding_scheme": "BIO"}, 1, ["'ner'", "header"]),
        ("", {}, None, []),
        ("-DOCSTART- O\n \n\n", {}, None, []),
        ("# a comment\n\n1-2\ta\t_\t_\n", {"conllu": True}, None, []),
    ],
)
def test_an_error_names_the_file_the_line_and_its_content(
    tmp_path: Path, content: str | bytes, keys: dict[str, Any], line: int | None, facts: list[str]
) -> None:
    assert_rejected(reader(**keys), written(tmp_path, content), line, *facts)


@pytest.mark.parametrize("beginning", ["# newdoc id = garden\n", "# sent_id = 1\n", "# text = I dig\n", "\n", ""])
def test_conllu_that_is_read_as_other_columns_is_an_error_that_names_the_key(tmp_path: Path, beginning: str) -> None:
    """Without comments its ids would be the tokens, and its last column the tags."""
    rows = "1\tI\tI\tPRON\tPRP\t_\t2\tnsubj\t_\t_\n2\tdig\tdig\tVERB\tVB\t_\t0\troot\t_\t_\n"
    path = written(tmp_path, beginning + rows)
    assert_rejected(reader(), path, 2 if beginning == "\n" else 1, "'conllu' true")
    if not beginning.strip():
        assert read(path, token_column=1, tag_column=3) == [[("I", "PRON"), ("dig", "VERB")]]


def test_a_hash_is_a_token_outside_conllu(tmp_path: Path) -> None:
    assert read(written(tmp_path, "# O\ntext O\n= X\n")) == [[("#", "O"), ("text", "O"), ("=", "X")]]


def test_docstart_lines_have_spaces_in_a_file_of_tabs_too(tmp_path: Path) -> None:
    content = "-DOCSTART- -X- -X- O\n\na\tX\n"
    assert read(written(tmp_path, content), delimiter="\t") == [[("a", "X")]]


@pytest.mark.parametrize(
    ("scheme", "tags", "line", "found"),
    [
        ("BIO", "O X-PER", 3, "'X-PER' between 'O' and the end of the sentence"),
        ("BIO", "O I-PER O", 3, "'I-PER' between 'O' and 'O'"),
        ("BIO", "B-PER I-LOC", 3, "'I-LOC' between 'B-PER' and the end of the sentence"),
        ("BIO", "I-PER O", 2, "'I-PER' between the start and 'O'"),
        ("BIO", "O O-PER", 3, "'O-PER' between 'O' and the end of the sentence"),
        ("BIO", "O OTHER", 3, "'OTHER' between 'O' and the end of the sentence"),
        ("BIO", "BPER O", 2, "'BPER' between the start and 'O'"),
        ("BIO", "U-PER", 2, "'U-PER' between the start and the end of the sentence"),
        ("IOB1", "I-PER L-PER", 3, "'L-PER' between 'I-PER' and the end of the sentence"),
        ("BIOUL", "O B-PER", 3, "'B-PER' between 'O' and the end of the sentence"),
        ("BIOUL", "B-PER O", 3, "'O' between 'B-PER' and the end of the sentence"),
        ("BIOUL", "B-PER L-LOC", 3, "'L-LOC' between 'B-PER' and the end of the sentence"),
        ("BIOUL", "O L-PER U-PER", 3, "'L-PER' between 'O' and 'U-PER'"),
    ],
)
def test_a_tag_that_the_scheme_forbids_is_named(tmp_path: Path, scheme: str, tags: str, line: int, found: str) -> None:
    path = written(tmp_path, "\n" + "".join(f"w {tag}\n" for tag in tags.split()))
    assert_rejected(reader(coding_scheme=scheme), path, line, found, f"'coding_scheme' {scheme}")
    assert len(read(path)) == 1  # without a scheme any tag is allowed


@pytest.mark.parametrize(
    ("keys", "facts"),
    [
        ({"coding_scheme": "IOB2"}, ["'coding_scheme'", "IOB1, BIO, BIOUL", "'IOB2'"]),
        (
            {"coding_scheme": "BIO", "convert_to_coding_scheme": "IOB1"},
            ["'convert_to_coding_scheme'", "BIO, BIOUL", "'IOB1'"],
        ),
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


def test_tags_go_to_their_namespace() -> None:
    instances = list(reader(label_namespace="ner_tags").read(FIXTURES / "conll2003.txt"))
    vocabulary = Vocabulary.from_instances(instances)
    assert set(vocabulary.get_token_to_index_vocabulary("ner_tags")) >= {"O", "I-PER", "B-PER"}
    assert vocabulary.get_vocab_size("labels") == 0


def test_max_instances_ends_the_reading(tmp_path: Path) -> None:
    path = written(tmp_path, b"a X\n\nb X\n\nc X\n\n\xff\n")
    assert [sentence(instance) for instance in reader(max_instances=2).read(path)] == [[("a", "X")], [("b", "X")]]


@pytest.mark.parametrize("num_workers", [2, 3, 5])
def test_each_sentence_goes_to_one_worker(tmp_path: Path, num_workers: int) -> None:
    path = written(tmp_path, "\n".join(f"w{index} X\n" for index in range(4)))
    assert words_of_workers(reader, path, num_workers) == ["w0", "w1", "w2", "w3"]


def test_two_real_workers_neither_lose_nor_repeat_sentences(tmp_path: Path) -> None:
    path = written(tmp_path, "\n".join(f"w{index} X\n" for index in range(11)))
    ours = pickle.loads(pickle.dumps(reader()))
    loader = MultiProcessDataLoader(ours, path, batch_size=2, num_workers=2)
    words = [word for instance in loader.iter_instances() for word in instance["metadata"]["words"]]
    assert sorted(words) == sorted(f"w{index}" for index in range(11))
