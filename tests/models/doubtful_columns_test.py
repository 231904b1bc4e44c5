"""What is guessed about the columns of a user's files, and the keys that say that a guess is wrong."""

import logging
from pathlib import Path
from typing import Any

import pytest
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError

from elmo_plugin.models import doubtful_columns
from tests.models.readers.files import written

COUNTED = "1 EU NNP B-ORG\n2 rejects VBZ O\n3 Germany NNP B-LOC\n\n"
CONLLU = "# sent_id = 1\n1-2\tI'm\t_\t_\t_\t_\t_\t_\t_\t_\n1\tI\tI\tPRON\tPRP\t_\t2\tnsubj\t_\t_\n"
CONLL_2012 = "".join(
    f"#begin document (bc/a/00); part 000\nbc/a/00 0 {i} {word} NN * - (NP*\nbc/a/00 0 1 . . * - *\n\n"
    for i, word in enumerate(["Rain", "Snow", "Wind"])
)
DOCUMENTS = "ferry a X\nferry b Y\n\nstorm c X\nstorm d X\n"
SHEET = "\ufeffWort;Kategorie;Häufigkeit\nAnna;NAME;12\nsagt;VERB;7\n;;\nnein;PARTIKEL;3\n"
GREEK = "Λέξη Ετικέτα\n" + "".join(f"w{i} {'AB'[i % 2]}\n" for i in range(12))
SPAM = "".join(f"{'ham' if day % 3 else 'spam'},Go on to number {day} now\n" for day in range(12))
IDS = "".join(f"id-{i},the {i}th text of many\n" for i in range(60))
TAGS, TEXTS = {"type": "column_tags"}, {"type": "text_classification_csv"}


def doubts(path: Path, keys: dict[str, Any], part: str = "train") -> list[str]:
    found = list(doubtful_columns({"dataset_reader": keys, f"{part}_data_path": str(path)}))
    assert all(each.startswith(f"{path}: ") for each in found)
    return found


@pytest.mark.parametrize(
    ("content", "keys", "facts", "right"),
    [
        (COUNTED, TAGS, ["'token_column'", "'1', '2', '3'", "'EU'"], {"token_column": 1}),
        (COUNTED, TAGS, ["'token_column'"], {"token_column": 0}),
        (CONLL_2012, TAGS, ["'token_column'", "'bc/a/00'", "'Rain'"], {"token_column": 3}),
        (DOCUMENTS, TAGS, ["'token_column'", "'ferry', 'storm'", "'a'"], {"token_column": 1}),
        ("_ a O\n_ b X\n_ c O", TAGS, ["'token_column'", "'_'"], {"token_column": 1}),
        ("O I\nO saw\nB-LOC Paris\n", TAGS, ["'token_column'", "tags ('O', 'B-LOC')"], {"token_column": 0}),
        ("# 1 A\na A O\n\n# 2 O\nb B O\n\n# 3 O\nc C O\n", TAGS, ["'#' at the beginning"], {"token_column": 0}),
        (CONLLU, TAGS, ["line 2", "CoNLL-U"], {"conllu": True}),
        (CONLLU, {**TAGS, "token_column": 1}, ["line 2", "CoNLL-U"], {"conllu": True}),
        (GREEK, TAGS, ["line 1", "'Λέξη', 'Ετικέτα'", "'has_header' true"], {"has_header": True}),
        (GREEK, TAGS, ["'has_header' true"], {"has_header": False}),
        (GREEK, TAGS, ["'has_header' true"], {"tag_column": "Ετικέτα"}),
        (SHEET, {**TAGS, "delimiter": ";"}, ["header", "all tags are numbers ('12', '7', '3')", "'tag_column'"],
         {"tag_column": "Kategorie"}),
        ("a 1\nb 2\n", TAGS, ["all tags are numbers"], {"tag_column": 1}),
        ("The D\nferry N\n" * 60, TAGS, ["all 120 tokens are one sentence", "blank line"], None),
        ("a O X\nb O X\n", TAGS, ["all 2 tags are 'X'", "'tag_column'", "'a', 'O', 'X'"], None),
        ('a;X\n"b;""c";Y\n""""";"X"\n', {**TAGS, "delimiter": ";"}, [], None),
        ('";",X\nb,Y\n', {**TAGS, "delimiter": ","}, ["'quote_char'"], {"quote_char": '"'}),
        (f"Rubrik,Nachricht\n{SPAM}", TEXTS, ["line 1", "'Rubrik'", "'has_header' true"], {"has_header": True}),
        (f"Rubrik,Nachricht\n{SPAM}", TEXTS, ["'has_header' true"], {"has_header": False}),
        (f"Rubrik,Nachricht\n{SPAM}", TEXTS, ["'has_header' true"], {"label_column": "Rubrik"}),
        (SPAM, {**TEXTS, "label_column": 1}, ["labels", "2 different texts"], {"label_column": 0}),
        (SPAM, {**TEXTS, "label_column": 1}, ["'text_columns'"], {"text_columns": [0]}),
        (IDS, TEXTS, ["59 in 59 rows", "'label_column'"], {"text_columns": [1]}),
    ],
)  # fmt: skip
def test_each_doubt_names_a_key_that_ends_it(
    content: str, keys: dict[str, Any], facts: list[str], right: dict[str, Any] | None, tmp_path: Path
) -> None:
    path = written(tmp_path, content)
    found = "\n".join(doubts(path, keys))
    assert all(fact in found for fact in facts) and bool(found) == bool(facts), found
    assert right is None or not [each for each in doubts(path, {**keys, **right}) if facts[0] in each]


def test_good_files_raise_no_doubt(tmp_path: Path) -> None:
    for content, keys in (
        ("Greta PROPN\nsails VERB\n\nShe PRON\nsails VERB\n", TAGS),
        ("Oh INTJ\n" + "w NOUN\nv VERB\n" * 2, TAGS),
        ("Anna B-PER\n" + "sails O\nto O\nRome B-LOC\n" * 9, TAGS),
        ("a 0\nb 1\nc 0\n", {**TAGS, "tag_column": 1}),
        (CONLLU.replace("1-2\tI'm", "2\tam"), {**TAGS, "token_column": 1, "tag_column": 0}),
        (SPAM, TEXTS),
        (f"rare,a new label\n{SPAM}rare,another one of these\n", TEXTS),
        ("1,a b\n2,c\n3,d\n4,e f\n5,g\n6,h\n7,i\n", TEXTS),
        ("only text\nof many\n", {**TEXTS, "label_column": None}),
    ):
        assert not doubts(written(tmp_path, content), keys)


BIO_TAGS = "Anna B-PER\nsails O\nto O\nPort B-LOC\nOrrin I-LOC\n\n"


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        (BIO_TAGS, ["'B-LOC'", "not scored", "fit BIO", "'coding_scheme' 'BIO'", "'label_encoding' 'BIO'"]),
        (BIO_TAGS + "Quill I-PER\nleft O\n", ["fit IOB1"]),
        (BIO_TAGS.replace("O\n", "0\n"), ["except '0' in line 2"]),
        (BIO_TAGS.replace("B-PER", "B-"), ["except 'B-' in line 1"]),
        (
            BIO_TAGS.replace("I-LOC", "E-LOC").replace("B-PER", "S-PER"),
            ["fit BIOES", "'convert_to_coding_scheme' 'BIOUL'"],
        ),
        ("Anna NOUN\nsails B-V\nto PART\nPort X\nand CCONJ\n", []),
    ],
)
def test_tags_of_spans_without_a_scheme_are_said(content: str, facts: list[str], tmp_path: Path) -> None:
    path = written(tmp_path, content)
    config = {"dataset_reader": TAGS, "train_data_path": str(path), "model": {"type": "elmo_tagger"}}
    config["test_data_path"] = config["train_data_path"]  # which is said once
    found = [message for message in doubtful_columns(config) if "spans" in message]
    assert len(found) == bool(facts) and all(fact in found[0] for fact in facts), found
    for right in (
        {"dataset_reader": {**TAGS, "coding_scheme": None}},
        {"model": {"type": "elmo_tagger", "label_encoding": "BIO"}},
    ):
        assert not [message for message in doubtful_columns({**config, **right}) if "spans" in message]


def test_allennlps_reader_of_four_columns_gets_four(tmp_path: Path) -> None:
    path = written(tmp_path, BIO_TAGS)
    config = {"dataset_reader": "conll2003", "train_data_path": str(path), "model": {"type": "crf_tagger"}}
    with pytest.raises(ConfigurationError, match=r"line 1: expected four columns .*'Anna', 'B-PER'.*'column_tags'"):
        list(doubtful_columns(config))


def test_what_training_rejects_is_left_to_training(tmp_path: Path) -> None:
    for content, keys in (("a b\nc\n", TAGS), ("a b\n", {**TAGS, "tag_column": 7}), ("a b\n", {**TAGS, "tags": 1})):
        assert not doubts(written(tmp_path, content), keys)
    assert not doubts(tmp_path / "missing", TAGS)
    assert not list(doubtful_columns({"dataset_reader": {"type": "conll2003"}, "train_data_path": "x"}))


def test_each_part_and_each_task_is_judged(tmp_path: Path) -> None:
    path = written(tmp_path, COUNTED)
    assert doubts(path, TAGS, "validation") and doubts(path, TAGS, "test")
    readers = {"type": "multitask", "readers": {"one": TAGS, "two": {**TAGS, "token_column": 1}}}
    config = {"dataset_reader": readers, "train_data_path": {"one": str(path), "two": str(path)}}
    assert len(list(doubtful_columns(config))) == 1


def test_training_prints_the_doubts_and_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path, COUNTED)
    embedder = {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 4}}}
    config = {
        "dataset_reader": {"type": "column_tags"},
        "train_data_path": str(path),
        "model": {
            "type": "simple_tagger",
            "text_field_embedder": embedder,
            "encoder": {"type": "lstm", "input_size": 4, "hidden_size": 4},
        },
        "data_loader": {"batch_size": 2},
        "trainer": {"num_epochs": 1, "optimizer": "adam"},
    }
    with caplog.at_level(logging.WARNING):
        train_model(Params(config), str(tmp_path / "run"))
    assert sum(f"{path}: expected tokens" in message for message in caplog.messages) == 1
    assert (tmp_path / "run/model.tar.gz").exists()
