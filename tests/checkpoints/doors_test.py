"""What is called weights is data at every door: all commands and classes × all kinds of files × all names.

Each file holds a config that runs a command. Only a trained model that is called one, given where one is asked for, may
run it, and does, so the test would notice.
"""

import json
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.models import Model
from allennlp.modules.seq2seq_encoders import LstmSeq2SeqEncoder
from allennlp.predictors import Predictor

from elmo_plugin import ElmoEmbedder, load
from elmo_plugin.checkpoints import Native, load_checkpoint
from elmo_plugin.elmo import ElmoEnhancedEncoder
from elmo_plugin.pretraining import load_language_model
from elmo_plugin.pretraining.vocabulary import BiLMVocabulary
from elmo_plugin.serving import load_served
from tests.checkpoint_oracles import language_model_run, pretrained, rejection
from tests.commands.alone import run
from tests.many_langs_oracle import config, write_folder
from tests.oracles import write_json
from tests.serving_oracles import FILES
from tests.task_oracles import build_elmo

FEW_NAMES = ("bilm.safetensors", "weights.hdf5", "model.tar.gz", "bilm")
NAMES = (
    *(*FEW_NAMES, "weights.h5", "weights.th", "encoder.pkl", "bilm.bin", "bilm.zip", "options.json", "vocabulary.txt"),
    *("tagger.gz", "model.tgz"),
)
OF_MODELS = ("model.tar.gz", "model.tgz")


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that the command in a config makes, and change to a folder with a text."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("text").write_text("a b\n", encoding="utf-8")
    Path("pairs.jsonl").write_text('{"sentence_good": "a b", "sentence_bad": "b a", "UID": "x"}\n', encoding="utf-8")
    return tmp_path / "trace"


def hostile_run(folder: Path, trace: Path) -> Path:
    """Write a run whose config makes the trace when AllenNLP builds any part of it."""
    language_model_run(folder, pretrained(), "weights.th")
    part = {"type": "subprocess.getoutput", "cmd": f"touch {trace}"}
    config = {"dataset_reader": part, "validation_dataset_reader": part, "model": part}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def archive(place: Path, run: Path) -> None:
    """Pack a run as AllenNLP does."""
    with tarfile.open(place, "w:gz") as packed:
        for name in ("config.json", "weights.th", "vocabulary"):
            packed.add(run / name, name)


def archive_of_a_folder(place: Path, run: Path) -> None:
    """Pack a run by `tar -czf`."""
    with tarfile.open(place, "w:gz") as packed:
        packed.add(run, ".")


def zip_file(place: Path, run: Path) -> None:
    """Pack a run as a zip file."""
    with zipfile.ZipFile(place, "w") as packed:
        for path in run.rglob("*"):
            packed.write(path, path.relative_to(run))


def folder_with_weights(place: Path, run: Path) -> None:
    """Put a biLM beside the config and the weights."""
    shutil.copytree(run, place)
    Native().write(pretrained(), place / "model.safetensors")


def folder_around(place: Path, run: Path) -> None:
    """Put a run into a folder."""
    shutil.copytree(run, place / "run")


def folder_without_weights(place: Path, run: Path) -> None:
    """Leave nothing but a config and a biLM, as on the Hub."""
    place.mkdir()
    shutil.copy(run / "config.json", place)
    Native().write(pretrained(), place / "model.safetensors")


KINDS: tuple[Callable[[Path, Path], None], ...] = (
    *(archive, archive_of_a_folder, zip_file),
    *(folder_with_weights, folder_around, folder_without_weights),
)


def language_model(bilm: dict[str, Any]) -> Any:
    vocab = BiLMVocabulary.from_pretrained_bilm(str(FILES / "native.safetensors"), "text")
    return Model.from_params(Params({"type": "bilm", "bilm": bilm}), vocab=vocab)


OPTIONS = str(FILES / "bilm_tf/options.json")
DATA: dict[str, Callable[[str], object]] = {
    "embed-corpus --bilm": lambda path: run("embed-corpus", "text", "out.hdf5", "--bilm", path),
    "embed-corpus --weight-file": lambda path: run("embed-corpus", "text", "out.hdf5", "--weight-file", path),
    "convert-elmo": lambda path: run("convert-elmo", path, "out.safetensors"),
    "convert-elmo --options-file": lambda path: run("convert-elmo", path, "out", "--options-file", OPTIONS),
    "nearest-contexts": lambda path: run("nearest-contexts", path, "text", "--query", "a b", "--word", "a"),
    "minimal-pairs": lambda path: run("minimal-pairs", path, "pairs.jsonl", "--by", "UID"),
    "serve-elmo --language-model": lambda path: load_served(str(FILES / "native.safetensors"), path),
    "load": load,
    "ElmoEmbedder": lambda path: ElmoEmbedder(OPTIONS, path),
    "bilm in a config": lambda path: build_elmo(bilm=path),
    "weight_file in a config": lambda path: build_elmo(options_file=OPTIONS, weight_file=path),
    "elmo_enhanced": lambda path: ElmoEnhancedEncoder.from_config(LstmSeq2SeqEncoder(70, 4), bilm=path),
    "language model": load_language_model,
    "fine-tuning": lambda path: language_model({"pretrained": path}),
    "vocabulary": lambda path: BiLMVocabulary.from_pretrained_bilm(path, "text"),
}
PROGRAMS: dict[str, Callable[[str], object]] = {
    "serve-elmo": load_served,
    "embed-corpus --mix": lambda path: run("embed-corpus", "text", "out.hdf5", "--mix", path),
    "mix='trained'": lambda path: load(path, mix="trained"),
    "predict": Predictor.from_path,
    "evaluate": lambda path: evaluate_from_archive(path, "text"),
}


def opened(door: Callable[[str], object], path: Path, trace: Path) -> bool:
    """Return whether a command or class runs the config at a path."""
    trace.unlink(missing_ok=True)
    for out in ("out", "out.hdf5", "out.safetensors"):
        with suppress(FileNotFoundError):
            shutil.rmtree(out) if Path(out).is_dir() else Path(out).unlink()
    with suppress(Exception, SystemExit):
        door(str(path))
    return trace.exists()


@pytest.mark.parametrize("door", DATA)
def test_each_door_takes_weights(trace: Path, door: str) -> None:
    needs_options = "options-file" in door or "weight" in door or door == "ElmoEmbedder"
    DATA[door](str(FILES / ("bilm_tf/weights.hdf5" if needs_options else "native.safetensors")))


@pytest.mark.parametrize("door", DATA)
def test_no_config_beside_or_inside_weights_is_run(trace: Path, door: str) -> None:
    hostile = hostile_run(trace.parent / "hostile", trace)
    assert not opened(DATA[door], hostile, trace)
    for kind in KINDS:
        for name in FEW_NAMES if kind is archive else ("bilm",):
            place = trace.parent / kind.__name__ / name
            place.parent.mkdir(exist_ok=True)
            kind(place, hostile)
            assert not opened(DATA[door], place, trace), place


@pytest.mark.parametrize("names", [FEW_NAMES[:3], pytest.param(NAMES, marks=pytest.mark.slow)], ids=["few", "all"])
@pytest.mark.parametrize("door", PROGRAMS)
def test_only_a_trained_model_that_is_called_one_is_run(trace: Path, door: str, names: tuple[str, ...]) -> None:
    hostile = hostile_run(trace.parent / "hostile", trace)
    assert opened(PROGRAMS[door], hostile, trace)  # the folder of a run
    for kind in KINDS:
        for name in names if kind in (archive, folder_with_weights) else ("bilm", "model.tar.gz"):
            place = trace.parent / kind.__name__ / name
            place.parent.mkdir(exist_ok=True)
            kind(place, hostile)
            is_model = kind in (archive, archive_of_a_folder) and name in OF_MODELS
            if door in ("predict", "evaluate") and name in ("bilm", "tagger.gz"):
                continue  # AllenNLP's own commands open an archive of any name that is not one of weights
            assert opened(PROGRAMS[door], place, trace) == is_model, place


def test_weights_that_are_given_for_a_trained_model_are_named(trace: Path) -> None:
    archive(trace.parent / "bilm.safetensors", hostile_run(trace.parent / "hostile", trace))
    for door in (load_served, Predictor.from_path):
        with pytest.raises(ConfigurationError, match=r"bilm\.safetensors'"):
            door(str(trace.parent / "bilm.safetensors"))
    with pytest.raises(ConfigurationError, match=r"'english-tiny': expected a trained model"):
        Predictor.from_path("english-tiny")


def test_a_link_out_of_a_folder_of_weights_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("<S>\n</S>\n<UNK>\n", encoding="utf-8")
    run("convert-elmo", "english-tiny", tmp_path / "pair")
    for name, target in (("vocabulary.txt", secret), ("options.json", tmp_path / "pair/other.json")):
        file = tmp_path / "pair" / name
        content = file.read_bytes()
        file.unlink()
        file.symlink_to(target)
        if target == secret:
            for place in (tmp_path / "pair", tmp_path / "pair/weights.hdf5"):
                assert str(secret) in rejection(place)
                with pytest.raises(SystemExit, match=r"vocabulary\.txt"):
                    run("convert-elmo", place, tmp_path / "out")
            file.unlink()
            file.write_bytes(content)
        else:
            target.write_bytes(content)  # a link inside the folder is followed
            load_checkpoint(tmp_path / "pair")
    assert not (tmp_path / "out").exists()


def test_links_in_the_cache_of_the_hub_are_followed(tmp_path: Path) -> None:
    repository = tmp_path / "models--user--model"
    (repository / "blobs").mkdir(parents=True)
    for folder in ("snapshots/123", "snapshots/123/in"):
        (repository / folder).mkdir(parents=True)
        up = "../" * folder.count("/")
        Native().write(pretrained(), repository / "bilm.safetensors")
        (repository / "bilm.safetensors").rename(repository / "blobs/456")
        (repository / folder / "model.safetensors").symlink_to(f"{up}../blobs/456")
        assert load_checkpoint(repository / folder).options == pretrained().options
        (repository / folder / "model.safetensors").unlink()


def test_a_pickle_whose_only_tensor_has_an_odd_name_is_rejected(tmp_path: Path) -> None:
    torch.save({"a tensor in shared memory": torch.ones(2)}, tmp_path / "best.th")
    assert "got none" in rejection(tmp_path)


def test_a_link_to_itself_and_a_name_that_no_file_has_are_rejected(tmp_path: Path) -> None:
    write_folder(tmp_path, config())
    for name in ("a\0b", "x" * 5000):
        write_json(tmp_path / "config.json", {"config_path": name})
        assert str(tmp_path) in rejection(tmp_path)
    write_json(tmp_path / "config.json", {"config_path": "sizes.json"})
    (tmp_path / "sizes.json").unlink()
    (tmp_path / "sizes.json").symlink_to("sizes.json")
    assert "sizes.json" in rejection(tmp_path)
