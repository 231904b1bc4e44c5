"""Pickles from before PyTorch 1.6, which are not zip files. AllenNLP up to 1.0 saved its archives in this format."""

import io
import pickle
import tarfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.token_embedders import ElmoTokenEmbedder
from torch import nn

from elmo_plugin.bilm import BiLM
from elmo_plugin.checkpoints import AllenNlpArchive, build_bilm, load_checkpoint, read_weights
from tests.checkpoint_oracles import assert_rejected, assert_same_checkpoint, language_model_weights, pretrained
from tests.checkpoints.allennlp_elmo_test import assert_same_layers, write_archive
from tests.checkpoints.file_tools import Code, max_memory
from tests.oracles import lively, options, write_files


def save_old(content: Any, path: Path) -> Path:
    torch.save(content, path, _use_new_zipfile_serialization=False)
    return path


def repack_old(archive: Path) -> Path:
    """Save the weights of an archive in the old format."""
    folder = archive.parent / "repacked"
    with tarfile.open(archive) as members:
        members.extractall(folder, filter="data")
    save_old(torch.load(folder / "weights.th"), folder / "weights.th")
    with tarfile.open(archive, "w:gz") as members:
        for path in sorted(folder.iterdir()):
            members.add(path, path.name)
    return archive


def test_allennlps_elmo_in_an_old_archive_has_the_layers_of_the_trained_model(tmp_path: Path) -> None:
    embedder = ElmoTokenEmbedder(*write_files(tmp_path / "pair", lively(BiLM(options()))))
    archive = write_archive(tmp_path / "model.tar.gz", embedder, None, tmp_path / "pair/options.json")
    assert_same_layers(build_bilm(load_checkpoint(repack_old(archive))), embedder)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_language_model_of_ours_in_the_old_form_is_read(tmp_path: Path, dtype: torch.dtype) -> None:
    expected = pretrained()._replace(vocabulary=None)
    weights = {
        name: value.to(dtype) if dtype != torch.float32 and value.is_floating_point() else value
        for name, value in language_model_weights(expected).items()
    }
    save_old(weights, tmp_path / "best.th")
    found = AllenNlpArchive().read(tmp_path)
    if dtype == torch.float32:
        assert_same_checkpoint(found, expected)
    assert found.options == expected.options


def test_code_in_an_old_pickle_is_not_run(tmp_path: Path) -> None:
    for content in ({"bilm._extra_state": Code(tmp_path / "trace")}, nn.Linear(2, 2)):
        save_old(content, tmp_path / "best.th")
        assert_rejected(tmp_path, f"'{tmp_path / 'best.th'}' holds no readable weights")
    assert not (tmp_path / "trace").exists()


def test_a_tar_file_of_the_first_torches_is_rejected(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "best.th", "w") as members:
        for name in ("sys_info", "pickle", "storages", "tensors"):
            members.addfile(tarfile.TarInfo(name), io.BytesIO())
    assert_rejected(tmp_path, f"'{tmp_path / 'best.th'}' holds no readable weights")


@pytest.mark.parametrize("length", [0, 10, 100, 1000, -1])
def test_an_old_pickle_that_was_cut_off_is_named(tmp_path: Path, length: int) -> None:
    path = save_old(language_model_weights(pretrained()), tmp_path / "best.th")
    path.write_bytes(path.read_bytes()[:length])
    assert_rejected(tmp_path, f"'{path}' holds no readable weights")


def claimed(numel: int, with_data: bool) -> bytes:
    """Return an old pickle whose only tensor claims this many numbers and has four."""
    storage = object()

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj: Any) -> Any:
            return ("storage", torch.FloatStorage, "0", "cpu", numel, None) if obj is storage else None

    class Tensor:
        def __reduce__(self) -> tuple[Any, ...]:
            return torch._utils._rebuild_tensor_v2, (storage, 0, (4,), (1,), False, OrderedDict())

    content = io.BytesIO()
    for part in (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}):
        pickle.dump(part, content, protocol=2)
    Pickler(content, protocol=2).dump({"a": Tensor()})
    pickle.dump(["0"] if with_data else [], content, protocol=2)
    content.write(numel.to_bytes(8, "little") + bytes(16))
    return content.getvalue()


def test_the_hand_made_pickle_is_valid(tmp_path: Path) -> None:
    (tmp_path / "best.th").write_bytes(claimed(4, with_data=True))
    assert read_weights(tmp_path / "best.th", "best.th")["a"].tolist() == [0.0] * 4


@pytest.mark.parametrize("with_data", [True, False])
def test_a_storage_that_claims_more_than_the_file_holds_is_rejected(tmp_path: Path, with_data: bool) -> None:
    """This holds even if the tensor that uses the storage is small."""
    (tmp_path / "best.th").write_bytes(claimed(2**28, with_data))
    before = max_memory()
    with pytest.raises(ConfigurationError, match=r"'best\.th'"):
        read_weights(tmp_path / "best.th", "best.th")
    assert max_memory() - before < 2**28  # of the 2 ** 30 bytes that it claims
