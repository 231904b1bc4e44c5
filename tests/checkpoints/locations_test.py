"""Locations of a biLM: paths, file URLs, the home folder, options beside weights, and the errors for wrong ones."""

import gzip
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from urllib.request import pathname2url

import h5py
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from botocore.exceptions import EndpointConnectionError

from elmo_plugin.checkpoints import (
    PUBLISHED_OPTIONS,
    PUBLISHED_WEIGHTS,
    BilmTf,
    Native,
    bilm_keys,
    load_checkpoint,
)
from tests.checkpoint_oracles import (
    assert_rejected,
    assert_same_checkpoint,
    assert_same_state,
    language_model_archive,
    language_model_run,
    pretrained,
)
from tests.many_langs_oracle import config, write_folder
from tests.task_oracles import build_elmo

NAMES = {
    "pair": ["a b%20c/my_weights.hdf5", "a b%20c/my_options.json"],
    "plain pair": ["weights.hdf5", "options.json"],
    "other options": ["my_weights.hdf5", "options.json"],
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the same biLM in every form into a home folder, and change to an empty working directory."""
    home = tmp_path / "home"
    BilmTf().write(pretrained(), home)
    for weights, options in NAMES.values():
        (home / weights).parent.mkdir(exist_ok=True)
        for name, original in ((weights, "weights.hdf5"), (options, "options.json")):
            if not (home / name).exists():
                shutil.copy(home / original, home / name)
    (home / "vocabulary.txt").unlink()
    Native().write(pretrained(), home / "native/bilm.safetensors")
    language_model_archive(home / "model.tar.gz", pretrained())
    shutil.rmtree(home / "packed")
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path / "here")
    return home


FORMS: dict[str, Callable[[Path], str]] = {
    "path": str,
    "file URL": lambda path: f"file://{path}",
    "quoted file URL": lambda path: f"file://{pathname2url(str(path))}",
    "home": lambda path: f"~/{path.relative_to(Path.home())}",
    "home in a file URL": lambda path: f"file://~/{path.relative_to(Path.home())}",
    "relative": os.path.relpath,
    "slash at the end": lambda path: f"{path}/",
}


@pytest.mark.parametrize("place", ["a b%20c/my_weights.hdf5", "native", "model.tar.gz"])
def test_every_form_of_a_path_is_read(home: Path, place: str) -> None:
    for form in FORMS.values():
        assert load_checkpoint(form(home / place)).options == pretrained().options
    assert_same_state(load_checkpoint(home / place).state_dict, pretrained().state_dict, 2.5e-7)


def test_an_archive_finds_its_bilm_by_the_path_in_the_config(home: Path) -> None:
    weights, options = (FORMS["home in a file URL"](home / name) for name in NAMES["plain pair"])
    pair = build_elmo(options_file=options, weight_file=weights)
    assert_same_state(dict(pair.bilm.state_dict()), pretrained().state_dict, 2.5e-7)
    assert pair.bilm.source == weights


def test_weights_alone_are_read_with_the_options_beside_them(home: Path) -> None:
    for name in ("pair", "other options"):
        elmo = build_elmo(weight_file=str(home / NAMES[name][0]))
        assert_same_state(dict(elmo.bilm.state_dict()), pretrained().state_dict, 2.5e-7)
    (home / "weights.hdf5").rename(home / "weights")
    assert build_elmo(weight_file=str(home / "weights")).bilm.options == pretrained().options


def test_options_alone_are_an_error_and_neither_is_the_published_pair(home: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"'weight_file'.*'options_file'.*options\.json"):
        build_elmo(options_file=str(home / "options.json"))
    assert bilm_keys(None) == {"options_file": PUBLISHED_OPTIONS, "weight_file": PUBLISHED_WEIGHTS}


def test_an_empty_string_does_not_name_the_working_directory(home: Path) -> None:
    shutil.copy(home / "native/bilm.safetensors", "here.safetensors")
    with pytest.raises(ConfigurationError, match="'pretrained': expected"):
        build_elmo(bilm={"pretrained": ""})


def test_swapped_files_are_named(home: Path) -> None:
    weights, options = (str(home / name) for name in NAMES["plain pair"])
    with pytest.raises(ConfigurationError, match=r"'options_file'.*hdf5 file"):
        build_elmo(options_file=weights, weight_file=options)
    with pytest.raises(ConfigurationError, match=r"'weight_file'.*JSON"):
        build_elmo(options_file=options, weight_file=options)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (gzip.compress(b"\x89HDF\r\n\x1a\n", mtime=0), "gunzip"),
        (b"\n <!DOCTYPE html><html>Sign in", "HTML"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:12", "git lfs pull"),
    ],
)
def test_a_file_of_another_kind_is_named(home: Path, content: bytes, kind: str) -> None:
    (home / "weights.hdf5").write_bytes(content)
    assert_rejected(home / "weights.hdf5", home / "weights.hdf5", kind)
    (home / "options.json").unlink()
    assert_rejected(home / "weights.hdf5", home / "weights.hdf5", kind)


def test_a_download_that_fails_in_any_way_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of URL has a library of its own, whose errors have no base class in common."""

    def unreachable(url: str) -> str:
        raise EndpointConnectionError(endpoint_url=url)

    monkeypatch.setattr("elmo_plugin.checkpoints.files.cached_path", unreachable)
    assert_rejected("s3://bucket/weights.hdf5", "'weight_file' is 's3://bucket/weights.hdf5'", "Could not connect")


def test_a_pair_of_urls_has_its_options_under_either_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def downloaded(url: str) -> str:
        if "my_options" in url or "wrong" in url:
            raise FileNotFoundError(f"file {url} not found")
        return str(home / "weights.hdf5" if url.endswith("hdf5") else home / "options.json")

    monkeypatch.setattr("elmo_plugin.checkpoints.files.cached_path", downloaded)
    assert load_checkpoint("https://example.org/my_weights.hdf5").options == pretrained().options
    assert_rejected("https://example.org/wrong.hdf5", "'weight_file' is 'https://example.org/wrong.hdf5'")


def test_an_unknown_location_says_what_it_holds_and_which_formats_exist(tmp_path: Path) -> None:
    assert_rejected(tmp_path, "nothing in it", "allennlp", "bilm-tf", "many-langs", "native")
    assert_rejected(tmp_path / "nowhere", f"'{tmp_path / 'nowhere'}' holds no biLM", "no such file or folder")
    (tmp_path / "weights").write_bytes(b"\x89HDF\r\n\x1a\n")
    assert_rejected(tmp_path / "weights", f"'{tmp_path / 'weights'}'", "options.json")


def test_a_file_of_vectors_beside_a_bilm_does_no_harm(tmp_path: Path) -> None:
    Native().write(pretrained(), tmp_path / "bilm.safetensors")
    run = language_model_run(tmp_path / "run", pretrained())
    for folder in (tmp_path, run):
        with h5py.File(folder / "vectors.hdf5", "w") as file:
            file["0"] = [1.0]
        assert_same_checkpoint(load_checkpoint(folder), pretrained())


def test_two_bilms_of_different_formats_in_a_folder_are_named(tmp_path: Path) -> None:
    BilmTf().write(pretrained(), tmp_path)
    Native().write(pretrained(), tmp_path / "bilm.safetensors")
    assert_rejected(tmp_path, f"'{tmp_path}'", "several", "*.hdf5", "*.safetensors")
    assert load_checkpoint(tmp_path / "weights.hdf5").options == pretrained().options


def test_a_tar_file_of_any_format_is_read(tmp_path: Path) -> None:
    BilmTf().write(pretrained(), tmp_path / "elmo")
    write_folder(tmp_path / "144", config())
    for name in ("elmo", "144"):
        with tarfile.open(tmp_path / f"{name}.tar.gz", "w:gz") as archive:
            archive.add(tmp_path / name, name)
        assert_same_checkpoint(load_checkpoint(tmp_path / f"{name}.tar.gz"), load_checkpoint(tmp_path / name))


def test_folders_of_another_kind_are_explained(tmp_path: Path) -> None:
    for file, fact in (
        ("hub/saved_model.pb", "TensorFlow Hub"),
        ("run/model.ckpt-9.index", "dump_weights"),
        ("archive/model.tar.gz", f"name '{tmp_path}/archive/model.tar.gz'"),
    ):
        path = tmp_path / file
        path.parent.mkdir()
        path.touch()
        assert_rejected(path.parent, f"'{path.parent}'", fact)


@pytest.mark.parametrize(("name", "as_zip"), [("old_model.pth", True), ("weights", False)])
def test_a_state_dict_alone_is_explained(tmp_path: Path, name: str, as_zip: bool) -> None:
    torch.save({"weight": torch.ones(1)}, tmp_path / name, _use_new_zipfile_serialization=as_zip)
    assert_rejected(tmp_path / name, f"'{tmp_path / name}'", "PyTorch file", "model.tar.gz", "elmo_plugin.save")
