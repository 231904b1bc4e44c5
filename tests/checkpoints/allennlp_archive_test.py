"""AllenNLP archives: a biLM found inside the weights of any model."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from torch import Tensor, nn

from elmo_plugin.bilm import BiLM, warm_up
from elmo_plugin.checkpoints import AllenNlpArchive, archived_checkpoint, build_bilm, load_checkpoint
from elmo_plugin.options import BiLMOptions
from elmo_plugin.text import batch_to_ids
from tests.full_disk import disk_of
from tests.oracles import SENTENCES, lively, options


class Holder(nn.Module):
    """Something that holds a biLM, as `Elmo` does."""

    def __init__(self, bilm: BiLM) -> None:
        super().__init__()
        self.bilm = bilm
        self.mix = nn.Linear(3, 1)


def make_bilm(source: str = "models/weights.hdf5", sizes: Optional[BiLMOptions] = None) -> BiLM:
    bilm = BiLM(sizes or options(), source=source)
    return lively(bilm)


def make_weights(**bilms: BiLM) -> dict[str, Tensor]:
    """The state dict of a model with these biLMs at some depth, and with other things."""
    parts = {name: nn.ModuleDict({"elmo": Holder(bilm)}) for name, bilm in bilms.items()}
    return nn.ModuleDict({**parts, "tagger": nn.Linear(2, 2)}).state_dict()


def write_archive(path: Path, weights: Any, name: str = "weights.th") -> Path:
    """A `model.tar.gz` as AllenNLP writes it."""
    torch.save(weights, path.parent / name)
    (path.parent / "config.json").write_text("{}", encoding="utf-8")
    with tarfile.open(path, "w:gz") as archive:
        for member in ("config.json", name):
            archive.add(path.parent / member, arcname=member)
            (path.parent / member).unlink()
    return path


def refusal(location: Path) -> str:
    """The message with which a location is refused."""
    with pytest.raises(ConfigurationError) as error:
        load_checkpoint(location)
    return str(error.value.message)


def assert_same_bilm(found: BiLM, wanted: BiLM) -> None:
    assert found.options == wanted.options
    ids = batch_to_ids(SENTENCES)
    assert torch.equal(found(ids).layers, wanted(ids).layers)


def test_the_bilm_of_an_archive_is_read_without_its_model(tmp_path: Path) -> None:
    bilm = make_bilm(sizes=options(n_layers=3, n_highway=0))
    checkpoint = load_checkpoint(write_archive(tmp_path / "model.tar.gz", make_weights(embedder=bilm)))
    assert_same_bilm(build_bilm(checkpoint), bilm)
    assert not any(name.startswith(("embedder", "tagger", "mix")) for name in checkpoint.state_dict)


def test_the_best_weights_of_a_run_are_read_from_its_folder(tmp_path: Path) -> None:
    bilm = make_bilm()
    torch.save(make_weights(embedder=bilm), tmp_path / "best.th")
    assert AllenNlpArchive().recognises(str(tmp_path))
    assert_same_bilm(build_bilm(load_checkpoint(tmp_path)), bilm)


def test_a_warm_state_is_in_the_archive(tmp_path: Path) -> None:
    bilm = make_bilm()
    bilm.warm_state = warm_up(bilm, [batch_to_ids(SENTENCES)])
    again = build_bilm(load_checkpoint(write_archive(tmp_path / "model.tar.gz", make_weights(embedder=bilm))))
    assert again.warm_state is not None
    assert torch.equal(again.warm_state.cell, bilm.warm_state.cell)


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


def test_an_archive_with_two_bilms_is_not_one_checkpoint(tmp_path: Path) -> None:
    weights = make_weights(one=make_bilm("a/weights.hdf5"), two=make_bilm("b.tar.gz"))
    path = write_archive(tmp_path / "model.tar.gz", weights)
    assert refusal(path) == f"'{path}': wanted an archive with one biLM inside, found a/weights.hdf5, b.tar.gz"


def test_an_archive_without_a_bilm_says_so(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "model.tar.gz", make_weights())
    assert refusal(path) == f"'{path}': wanted an archive with one biLM inside, found none"


def test_an_archive_without_weights_says_so(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "model.tar.gz", make_weights(), name="other.th")
    assert refusal(path).startswith(f"'{path}' is no archive with a weights.th: ")


SPOIL: dict[str, Callable[[bytes], bytes]] = {
    "text": lambda _: b"<html>404</html>",
    "empty": lambda _: b"",
    "cut short": lambda content: content[:-999],
    "overwritten": lambda content: content[:99] + b"\xff" * (len(content) - 99),
}


@pytest.mark.parametrize("spoil", SPOIL.values(), ids=SPOIL)
def test_a_file_that_is_no_archive_says_so(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    path = write_archive(tmp_path / "model.tar.gz", make_weights(one=make_bilm()))
    path.write_bytes(spoil(path.read_bytes()))
    assert refusal(path).startswith(f"'{path}' is no archive with a weights.th: ")


TRICKS: dict[str, Callable[[Path], tarfile.TarInfo]] = {
    "a path above the folder": lambda outside: member(f"../{outside.name}"),
    "an absolute path": lambda outside: member(str(outside)),
    "a link to a file": lambda outside: member("weights.th", tarfile.SYMTYPE, str(outside)),
    "a hard link to a file": lambda outside: member("weights.th", tarfile.LNKTYPE, f"../{outside.name}"),
    "a link as the folder": lambda outside: member("vocabulary", tarfile.SYMTYPE, str(outside.parent)),
    "a device": lambda outside: member("weights.th", tarfile.FIFOTYPE),
}


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    """What an archive says of a member."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize("trick", TRICKS.values(), ids=TRICKS)
def test_an_archive_reaches_nothing_outside_itself(tmp_path: Path, trick: Callable[[Path], tarfile.TarInfo]) -> None:
    outside = tmp_path / "outside.th"
    torch.save(make_weights(embedder=make_bilm()), outside)
    before, path = outside.read_bytes(), tmp_path / "model.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(trick(outside), io.BytesIO())
    assert refusal(path).startswith(f"'{path}' is no archive with a weights.th: ")
    assert outside.read_bytes() == before and len(list(tmp_path.iterdir())) == 2


def test_a_flipped_bit_in_an_archive_or_in_the_weights_of_a_run_is_an_error_or_does_no_harm(tmp_path: Path) -> None:
    wanted = make_bilm()
    write_archive(tmp_path / "model.tar.gz", make_weights(embedder=wanted))
    (tmp_path / "run").mkdir()
    torch.save(make_weights(embedder=wanted), tmp_path / "run/best.th")
    for path, location in ((tmp_path / "model.tar.gz",) * 2, (tmp_path / "run/best.th", tmp_path / "run")):
        content, errors = path.read_bytes(), 0
        places = range(0, len(content), len(content) // 40)
        for place in places:
            path.write_bytes(content[:place] + bytes([content[place] ^ 64]) + content[place + 1 :])
            try:
                found = build_bilm(load_checkpoint(location))
            except ConfigurationError as error:
                assert str(error.message).startswith(f"'{path}"), place
                errors += 1
            else:
                assert_same_bilm(found, wanted)
        assert errors > 0.6 * len(places), path


def test_a_full_disk_is_named_where_an_archive_is_unpacked(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "model.tar.gz", make_weights(one=make_bilm()))
    with disk_of(8192):
        assert refusal(path) == f"'{path}' is no archive with a weights.th: [Errno 27] File too large"


def test_an_archive_is_named_where_its_weights_cannot_be_read(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "model.tar.gz", print)
    assert refusal(path).startswith(f"'{path}!weights.th' holds no readable weights: ")


def test_an_archive_that_is_not_there_says_so(tmp_path: Path) -> None:
    message = refusal(tmp_path / "model.tar.gz")
    assert message.startswith(f"'{tmp_path / 'model.tar.gz'}' holds no biLM") and message.endswith(
        "no such file or folder"
    )


@pytest.mark.parametrize("content", [b"", b"no weights", b"\x80\x02]q\x00."])
def test_weights_of_another_kind_say_so(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "best.th").write_bytes(content)
    assert refusal(tmp_path).startswith(f"'{tmp_path / 'best.th'}' holds no readable weights: ")


def test_weights_that_hold_code_are_not_run(tmp_path: Path) -> None:
    torch.save({"bilm._extra_state": print}, tmp_path / "best.th")
    assert refusal(tmp_path).startswith(f"'{tmp_path / 'best.th'}' holds no readable weights: ")
