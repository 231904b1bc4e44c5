"""ELMoForManyLangs' folders: the same layers as from its own package, which reads what we write; what is rejected."""

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from elmoformanylangs import __file__ as package
from torch import Tensor

from elmo_plugin.bilm import BiLM, ManyLangsEncoder
from elmo_plugin.checkpoints import Checkpoint, ManyLangs, build_bilm, convert, load_checkpoint
from elmo_plugin.checkpoints.many_langs import PUBLISHED, PUBLISHED_CONFIG
from tests.checkpoint_oracles import LEXICON, assert_rejected, assert_same_checkpoint, pretrained
from tests.checkpoints.file_tools import contents
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


def test_sizes_that_came_with_the_package_need_not_be_in_the_folder(folder: Path) -> None:
    name = PUBLISHED[0]
    content = json.loads((Path(package).parent / "configs" / name).read_text(encoding="utf-8"))
    assert {key: content[key] for key in PUBLISHED_CONFIG} == PUBLISHED_CONFIG
    change_json(folder / "config.json", config_path=f"elmoformanylangs/configs/{name}")
    assert_rejected(folder, "94,069,052 parameters")
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
        ({"encoder": {"name": "elmo"}}, "'lstm.dim'"),
        ({"encoder": {**CONFIG["encoder"], "dim": 8}}, "'projection_dim'"),
        ({"encoder": {**CONFIG["encoder"], "dim": 10**12}}, "'lstm.dim'"),
        (config(char_dim=0, word_dim=0), "'lexicon'"),
        (config(max_characters_per_token=6), "'lexicon.max_characters_per_token'"),
        (config(activation="gelu"), "'char_cnn.activation'"),
    ],
)
def test_wrong_sizes_are_named(folder: Path, changes: dict[str, Any], fact: str) -> None:
    change_json(folder / "sizes.json", **changes)
    assert_rejected(folder, f"'{folder / 'sizes.json'}'", fact)


def test_a_tensor_that_the_sizes_do_not_describe_is_named(folder: Path) -> None:
    change_json(folder / "sizes.json", **config(n_layers=1))
    assert_rejected(folder, f"'{folder}'", "encoder.backward_layer_1.", "'n_layers'")


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


@pytest.mark.parametrize("changes", [{}, {"n_layers": 1, "char_cnn": None, "cell_clip": None}])
def test_its_own_package_runs_a_bilm_of_ours(tmp_path: Path, changes: dict[str, Any]) -> None:
    checkpoint = many_langs_bilm(**changes)
    ManyLangs().write(checkpoint, tmp_path)
    assert_its_layers(build_bilm(checkpoint), tmp_path)


@pytest.mark.parametrize("sizes", [SIZES["characters and words"], SIZES["words"]])
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


@pytest.mark.parametrize(
    ("checkpoint", "fact"),
    [
        (pretrained(), "the bytes of words"),
        (pretrained(char_cnn=None, n_tokens_vocab=12), "words by a vocabulary file"),
        (many_langs_bilm(dim=8), "'lstm.projection_dim'"),
        (many_langs_bilm(words=["<oov>"]), "<pad>"),
    ],
    ids=["bytes", "words", "no projection", "no padding"],
)
def test_a_bilm_that_it_could_not_run_is_rejected(tmp_path: Path, checkpoint: Checkpoint, fact: str) -> None:
    assert_not_written(checkpoint, tmp_path / "to", "many-langs has no place", fact)


@pytest.mark.parametrize("entry", ["", " a", "a\tb", "a\x85b", "\ud800"])
def test_an_entry_that_would_be_read_as_another_is_rejected(tmp_path: Path, entry: str) -> None:
    checkpoint = many_langs_bilm(words=["<oov>", "<pad>", entry])
    assert_not_written(checkpoint, tmp_path / "to", f"'{tmp_path / 'to' / 'word.dic'}'", repr(entry))
