"""AllenNLP archives and runs: the biLM inside the weights of a model, with what a language model saves beside it."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.elmo import Elmo as ReferenceElmo
from torch import Tensor, nn

from elmo_plugin.bilm import BiLM, BiLMOptions, warm_up
from elmo_plugin.checkpoints import AllenNlpArchive, archived_checkpoint, build_bilm, convert, load_checkpoint
from elmo_plugin.text import batch_to_ids
from tests.checkpoint_oracles import (
    WORDS,
    assert_rejected,
    assert_same_checkpoint,
    language_model_archive,
    language_model_run,
    language_model_weights,
    pretrained,
    rejection,
)
from tests.checkpoints.file_tools import flipped
from tests.full_disk import disk_of
from tests.oracles import SENTENCES, lively, options, reference_layers


class Holder(nn.Module):
    """A module that holds a biLM, as `Elmo` does."""

    def __init__(self, bilm: BiLM) -> None:
        super().__init__()
        self.bilm = bilm
        self.mix = nn.Linear(3, 1)


def make_bilm(source: str = "models/weights.hdf5", sizes: Optional[BiLMOptions] = None) -> BiLM:
    return lively(BiLM(sizes or options(), source=source))


def make_weights(**bilms: BiLM) -> dict[str, Tensor]:
    """Return the state dict of a model with these biLMs at some depth, and with other modules."""
    parts = {name: nn.ModuleDict({"elmo": Holder(bilm)}) for name, bilm in bilms.items()}
    return nn.ModuleDict({**parts, "tagger": nn.Linear(2, 2)}).state_dict()


def write_archive(path: Path, weights: Any, name: str = "weights.th") -> Path:
    """Write a `model.tar.gz` as AllenNLP does."""
    torch.save(weights, path.parent / name)
    (path.parent / "config.json").write_text("{}", encoding="utf-8")
    with tarfile.open(path, "w:gz") as archive:
        for member in ("config.json", name):
            archive.add(path.parent / member, arcname=member)
            (path.parent / member).unlink()
    return path


def assert_same_bilm(actual: BiLM, expected: BiLM) -> None:
    assert actual.options == expected.options
    ids = batch_to_ids(SENTENCES)
    assert torch.equal(actual(ids).layers, expected(ids).layers)


def test_the_bilm_of_an_archive_or_a_run_is_read_without_its_model(tmp_path: Path) -> None:
    bilm = make_bilm(sizes=options(n_layers=3, n_highway=0))
    bilm.warm_state = warm_up(bilm, [batch_to_ids(SENTENCES)])
    checkpoint = load_checkpoint(write_archive(tmp_path / "model.tar.gz", make_weights(embedder=bilm)))
    assert not any(name.startswith(("embedder", "tagger", "mix")) for name in checkpoint.state_dict)
    (tmp_path / "run").mkdir()
    torch.save(make_weights(embedder=bilm), tmp_path / "run/best.th")
    for actual in map(build_bilm, (checkpoint, load_checkpoint(tmp_path / "run"))):
        assert_same_bilm(actual, bilm)
        assert actual.warm_state is not None and torch.equal(actual.warm_state.cell, bilm.warm_state.cell)


@pytest.mark.parametrize("parts", [("hidden",), ("cell",), ("hidden", "cell")])
def test_a_warm_state_that_does_not_fit_is_rejected(tmp_path: Path, parts: tuple[str, ...]) -> None:
    state = {f"embedder.elmo.bilm.warm_{part}": torch.zeros(7) for part in parts}
    torch.save({**make_weights(embedder=make_bilm()), **state}, tmp_path / "best.th")
    with pytest.raises(ConfigurationError, match="warm_hidden"):
        build_bilm(load_checkpoint(tmp_path))


def test_two_bilms_of_one_model_are_told_apart_by_their_source(tmp_path: Path) -> None:
    first, second = make_bilm("a/weights.hdf5"), make_bilm("b.tar.gz", options(n_layers=1))
    torch.save(make_weights(one=first, two=second), tmp_path / "weights.th")
    for bilm in (first, second):
        checkpoint = archived_checkpoint(str(tmp_path), bilm.source, "weights.th")
        assert checkpoint is not None
        assert_same_bilm(build_bilm(checkpoint, source=bilm.source), bilm)
    assert archived_checkpoint(str(tmp_path), "c", "weights.th") is None
    assert archived_checkpoint(str(tmp_path), "b.tar.gz", "best.th") is None
    assert archived_checkpoint(None, "b.tar.gz", "weights.th") is None
    path = write_archive(tmp_path / "model.tar.gz", make_weights(one=first, two=second))
    assert_rejected(path, f"'{path}'", "a/weights.hdf5, b.tar.gz")


def test_a_language_model_gives_all_that_it_learned(tmp_path: Path) -> None:
    checkpoint = pretrained(warm=True)
    assert_same_checkpoint(load_checkpoint(language_model_archive(tmp_path / "model.tar.gz", checkpoint)), checkpoint)
    assert_same_checkpoint(load_checkpoint(language_model_run(tmp_path / "run", checkpoint)), checkpoint)


@pytest.mark.parametrize(("without", "is_lost"), [("vocabulary", True), ("config.json", False)])
def test_weights_describe_themselves_without_the_config(tmp_path: Path, without: str, is_lost: bool) -> None:
    checkpoint = pretrained()._replace(vocabulary=None) if is_lost else pretrained()
    archive = language_model_archive(tmp_path / "model.tar.gz", pretrained(), without)
    assert_same_checkpoint(load_checkpoint(archive), checkpoint)


def test_an_archive_packed_with_tar_by_hand_is_read(tmp_path: Path) -> None:
    """Its members are called `./weights.th` and the like."""
    run = language_model_run(tmp_path / "run", pretrained(), "weights.th")
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
        archive.add(run, ".")
    assert_same_checkpoint(load_checkpoint(tmp_path / "model.tar.gz"), pretrained())


def test_a_bilm_deeper_in_a_model_has_neither_softmax_nor_vocabulary(tmp_path: Path) -> None:
    run = language_model_run(tmp_path / "run", pretrained())
    weights = {f"text_field_embedder.{name}": value for name, value in language_model_weights(pretrained()).items()}
    torch.save(weights, run / "best.th")
    assert_same_checkpoint(load_checkpoint(run), pretrained()._replace(softmax=None, vocabulary=None))


def test_a_run_without_best_weights_is_read_from_its_latest_complete_checkpoint(tmp_path: Path) -> None:
    """Epochs are compared as numbers (2 < 10), and epoch 11 has no training state."""
    other = pretrained()
    other = other._replace(state_dict={name: value + 1.0 for name, value in other.state_dict.items()})
    run = language_model_run(tmp_path / "run", other, "model_state_e0_b11.th")
    assert_rejected(run, "config.json, model_state_e0_b11.th, vocabulary")
    for point, checkpoint in {"e0_b2": other, "e0_b10": pretrained()}.items():
        language_model_run(run, checkpoint, f"model_state_{point}.th")
        (run / f"training_state_{point}.th").touch()
    assert AllenNlpArchive().recognises(run)
    assert_same_checkpoint(load_checkpoint(run), pretrained())
    language_model_run(run, other, "model_state_e1_b0.th")
    (run / "training_state_e1_b0.th").touch()
    assert_same_checkpoint(load_checkpoint(run), other)
    language_model_run(run, pretrained(), "best.th")
    assert_same_checkpoint(load_checkpoint(run), pretrained())


def test_a_vocabulary_keeps_its_words_exactly_and_is_named_if_it_is_damaged(tmp_path: Path) -> None:
    run = language_model_run(tmp_path / "packed", pretrained(), "best.th")
    (run / "vocabulary/tokens.txt").write_bytes("<S>\n</S>\n@@UNKNOWN@@\na\u2028b\n\x0b\n\x1c\x85\nend".encode())
    assert load_checkpoint(run).vocabulary == ["<S>", "</S>", "<UNK>", "a\u2028b", "\x0b", "\x1c\x85", "end"]
    (run / "vocabulary/tokens.txt").write_bytes(b"\xff")
    (run / "best.th").rename(run / "weights.th")
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as packed:
        for part in run.iterdir():
            packed.add(part, arcname=part.name)
    archive = tmp_path / "model.tar.gz"
    assert_rejected(archive, f"{archive}!vocabulary/tokens.txt, line 1", "0xff")


def test_an_archive_exported_to_bilm_tf_has_the_same_layers_in_allennlps_elmo(tmp_path: Path) -> None:
    convert(language_model_archive(tmp_path / "model.tar.gz", pretrained()), tmp_path / "exported")
    files = (str(tmp_path / "exported" / name) for name in ("options.json", "weights.hdf5"))
    ids, bilm = batch_to_ids(SENTENCES), build_bilm(pretrained())
    mask = bilm(ids).mask[None, ..., None]  # (1, B, T + 2, 1)
    expected = reference_layers(ReferenceElmo(*files, 1, dropout=0.0), ids)  # (L, B, T + 2, D)
    torch.testing.assert_close(bilm(ids).layers * mask, expected * mask, rtol=0, atol=1e-5)
    assert (tmp_path / "exported/vocabulary.txt").read_bytes() == "\n".join([*WORDS, ""]).encode()


SPOIL: dict[str, Callable[[bytes], bytes]] = {
    "text": lambda _: b"<html>404</html>",
    "empty": lambda _: b"",
    "cut short": lambda content: content[:-999],
    "overwritten": lambda content: content[:99] + b"\xff" * (len(content) - 99),
}


@pytest.mark.parametrize("spoil", SPOIL.values(), ids=SPOIL)
def test_a_damaged_archive_is_rejected(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    path = write_archive(tmp_path / "model.tar.gz", make_weights(one=make_bilm()))
    path.write_bytes(spoil(path.read_bytes()))
    assert_rejected(path, f"'{path}'", "weights.th")


def test_an_archive_without_weights_or_without_a_bilm_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "model.tar.gz"
    assert_rejected(path, f"'{path}' holds no biLM")
    assert_rejected(write_archive(path, make_weights(), name="other.th"), f"'{path}'", "weights.th")
    assert_rejected(write_archive(path, make_weights()), f"'{path}'", "one biLM", "none")
    assert_rejected(write_archive(path, print), f"'{path}!weights.th' holds no readable weights")


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    """Return the header of a member of an archive."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


TRICKS: dict[str, Callable[[Path], tarfile.TarInfo]] = {
    "a path above the folder": lambda outside: member(f"../{outside.name}"),
    "an absolute path": lambda outside: member(str(outside)),
    "a link to a file": lambda outside: member("weights.th", tarfile.SYMTYPE, str(outside)),
    "a hard link to a file": lambda outside: member("weights.th", tarfile.LNKTYPE, f"../{outside.name}"),
    "a link as the folder": lambda outside: member("vocabulary", tarfile.SYMTYPE, str(outside.parent)),
    "a device": lambda outside: member("weights.th", tarfile.FIFOTYPE),
}


@pytest.mark.parametrize("trick", TRICKS.values(), ids=TRICKS)
def test_an_archive_reaches_nothing_outside_itself(tmp_path: Path, trick: Callable[[Path], tarfile.TarInfo]) -> None:
    outside = tmp_path / "outside.th"
    torch.save(make_weights(embedder=make_bilm()), outside)
    before, path = outside.read_bytes(), tmp_path / "model.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(trick(outside), io.BytesIO())
    assert_rejected(path, f"'{path}'", "weights.th")
    assert outside.read_bytes() == before and len(list(tmp_path.iterdir())) == 2


def test_a_flipped_bit_in_an_archive_or_in_the_weights_of_a_run_is_an_error_or_does_no_harm(tmp_path: Path) -> None:
    expected = make_bilm()
    write_archive(tmp_path / "model.tar.gz", make_weights(embedder=expected))
    (tmp_path / "run").mkdir()
    torch.save(make_weights(embedder=expected), tmp_path / "run/best.th")
    for path, location in ((tmp_path / "model.tar.gz",) * 2, (tmp_path / "run/best.th", tmp_path / "run")):
        content, errors = path.read_bytes(), 0
        positions = range(0, len(content), len(content) // 40)
        for position in positions:
            path.write_bytes(flipped(content, position))
            try:
                actual = build_bilm(load_checkpoint(location))
            except ConfigurationError as error:
                assert str(error.message).startswith(f"'{path}"), position
                errors += 1
            else:
                assert_same_bilm(actual, expected)
        assert errors > 0.6 * len(positions), path


def test_a_full_disk_is_named_if_an_archive_cannot_be_unpacked(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "model.tar.gz", make_weights(one=make_bilm()))
    with disk_of(8192):
        message = rejection(path)
    assert f"'{path}'" in message and "File too large" in message


@pytest.mark.parametrize("content", [b"", b"no weights", b"\x80\x02]q\x00.", None])
def test_weights_that_are_no_state_dict_or_hold_code_are_rejected(tmp_path: Path, content: Optional[bytes]) -> None:
    if content is None:
        torch.save({"bilm._extra_state": print}, tmp_path / "best.th")
    else:
        (tmp_path / "best.th").write_bytes(content)
    assert_rejected(tmp_path, f"'{tmp_path / 'best.th'}' holds no readable weights")
