"""ELMoForManyLangs' folders: the same layers as its own package gives, and what is refused."""

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor

from elmo_plugin.bilm import BiLM, ManyLangsEncoder
from elmo_plugin.checkpoints import ManyLangs, build_bilm, load_checkpoint
from elmo_plugin.checkpoints.conversion import convert
from tests.checkpoint_oracles import assert_same_checkpoint
from tests.many_langs_oracle import CHARACTERS, CONFIG, SENTENCES, SIZES, WORDS, config, its_layers, write_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good folder."""
    return write_folder(tmp_path / "there", config())


def layers_of(bilm: BiLM, sentences: list[list[str]]) -> list[Tensor]:
    """(L, T, D) of each sentence of one batch, without its boundaries."""
    assert isinstance(bilm.token_encoder, ManyLangsEncoder)
    layers = bilm(bilm.token_encoder.batch_to_ids(sentences)).layers  # (L, B, T + 2, D)
    return [layers[:, row, 1 : len(sentence) + 1] for row, sentence in enumerate(sentences)]


def refusal(location: Path) -> str:
    """The message with which a location is refused."""
    with pytest.raises(ConfigurationError) as error:
        load_checkpoint(location)
    return str(error.value.message)


def change_json(path: Path, **changes: Any) -> None:
    """Give keys of a file other values, or take them away with `...`."""
    content = {**json.loads(path.read_text(encoding="utf-8")), **changes}
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not ...}), encoding="utf-8")


def change_tensors(path: Path, **changes: Any) -> None:
    """Give tensors of a pickle other values, or take them away with `None`; names with `__` for dots."""
    content = torch.load(path) | {name.replace("__", "."): value for name, value in changes.items()}
    torch.save({name: value for name, value in content.items() if value is not None}, path)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("frozen", [True, False])
def test_every_layer_of_every_token_is_that_of_its_own_package(
    tmp_path: Path, sizes: dict[str, Any], frozen: bool
) -> None:
    write_folder(tmp_path, sizes)
    bilm = build_bilm(load_checkpoint(tmp_path)).requires_grad_(not frozen)
    for found, wanted in zip(layers_of(bilm, SENTENCES), its_layers(tmp_path, SENTENCES), strict=True):
        torch.testing.assert_close(found.detach(), wanted, rtol=0, atol=1e-5)


def test_a_newer_torchs_pickles_are_read_too(tmp_path: Path) -> None:
    old, new = (load_checkpoint(write_folder(tmp_path / str(as_zip), config(), as_zip)) for as_zip in (False, True))
    assert_same_checkpoint(new, old)


@pytest.mark.parametrize("top", ["", "144/"])
def test_a_zip_file_as_it_is_published_is_read_without_unpacking(folder: Path, tmp_path: Path, top: str) -> None:
    with zipfile.ZipFile(tmp_path / "144.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../outside.txt", "never written")
        for path in folder.iterdir():
            archive.write(path, top + path.name)
    assert_same_checkpoint(load_checkpoint(tmp_path / "144.zip"), load_checkpoint(folder))
    assert {path.name for path in tmp_path.iterdir()} == {"144.zip", "there"}


def test_a_folder_is_recognised_by_its_pickle() -> None:
    assert not ManyLangs().recognises("weights.hdf5") and not ManyLangs().recognises("nowhere")


def test_the_config_is_found_by_its_name_whatever_path_it_had(folder: Path) -> None:
    wanted = load_checkpoint(folder)
    for path in ("sizes.json", "../elsewhere/sizes.json", "C:\\configs\\sizes.json"):
        change_json(folder / "config.json", config_path=path)
        assert_same_checkpoint(load_checkpoint(folder), wanted)


@pytest.mark.parametrize("name", ["cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json"])
def test_a_config_that_came_with_the_package_need_not_be_in_the_folder(folder: Path, name: str) -> None:
    change_json(folder / "config.json", config_path=f"elmoformanylangs/configs/{name}")
    assert refusal(folder).endswith(" the 94,069,052 parameters that the options ask for")
    (folder / "sizes.json").rename(folder / name)
    assert load_checkpoint(folder).options.lstm.cell_dim == 24


def test_the_sizes_that_came_with_the_package_are_the_packages() -> None:
    from elmoformanylangs import __file__ as package

    from elmo_plugin.checkpoints.many_langs import PUBLISHED, PUBLISHED_CONFIG

    for name in PUBLISHED:
        content = json.loads((Path(package).parent / "configs" / name).read_text(encoding="utf-8"))
        assert {key: content[key] for key in PUBLISHED_CONFIG} == PUBLISHED_CONFIG


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_it_becomes_one_native_file_bit_for_bit(tmp_path: Path, sizes: dict[str, Any]) -> None:
    write_folder(tmp_path / "there", sizes)
    convert(tmp_path / "there", tmp_path / "one.safetensors")
    assert_same_checkpoint(load_checkpoint(tmp_path / "one.safetensors"), load_checkpoint(tmp_path / "there"))
    shutil.rmtree(tmp_path / "there")
    bilm = build_bilm(load_checkpoint(tmp_path / "one.safetensors"))
    assert all(bool(layers.isfinite().all()) for layers in layers_of(bilm, SENTENCES))


def test_a_warm_state_can_be_had(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("The cat sat .\n\n日本語 x\n", encoding="utf-8")
    convert(folder, tmp_path / "warm.safetensors", warm_on=tmp_path / "text")
    assert build_bilm(load_checkpoint(tmp_path / "warm.safetensors")).warm_state is not None


def test_bilm_tfs_files_cannot_hold_it(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"bilm-tf's files have no place for lexicons, .* wanted many-langs or native"
    ):
        convert(folder, tmp_path / "to")
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("name", ["config.json", "sizes.json", "char.dic", "word.dic", "token_embedder.pkl"])
def test_a_file_that_is_missing_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert refusal(folder).startswith(f"'{folder / name}' cannot be read: ")


@pytest.mark.parametrize("name", ["config.json", "sizes.json", "char.dic", "word.dic"])
@pytest.mark.parametrize("content", [b"\xff\xfe", b"\0", b"", b"[1]", b'"text"'])
def test_a_text_of_another_kind_is_named(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    assert refusal(folder).startswith(f"'{folder / name}'")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("a\t0\n\nb\t1\n", ", line 2: found ''; wanted an entry, a tab and an id"),
        ("a\t0\nb\tc\t1\n", ", line 2: found 'b\\tc\\t1'; wanted an entry, a tab and an id"),
        ("a\t-1\n", ", line 1: found 'a\\t-1'; wanted an entry, a tab and an id"),
        ("a\t0\nb\t0\n", " has 2 lines; wanted the ids 0 to 1, each once"),
        ("a\t0\nb\t2\n", " has 2 lines; wanted the ids 0 to 1, each once"),
        ("a\t" + "9" * 5000 + "\n", " has 1 lines; wanted the ids 0 to 0, each once"),
    ],
)
def test_lines_of_a_lexicon_that_make_no_sense_are_named(folder: Path, lines: str, said: str) -> None:
    (folder / "char.dic").write_text(lines, encoding="utf-8")
    assert refusal(folder) == f"'{folder / 'char.dic'}'{said}"


@pytest.mark.parametrize(
    ("name", "entries", "said"),
    [
        ("char.dic", [entry for entry in CHARACTERS if entry != "<bow>"], "'lexicon.characters' lacks <bow>; wanted "),
        ("word.dic", WORDS[1:], "'lexicon.words' lacks <oov>; wanted <oov> in it"),
        ("word.dic", [*WORDS, "cat"], "'lexicon.words' has 11 entries; wanted each once, found 10 different"),
        ("word.dic", [*WORDS, " "], "'lexicon.words' has 11 entries; wanted each once, found 10 different"),
    ],
)
def test_a_lexicon_without_its_marks_or_with_an_entry_twice_is_refused(
    folder: Path, name: str, entries: list[str], said: str
) -> None:
    lines = "".join(f"{entry}\t{id}\n" for id, entry in enumerate(entries))
    (folder / name).write_text(lines, encoding="utf-8")
    assert refusal(folder).startswith(f"'{folder / 'sizes.json'}': {said}")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"encoder": {**CONFIG["encoder"], "name": "lstm"}}, "'encoder' is {'name': 'lstm', "),
        ({"token_embedder": {**CONFIG["token_embedder"], "name": "lstm"}}, "'token_embedder' is {'name': 'lstm', "),
        ({"encoder": ...}, "'encoder' is None; wanted an object with the name 'elmo'"),
        ({"encoder": {"name": "elmo"}}, "the key 'lstm.dim' is missing"),
        ({"encoder": {**CONFIG["encoder"], "dim": 8}}, "'projection_dim' is 8; wanted less than 'dim', 8"),
        (
            {"encoder": {**CONFIG["encoder"], "dim": 10**12}},
            "the options ask for 304,000,000,000,000 parameters; wanted at",
        ),
        ({"encoder": {**CONFIG["encoder"], "n_layers": 10**12}}, "'lstm.n_layers' is 1000000000000; wanted at most"),
        (config(char_dim=0, word_dim=0), "'lexicon' has neither 'char_cnn' nor 'word_dim'"),
        (config(word_dim=10**12), "the options ask for 19,000,000,0"),
        (config(filters=[[1, 10**12]]), "the options ask for "),
        (config(max_characters_per_token=None), "'lexicon.max_characters_per_token' is None; wanted"),
        (config(max_characters_per_token=6), "'lexicon.max_characters_per_token' is 6; wanted a whole number of 7"),
        (config(activation="gelu"), "'char_cnn.activation' is 'gelu'; wanted one of relu, tanh"),
    ],
)
def test_sizes_that_make_no_sense_are_named(folder: Path, changes: dict[str, Any], said: str) -> None:
    change_json(folder / "sizes.json", **changes)
    assert refusal(folder).startswith(f"'{folder / 'sizes.json'}': {said}")


@pytest.mark.parametrize("path", [..., None, "", 3, "configs/"])
def test_a_config_that_names_no_sizes_is_refused(folder: Path, path: Any) -> None:
    change_json(folder / "config.json", config_path=path)
    assert refusal(folder).startswith(
        (f"'{folder / 'config.json'}': 'config_path' is ", f"'{folder / 'configs'}' cannot")
    )


BIAS = "encoder.backward_layer_1.state_linearity.bias"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "found shape None, the sizes want (96,)"),
        (torch.ones(95), "found shape (95,), the sizes want (96,)"),
        (torch.full((96,), torch.nan), "found numbers that are not finite"),
        ([1.0] * 96, "found shape None, the sizes want (96,)"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(folder: Path, value: Any, said: str) -> None:
    change_tensors(folder / "encoder.pkl", **{BIAS.removeprefix("encoder.").replace(".", "__"): value})
    assert refusal(folder) == f"'{folder}', tensor '{BIAS}': {said}"


def test_a_tensor_that_the_sizes_know_nothing_of_is_named(folder: Path) -> None:
    change_json(folder / "sizes.json", **config(n_layers=1))
    assert refusal(folder).startswith(
        f"'{folder}' holds tensors that its sizes know nothing of: encoder.forward_layer_1."
    )


class Code:
    """What runs a function when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Path, str]]:
        """Write a file."""
        return Path.write_text, (self.path, "was run")


@pytest.mark.parametrize("as_zip", [True, False])
def test_code_in_a_pickle_is_not_run(folder: Path, tmp_path: Path, as_zip: bool) -> None:
    torch.save({"a": Code(tmp_path / "trace")}, folder / "encoder.pkl", _use_new_zipfile_serialization=as_zip)
    assert refusal(folder).startswith(f"'{folder / 'encoder.pkl'}' holds no readable weights: ")
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("value", [[], 3, {1: torch.ones(1)}])
def test_a_pickle_without_tensors_is_named(folder: Path, value: Any) -> None:
    torch.save(value, folder / "encoder.pkl")
    assert refusal(folder) == f"'{folder / 'encoder.pkl'}' holds no readable weights: found no tensors by name"


@pytest.mark.parametrize("as_zip", [True, False])
@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.99])
def test_a_pickle_that_was_cut_short_is_named(folder: Path, as_zip: bool, kept: float) -> None:
    write_folder(folder, config(), as_zip)
    content = (folder / "encoder.pkl").read_bytes()
    (folder / "encoder.pkl").write_bytes(content[: int(kept * len(content))])
    assert refusal(folder).startswith(f"'{folder / 'encoder.pkl'}' ")


def flipped(content: bytes, place: int, bit: int = 6) -> bytes:
    return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


def test_a_flipped_bit_anywhere_in_the_head_of_an_old_pickle_is_an_error_or_does_no_harm(folder: Path) -> None:
    """Its numbers have no check sums; a spoiled name, size or instruction is found."""
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
    path = tmp_path / "144.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("encoder.pkl", "token_embedder.pkl", "config.json", "sizes.json", "char.dic", "word.dic"):
            archive.write(folder / name, name)
    content, wanted = path.read_bytes(), load_checkpoint(folder)
    found = 0
    for place in range(0, len(content), 211):
        path.write_bytes(flipped(content, place))
        try:
            assert_same_checkpoint(load_checkpoint(path), wanted)  # in a date, or another field of no importance
        except ConfigurationError as error:
            assert str(error.message).startswith(f"'{path}"), place
            found += 1
    assert found > 0.9 * len(content) / 211


@pytest.mark.parametrize("spoil", [lambda _: b"", lambda content: content[:-30], lambda _: b"<html>404</html>"])
def test_a_file_that_is_no_zip_file_says_so(tmp_path: Path, folder: Path, spoil: Callable[[bytes], bytes]) -> None:
    path = Path(shutil.make_archive(str(tmp_path / "one"), "zip", folder))
    path.write_bytes(spoil(path.read_bytes()))
    assert refusal(path).startswith(f"'{path}' is no complete zip file: ")


def test_a_zip_file_of_other_things_says_so(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert (
        refusal(tmp_path / "other.zip")
        == f"'{tmp_path / 'other.zip'}': wanted a zip file with encoder.pkl in it, found none"
    )
