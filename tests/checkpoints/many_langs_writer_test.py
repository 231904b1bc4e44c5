"""Folders for ELMoForManyLangs: its own package reads what we write, and a round trip loses no bit."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.checkpoints import Checkpoint, ManyLangs, build_bilm, convert, load_checkpoint
from tests.checkpoint_oracles import LEXICON, assert_same_checkpoint, pretrained
from tests.checkpoints.file_tools import contents
from tests.checkpoints.many_langs_test import assert_its_layers
from tests.full_disk import disk_of
from tests.many_langs_oracle import SENTENCES, SIZES, config, its_layers, write_folder

FILES = ["char.dic", "config.json", "encoder.pkl", "sizes.json", "token_embedder.pkl", "word.dic"]
every_size = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)


def many_langs_bilm(**changes: Any) -> Checkpoint:
    """Return the weights of a biLM with its own vocabularies; keys of the `lexicon` or `lstm` block change it."""
    lexicon = {key: changes.pop(key, value) for key, value in LEXICON.items()}
    return pretrained(char_cnn=None, lexicon=lexicon, **changes)._replace(softmax=None, vocabulary=None)


def weights(folder: Path) -> dict[str, Tensor]:
    """Return the tensors of both pickles of a folder."""
    files = ("encoder", "token_embedder")
    return {f"{file}.{name}": value for file in files for name, value in torch.load(folder / f"{file}.pkl").items()}


def assert_not_written(checkpoint: Checkpoint, folder: Path, *facts: str) -> None:
    """Check that writing raises a `ConfigurationError` that names these facts, and leaves the folder as it is."""
    before = contents(folder) if folder.is_dir() else folder.exists()
    with pytest.raises(ConfigurationError) as error:
        ManyLangs().write(checkpoint, folder)
    assert all(fact in str(error.value.message) for fact in facts), error.value.message
    assert (contents(folder) if folder.is_dir() else folder.exists()) == before


@every_size
def test_its_own_package_reads_what_came_from_it(tmp_path: Path, sizes: dict[str, Any]) -> None:
    write_folder(tmp_path / "there", sizes)
    convert(tmp_path / "there", tmp_path / "back", to="many-langs")
    for found, expected in zip(
        its_layers(tmp_path / "back", SENTENCES), its_layers(tmp_path / "there", SENTENCES), strict=True
    ):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("changes", [{}, {"n_layers": 1}, {"cell_clip": None, "proj_clip": 0.5}, {"char_cnn": None}])
def test_its_own_package_runs_a_bilm_of_ours(tmp_path: Path, changes: dict[str, Any]) -> None:
    checkpoint = many_langs_bilm(**changes)
    ManyLangs().write(checkpoint, tmp_path)
    assert_its_layers(build_bilm(checkpoint), tmp_path)


@every_size
def test_to_one_native_file_and_back_no_bit_is_lost(tmp_path: Path, sizes: dict[str, Any]) -> None:
    there, native, back = write_folder(tmp_path / "there", sizes), tmp_path / "one.safetensors", tmp_path / "back"
    convert(there, native)
    convert(native, back, to="many-langs")
    found, expected = weights(back), weights(there)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name
        assert found[name].untyped_storage().nbytes() == value.nbytes, name
    for name in ("char.dic", "word.dic"):
        assert (back / name).exists() == (there / name).exists()
        assert not (there / name).exists() or (back / name).read_bytes() == (there / name).read_bytes()
    convert(back, tmp_path / "again.safetensors")
    assert_same_checkpoint(load_checkpoint(tmp_path / "again.safetensors"), load_checkpoint(native))
    convert(tmp_path / "again.safetensors", tmp_path / "twice", to="many-langs")
    assert contents(tmp_path / "twice") == contents(back)


def test_the_sizes_say_what_its_own_say(tmp_path: Path) -> None:
    there = write_folder(tmp_path / "there", config())
    assert ManyLangs().write(load_checkpoint(there), tmp_path / "back") == FILES == sorted(contents(tmp_path / "back"))
    found, expected = (json.loads((folder / "sizes.json").read_text()) for folder in (tmp_path / "back", there))
    for key in ("encoder", "token_embedder"):
        assert found[key] == expected[key]


def test_a_zip_file_of_it_is_read_like_the_published_ones(tmp_path: Path) -> None:
    ManyLangs().write(many_langs_bilm(), tmp_path / "there")
    archive = shutil.make_archive(str(tmp_path / "one"), "zip", tmp_path / "there")
    assert_same_checkpoint(load_checkpoint(archive), many_langs_bilm())


@pytest.mark.parametrize(
    ("checkpoint", "fact"),
    [
        (pretrained(), "the bytes of words"),
        (pretrained(char_cnn=None, n_tokens_vocab=12), "words by a vocabulary file"),
        (many_langs_bilm(use_skip_connections=False), "'lstm.use_skip_connections'"),
        (many_langs_bilm(dim=8), "'lstm.projection_dim'"),
        (many_langs_bilm(words=["<oov>"]), "<pad>"),
    ],
    ids=["bytes", "words", "no skip connections", "no projection", "no padding"],
)
def test_a_bilm_that_it_could_not_run_is_rejected(tmp_path: Path, checkpoint: Checkpoint, fact: str) -> None:
    assert_not_written(checkpoint, tmp_path / "to", "many-langs has no place", fact)


@pytest.mark.parametrize("entry", ["", " ", " a", "\tb", "a\tb", "a\nb", "a\x85b", "\u2028", "\r", "\ud800"])
def test_an_entry_that_would_be_read_as_another_is_rejected(tmp_path: Path, entry: str) -> None:
    checkpoint = many_langs_bilm(words=["<oov>", "<pad>", entry])
    assert_not_written(checkpoint, tmp_path / "to", f"'{tmp_path / 'to' / 'word.dic'}'", repr(entry))


def test_a_full_disk_and_a_folder_that_cannot_be_made_are_named(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "144", config(), as_zip=True)
    with disk_of(4096):
        assert_not_written(many_langs_bilm(), folder, f"'{folder}' cannot be written", "File too large")
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file/below"):
        assert_not_written(many_langs_bilm(), path, f"'{path}' cannot be written")


def test_it_may_be_written_over_itself_and_over_another(tmp_path: Path) -> None:
    write_folder(tmp_path, config(char_dim=0))
    for checkpoint in (load_checkpoint(tmp_path), many_langs_bilm()):
        ManyLangs().write(checkpoint, tmp_path)
        assert_same_checkpoint(load_checkpoint(tmp_path), checkpoint)


@pytest.mark.parametrize("path", ["configs/shared.json", "../configs/shared.json", "{absolute}/configs/shared.json"])
def test_sizes_that_several_models_share_are_found_where_its_own_package_finds_them(tmp_path: Path, path: str) -> None:
    folder = write_folder(tmp_path / "144", config())
    shared = (folder / path.format(absolute=tmp_path)).resolve()
    shared.parent.mkdir()
    (folder / "sizes.json").rename(shared)
    (folder / "shared.json").write_text("{}", encoding="utf-8")  # of the same name, and second
    (folder / "config.json").write_text(json.dumps({"config_path": path.format(absolute=tmp_path)}), encoding="utf-8")
    assert_its_layers(build_bilm(load_checkpoint(folder)), folder)


def test_a_path_in_a_zip_file_leads_to_no_file_outside(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "144", config())
    (folder / "sizes.json").rename(tmp_path / "sizes.json")
    for path in ("../sizes.json", str(tmp_path / "sizes.json")):
        (folder / "config.json").write_text(json.dumps({"config_path": path}), encoding="utf-8")
        archive = shutil.make_archive(str(tmp_path / "one"), "zip", tmp_path, "144")
        with pytest.raises(ConfigurationError, match=r"'.*one\.zip/144/sizes\.json' cannot be read"):
            load_checkpoint(archive)
