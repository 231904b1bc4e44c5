import gzip
from pathlib import Path

import pytest
import torch

from elmo_plugin.bilm import BiLM, count_parameters, warm_up
from elmo_plugin.checkpoints import build_bilm, load_checkpoint
from elmo_plugin.text import batch_to_ids
from tests.checkpoint_oracles import WORDS, language_model_archive, pretrained
from tests.commands.alone import run
from tests.many_langs_oracle import config, write_folder
from tests.oracles import lively, options, write_files


@pytest.fixture
def bilm(tmp_path: Path) -> BiLM:
    model = lively(BiLM.random(options(), seed=1))
    write_files(tmp_path / "from", model)
    return model


def convert(*arguments: object) -> None:
    run("convert-elmo", *arguments)


def test_weights_and_a_warm_state_are_written(bilm: BiLM, tmp_path: Path) -> None:
    sentences = ["The boat leaks .", "", "Wait"] * 50
    (tmp_path / "text.gz").write_bytes(gzip.compress("\n".join(sentences).encode()))
    convert(tmp_path / "from", tmp_path / "to", "--warm-on", tmp_path / "text.gz")
    copy = build_bilm(load_checkpoint(tmp_path / "to"))
    for name, value in bilm.named_parameters():
        assert torch.allclose(value, copy.state_dict()[name], atol=1e-6), name
    batches = [batch_to_ids([line.split() for line in sentences[i : i + 64]]) for i in range(0, len(sentences), 64)]
    expected = warm_up(bilm, batches)
    assert copy.warm_state is not None
    assert torch.allclose(copy.warm_state.cell, expected.cell, atol=1e-6)
    assert expected.cell.abs().max() > 0.01


def test_a_language_model_becomes_one_file_of_half_the_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = language_model_archive(tmp_path / "model.tar.gz", pretrained())
    for dtype in ("float32", "bfloat16"):
        convert(archive, tmp_path / f"{dtype}.safetensors", "--dtype", dtype)
    copy = load_checkpoint(tmp_path / "bfloat16.safetensors")
    assert copy.softmax is not None and copy.vocabulary == WORDS
    sizes = [(tmp_path / f"{dtype}.safetensors").stat().st_size for dtype in ("float32", "bfloat16")]
    assert sizes[1] < 0.8 * sizes[0]
    printed = capsys.readouterr().err
    parameters = f"2 layers, {count_parameters(pretrained().options):,} parameters"
    assert parameters in printed and "its softmax; its vocabulary" in printed


def test_a_model_of_elmo_for_many_langs_becomes_one_file_but_not_bilm_tfs(tmp_path: Path) -> None:
    write_folder(tmp_path / "144", config())
    convert(tmp_path / "144", tmp_path / "my.safetensors")
    with pytest.raises(SystemExit, match=r"^convert-elmo: .*bilm-tf"):
        convert(tmp_path / "144", tmp_path / "to")
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["from", "to", "--to", "onnx"], "'onnx'"),
        (["nowhere", "to"], "nowhere.*holds no biLM"),
        (["from", "to", "--warm-on", "empty"], "empty: "),
    ],
)
def test_an_error_is_one_line(
    bilm: BiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], fact: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").touch()
    with pytest.raises(SystemExit, match=f"^convert-elmo: .*{fact}"):
        convert(*arguments)
    assert not Path("to").exists()


def test_existing_files_are_replaced_only_with_force(bilm: BiLM, tmp_path: Path) -> None:
    (tmp_path / "my.safetensors").write_text("precious")
    for target in ("my.safetensors", "from"):
        with pytest.raises(SystemExit, match=rf"{target}'.*--force"):
            convert(tmp_path / "from", tmp_path / target)
    assert (tmp_path / "my.safetensors").read_text() == "precious"
    convert(tmp_path / "from", tmp_path / "my.safetensors", "--force")
    assert load_checkpoint(tmp_path / "my.safetensors").options == bilm.options
