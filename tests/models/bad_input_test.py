"""Mistakes of users in configs and files, and the errors that they get."""

from pathlib import Path
from typing import Any

import pytest
from allennlp.common.checks import ConfigurationError

from tests.models.configs import ELMO, ELMO_ONLY, stock_tagger
from tests.task_oracles import (
    TOWNS,
    Config,
    D,
    bilm_files,
    experiment,
    lstm,
    tagger,
    tags_reader,
    train,
)


def towns(model: Config, data: Path = TOWNS, **trainer: Any) -> Config:
    return experiment(model, tags_reader(token_indexers=ELMO_ONLY), data, **trainer)


def error_of(config: Config, folder: Path) -> str:
    """The error of `allennlp train`, which comes before any weights are written."""
    with pytest.raises(ConfigurationError) as caught:
        train(config, folder / "run")
    assert not list((folder / "run").glob("*.th"))
    return str(caught.value)


def test_an_unknown_choice_of_a_misspelled_key_is_named_with_its_place(tmp_path: Path) -> None:
    found = error_of(towns(stock_tagger(elmo={**ELMO, "mix": "sclar"})), tmp_path)
    assert "elmo.mix'" in found and "scalar, average" in found and "sclar" in found
    found = error_of(towns(tagger(ELMO, elmoat="input")), tmp_path / "other")
    assert "'model.elmoat'" in found and "'elmo_at'" in found


def test_a_bilm_that_does_not_exist_is_named(tmp_path: Path) -> None:
    source = "/no/such/model.tar.gz"
    assert f"'{source}'" in error_of(towns(stock_tagger(elmo={"bilm": {"pretrained": source}})), tmp_path)
    files = bilm_files(tmp_path / "bilm")
    Path(files["weight_file"]).unlink()
    found = error_of(towns(tagger(files)), tmp_path / "other")
    assert "weight_file'" in found and "weights.hdf5" in found


def test_the_wrong_number_of_layers_of_elmo_enhanced_is_an_error_with_both_widths(tmp_path: Path) -> None:
    sizes = {"num_elmo_layers": 4, "layer_dim": D}
    encoder = {"type": "elmo_enhanced", "encoder": lstm(D), **sizes}
    model = {**stock_tagger(elmo={**ELMO, "mix": "concatenate"}), "encoder": encoder}
    assert "48 and 64" in error_of(towns(model), tmp_path)


def test_an_unknown_metric_is_an_error_that_lists_those_of_the_model(tmp_path: Path) -> None:
    found = error_of(towns(tagger(ELMO), validation_metric="+f1"), tmp_path)  # before the first epoch
    assert "'trainer.validation_metric'" in found and "accuracy" in found and "got 'f1'" in found
    per_label = {"label_encoding": "BIO", "verbose_metrics": True}
    train(towns(tagger(ELMO, **per_label), num_epochs=1, validation_metric="+f1-measure-PER"), tmp_path / "right")


@pytest.mark.parametrize(
    ("metric", "meant"), [("-accuracy", "'+accuracy'"), ("+loss", "'-loss'"), ("+accuracy", None), ("-loss", None)]
)
def test_a_metric_with_the_wrong_sign_is_a_warning(metric: str, meant: str | None, tmp_path: Path) -> None:
    train(towns(tagger(ELMO), num_epochs=1, validation_metric=metric), tmp_path)
    log = (tmp_path / "out.log").read_text(encoding="utf-8")
    assert (f"write {meant} for the other end" in log) if meant else ("for the other end" not in log)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"num_epochs": 0}, "'trainer.num_epochs': expected 1 or more, got 0"),
        ({"cuda_device": "cuda"}, "'trainer.cuda_device': expected a whole number or null, got \"cuda\""),
    ],
)
def test_a_value_that_the_trainer_cannot_use_is_named(keys: Config, message: str, tmp_path: Path) -> None:
    assert message in error_of(towns(tagger(ELMO), **keys), tmp_path)


@pytest.mark.parametrize("validates", [True, False])
def test_what_training_can_only_do_with_validation_data_is_a_warning_without(
    validates: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = towns(tagger(ELMO), num_epochs=1, validation_metric="+accuracy", patience=1)
    if not validates:
        del config["validation_data_path"]
    train(config, tmp_path / "run")
    expected = "'trainer.validation_metric' and 'trainer.patience': expected 'validation_data_path', got none"
    assert (expected in caplog.text) == (not validates)


@pytest.mark.slow
@pytest.mark.parametrize("loader", [{}, {"num_workers": 1}, {"type": "simple"}], ids=str)
def test_labels_that_only_the_validation_data_have_are_a_warning(loader: Config, tmp_path: Path) -> None:
    new = tmp_path / "new.txt"
    new.write_text("Quill B-MISC\nsailed O\n", encoding="utf-8")
    config = towns(tagger(ELMO), num_epochs=1)
    config["data_loader"] = {"batch_size": 2, **loader}
    train(config, tmp_path / "same")
    train({**config, "validation_data_path": str(new)}, tmp_path / "new")
    logs = [(tmp_path / name / "out.log").read_text(encoding="utf-8") for name in ("same", "new")]
    assert "1 label of 'tags' does not occur in train (B-MISC)" in logs[1]
    assert "do not occur in train" not in logs[0]


def test_a_missing_indexer_is_an_error_that_says_what_to_add(tmp_path: Path) -> None:
    config = experiment(tagger(ELMO), tags_reader(token_indexers={"tokens": {"type": "single_id"}}), TOWNS)
    found = error_of(config, tmp_path)
    assert "'elmo_indexer'" in found and "elmo: { type: 'elmo_characters' }" in found
