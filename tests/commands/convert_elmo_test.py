import gzip
from pathlib import Path

import pytest
import torch
from allennlp.commands import main
from safetensors.torch import load_file

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


def test_weights_and_a_warm_state_are_written(bilm: BiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = ["The boat leaks .", "", "Wait"] * 50
    (tmp_path / "text").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    arguments = ("convert-elmo", tmp_path / "from", tmp_path / "to", "--warm-on", tmp_path / "text")
    monkeypatch.setattr("sys.argv", ["allennlp", *map(str, arguments)])
    main()
    copy = build_bilm(load_checkpoint(tmp_path / "to"))
    for name, value in bilm.named_parameters():
        assert torch.allclose(value, copy.state_dict()[name], atol=1e-6), name
    batches = [batch_to_ids([line.split() for line in sentences[i : i + 64]]) for i in range(0, len(sentences), 64)]
    expected = warm_up(bilm, batches)
    assert copy.warm_state is not None
    assert torch.allclose(copy.warm_state.cell, expected.cell, atol=1e-6)
    assert expected.cell.abs().max() > 0.01


def test_a_text_for_the_warm_state_may_be_compressed_and_needs_a_sentence(bilm: BiLM, tmp_path: Path) -> None:
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"The boat leaks .\n"))
    convert(tmp_path / "from", tmp_path / "to", "--warm-on", tmp_path / "text.gz")
    assert build_bilm(load_checkpoint(tmp_path / "to")).warm_state is not None
    (tmp_path / "empty").touch()
    for name in ("empty", "no_text"):
        with pytest.raises(SystemExit, match=f"^convert-elmo: .*/{name}: "):
            convert(tmp_path / "from", tmp_path / "other", "--warm-on", tmp_path / name)


def test_a_language_model_becomes_one_file_of_half_the_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = language_model_archive(tmp_path / "model.tar.gz", pretrained())
    convert(archive, tmp_path / "my.safetensors", "--dtype", "bfloat16")
    copy = load_checkpoint(tmp_path / "my.safetensors")
    assert copy.softmax is not None and copy.vocabulary == WORDS
    assert load_file(tmp_path / "my.safetensors")["bilm.lstm.forward_layers.0.bias"].dtype == torch.bfloat16
    printed = capsys.readouterr().err
    parameters = f"2 layers, {count_parameters(pretrained().options):,} parameters"
    for fact in (f"{tmp_path / 'my.safetensors'}: ", parameters, "its softmax; its vocabulary"):
        assert fact in printed


def test_a_model_of_elmo_for_many_langs_becomes_one_file_but_not_bilm_tfs(tmp_path: Path) -> None:
    write_folder(tmp_path / "144", config())
    convert(tmp_path / "144", tmp_path / "my.safetensors")
    with pytest.raises(SystemExit, match=r"^convert-elmo: .*bilm-tf"):
        convert(tmp_path / "144", tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_wrong_arguments_are_one_line_and_exit_code_one(bilm: BiLM, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"^convert-elmo: .*'onnx'"):
        convert(tmp_path / "from", tmp_path / "to", "--to", "onnx")
    with pytest.raises(SystemExit, match=r"^convert-elmo: .*nowhere.*holds no biLM"):
        convert(tmp_path / "nowhere", tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_existing_files_are_replaced_only_with_force(bilm: BiLM, tmp_path: Path) -> None:
    (tmp_path / "my.safetensors").write_text("precious")
    for target in ("my.safetensors", "from"):
        with pytest.raises(SystemExit, match=rf"{target}'.*--force"):
            convert(tmp_path / "from", tmp_path / target)
    assert (tmp_path / "my.safetensors").read_text() == "precious"
    convert(tmp_path / "from", tmp_path / "my.safetensors", "--force")
    assert load_checkpoint(tmp_path / "my.safetensors").options == bilm.options
