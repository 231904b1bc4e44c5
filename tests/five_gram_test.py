"""A 5-gram's table of minimal pairs, with a program in KenLM's place that counts words."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from experiments import five_gram

QUERY = """#!/bin/bash
# The total of a sentence is minus the number of words from its last b to its end, that included. "!" gets no line.
awk '{ total = 0; for (i = 1; i <= NF; i++) if ($i == "b") total = i - NF - 1
       if ($1 != "!") print "a=1 2 -0.5 Total: " total " OOV: 0" }'
echo "Total: -7 OOV: 0" >&2
"""


def printed(folder: Path, *sentences: str) -> None:
    (folder / "query").write_text(QUERY)
    (folder / "query").chmod(0o755)
    (folder / "vocabulary.txt").write_text("a\nb\n!\n")
    rows = [{"sentence_good": good, "sentence_bad": bad} for good, bad in pairwise(sentences)]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    five_gram.main([*map(str, (folder, folder, folder / "vocabulary.txt", folder / "pairs.jsonl"))])


def test_both_directions_are_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The first pair: forward -1 and -3, backward -3 and -1. The second: forward -3 and -2, backward -1 and -1.
    printed(tmp_path, "a unheard b", "b a a", "b a")
    assert "| **all** | 50.0 | 25.0 | 25.0 | 1 | 2 |" in capsys.readouterr().out


def test_a_sentence_without_a_score_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"forward\.bin"):
        printed(tmp_path, "! a", "b a")
