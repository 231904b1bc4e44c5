"""Locations of a biLM: paths, file URLs, the home folder, options beside weights, and the errors for wrong ones."""

import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import pathname2url

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.models import Model
from botocore.exceptions import EndpointConnectionError

from elmo_plugin.checkpoints import PUBLISHED_OPTIONS, PUBLISHED_WEIGHTS, BilmTf, Native, bilm_keys, load_checkpoint
from elmo_plugin.elmo import Elmo
from elmo_plugin.pretraining.vocabulary import BiLMVocabulary, vocabulary_of
from tests.checkpoint_oracles import WORDS, assert_rejected, assert_same_state, language_model_archive, pretrained
from tests.many_langs_oracle import config, write_folder
from tests.oracles import write_json
from tests.task_oracles import D, build_elmo, classifier, lstm, tagger

NAMES = {
    "pair": ["a b%20c/my_weights.hdf5", "a b%20c/my_options.json"],
    "plain pair": ["weights.hdf5", "options.json"],
    "other options": ["my_weights.hdf5", "options.json"],
}


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the same biLM in every form."""
    home = tmp_path_factory.mktemp("originals") / "home"
    for weights, options in NAMES.values():
        folder = (home / weights).parent
        BilmTf().write(pretrained(), folder / "written")
        (folder / "written/weights.hdf5").rename(home / weights)
        if not (home / options).exists():
            (folder / "written/options.json").rename(home / options)
        shutil.rmtree(folder / "written")
    Native().write(pretrained(), home / "native/bilm.safetensors")
    language_model_archive(home / "model.tar.gz", pretrained())
    shutil.rmtree(home / "packed")
    return home


@pytest.fixture
def home(originals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the biLM in every form to a home folder, and change to an empty working directory."""
    shutil.copytree(originals, tmp_path / "home")
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "home"


FORMS: dict[str, Callable[[Path], str]] = {
    "path": str,
    "file URL": lambda path: f"file://{path}",
    "quoted file URL": lambda path: f"file://{pathname2url(str(path))}",
    "file URL with a host": lambda path: f"file://localhost{path}",
    "home": lambda path: f"~/{path.relative_to(Path.home())}",
    "home in a file URL": lambda path: f"file://~/{path.relative_to(Path.home())}",
    "home in an absolute file URL": lambda path: f"file:///~/{path.relative_to(Path.home())}",
    "relative": os.path.relpath,
    "slash at the end": lambda path: f"{path}/",
    "home, slash at the end": lambda path: f"~/{path.relative_to(Path.home())}/",
}
PLACES = [*(weights for weights, _ in NAMES.values()), "native/bilm.safetensors", "native", "a b%20c", "model.tar.gz"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_of_a_path_is_read(home: Path, form: Callable[[Path], str], place: str) -> None:
    assert_same_state(load_checkpoint(form(home / place)).state_dict, pretrained().state_dict, 2.5e-7)


def test_a_percent_sign_in_a_file_url_may_be_part_of_the_name(home: Path) -> None:
    """`%20` is a space in a URL, unless there is a file of that very name."""
    shutil.move(home / "native", home / "a b c")
    load_checkpoint(f"file://{home}/a%20b%20c/bilm.safetensors")


@pytest.mark.parametrize("form", [FORMS["home"], FORMS["file URL"], FORMS["home in a file URL"]])
def test_a_config_takes_every_form_of_a_path(home: Path, form: Callable[[Path], str]) -> None:
    weights, options = (form(home / name) for name in NAMES["plain pair"])
    pair = build_elmo(options_file=options, weight_file=weights)
    assert_same_state(dict(pair.bilm.state_dict()), pretrained().state_dict, 2.5e-7)
    assert pair.bilm.source == weights  # as in the config: an archive finds it by that
    assert BiLMVocabulary.from_pretrained_bilm(form(home / "native"), "none").get_vocab_size() == len(WORDS) + 1


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


@pytest.mark.parametrize("key", ["options_file", "weight_file"])
def test_an_empty_path_is_not_the_published_file(home: Path, key: str) -> None:
    pair = {"options_file": str(home / "options.json"), "weight_file": str(home / "weights.hdf5")}
    with pytest.raises(ConfigurationError, match=f"'{key}'.*got \"\""):
        build_elmo(**{**pair, key: ""})


@pytest.mark.parametrize("value", ["", None, 5, [], {}])
def test_a_value_that_names_no_location_is_an_error(home: Path, value: Any) -> None:
    """An empty string must not mean the working directory, and null must not mean a file of that name."""
    shutil.copy(home / "native/bilm.safetensors", "here.safetensors")
    with pytest.raises(ConfigurationError, match="'pretrained': expected"):
        build_elmo(bilm={"pretrained": value})


def in_a_config(**elmo: Any) -> Model:
    """Build a model from jsonnet as `allennlp train` does."""
    Path("config.jsonnet").write_text(f"local model = {json.dumps(elmo)}; {{ model: model }}", encoding="utf-8")
    params = Params.from_file("config.jsonnet").pop("model")
    vocab = vocabulary_of(list(WORDS))
    vocab.add_tokens_to_namespace(["A", "B"], "labels")
    return Model.from_params(params, vocab=vocab)


def test_the_source_alone_is_a_bilm_wherever_a_config_has_one(home: Path) -> None:
    own = "~/native"
    sources: list[Any] = [own, {"pretrained": own}]
    for source in sources:
        embedder = {"type": "basic", "token_embedders": {"elmo": {"type": "elmo", "bilm": source}}}
        models = [
            in_a_config(type="simple_tagger", text_field_embedder=embedder, encoder=lstm(D)),
            in_a_config(**tagger({"bilm": source}, label_encoding=None)),
            in_a_config(**classifier({"bilm": source})),
        ]
        bilms = [module.bilm for model in models for module in model.modules() if isinstance(module, Elmo)]
        bilms.append(in_a_config(type="bilm", bilm=source, softmax={"type": "full"}).bilm)
        assert len(bilms) == 4
        for bilm in bilms:
            assert_same_state(dict(bilm.state_dict()), pretrained().state_dict)
            assert bilm.source == own


def test_the_bundled_bilm_by_its_name_alone() -> None:
    assert build_elmo(bilm="english-tiny").bilm.source == "english-tiny"


def test_an_unknown_name_in_a_config_lists_the_names(home: Path) -> None:
    for read in (lambda name: build_elmo(bilm=name), lambda name: in_a_config(type="bilm", bilm=name)):
        with pytest.raises(ConfigurationError, match=r"'english-tinny'.*: english-tiny"):
            read("english-tinny")


@pytest.mark.parametrize("bilm", [5, True, ["english-tiny"]])
def test_a_bilm_of_another_type_is_an_error(bilm: Any) -> None:
    for read in (bilm_keys, lambda bilm: build_elmo(bilm=bilm)):
        with pytest.raises(ConfigurationError, match="bilm"):
            read(bilm)


def test_swapped_files_are_named(home: Path) -> None:
    weights, options = (str(home / name) for name in NAMES["plain pair"])
    with pytest.raises(ConfigurationError, match=f"{weights}.*swapped"):
        build_elmo(options_file=weights, weight_file=options)
    with pytest.raises(ConfigurationError, match=r"'options_file'.*hdf5 file.*'weight_file'"):
        build_elmo(options_file=weights, weight_file=weights)
    with pytest.raises(ConfigurationError, match=r"'weight_file'.*JSON"):
        build_elmo(options_file=options, weight_file=options)


def test_weights_without_options_name_the_options_that_are_missing(home: Path) -> None:
    for name in ("options.json", "my_options.json"):
        (home / name).unlink(missing_ok=True)
    assert_rejected(home / "weights.hdf5", f"'{home / 'weights.hdf5'}'", "options.json")
    assert_rejected(home / "my_weights.hdf5", "my_options.json or options.json")
    with pytest.raises(ConfigurationError, match=r"my_options\.json or options\.json"):
        build_elmo(weight_file=str(home / "my_weights.hdf5"))


CONTENTS: dict[str, tuple[bytes, str]] = {
    "gzip": (gzip.compress(b"\x89HDF\r\n\x1a\n"), "gunzip"),
    "HTML": (b"\n <!DOCTYPE html><html>Sign in", "HTML"),
    "JSON": (b'{"lstm": {}}', "JSON"),
    "zip": (b"PK\x03\x04", "zip"),
    "Git LFS": (b"version https://git-lfs.github.com/spec/v1\noid sha256:12", "git lfs pull"),
    "empty": (b"", "empty"),
}


@pytest.mark.parametrize(("content", "kind"), CONTENTS.values(), ids=CONTENTS)
def test_a_file_of_another_kind_is_named(home: Path, content: bytes, kind: str) -> None:
    (home / "weights.hdf5").write_bytes(content)
    assert_rejected(home / "weights.hdf5", home / "weights.hdf5", kind)
    (home / "options.json").unlink()
    assert_rejected(home / "weights.hdf5", home / "weights.hdf5", kind)


@pytest.mark.parametrize("form", [str, FORMS["file URL"]])
def test_a_name_that_is_too_long_is_named(tmp_path: Path, form: Callable[[Path], str]) -> None:
    assert_rejected(form(tmp_path / ("x" * 300)), "xxx' holds no biLM")


def test_a_download_that_fails_in_any_way_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of URL has a library of its own, whose errors have no base class in common."""

    def unreachable(url: str) -> str:
        raise EndpointConnectionError(endpoint_url=url)

    monkeypatch.setattr("elmo_plugin.checkpoints.files.cached_path", unreachable)
    assert_rejected("s3://bucket/weights.hdf5", "'options_file' is 's3://bucket/options.json'", "Could not connect")


@pytest.mark.parametrize("name", ["bilm.safetensors", "model.tar.gz", "144.zip", "bilm.bin"])
def test_a_file_under_the_name_of_another_format_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"<html>404</html>")
    assert_rejected(tmp_path / name, tmp_path / name, "HTML")


def test_options_of_another_kind_are_named_too(home: Path) -> None:
    (home / "options.json").write_bytes(b"<html>404</html>")
    assert_rejected(home / "weights.hdf5", "'options_file'", "HTML")
    assert_rejected(write_json(home / "sizes.json", {}), "JSON")


def test_an_unknown_location_says_what_it_holds_and_which_formats_exist(tmp_path: Path) -> None:
    assert_rejected(tmp_path, "nothing in it", "allennlp", "bilm-tf", "many-langs", "native")
    assert_rejected(tmp_path / "nowhere", f"'{tmp_path / 'nowhere'}' holds no biLM", "no such file or folder")
    for number in range(30):
        (tmp_path / f"{number}.txt").touch()
    assert_rejected(tmp_path, "0.txt", "17.txt …")
    folder = write_folder(tmp_path / "144", config())
    load_checkpoint(f"{folder}/")
    torch.save({}, tmp_path / "best.th")
    assert_rejected(tmp_path / "best.th", "model.tar.gz")
    (tmp_path / "weights").write_bytes(b"\x89HDF\r\n\x1a\n")
    assert_rejected(tmp_path / "weights", ".hdf5")
