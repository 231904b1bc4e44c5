"""Weights that are not finite, of an old format, or damaged, in every format; `tests.fuzz` has the attacks."""

import faulthandler
import gzip
import os
import signal
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import h5py
import pytest
import torch
from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from allennlp.modules.seq2seq_encoders import PassThroughEncoder
from allennlp.modules.token_embedders import ElmoTokenEmbedder

from elmo_plugin import Elmo, load, save
from elmo_plugin.bilm import BiLM, BiLMOptions
from elmo_plugin.checkpoints import BilmTf, Native, build_bilm, load_checkpoint, read_weights
from elmo_plugin.checkpoints.confined import NUMBERS, confined
from elmo_plugin.common import at_least
from tests.checkpoint_oracles import assert_rejected, language_model_weights, pretrained
from tests.checkpoints.allennlp_test import assert_same_layers, pack_elmo
from tests.oracles import lively, options, write_files

LSTM = {"type": "lstm", "input_size": 8, "hidden_size": 4, "bidirectional": True}


def native(folder: Path, value: float) -> Path:
    checkpoint = pretrained()
    checkpoint.state_dict["token_encoder.projection.bias"][1] = value
    Native().write(checkpoint, folder / "bilm.safetensors")
    return folder / "bilm.safetensors"


def bilm_tf(folder: Path, value: float) -> Path:
    BilmTf().write(pretrained()._replace(vocabulary=None), folder)
    with h5py.File(folder / "weights.hdf5", "r+") as file:
        values = file["CNN_proj/b_proj"][...]
        values[1] = value
        del file["CNN_proj/b_proj"]
        file["CNN_proj/b_proj"] = values
    return folder / "weights.hdf5"


def run(folder: Path, value: float) -> Path:
    weights = language_model_weights(pretrained())
    weights["bilm.lstm.forward_layers.0.bias"][1] = value
    torch.save(weights, folder / "best.th")
    return folder


NAMES: dict[Callable[[Path, float], Path], str] = {
    native: "bilm.token_encoder.projection.bias",
    bilm_tf: "CNN_proj/b_proj",
    run: "bilm.lstm.forward_layers.0.bias",
}


@pytest.mark.parametrize("write", NAMES)
def test_weights_that_are_not_finite_are_named(tmp_path: Path, write: Callable[[Path, float], Path]) -> None:
    path = write(tmp_path, torch.nan)
    assert_rejected(path, path, NAMES[write], "finite")


def test_a_torch_file_of_before_version_1_6_is_read(tmp_path: Path) -> None:
    """AllenNLP up to 1.0 saved its archives in this format."""
    embedder = ElmoTokenEmbedder(*write_files(tmp_path / "pair", lively(BiLM(options()))))
    pack_elmo(tmp_path / "model.tar.gz", embedder, None, tmp_path / "pair/options.json")
    folder = tmp_path / "packed"
    torch.save(torch.load(folder / "weights.th"), folder / "weights.th", _use_new_zipfile_serialization=False)
    (folder / "fta").mkdir()
    (tmp_path / "pair/options.json").rename(folder / "fta/model.elmo.options_file")
    (folder / "fta/model.elmo.weight_file").write_bytes(b"not read")
    with tarfile.open(tmp_path / "old.tar.gz", "w:gz") as archive:
        archive.add(folder, ".")
    assert_same_layers(build_bilm(load_checkpoint(tmp_path / "old.tar.gz")), embedder)
    (folder / "weights.th").write_bytes((folder / "weights.th").read_bytes()[:1000])
    assert_rejected(folder, f"'{folder / 'weights.th'}' holds no readable weights")


@pytest.mark.parametrize(
    "odd",
    [lambda value: value.to_sparse(), lambda value: value.to("meta"), lambda value: value.to(torch.complex64), print],
    ids=["sparse", "meta", "complex", "function"],
)
def test_weights_that_are_no_plain_numbers_are_rejected(tmp_path: Path, odd: Callable[[object], object]) -> None:
    weights = language_model_weights(pretrained())
    key = "bilm.token_encoder.projection.weight"
    torch.save({**weights, key: odd if odd is print else odd(weights[key])}, tmp_path / "best.th")
    assert_rejected(tmp_path, tmp_path / "best.th", "readable weights")


@pytest.mark.parametrize("as_zip", [True, False])
def test_each_folder_of_an_archive_counts_as_a_file(tmp_path: Path, as_zip: bool) -> None:
    """200 empty files alone are within the limit."""
    for depth in (1, 15):
        names = ["/".join([*(f"{number}-{level}" for level in range(1, depth)), str(number)]) for number in range(200)]
        path = tmp_path / "bilm.archive"
        if as_zip:
            with zipfile.ZipFile(path, "w") as archive:
                for name in names:
                    archive.writestr(name, b"")
        else:
            with tarfile.open(path, "w:gz") as archive:
                for name in names:
                    archive.addfile(tarfile.TarInfo(name))
        assert_rejected(path, "got a folder with" if depth == 1 else "expected at most")


@pytest.fixture
def own_encoder() -> Iterator[str]:
    """Register an encoder of one's own, which takes a number and a string, as another package does."""

    class Repeated(PassThroughEncoder):
        def __init__(self, width: int, note: str = "none") -> None:
            super().__init__(width)
            self.note = note
            self.scale = torch.nn.Parameter(torch.ones(1))

        def get_output_dim(self) -> int:
            return 2 * self.get_input_dim()

        def forward(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return torch.cat([inputs, inputs], dim=-1) * self.scale

    Seq2SeqEncoder.register("repeated")(Repeated)
    yield "repeated"
    del Registrable._registry[Seq2SeqEncoder]["repeated"]


def test_an_encoder_of_ones_own_is_built_from_a_config_at_once_and_from_a_file_without_strings(
    own_encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def saved(config: dict[str, Any]) -> Path:
        sizes = {**options().to_dict(), "contextualizer": {"type": own_encoder, "width": 8, **config}}
        elmo = Elmo(bilm={"options": sizes, "seed": 1}, dropout=0.0)  # a config may use any encoder, with any value
        save(elmo, tmp_path / "bilm.safetensors")
        save(elmo, tmp_path / "hub", to="hub")
        return tmp_path / "bilm.safetensors"

    load(saved({})).embed([["a"]])
    with pytest.raises(ConfigurationError, match=r"contextualizer\.note'.*'/etc/hostname'.*\.CONTEXTUALIZERS"):
        load(saved({"note": "/etc/hostname"}))
    monkeypatch.setattr("elmo_plugin.bilm.registered.CONTEXTUALIZERS", {own_encoder})
    load(saved({"note": "/etc/hostname"})).embed([["a"]])


@pytest.mark.parametrize(
    "config",
    [
        {"type": "elmo_enhanced", "encoder": LSTM, "bilm": "english-tiny"},
        {"type": "elmo_enhanced", "encoder": LSTM, "bilm": {"pretrained": "english-tiny"}},
        {"type": "elmo_enhanced", "encoder": LSTM, "bilm": {"type": "lstm", "pretrained": "english-tiny"}},
        {"type": "compose", "encoders": [{"type": "elmo_enhanced", "encoder": LSTM, "bilm": "english-tiny"}]},
        {"type": "elmo_enhanced", "x": [["english-tiny"]]},
    ],
)
def test_no_string_of_a_file_reaches_an_encoder_that_could_read_another_file(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="expected numbers alone"):
        BiLM(BiLMOptions.from_dict({**options().to_dict(), "contextualizer": config}))


def test_a_tensor_under_two_names_is_read_under_both(tmp_path: Path) -> None:
    weights = torch.arange(3.0)
    torch.save({"a": weights, "b": weights, "c": weights[1:]}, tmp_path / "best.th")
    found = read_weights(tmp_path / "best.th", "name")
    assert {name: value.tolist() for name, value in found.items()} == {"a": [0, 1, 2], "b": [0, 1, 2], "c": [1, 2]}


def test_tensors_of_every_kind_survive_the_way_out_of_the_process_that_reads_them(tmp_path: Path) -> None:
    weights = {
        **{f"{dtype}": torch.tensor([[1, 0], [2, 3], [4, 5]], dtype=dtype).t() for dtype in NUMBERS.values()},
        "empty": torch.ones(3, 0),
        "one": torch.tensor(7),
        "nan": torch.tensor([float("nan"), float("inf")]),
        "wide": torch.ones(2, 3, 4, 5, 6, 7),
        "\ud800": torch.ones(1),
    }
    torch.save({**weights, "no tensor": {"a": [1]}, "none": None}, tmp_path / "best.th")
    found = read_weights(tmp_path / "best.th", "name")
    assert list(found) == list(weights)
    for name, value in weights.items():
        assert found[name].dtype == value.dtype
        torch.testing.assert_close(found[name], value, rtol=0, atol=0, equal_nan=True)
    found["one"] += 1  # it is memory like any other
    assert found["one"] == 8


def test_what_ends_the_reader_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0")

    def crash() -> None:
        signal.raise_signal(signal.SIGSEGV)

    def loop() -> None:
        while True:
            pass

    def fill() -> None:
        torch.zeros(2**34)  # more than any test process has freed, which a child may use again

    def write() -> None:
        (tmp_path / "written").write_bytes(b"0")

    def open_many() -> None:
        for _ in range(100):
            os.open(path, os.O_RDONLY)

    for harm, fact in ((crash, "signal 11"), (loop, "processor"), (fill, "allocate"), (write, ""), (open_many, "open")):
        with faulthandler_off(), pytest.raises(ValueError, match=fact):
            confined(harm, path)
    with pytest.raises(ConfigurationError, match="'key'"):
        confined(lambda: at_least(1, key=0), path)
    assert confined(lambda: [1, "é", None], path) == [1, "é", None]
    assert confined(lambda: {"a": torch.ones(2), "b": torch.ones(1, 0)}, path)["a"].tolist() == [1, 1]
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@contextmanager
def faulthandler_off() -> Iterator[None]:
    """Keep pytest from printing where a child crashes."""
    was_enabled = faulthandler.is_enabled()
    faulthandler.disable()
    yield
    if was_enabled:
        faulthandler.enable()


def test_files_are_read_while_other_threads_compute(tmp_path: Path) -> None:
    """The reader is forked, and other threads do not survive a fork."""
    write_files(tmp_path, lively(BiLM(options())))
    stop = Event()

    def compute() -> None:
        while not stop.is_set():
            torch.randn(200, 200) @ torch.randn(200, 200)
            gzip.decompress(gzip.compress(bytes(10_000)))

    threads = [Thread(target=compute) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(load_checkpoint, [tmp_path] * 20))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert all(each.options == found[0].options for each in found)
