"""ELMoForManyLangs' folders: the same layers as from its own package, and what is rejected."""

import json
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from elmoformanylangs import __file__ as package

from elmo_plugin.bilm import BiLM, ManyLangsEncoder
from elmo_plugin.checkpoints import build_bilm, convert, load_checkpoint
from elmo_plugin.checkpoints.many_langs import PUBLISHED, PUBLISHED_CONFIG
from tests.checkpoint_oracles import assert_rejected, assert_same_checkpoint
from tests.checkpoints.file_tools import Code, flipped, zipped
from tests.many_langs_oracle import CHARACTERS, CONFIG, SENTENCES, SIZES, WORDS, config, its_layers, write_folder


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
    """Change keys of a JSON file; `...` deletes a key."""
    content = {**json.loads(path.read_text(encoding="utf-8")), **changes}
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not ...}), encoding="utf-8")


def change_tensors(path: Path, **changes: Any) -> None:
    """Change tensors of a pickle; `None` deletes a tensor."""
    content = torch.load(path) | changes
    torch.save({name: value for name, value in content.items() if value is not None}, path)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("frozen", [True, False])
def test_every_layer_of_every_token_is_as_in_its_own_package(
    tmp_path: Path, sizes: dict[str, Any], frozen: bool
) -> None:
    write_folder(tmp_path, sizes)
    assert_its_layers(build_bilm(load_checkpoint(tmp_path)).requires_grad_(not frozen), tmp_path)


def test_a_newer_torchs_pickles_are_read_too(tmp_path: Path) -> None:
    old, new = (load_checkpoint(write_folder(tmp_path / str(as_zip), config(), as_zip)) for as_zip in (False, True))
    assert_same_checkpoint(new, old)


@pytest.mark.parametrize("top", ["", "144/"])
def test_a_zip_file_as_it_is_published_is_read_and_leaves_nothing_behind(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, top: str
) -> None:
    with zipfile.ZipFile(tmp_path / "144.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../outside.txt", "never written")
        for path in folder.iterdir():
            archive.write(path, top + path.name)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    assert_same_checkpoint(load_checkpoint(tmp_path / "144.zip"), load_checkpoint(folder))
    assert {path.name for path in tmp_path.iterdir()} == {"144.zip", "there", "temporary"}
    assert not list((tmp_path / "temporary").iterdir())


def test_the_sizes_are_found_by_their_name_whatever_path_they_had(folder: Path) -> None:
    expected = load_checkpoint(folder)
    for path in ("sizes.json", "../elsewhere/sizes.json", "C:\\configs\\sizes.json"):
        change_json(folder / "config.json", config_path=path)
        assert_same_checkpoint(load_checkpoint(folder), expected)


@pytest.mark.parametrize("name", PUBLISHED)
def test_sizes_that_came_with_the_package_need_not_be_in_the_folder(folder: Path, name: str) -> None:
    content = json.loads((Path(package).parent / "configs" / name).read_text(encoding="utf-8"))
    assert {key: content[key] for key in PUBLISHED_CONFIG} == PUBLISHED_CONFIG
    change_json(folder / "config.json", config_path=f"elmoformanylangs/configs/{name}")
    assert_rejected(folder, "94,069,052 parameters")
    (folder / "sizes.json").rename(folder / name)
    assert load_checkpoint(folder).options.lstm.cell_dim == 24


def test_a_warm_state_can_be_added(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("The cat sat .\n\n日本語 x\n", encoding="utf-8")
    convert(folder, tmp_path / "warm.safetensors", warm_on=tmp_path / "text")
    assert build_bilm(load_checkpoint(tmp_path / "warm.safetensors")).warm_state is not None


@pytest.mark.parametrize("name", ["config.json", "sizes.json", "char.dic", "word.dic", "token_embedder.pkl"])
def test_a_file_that_is_missing_or_of_another_kind_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert_rejected(folder, f"'{folder / name}'", "No such file")
    for content in (b"\xff\xfe", b"\0", b"", b"[1]", b'"text"'):
        (folder / name).write_bytes(content)
        assert_rejected(folder, f"'{folder / name}'")


@pytest.mark.parametrize(
    ("lines", "fact"),
    [
        ("a\t0\n\nb\t1\n", ", line 2: "),
        ("a\t0\nb\tc\t1\n", ", line 2: "),
        ("a\t-1\n", ", line 1: "),
        ("a\t0\nb\t0\n", "ids 0 to 1"),
        ("a\t0\nb\t2\n", "ids 0 to 1"),
        ("a\t" + "9" * 5000 + "\n", "ids 0 to 0"),
    ],
)
def test_wrong_lines_of_a_vocabulary_are_named(folder: Path, lines: str, fact: str) -> None:
    (folder / "char.dic").write_text(lines, encoding="utf-8")
    assert_rejected(folder, f"'{folder / 'char.dic'}'", fact)


@pytest.mark.parametrize(
    ("name", "entries", "facts"),
    [
        ("char.dic", [entry for entry in CHARACTERS if entry != "<bow>"], ("'lexicon.characters'", "<bow>")),
        ("word.dic", WORDS[1:], ("'lexicon.words'", "<oov>")),
        ("word.dic", [*WORDS, "cat"], ("'lexicon.words'", "11 entries", "10 different")),
        ("word.dic", [*WORDS, " "], ("'lexicon.words'", "11 entries", "10 different")),
    ],
)
def test_a_vocabulary_without_special_entries_or_with_a_repeated_one_is_rejected(
    folder: Path, name: str, entries: list[str], facts: tuple[str, ...]
) -> None:
    lines = "".join(f"{entry}\t{id}\n" for id, entry in enumerate(entries))
    (folder / name).write_text(lines, encoding="utf-8")
    assert_rejected(folder, f"'{folder / 'sizes.json'}'", *facts)


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"encoder": {**CONFIG["encoder"], "name": "lstm"}}, "'encoder'"),
        ({"token_embedder": {**CONFIG["token_embedder"], "name": "lstm"}}, "'token_embedder'"),
        ({"encoder": ...}, "'encoder'"),
        ({"encoder": {"name": "elmo"}}, "'lstm.dim'"),
        ({"encoder": {**CONFIG["encoder"], "dim": 8}}, "'projection_dim'"),
        ({"encoder": {**CONFIG["encoder"], "dim": 10**12}}, "the options ask for 304,"),
        ({"encoder": {**CONFIG["encoder"], "n_layers": 10**12}}, "'lstm.n_layers'"),
        (config(char_dim=0, word_dim=0), "'lexicon'"),
        (config(word_dim=10**12), "the options ask for 19,"),
        (config(filters=[[1, 10**12]]), "'char_cnn'"),
        (config(max_characters_per_token=None), "'lexicon.max_characters_per_token'"),
        (config(max_characters_per_token=6), "'lexicon.max_characters_per_token'"),
        (config(activation="gelu"), "'char_cnn.activation'"),
    ],
)
def test_wrong_sizes_are_named(folder: Path, changes: dict[str, Any], fact: str) -> None:
    change_json(folder / "sizes.json", **changes)
    assert_rejected(folder, f"'{folder / 'sizes.json'}'", fact)


@pytest.mark.parametrize("path", [..., None, "", 3, "configs/"])
def test_a_config_that_names_no_sizes_is_rejected(folder: Path, path: Any) -> None:
    change_json(folder / "config.json", config_path=path)
    if path == "configs/":
        assert_rejected(folder, f"'{folder / 'configs'}'")
    else:
        assert_rejected(folder, f"'{folder / 'config.json'}'", "'config_path'")


@pytest.mark.parametrize(
    ("value", "fact"),
    [
        (None, (96,)),
        (torch.ones(95), (95,)),
        (torch.full((96,), torch.nan), "finite"),
        (torch.full((96,), 1e300, dtype=torch.float64), "finite"),
        ([1.0] * 96, (96,)),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(folder: Path, value: Any, fact: Any) -> None:
    change_tensors(folder / "encoder.pkl", **{"backward_layer_1.state_linearity.bias": value})
    assert_rejected(folder, f"'{folder}', tensor 'encoder.backward_layer_1.state_linearity.bias'", fact)


def test_a_tensor_that_the_sizes_do_not_describe_is_named(folder: Path) -> None:
    change_json(folder / "sizes.json", **config(n_layers=1))
    assert_rejected(folder, f"'{folder}'", "encoder.forward_layer_1.")


@pytest.mark.parametrize("as_zip", [True, False])
def test_code_in_a_pickle_is_not_run(folder: Path, tmp_path: Path, as_zip: bool) -> None:
    torch.save({"a": Code(tmp_path / "trace")}, folder / "encoder.pkl", _use_new_zipfile_serialization=as_zip)
    assert_rejected(folder, f"'{folder / 'encoder.pkl'}' holds no readable weights")
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("value", [[], 3, {1: torch.ones(1)}])
def test_a_pickle_without_tensors_is_named(folder: Path, value: Any) -> None:
    torch.save(value, folder / "encoder.pkl")
    assert_rejected(folder, f"'{folder / 'encoder.pkl'}' holds no readable weights")


@pytest.mark.parametrize("as_zip", [True, False])
@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.99])
def test_a_pickle_that_was_cut_short_is_named(folder: Path, as_zip: bool, kept: float) -> None:
    write_folder(folder, config(), as_zip)
    content = (folder / "encoder.pkl").read_bytes()
    (folder / "encoder.pkl").write_bytes(content[: int(kept * len(content))])
    assert_rejected(folder, f"'{folder / 'encoder.pkl'}' ")


def test_a_flipped_bit_anywhere_in_the_head_of_an_old_pickle_is_an_error_or_does_no_harm(folder: Path) -> None:
    """The numbers have no check sums, but a damaged name, size or instruction is found."""
    content = (folder / "encoder.pkl").read_bytes()
    found = 0
    for place in range(0, 3000, 13):
        (folder / "encoder.pkl").write_bytes(flipped(content, place))
        try:
            load_checkpoint(folder)
        except ConfigurationError as error:
            assert str(error.message).startswith(f"'{folder}"), place
            found += 1
    assert found > 100


def test_a_flipped_bit_anywhere_in_a_zip_file_is_found(folder: Path, tmp_path: Path) -> None:
    path = zipped(folder, tmp_path / "144.zip")
    content, expected = path.read_bytes(), load_checkpoint(folder)
    found = 0
    for place in range(0, len(content), 211):
        path.write_bytes(flipped(content, place))
        try:
            assert_same_checkpoint(load_checkpoint(path), expected)  # in a date, or another field of no importance
        except ConfigurationError as error:
            assert str(error.message).startswith(f"'{path}"), place
            found += 1
    assert found > 0.9 * len(content) / 211


def test_a_zip_file_that_is_cut_short_and_one_that_is_none_are_named(tmp_path: Path, folder: Path) -> None:
    path = Path(shutil.make_archive(str(tmp_path / "one"), "zip", folder))
    for content, fact in ((b"", "empty"), (path.read_bytes()[:-30], "zip"), (b"<html>404</html>", "HTML")):
        path.write_bytes(content)
        assert_rejected(path, f"'{path}'", fact)
