import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token, Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.data.dataset_readers import Conll2003DatasetReader
from allennlp.data.dataset_readers.dataset_reader import WorkerInfo
from allennlp.data.dataset_readers.dataset_utils.span_utils import bio_tags_to_spans, bioul_tags_to_spans
from hypothesis import given
from hypothesis import strategies as st

from elmo_plugin.models.readers import ColumnTagsReader

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


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "some file.txt"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_conll_2003() -> None:
    ner = read(FIXTURES / "conll2003.txt")
    assert [len(tagged) for tagged in ner] == [7, 4, 1]
    assert ner[0][:3] == [("Ada", "I-PER"), ("Lovelace", "I-PER"), ("Babbage", "B-PER")]
    assert ner[1][1] == ("#", "O")
    pos = read(FIXTURES / "conll2003.txt", tag_column=1)
    assert pos[2] == [("Paris", "NNP")]


def test_conll_2003_in_bioul_is_what_allennlps_reader_gives() -> None:
    theirs = Conll2003DatasetReader(convert_to_coding_scheme="BIOUL").read(FIXTURES / "conll2003.txt")
    ours = read(FIXTURES / "conll2003.txt", coding_scheme="IOB1", convert_to_coding_scheme="BIOUL")
    assert ours == [sentence(instance) for instance in theirs]
    assert [tag for _, tag in ours[0]] == ["B-PER", "L-PER", "U-PER", "O", "U-LOC", "U-ORG", "O"]


def test_conll_2003_in_bio() -> None:
    tagged = read(FIXTURES / "conll2003.txt", coding_scheme="IOB1", convert_to_coding_scheme="BIO")
    assert [tag for _, tag in tagged[0]] == ["B-PER", "I-PER", "B-PER", "O", "B-LOC", "B-ORG", "O"]
    assert [tag for _, tag in tagged[1]] == ["O", "O", "B-LOC", "B-LOC"]


def test_conll_2000() -> None:
    tagged = read(FIXTURES / "conll2000.txt", coding_scheme="BIO")
    assert [len(each) for each in tagged] == [5, 8]
    assert tagged[1][3:6] == [("as", "B-CONJP"), ("well", "I-CONJP"), ("as", "I-CONJP")]
    bioul = read(FIXTURES / "conll2000.txt", coding_scheme="BIO", convert_to_coding_scheme="BIOUL")
    assert [tag for _, tag in bioul[0]] == ["B-NP", "I-NP", "L-NP", "U-VP", "O"]


def test_wnut_17_keeps_what_stands_between_tabs() -> None:
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


def test_a_blank_in_a_column_of_blanks_is_only_a_space_or_a_tab(tmp_path: Path) -> None:
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
    ],
)
def test_line_ends_byte_order_mark_and_blank_lines_change_nothing(tmp_path: Path, content: bytes) -> None:
    assert read(written(tmp_path, content)) == [[("a", "X"), ("b", "Y")], [("c", "X")]]


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r"), min_size=1)
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


def assert_says(content: str | bytes, folder: Path, message: str, **keys: Any) -> None:
    path = written(folder, content)
    with pytest.raises(ConfigurationError) as caught:
        read(path, **keys)
    assert str(caught.value) == f"{path}{message}"


@pytest.mark.parametrize(
    ("content", "keys", "message"),
    [
        ("\na b X\n\nc X\n", {}, ", line 4: found 2 columns ('c', 'X'); wanted 3, as in line 2"),
        ("a X\nb c X\n", {}, ", line 2: found 3 columns ('b', 'c', 'X'); wanted 2, as in line 1"),
        (
            "a b X\n",
            {"tag_column": 3},
            ", line 1: found 3 columns ('a', 'b', 'X'); wanted 'token_column' 0 and 'tag_column' 3, two columns, "
            "divided by spaces and tabs",
        ),
        (
            "a X\n",
            {"delimiter": "\t"},
            ", line 1: found 1 column ('a X'); wanted 'token_column' 0 and 'tag_column' -1, two columns, "
            "divided by '\\t'; if ' ' divides the columns, set 'delimiter' to it",
        ),
        (
            "EU,B-ORG\n",
            {},
            ", line 1: found 1 column ('EU,B-ORG'); wanted 'token_column' 0 and 'tag_column' -1, two columns, "
            "divided by spaces and tabs; if ',' divides the columns, set 'delimiter' to it",
        ),
        (
            "a b\tX\nc\tX\n",
            {"delimiter": " "},
            ", line 2: found 1 column ('c\\tX'); wanted 2, as in line 1; if '\\t' divides the columns, set 'delimiter' "
            "to it",
        ),
        (
            "a\tX\n\tX\n",
            {"delimiter": "\t"},
            ", line 2: found 2 columns ('', 'X'); wanted a token and a tag that are not empty",
        ),
        (
            "a\tX\nb\t \n",
            {"delimiter": "\t"},
            ", line 2: found 2 columns ('b', ' '); wanted a token and a tag that are not empty",
        ),
        (
            "a b c d\n",
            {"conllu": True, "delimiter": " "},
            ", line 1: found 'a' in the first column; wanted an id of CoNLL-U (1, 1-2 or 8.1), or "
            "'conllu' false for a file of other columns",
        ),
        (b"a X\nb\xe9 X\n", {}, ", line 2: found byte 0xe9; wanted UTF-8 (invalid continuation byte)"),
        (b"\xff\xfea\x00", {}, ", line 1: found byte 0xff; wanted UTF-8 (invalid start byte)"),
        ("", {}, ": found no sentence; wanted lines of columns"),
        ("-DOCSTART- O\n \n\n", {}, ": found no sentence; wanted lines of columns"),
        ("# a comment\n\n1-2\ta\t_\t_\n", {"conllu": True}, ": found no sentence; wanted lines of columns"),
    ],
)
def test_a_wrong_file_is_named_with_line_found_and_wanted(
    tmp_path: Path, content: str | bytes, keys: dict[str, Any], message: str
) -> None:
    assert_says(content, tmp_path, message, **keys)


@pytest.mark.parametrize("beginning", ["# newdoc id = garden\n", "# sent_id = 1\n", "# text = I dig\n", "\n", ""])
def test_conllu_that_is_read_as_other_columns_is_an_error_that_names_the_key(tmp_path: Path, beginning: str) -> None:
    """Without comments its ids were the tokens, and its last column the tags."""
    rows = "1\tI\tI\tPRON\tPRP\t_\t2\tnsubj\t_\t_\n2\tdig\tdig\tVERB\tVB\t_\t0\troot\t_\t_\n"
    line = 2 if beginning == "\n" else 1
    message = f", line {line}: found CoNLL-U; wanted 'conllu' true, which reads its words and skips its comments"
    assert_says(beginning + rows, tmp_path, message)
    if not beginning.strip():
        assert read(written(tmp_path, beginning + rows), token_column=1, tag_column=3) == [
            [("I", "PRON"), ("dig", "VERB")]
        ]


def test_a_hash_is_a_token_where_it_is_no_comment_of_conllu(tmp_path: Path) -> None:
    assert read(written(tmp_path, "# O\ntext O\n= X\n")) == [[("#", "O"), ("text", "O"), ("=", "X")]]


def test_documents_begin_with_blanks_in_a_file_of_tabs_too(tmp_path: Path) -> None:
    content = "-DOCSTART- -X- -X- O\n\na\tX\n"
    assert read(written(tmp_path, content), delimiter="\t") == [[("a", "X")]]


def test_a_header_in_the_place_of_a_tag_is_named(tmp_path: Path) -> None:
    message = (
        ", line 1: found tag 'ner' between the start and 'O'; wanted one that 'coding_scheme' BIO (B-…, I-…, O) "
        "permits there; a header is not skipped, delete it"
    )
    assert_says("word ner\na O\n", tmp_path, message, coding_scheme="BIO")


def test_long_rows_are_named_in_short(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(written(tmp_path, "a X\n" + "b" * 99 + " c" * 99))
    assert "found 100 columns ('bbbbbbbbbbbbbbbbbbbbbbbbbbbbb…', 'c', 'c', 'c', 'c', 'c', 'c', 'c', …);" in str(
        caught.value
    )


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
    content = "\n" + "".join(f"w {tag}\n" for tag in tags.split())
    prefixes = {"BIO": "B-…, I-…, O", "IOB1": "B-…, I-…, O", "BIOUL": "B-…, I-…, O, U-…, L-…"}[scheme]
    message = f", line {line}: found tag {found}; wanted one that 'coding_scheme' {scheme} ({prefixes}) permits there"
    assert_says(content, tmp_path, message, coding_scheme=scheme)
    assert len(read(tmp_path / "some file.txt")) == 1  # and no scheme forbids nothing


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"coding_scheme": "IOB2"}, "'coding_scheme' is 'IOB2'; wanted null or one of IOB1, BIO, BIOUL"),
        (
            {"coding_scheme": "BIO", "convert_to_coding_scheme": "IOB1"},
            "'convert_to_coding_scheme' is 'IOB1'; wanted null or one of BIO, BIOUL",
        ),
        (
            {"convert_to_coding_scheme": "BIOUL"},
            "'convert_to_coding_scheme' is 'BIOUL' and 'coding_scheme' null; wanted there what the file holds, "
            "one of IOB1, BIO, BIOUL",
        ),
        ({"delimiter": ""}, "'delimiter': expected a non-empty string or null"),
        ({"no_such_key": 1}, "no_such_key"),
    ],
)
def test_a_wrong_key_is_named_at_construction(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        reader(**keys)


def test_instances_of_words_of_tokens_and_of_nothing() -> None:
    ours = reader()
    untagged = ours.text_to_instance(["a", Token("b")])
    assert untagged["metadata"]["words"] == ["a", "b"]
    assert "tags" not in untagged.fields
    empty = ours.text_to_instance([])
    assert [token.text for token in empty["tokens"].tokens] == [""]
    assert empty["metadata"]["words"] == [""]


def test_an_empty_sentence_can_be_indexed() -> None:
    ours = reader(token_indexers={"elmo": {"type": "elmo_characters"}})
    instance = ours.text_to_instance([])
    ours.apply_token_indexers(instance)
    instance.index_fields(Vocabulary())
    tensors = instance.as_tensor_dict(instance.get_padding_lengths())
    assert tensors["tokens"]["elmo"]["elmo_tokens"].shape == (1, 50)


def test_tags_go_to_their_namespace() -> None:
    instances = list(reader(label_namespace="ner_tags").read(FIXTURES / "conll2003.txt"))
    vocabulary = Vocabulary.from_instances(instances)
    assert set(vocabulary.get_token_to_index_vocabulary("ner_tags")) >= {"O", "I-PER", "B-PER"}
    assert vocabulary.get_vocab_size("labels") == 0


def test_stops_where_told_and_reads_no_further(tmp_path: Path) -> None:
    path = written(tmp_path, b"a X\n\nb X\n\nc X\n\n\xff\n")
    assert [sentence(instance) for instance in reader(max_instances=2).read(path)] == [[("a", "X")], [("b", "X")]]


@pytest.mark.parametrize("num_workers", [1, 2, 3, 5])
def test_each_sentence_goes_to_one_worker(tmp_path: Path, num_workers: int) -> None:
    path = written(tmp_path, "\n".join(f"w{index} X\n" for index in range(4)))
    words = []
    for worker in range(num_workers):
        ours = reader()
        ours._set_worker_info(WorkerInfo(num_workers, worker))
        words += [instance["metadata"]["words"][0] for instance in ours.read(path)]
    assert sorted(words) == ["w0", "w1", "w2", "w3"]


def test_two_real_workers_lose_and_double_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, "\n".join(f"w{index} X\n" for index in range(11)))
    ours = pickle.loads(pickle.dumps(reader()))
    loader = MultiProcessDataLoader(ours, path, batch_size=2, num_workers=2)
    words = [word for instance in loader.iter_instances() for word in instance["metadata"]["words"]]
    assert sorted(words) == sorted(f"w{index}" for index in range(11))
