"""ELMoForManyLangs' folders: the same layers as from its own package, which reads what we write; what is rejected."""

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from elmoformanylangs import __file__ as package

from elmo_plugin.bilm import BiLM, ManyLangsEncoder
from elmo_plugin.checkpoints import build_bilm, load_checkpoint
from elmo_plugin.checkpoints.many_langs import PUBLISHED, PUBLISHED_CONFIG
from tests.checkpoint_oracles import assert_rejected, assert_same_checkpoint
from tests.many_langs_oracle import CONFIG, SENTENCES, SIZES, config, its_layers, write_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good folder."""
    return write_folder(tmp_path / "there", config())


def assert_its_layers(bilm: BiLM, folder: Path, sentences: Sequence[Sequence[str]] = SENTENCES) -> None:
    """Check that every sentence of a batch has the layers that the package computes from a folder."""
    assert isinstance(bilm.token_encoder, ManyLangsEncoder)
    layers = bilm(bilm.token_encoder.batch_to_ids(sentences)).layers.detach()  # (L, B, T + 2, D)
    for row, (sentence, expected) in enumerate(zip(sentences, its_layers(folder, sentences), strict=True)):
        torch.testing.assert_close(layers[:, row, 1 : len(sentence) + 1], expected, rtol=0, atol=1e-5)


def change_json(path: Path, **changes: Any) -> None:
    """Change keys of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changes}), encoding="utf-8")


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_every_layer_of_every_token_is_as_in_its_own_package(tmp_path: Path, sizes: dict[str, Any]) -> None:
    write_folder(tmp_path, sizes, as_zip=sizes is SIZES["words"])
    assert_its_layers(build_bilm(load_checkpoint(tmp_path)).requires_grad_(sizes is SIZES["characters"]), tmp_path)


def test_a_zip_file_as_it_is_published_is_read_and_leaves_nothing_behind(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "144.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../outside.txt", "never written")
        for path in folder.iterdir():
            archive.write(path, f"144/{path.name}")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    assert_same_checkpoint(load_checkpoint(tmp_path / "144.zip"), load_checkpoint(folder))
    assert {path.name for path in tmp_path.iterdir()} == {"144.zip", "there", "temporary"}
    assert not list((tmp_path / "temporary").iterdir())


def test_the_sizes_are_found_by_their_name_whatever_path_they_had(folder: Path) -> None:
    expected = load_checkpoint(folder)
    for path in ("../elsewhere/sizes.json", "C:\\configs\\sizes.json"):
        change_json(folder / "config.json", config_path=path)
        assert_same_checkpoint(load_checkpoint(folder), expected)


def test_sizes_are_read_from_the_models_own_folder_only(folder: Path) -> None:
    expected = load_checkpoint(folder)
    (folder / "configs").mkdir()
    (folder / "sizes.json").rename(folder / "configs/sizes.json")
    (folder.parent / "sizes.json").write_text('{"encoder": "a secret"}', encoding="utf-8")
    change_json(folder / "config.json", config_path="configs/sizes.json")
    assert_same_checkpoint(load_checkpoint(folder), expected)
    for path in ("../sizes.json", f"{folder.parent}/sizes.json", "configs/../../sizes.json"):
        change_json(folder / "config.json", config_path=path)
        assert_rejected(folder, f"'{folder}/sizes.json' cannot be read")


def test_sizes_that_came_with_the_package_need_not_be_in_the_folder(folder: Path) -> None:
    name = PUBLISHED[0]
    content = json.loads((Path(package).parent / "configs" / name).read_text(encoding="utf-8"))
    assert {key: content[key] for key in PUBLISHED_CONFIG} == PUBLISHED_CONFIG
    change_json(folder / "config.json", config_path=f"elmoformanylangs/configs/{name}")
    assert_rejected(folder, "token_embedder.word_emb_layer.embedding.weight", "100)")
    (folder / "sizes.json").rename(folder / name)
    assert load_checkpoint(folder).options.lstm.cell_dim == 24


@pytest.mark.parametrize("name", ["config.json", "sizes.json", "char.dic", "word.dic", "token_embedder.pkl"])
def test_a_file_that_is_missing_or_of_another_kind_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert_rejected(folder, f"'{folder / name}'", "No such file")
    for content in (b"\xff\xfe", b"", b"[1]"):
        (folder / name).write_bytes(content)
        assert_rejected(folder, f"'{folder / name}'")


@pytest.mark.parametrize(
    ("lines", "fact"),
    [
        ("a\t0\n\nb\t1\n", ", line 2: "),
        ("a\t-1\n", ", line 1: "),
        ("a\t0\nb\t2\n", "ids 0 to 1"),
        ("a\t0\n", "'lexicon.characters'"),
    ],
)
def test_wrong_lines_of_a_vocabulary_are_named(folder: Path, lines: str, fact: str) -> None:
    (folder / "char.dic").write_text(lines, encoding="utf-8")
    assert_rejected(folder, f"'{folder / ('sizes.json' if 'lexicon' in fact else 'char.dic')}'", fact)


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"encoder": {**CONFIG["encoder"], "name": "lstm"}}, "'encoder'"),
        ({"encoder": {"name": "elmo"}}, "'lstm.dim'"),
        (config(char_dim=0, word_dim=0), "'lexicon'"),
    ],
)
def test_wrong_sizes_are_named(folder: Path, changes: dict[str, Any], fact: str) -> None:
    change_json(folder / "sizes.json", **changes)
    assert_rejected(folder, f"'{folder / 'sizes.json'}'", fact)


def test_a_projection_between_equal_sizes_is_named(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "equal", config(dim=8))
    assert_rejected(folder, f"'{folder}'", "state_projection", "'projection_dim'")
