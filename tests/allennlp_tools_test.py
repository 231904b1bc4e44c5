"""AllenNLP's own tools on our models, as the table of `docs/guides/allennlp-tools.md` has them."""

import json
from pathlib import Path

import pytest
import torch
from allennlp.data import TextFieldTensors, Vocabulary
from allennlp.interpret.influence_interpreters import InfluenceInterpreter
from allennlp.models import load_archive
from allennlp.models.heads import Head
from allennlp.models.multitask import MultiTaskModel
from allennlp.modules.backbones import Backbone
from allennlp.predictors import Predictor
from torch import Tensor

from tests.oracles import options
from tests.pretraining_runs import config as pretraining_config
from tests.task_oracles import (
    TOWNS,
    D,
    allennlp,
    experiment,
    tagger,
    tags_reader,
    train,
)

pytestmark = pytest.mark.slow  # two models are trained

ELMO = {"bilm": {"options": options().to_dict(), "seed": 0}, "dropout": 0.0}
QUESTION = {"tokens": ["Tove", "left", "Harrow", "."]}
CONSTANT = {"initializer": {"regexes": [["^text.encoder", {"type": "constant", "val": 0.25}]]}}
TRAINER = {
    "num_epochs": 2,
    "cuda_device": -1,
    "learning_rate_scheduler": {"type": "step", "step_size": 1, "gamma": 0.5},
    "moving_average": {"type": "exponential", "decay": 0.9},
    "num_gradient_accumulation_steps": 2,
    "checkpointer": {"keep_most_recent_by_count": 1},
    "callbacks": [
        {"type": "tensorboard", "summary_interval": 1, "distribution_interval": 2},
        "track_epoch_callback",
        {"type": "console_logger", "should_log_inputs": True},
        {"type": "should_validate_callback", "validation_start": 1},
    ],
}
GROUPS = {"tagger": "scalar_parameters$", "bilm": "token_encoder"}
FROZEN = {"tagger": "^text.encoder", "bilm": "backward_layers.0"}


class Run:
    """A model that was trained once for all tests, by a trainer that uses what `TRAINER` lists."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder / "run"
        if kind == "tagger":
            self.config = experiment(tagger(ELMO, **CONSTANT), tags_reader(), TOWNS)
            self.config["data_loader"]["shuffle"] = False
        else:
            self.config = pretraining_config(folder, "sentence_batches")
            self.config["data_loader"]["batches_per_epoch"] = 4
        optimizer = {"type": "adam", "lr": 0.01, "parameter_groups": [[[GROUPS[kind]], {"lr": 0.4}]]}
        self.config["trainer"] = {**TRAINER, "optimizer": optimizer, "no_grad": [FROZEN[kind]]}
        self.model = train(self.config, self.folder)
        self.archive = self.folder / "model.tar.gz"
        self.data = self.config["validation_data_path"]


@pytest.fixture(scope="module")
def bilm(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run("bilm", tmp_path_factory.mktemp("bilm"))


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run("tagger", tmp_path_factory.mktemp("tagger"))


@pytest.fixture(params=["tagged", "bilm"])
def run(request: pytest.FixtureRequest) -> Run:
    """The run of each kind."""
    return request.getfixturevalue(request.param)


def test_what_a_trainer_is_told_is_done(run: Run) -> None:
    (state_file,) = run.folder.glob("training_state_*")
    state = torch.load(state_file)
    assert [group["lr"] for group in state["optimizer"]["param_groups"]] == [0.4 / 4, 0.01 / 4]
    averages = state["moving_average"]["shadows"]
    assert averages and not any(FROZEN[run.kind].strip("^") in name for name in averages)
    assert run.model.epoch == 2
    assert list((run.folder / "log" / "train").glob("events*"))
    assert not (run.folder / "metrics_epoch_0.json").read_text().count("validation")  # `should_validate_callback`
    if run.kind == "tagger":
        assert all((weight == 0.25).all() for weight in run.model.text.encoder.parameters())


def test_several_files_are_evaluated_as_each_alone(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / f"other{Path(run.data).suffix}"
    other.write_bytes(Path(run.data).read_bytes())
    outputs = f"{tmp_path}/1,{tmp_path}/2"
    capsys.readouterr()
    allennlp("evaluate", run.archive, f"{run.data},{other}", "--predictions-output-file", outputs)
    printed = capsys.readouterr().out
    metrics = json.loads(printed[printed.rindex("{\n") :])
    alone = json.loads((run.folder / "metrics.json").read_text())["best_validation_loss"]
    for name in (Path(run.data).stem, "other"):
        assert metrics[f"{name}_loss"] == pytest.approx(alone, abs=1e-5)
    assert (tmp_path / "1").read_text() == (tmp_path / "2").read_text() != ""


def test_an_archive_is_a_model_to_train_further(run: Run, tmp_path: Path) -> None:
    config = {**run.config, "model": {"type": "from_archive", "archive_file": str(run.archive)}}
    config["vocabulary"] = {"type": "from_files", "directory": str(run.folder / "vocabulary")}
    config["trainer"] = {"num_epochs": 1, "cuda_device": -1, "optimizer": {"type": "sgd", "lr": 1e-12}}
    model = train(config, tmp_path / "run")
    for name, value in load_archive(run.archive).model.named_parameters():
        torch.testing.assert_close(model.get_parameter(name), value, atol=1e-6, rtol=0)


def test_a_predictor_shows_the_insides_of_its_model(tagged: Run) -> None:
    predictor = Predictor.from_path(str(tagged.archive), frozen=False, import_plugins=False)
    assert not predictor._model.training  # an archive is loaded for prediction, whatever `frozen` says
    with predictor.capture_model_internals() as internals:
        predictor.predict_json(QUESTION)
    shown = {each["name"].partition("(")[0]: each["output"] for each in internals.values()}
    assert {"Embedding", "Highway"} <= shown.keys() and json.dumps(internals)
    assert torch.tensor(shown["BiLM"][0]).shape == (3, 1, len(QUESTION["tokens"]) + 2, D)


def test_influences_on_a_bilm_need_the_kernel_with_second_derivatives(bilm: Run) -> None:
    keys = {"train_data_path": bilm.data, "recursion_depth": 1, "import_plugins": False}
    tool = InfluenceInterpreter.from_path(bilm.archive, overrides={"model.kernel": "reference"}, **keys)
    (found,) = tool.interpret_instances([*tool._train_loader.iter_instances()][:1], k=4)
    assert len({one.score for one in found.top_k}) == 4
    with pytest.raises(RuntimeError, match=r"'kernel'.*'reference'"):
        InfluenceInterpreter.from_path(bilm.archive, **keys).interpret_from_file(bilm.data, k=1)


class TextsHead(Head):
    """Notes the texts that it reads."""

    def __init__(self, vocab: Vocabulary) -> None:
        super().__init__(vocab)
        self.read: list[list[int]] = []

    def forward(self, tokens: TextFieldTensors) -> dict[str, Tensor]:  # type: ignore[override]
        self.read += tokens["tokens"]["tokens"].tolist()
        return {}


class NoBackbone(Backbone):
    """Computes nothing."""

    def forward(self) -> dict[str, Tensor]:  # type: ignore[override]
        return {}


def test_each_head_reads_the_texts_of_its_own_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> list[list[list[int]]]:
        heads = {"one": TextsHead(Vocabulary()), "other": TextsHead(Vocabulary())}
        tokens = {"tokens": {"tokens": torch.arange(8).view(4, 2)}}
        MultiTaskModel(Vocabulary(), NoBackbone(), heads)(tokens=tokens, task=["other", "one", "other", "one"])
        return [head.read for head in heads.values()]

    assert read() == [[[2, 3], [6, 7]], [[0, 1], [4, 5]]]
    monkeypatch.setattr(MultiTaskModel, "_get_arguments", MultiTaskModel._get_arguments.__wrapped__)
    with pytest.raises(IndexError):
        read()
