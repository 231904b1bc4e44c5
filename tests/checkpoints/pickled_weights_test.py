"""Pickles of torch before 1.6, which are no zip files: AllenNLP up to 1.0 saved its archives so."""

import io
import pickle
import resource
import tarfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.token_embedders import ElmoTokenEmbedder
from torch import nn

from elmo_plugin.bilm import BiLM
from elmo_plugin.checkpoints import AllenNlpArchive, build_bilm, load_checkpoint
from elmo_plugin.checkpoints.pickled_weights import read_weights
from tests.checkpoint_oracles import assert_same_checkpoint, language_model_weights, pretrained
from tests.checkpoints.upstream_elmo_test import assert_same_layers, write_archive
from tests.oracles import lively, options, write_files


def save_old(content: Any, path: Path) -> Path:
    torch.save(content, path, _use_new_zipfile_serialization=False)
    return path


def repack_old(archive: Path) -> Path:
    """Save the weights of an archive in the old form."""
    folder = archive.parent / "repacked"
    with tarfile.open(archive) as members:
        members.extractall(folder, filter="data")
    save_old(torch.load(folder / "weights.th"), folder / "weights.th")
    with tarfile.open(archive, "w:gz") as members:
        for path in sorted(folder.iterdir()):
            members.add(path, path.name)
    return archive


def refusal(location: Path) -> str:
    with pytest.raises(ConfigurationError) as error:
        load_checkpoint(location)
    return str(error.value.message)


def test_allennlps_elmo_in_an_old_archive_has_the_layers_of_the_trained_model(tmp_path: Path) -> None:
    embedder = ElmoTokenEmbedder(*write_files(tmp_path / "pair", lively(BiLM(options()))))
    archive = write_archive(tmp_path / "model.tar.gz", embedder, None, tmp_path / "pair/options.json")
    assert_same_layers(build_bilm(load_checkpoint(repack_old(archive))), embedder)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_language_model_of_ours_in_the_old_form_is_read(tmp_path: Path, dtype: torch.dtype) -> None:
    wanted = pretrained()._replace(vocabulary=None)
    weights = {
        name: value.to(dtype) if dtype != torch.float32 and value.is_floating_point() else value
        for name, value in language_model_weights(wanted).items()
    }
    save_old(weights, tmp_path / "best.th")
    found = AllenNlpArchive().read(tmp_path)
    if dtype == torch.float32:
        assert_same_checkpoint(found, wanted)
    assert found.options == wanted.options


class Harmful:
    """Runs code where it is unpickled."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.witness,)


def test_code_in_an_old_pickle_is_not_run(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    save_old({"bilm._extra_state": Harmful(witness)}, tmp_path / "best.th")
    assert refusal(tmp_path).startswith(f"'{tmp_path / 'best.th'}' holds no readable weights: ")
    save_old(nn.Linear(2, 2), tmp_path / "best.th")
    assert refusal(tmp_path).startswith(f"'{tmp_path / 'best.th'}' holds no readable weights: ")
    assert not witness.exists()


def test_a_tar_file_of_the_first_torches_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "best.th", "w") as members:
        for name in ("sys_info", "pickle", "storages", "tensors"):
            members.addfile(tarfile.TarInfo(name), io.BytesIO())
    assert refusal(tmp_path).startswith(f"'{tmp_path / 'best.th'}' holds no readable weights: ")


@pytest.mark.parametrize("length", [0, 10, 100, 1000, -1])
def test_an_old_pickle_that_was_cut_off_is_named(tmp_path: Path, length: int) -> None:
    path = save_old(language_model_weights(pretrained()), tmp_path / "best.th")
    path.write_bytes(path.read_bytes()[:length])
    assert refusal(tmp_path).startswith(f"'{path}' holds no readable weights: ")


def claimed(numel: int, with_data: bool) -> bytes:
    """An old pickle whose one tensor claims so many numbers, and has four."""

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


def test_the_hand_made_pickle_is_one(tmp_path: Path) -> None:
    (tmp_path / "best.th").write_bytes(claimed(4, with_data=True))
    assert read_weights(tmp_path / "best.th", "best.th")["a"].tolist() == [0.0] * 4


@pytest.mark.parametrize("with_data", [True, False])
def test_a_storage_that_claims_more_than_the_file_holds_is_refused(tmp_path: Path, with_data: bool) -> None:
    """Also where the tensor that was cut from it is small."""
    (tmp_path / "best.th").write_bytes(claimed(2**28, with_data))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ConfigurationError, match=r"'best\.th'"):
        read_weights(tmp_path / "best.th", "best.th")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**18  # KiB; it claims 2 ** 20
