"""Folders for ELMoForManyLangs: its own package reads what we write, and the way there and back loses no bit."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm import ManyLangsEncoder
from elmo_plugin.checkpoints import Checkpoint, ManyLangs, build_bilm, load_checkpoint
from elmo_plugin.checkpoints.conversion import convert
from tests.checkpoint_oracles import LEXICON, assert_same_checkpoint, pretrained
from tests.full_disk import disk_of
from tests.many_langs_oracle import SENTENCES, SIZES, config, its_layers, write_folder

FILES = ["char.dic", "config.json", "encoder.pkl", "sizes.json", "token_embedder.pkl", "word.dic"]
every_size = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)


def many_langs_bilm(**changes: Any) -> Checkpoint:
    """A biLM of ours that reads by lexicons, its weights alone; keys of the lexicon or of the LSTM change it."""
    lexicon = {key: changes.pop(key, value) for key, value in LEXICON.items()}
    return pretrained(char_cnn=None, lexicon=lexicon, **changes)._replace(softmax=None, vocabulary=None)


def contents(folder: Path) -> dict[str, bytes]:
    """Each file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def weights(folder: Path) -> dict[str, Tensor]:
    """Both pickles of a folder."""
    files = ("encoder", "token_embedder")
    return {f"{file}.{name}": value for file in files for name, value in torch.load(folder / f"{file}.pkl").items()}


def refusal(checkpoint: Checkpoint, folder: Path) -> str:
    """The message with which it is not written."""
    with pytest.raises(ConfigurationError) as error:
        ManyLangs().write(checkpoint, folder)
    return str(error.value.message)


@every_size
def test_its_own_package_reads_what_came_from_it(tmp_path: Path, sizes: dict[str, Any]) -> None:
    write_folder(tmp_path / "there", sizes)
    convert(tmp_path / "there", tmp_path / "back", to="many-langs")
    for found, wanted in zip(
        its_layers(tmp_path / "back", SENTENCES), its_layers(tmp_path / "there", SENTENCES), strict=True
    ):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("changes", [{}, {"n_layers": 1}, {"cell_clip": None, "proj_clip": 0.5}, {"char_cnn": None}])
def test_its_own_package_runs_a_bilm_of_ours(tmp_path: Path, changes: dict[str, Any]) -> None:
    checkpoint = many_langs_bilm(**changes)
    ManyLangs().write(checkpoint, tmp_path)
    bilm = build_bilm(checkpoint)
    assert isinstance(bilm.token_encoder, ManyLangsEncoder)
    layers = bilm(bilm.token_encoder.batch_to_ids(SENTENCES)).layers.detach()  # (L, B, T + 2, D)
    for row, (sentence, wanted) in enumerate(zip(SENTENCES, its_layers(tmp_path, SENTENCES), strict=True)):
        torch.testing.assert_close(layers[:, row, 1 : len(sentence) + 1], wanted, rtol=0, atol=1e-5)


@every_size
def test_to_one_native_file_and_back_no_bit_is_lost(tmp_path: Path, sizes: dict[str, Any]) -> None:
    there, native, back = write_folder(tmp_path / "there", sizes), tmp_path / "one.safetensors", tmp_path / "back"
    convert(there, native)
    convert(native, back, to="many-langs")
    found, wanted = weights(back), weights(there)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
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
    found, wanted = (json.loads((folder / "sizes.json").read_text()) for folder in (tmp_path / "back", there))
    assert {key: found[key] for key in ("encoder", "token_embedder")} == {
        key: wanted[key] for key in ("encoder", "token_embedder")
    }


def test_a_zip_file_of_it_is_read_like_the_published_ones(tmp_path: Path) -> None:
    ManyLangs().write(many_langs_bilm(), tmp_path / "there")
    archive = shutil.make_archive(str(tmp_path / "one"), "zip", tmp_path / "there")
    assert_same_checkpoint(load_checkpoint(archive), many_langs_bilm())


@pytest.mark.parametrize(
    ("checkpoint", "said"),
    [
        (pretrained(), "this biLM reads the bytes of words, and those of ELMoForManyLangs read by lexicons; wanted "),
        (pretrained(char_cnn=None, n_tokens_vocab=12), "this biLM reads words by a vocabulary file, and those of "),
        (
            many_langs_bilm(use_skip_connections=False),
            "'lstm.use_skip_connections' is false, and ELMoForManyLangs always",
        ),
        (many_langs_bilm(dim=8), "'lstm.projection_dim' is 'lstm.dim', and cells of ELMoForManyLangs always project"),
        (
            many_langs_bilm(words=["<oov>"]),
            "'lexicon.words' lacks <pad>, without which ELMoForManyLangs runs no lexicon",
        ),
    ],
    ids=["bytes", "words", "no skip connections", "no projection", "no padding"],
)
def test_a_bilm_that_it_could_not_run_is_refused(tmp_path: Path, checkpoint: Checkpoint, said: str) -> None:
    wanted = f"the format many-langs has no place for it: {said}"
    assert refusal(checkpoint, tmp_path / "to").startswith(wanted)
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("entry", ["", " ", " a", "\tb", "a\tb", "a\nb", "a\x85b", "\u2028", "\r", "\ud800"])
def test_an_entry_that_would_be_read_as_another_is_refused(tmp_path: Path, entry: str) -> None:
    message = refusal(many_langs_bilm(words=["<oov>", "<pad>", entry]), tmp_path / "to")
    assert message.startswith(f"'{tmp_path / 'to' / 'word.dic'}' has no place for the entry {entry!r}: ")
    assert not (tmp_path / "to").exists()


def test_a_full_disk_leaves_the_old_folder_and_nothing_else(tmp_path: Path) -> None:
    write_folder(tmp_path, config(), as_zip=True)
    before = contents(tmp_path)
    with disk_of(4096):
        assert refusal(many_langs_bilm(), tmp_path).startswith(
            f"'{tmp_path}' cannot be written: [Errno 27] File too large"
        )
    assert contents(tmp_path) == before


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file/below"):
        assert refusal(many_langs_bilm(), folder).startswith(f"'{folder}' cannot be written: ")
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


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
    bilm = build_bilm(load_checkpoint(folder))
    assert isinstance(bilm.token_encoder, ManyLangsEncoder)
    found = bilm(bilm.token_encoder.batch_to_ids([["The", "cat"]])).layers[:, 0, 1:3].detach()  # (L, T, D)
    torch.testing.assert_close(found, its_layers(folder, [["The", "cat"]])[0], rtol=0, atol=1e-5)


def test_a_path_in_a_zip_file_leads_to_no_file_outside(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "144", config())
    (folder / "sizes.json").rename(tmp_path / "sizes.json")
    for path in ("../sizes.json", str(tmp_path / "sizes.json")):
        (folder / "config.json").write_text(json.dumps({"config_path": path}), encoding="utf-8")
        archive = shutil.make_archive(str(tmp_path / "one"), "zip", tmp_path, "144")
        with pytest.raises(ConfigurationError, match=r"'.*one\.zip/144/sizes\.json' cannot be read"):
            load_checkpoint(archive)
