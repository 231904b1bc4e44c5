"""Senseval's XML as columns that `probe-layers --senses` reads."""

import sys
from pathlib import Path

import pytest

from elmo_plugin.models import ColumnTagsReader
from experiments import senseval

INSTANCE = """
<instance id="hard-a.{number}">
<answer instance="hard-a.{number}" senseid="HARD{sense}"/>
<context>
 <wf pos="PRP">it</wf> <wf pos="VBZ">is</wf> <head> <wf pos="JJ">hard</wf></head> <wf pos="CD">{number}</wf>
</context>
</instance>
"""


def test_each_instance_is_a_sentence_with_one_sense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    instances = "".join(INSTANCE.format(number=number, sense=1 + number % 2) for number in range(10))
    corpus = f'<corpus lang="en">\n<lexelt item="hard-a">\n{instances}</lexelt>\n</corpus>\n'
    (tmp_path / "hard.pos").write_text(corpus, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["senseval", str(tmp_path), str(tmp_path / "out")])
    senseval.main()
    reader = ColumnTagsReader()
    train, dev = (list(reader.read(tmp_path / "out" / name)) for name in ("train.txt", "dev.txt"))
    assert (len(train), len(dev)) == (8, 2)
    found = {tuple(instance["metadata"]["words"]): instance["tags"].labels for instance in train + dev}
    assert found == {
        ("it", "is", "hard", str(number)): ["O", "O", f"HARD{1 + number % 2}", "O"] for number in range(10)
    }
