"""Accuracies of minimal pairs compared with a count by hand, and scores of sentences compared with `evaluate`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data.tokenizers import WhitespaceTokenizer
from allennlp.training.util import evaluate

from elmo_plugin.analysis import MinimalPair, PairAccuracy, pair_accuracies, read_pairs, score_pairs
from elmo_plugin.pretraining import SentenceBatches, TextShardsReader, load_language_model, sentence_log_probabilities
from tests.commands.alone import run
from tests.serving_oracles import FILES

SPLIT = WhitespaceTokenizer()


def pair(good: str, bad: str, phenomenon: str = "", row: Any = None) -> MinimalPair:
    return MinimalPair(good.split(), bad.split(), phenomenon, row)


def test_accuracies_of_pairs_counted_by_hand() -> None:
    by_sentence = {"a": (-1, -5), "b": (-2, -3), "c": (-4, -4), "d": (-4, -4.00001), "e": (-9, -1)}
    pairs = [
        pair("a", "b", "x"),  # forward right, backward wrong, sum: -6 < -5 wrong
        pair("c", "d", "x"),  # a tie in each, up to rounding
        pair("b", "c", "y"),  # right in each
        pair("e", "a"),  # wrong, right, wrong; no phenomenon
    ]
    scores = score_pairs(lambda rows: np.array([by_sentence[row[0]] for row in rows]), pairs)
    named, overall = pair_accuracies(pairs, scores)
    assert named == {"x": PairAccuracy(75, 25, 25, 1, 2), "y": PairAccuracy(100, 100, 100, 0, 1)}
    assert overall == PairAccuracy(62.5, 62.5, 37.5, 1, 4)


def test_scores_equal_those_of_evaluate(tmp_path: Path) -> None:
    lines = ["The ferry left the harbour .", "Yes .", "", "She xyzzied it , and <S> he laughed ."]
    (tmp_path / "text").write_text("\n".join(lines), encoding="utf-8")
    model = load_language_model(str(FILES / "bilm.tar.gz"))
    loader = SentenceBatches(TextShardsReader(), str(tmp_path / "text"), shuffle=False)
    loader.index_with(model.vocab)
    loader.set_target_device(torch.device("cpu"))
    metrics = evaluate(model, loader)
    sentences = [line.split() for line in lines if line]
    tokens = sum(len(sentence) + 1 for sentence in sentences)
    expected = np.exp(-sentence_log_probabilities(model, sentences).sum(axis=0) / tokens)
    assert [metrics["forward_perplexity"], metrics["backward_perplexity"]] == pytest.approx(expected, rel=1e-5)


def test_pairs_of_blimp(tmp_path: Path) -> None:
    rows = [
        {"sentence_good": "She laughs .", "sentence_bad": "She laugh .", "linguistics_term": "agreement", "UID": "a"},
        {"sentence_good": "\ud800 x", "sentence_bad": "", "linguistics_term": None},
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert read_pairs(path, SPLIT, "linguistics_term") == [
        pair("She laughs .", "She laugh .", "agreement", rows[0]),
        pair("\ufffd x", "", row=rows[1]),
    ]
    assert [found.phenomenon for found in read_pairs(path, SPLIT, "UID")] == ["a", ""]


def test_an_error_names_an_invalid_line(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text('\n{"sentence_good": "a"}', encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"pairs\.jsonl, line 2: .*sentence_good"):
        read_pairs(path, SPLIT, "UID")


def test_the_command_prints_a_row_per_phenomenon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"sentence_good": "The men were here.", "sentence_bad": "The men was here.", "UID": "number"},
        {"sentence_good": "Same.", "sentence_bad": "Same.", "UID": "tie"},
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    run("minimal-pairs", "english-tiny", tmp_path / "pairs.jsonl", "--by", "UID", "--scores", tmp_path / "scored.jsonl")
    printed = capsys.readouterr().out
    assert "| number | 100.0 |" in printed and "| tie | 50.0 |" in printed and "| **all** | 75.0 |" in printed
    scored = [json.loads(line) for line in (tmp_path / "scored.jsonl").read_text(encoding="utf-8").splitlines()]
    model = load_language_model("english-tiny")
    for row, line in zip(rows, scored, strict=True):
        texts = [row["sentence_good"], row["sentence_bad"]]
        good, bad = sentence_log_probabilities(model, [text.replace(".", " .").split() for text in texts])
        names = ["forward_good", "backward_good", "forward_bad", "backward_bad"]
        assert [line.pop(name) for name in names] == pytest.approx([*good, *bad], rel=1e-5)
        assert line == row
