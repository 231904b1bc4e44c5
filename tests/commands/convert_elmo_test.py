import gzip
from pathlib import Path

import pytest
import torch
from allennlp.commands import main
from safetensors.torch import load_file

from elmo_plugin.bilm import BiLM, warm_up
from elmo_plugin.checkpoints import Native, build_bilm, load_checkpoint
from elmo_plugin.text import batch_to_ids
from tests.checkpoint_oracles import LEXICON, WORDS, language_model_archive, pretrained
from tests.many_langs_oracle import CHARACTERS, config, write_folder
from tests.many_langs_oracle import WORDS as many_words
from tests.oracles import lively, options, write_files


@pytest.fixture
def bilm(tmp_path: Path) -> BiLM:
    model = lively(BiLM.random(options(), seed=1))
    write_files(tmp_path / "from", model)
    return model


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr("sys.argv", ["allennlp", "convert-elmo", *map(str, arguments)])
    main()


def test_weights_and_a_warm_state_are_written(bilm: BiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = ["The boat leaks .", "", "Wait"] * 50
    (tmp_path / "text").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    run(monkeypatch, tmp_path / "from", tmp_path / "to", "--warm-on", tmp_path / "text")
    copy = build_bilm(load_checkpoint(tmp_path / "to"))
    for name, value in bilm.named_parameters():
        assert torch.allclose(value, copy.state_dict()[name], atol=1e-6), name
    batches = [batch_to_ids([line.split() for line in sentences[i : i + 64]]) for i in range(0, len(sentences), 64)]
    expected = warm_up(bilm, batches)
    assert copy.warm_state is not None
    assert torch.allclose(copy.warm_state.cell, expected.cell, atol=1e-6)
    assert expected.cell.abs().max() > 0.01


def test_a_missing_file_is_one_line_and_exit_code_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=r"convert-elmo: .*nowhere.*holds no biLM"):
        run(monkeypatch, tmp_path / "nowhere", tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_a_missing_text_is_named(bilm: BiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=r"no_text: cannot be read to its end"):
        run(monkeypatch, tmp_path / "from", tmp_path / "to", "--warm-on", tmp_path / "no_text")


def test_a_language_model_becomes_one_file_of_half_the_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = language_model_archive(tmp_path / "model.tar.gz", pretrained())
    run(monkeypatch, archive, tmp_path / "my.safetensors", "--dtype", "bfloat16")
    found = load_checkpoint(tmp_path / "my.safetensors")
    assert found.softmax is not None and found.vocabulary == WORDS
    assert load_file(tmp_path / "my.safetensors")["bilm.lstm.forward_layers.0.bias"].dtype == torch.bfloat16
    values = sum(tensor.numel() for tensor in pretrained().state_dict.values())
    said = f"{tmp_path / 'my.safetensors'}: a biLM of 2 layers, {values:,} values; its softmax, 65 values"
    assert f"{said}; its vocabulary, 12 lines\n" in capsys.readouterr().out


def test_a_language_model_becomes_bilm_tfs_three_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = language_model_archive(tmp_path / "model.tar.gz", pretrained())
    run(monkeypatch, archive, tmp_path / "to", "--to", "bilm-tf")
    assert {path.name for path in (tmp_path / "to").iterdir()} == {"options.json", "weights.hdf5", "vocabulary.txt"}
    said = "; its vocabulary, 12 lines; without its softmax; in options.json, vocabulary.txt, weights.hdf5\n"
    assert said in capsys.readouterr().out


def test_a_model_of_elmo_for_many_langs_becomes_one_file_and_not_bilm_tfs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_folder(tmp_path / "144", config())
    run(monkeypatch, tmp_path / "144", tmp_path / "my.safetensors")
    assert f"; its lexicons, {len(CHARACTERS)} characters and {len(many_words)} words\n" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"^convert-elmo: bilm-tf's files have no place for lexicons"):
        run(monkeypatch, tmp_path / "144", tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_a_model_goes_back_to_elmo_for_many_langs_and_what_stays_behind_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = pretrained(warm=True, char_cnn=None, lexicon=LEXICON)
    Native().write(checkpoint, tmp_path / "my.safetensors")
    run(monkeypatch, tmp_path / "my.safetensors", tmp_path / "144", "--to", "many-langs")
    values = sum(value.numel() for name, value in checkpoint.state_dict.items() if not name.startswith("warm"))
    lexicons = f"its lexicons, {len(LEXICON['characters'])} characters and {len(LEXICON['words'])} words"
    without = "without its softmax; without its vocabulary; without its warm state"
    files = "in char.dic, config.json, encoder.pkl, sizes.json, token_embedder.pkl, word.dic"
    said = f"a biLM of 2 layers, {values:,} values; {lexicons}; {without}; {files}\n"
    assert capsys.readouterr().out.endswith(f"{tmp_path / '144'}: {said}")
    for arguments in (["--to", "many-langs", "--warm-on", "text"], ["--to", "allennlp"], ["--to", "onnx"]):
        with pytest.raises(SystemExit, match=r"^convert-elmo: .*; wanted "):
            run(monkeypatch, tmp_path / "my.safetensors", tmp_path / "to", *arguments)
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("arguments", [["--dtype", "float16"], ["--to", "native"]])
def test_arguments_that_do_not_go_together_are_one_line(
    bilm: BiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    with pytest.raises(SystemExit, match=r"^convert-elmo: .*native format"):
        run(monkeypatch, tmp_path / "from", tmp_path / "to", *arguments)
    assert not (tmp_path / "to").exists()


def test_the_help_shows_how(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(monkeypatch, "--help")
    said = capsys.readouterr().out
    assert "allennlp convert-elmo runs/demo/model.tar.gz my_bilm.safetensors --dtype float16\n" in said
    assert "vocabulary.txt" in said


def test_what_is_there_is_replaced_when_that_is_asked_for(
    bilm: BiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my.safetensors").write_text("precious")
    for target in ("my.safetensors", "from"):
        with pytest.raises(SystemExit, match=rf"{target}' is there already; name another target, or .* --force"):
            run(monkeypatch, tmp_path / "from", tmp_path / target)
    assert (tmp_path / "my.safetensors").read_text() == "precious"
    run(monkeypatch, tmp_path / "from", tmp_path / "my.safetensors", "--force")
    assert load_checkpoint(tmp_path / "my.safetensors").options == bilm.options


def test_a_text_to_warm_up_on_may_be_packed_and_has_a_sentence(
    bilm: BiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"The boat leaks .\n"))
    run(monkeypatch, tmp_path / "from", tmp_path / "to", "--warm-on", tmp_path / "text.gz")
    assert build_bilm(load_checkpoint(tmp_path / "to")).warm_state is not None
    (tmp_path / "empty").touch()
    with pytest.raises(SystemExit, match="empty: found no sentence to warm up on; wanted one a line"):
        run(monkeypatch, tmp_path / "from", tmp_path / "other", "--warm-on", tmp_path / "empty")
