"""The code for users of simple_elmo and ELMoForManyLangs in `docs/guides/moving.md`, compared with their results."""

import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elmoformanylangs import Embedder
from sklearn.preprocessing import normalize

from elmo_plugin import load
from elmo_plugin.checkpoints import convert
from tests.many_langs_oracle import config, write_folder
from tests.pages import blocks

PAGE = Path(__file__).resolve().parents[2] / "docs/guides/moving.md"
RESULTS = Path(__file__).resolve().parents[1] / "fixtures/simple_elmo/193.npz"
SENTENCES = [["The", "ship", "sank", "."], ["日本語", "naïve"], ["x" * 60]]
LENGTHS = [len(sentence) for sentence in SENTENCES]


def table(name: str) -> list[tuple[str, str]]:
    """Return the rows of the table under a heading: a line of the other package, and the line here."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {name}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(.+?)` \| `(.+?)` \|$", section, re.M)


def run(line: str, names: dict[str, Any]) -> Any:
    """Return the value of a line; one that assigns has none."""
    return exec(line, names) if re.match(r"\w+ = ", line) else eval(line, names)


def nlpl_zip(path: Path) -> Path:
    """Pack `english-tiny` as the NLPL repository packs a model."""
    convert("english-tiny", path.parent / "pair")
    names = {"options.json": "options.json", "weights.hdf5": "model.hdf5", "vocabulary.txt": "vocab.txt"}
    with zipfile.ZipFile(path, "w") as archive:
        for ours, theirs in names.items():
            archive.write(path.parent / "pair" / ours, theirs)
    return path


@pytest.fixture(scope="module")
def simple_elmo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `193.zip`."""
    return nlpl_zip(tmp_path_factory.mktemp("simple_elmo") / "193.zip").parent


@pytest.mark.slow
def test_the_lines_for_simple_elmo_give_what_its_own_lines_give(
    simple_elmo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(simple_elmo)
    names = {"load": load, "normalize": normalize, "sentences": SENTENCES}
    (_, first), *rows = table("simple_elmo")
    run(first, names)
    with np.load(RESULTS) as file:
        assert {old for old, _ in rows} < set(file)
        for old, new in rows:
            for number, (found, theirs) in enumerate(zip(run(new, names), file[old], strict=True)):
                if "average" in old and number > 0:
                    continue  # simple_elmo counts the padding of the shorter sentences
                expected = theirs if theirs.ndim == 1 else theirs[..., : LENGTHS[number], :]
                np.testing.assert_allclose(found[..., ::16], expected, rtol=0, atol=1e-5, err_msg=old)


def test_the_lines_with_a_carried_state_repeat_its_warm_up(simple_elmo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(simple_elmo)
    names: dict[str, Any] = {"sentences": SENTENCES}
    exec(next(block.text for block in blocks(PAGE) if "carried" in block.text and block.language == "python"), names)
    with np.load(RESULTS) as file:
        results = file["model.get_elmo_vectors(sentences)"]
        for found, theirs, length in zip(names["warmed_up"], results, LENGTHS, strict=True):
            np.testing.assert_allclose(found[:length, ::16], theirs[:length], rtol=0, atol=1e-5)


def test_the_lines_for_many_langs_give_what_its_own_lines_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path / "179", config())
    monkeypatch.chdir(tmp_path)
    theirs: dict[str, Any] = {"Embedder": Embedder, "sentences": SENTENCES}
    ours: dict[str, Any] = {"load": load, "sentences": SENTENCES}
    (old_load, new_load), *rows = table("ELMoForManyLangs")
    run(new_load, ours)
    assert len(rows) == 5
    for old, new in rows:
        run(old_load, theirs)  # its state would be carried from line to line
        for found, expected in zip(run(new, ours), run(old, theirs), strict=True):
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5, err_msg=old)
