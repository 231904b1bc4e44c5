"""Archives and runs of the language model `bilm`, whose softmax and vocabulary are read with its biLM."""

import tarfile
from pathlib import Path

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.elmo import Elmo as ReferenceElmo

from elmo_plugin.checkpoints import AllenNlpArchive, Checkpoint, build_bilm, load_checkpoint
from elmo_plugin.checkpoints.conversion import convert
from elmo_plugin.text import batch_to_ids
from tests.checkpoint_oracles import (
    WORDS,
    assert_same_checkpoint,
    language_model_archive,
    language_model_run,
    language_model_weights,
    pretrained,
)
from tests.oracles import SENTENCES, reference_layers


def other() -> Checkpoint:
    """A checkpoint with other weights than `pretrained` has."""
    checkpoint = pretrained()
    return checkpoint._replace(state_dict={name: value + 1.0 for name, value in checkpoint.state_dict.items()})


def refusal(location: Path) -> str:
    """The message with which a location is refused."""
    with pytest.raises(ConfigurationError) as error:
        load_checkpoint(location)
    return str(error.value.message)


def test_the_archive_of_a_language_model_gives_all_that_it_learned(tmp_path: Path) -> None:
    checkpoint = pretrained(warm=True)
    assert_same_checkpoint(load_checkpoint(language_model_archive(tmp_path / "model.tar.gz", checkpoint)), checkpoint)


def test_the_folder_of_a_run_gives_the_same(tmp_path: Path) -> None:
    assert_same_checkpoint(load_checkpoint(language_model_run(tmp_path / "run", pretrained())), pretrained())


def test_without_a_vocabulary_beside_the_weights_there_is_none(tmp_path: Path) -> None:
    found = load_checkpoint(language_model_archive(tmp_path / "model.tar.gz", pretrained(), "vocabulary"))
    assert_same_checkpoint(found, pretrained()._replace(vocabulary=None))


def test_the_config_is_not_read(tmp_path: Path) -> None:
    """Weights say by themselves what they are; a config may have been overridden."""
    found = load_checkpoint(language_model_archive(tmp_path / "model.tar.gz", pretrained(), "config.json"))
    assert_same_checkpoint(found, pretrained())


def test_a_bilm_deeper_in_a_model_has_neither(tmp_path: Path) -> None:
    run = language_model_run(tmp_path / "run", pretrained())
    weights = {f"text_field_embedder.{name}": value for name, value in language_model_weights(pretrained()).items()}
    torch.save(weights, run / "best.th")
    assert_same_checkpoint(load_checkpoint(run), pretrained()._replace(softmax=None, vocabulary=None))


def test_a_run_without_best_weights_is_read_as_its_latest_checkpoint_left_it(tmp_path: Path) -> None:
    """Of the points in time 2 < 10, as numbers, and 11, whose training state was never written."""
    run = tmp_path / "run"
    for point, checkpoint in {"e0_b2": other(), "e0_b10": pretrained(), "e0_b11": other()}.items():
        language_model_run(run, checkpoint, f"model_state_{point}.th")
    for point in ("e0_b2", "e0_b10"):
        (run / f"training_state_{point}.th").touch()
    assert AllenNlpArchive().recognises(run)
    assert_same_checkpoint(load_checkpoint(run), pretrained())
    language_model_run(run, other(), "model_state_e1_b0.th")
    (run / "training_state_e1_b0.th").touch()
    assert_same_checkpoint(load_checkpoint(run), other())
    language_model_run(run, pretrained(), "best.th")
    assert_same_checkpoint(load_checkpoint(run), pretrained())


def test_a_run_that_saved_nothing_yet_holds_no_bilm(tmp_path: Path) -> None:
    run = language_model_run(tmp_path / "run", pretrained(), "model_state_e0_b2.th")
    assert refusal(run).endswith("got a folder with config.json, model_state_e0_b2.th, vocabulary")


def test_words_end_where_their_line_ends(tmp_path: Path) -> None:
    run = language_model_run(tmp_path / "run", pretrained())
    (run / "vocabulary/tokens.txt").write_bytes("<S>\n</S>\n@@UNKNOWN@@\na\u2028b\n\x0b\n\x1c\x85\nend".encode())
    assert load_checkpoint(run).vocabulary == ["<S>", "</S>", "<UNK>", "a\u2028b", "\x0b", "\x1c\x85", "end"]


def test_a_spoilt_vocabulary_beside_the_weights_is_named(tmp_path: Path) -> None:
    run = language_model_run(tmp_path / "packed", pretrained(), "weights.th")
    (run / "vocabulary/tokens.txt").write_bytes(b"\xff")
    archive = tmp_path / "model.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        for part in run.iterdir():
            packed.add(part, arcname=part.name)
    assert refusal(archive).startswith(f"{archive}!vocabulary/tokens.txt, line 1: found byte 0xff")


def test_an_archive_exported_to_bilm_tf_runs_the_same_in_allennlps_elmo(tmp_path: Path) -> None:
    convert(language_model_archive(tmp_path / "model.tar.gz", pretrained()), tmp_path / "exported")
    files = (str(tmp_path / "exported" / name) for name in ("options.json", "weights.hdf5"))
    reference = ReferenceElmo(*files, 1, dropout=0.0)
    ids = batch_to_ids(SENTENCES)
    bilm = build_bilm(pretrained())
    mask = bilm(ids).mask[None, ..., None]  # (1, B, T + 2, 1)
    wanted = reference_layers(reference, ids)  # (L, B, T + 2, D)
    torch.testing.assert_close(bilm(ids).layers * mask, wanted * mask, rtol=0, atol=1e-5)
    assert (tmp_path / "exported/vocabulary.txt").read_bytes() == "\n".join([*WORDS, ""]).encode()
