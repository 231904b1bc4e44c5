"""AllenNLP's own tools on our models, as the table of `docs/guides/allennlp-tools.md` has them."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.confidence_checks.normalization_bias_verification import NormalizationBiasVerification
from allennlp.data import DataLoader, TextFieldTensors, Vocabulary
from allennlp.interpret.attackers import Hotflip, InputReduction
from allennlp.interpret.influence_interpreters import InfluenceInterpreter
from allennlp.interpret.saliency_interpreters import IntegratedGradient, SimpleGradient, SmoothGradient
from allennlp.models import Model, load_archive
from allennlp.models.heads import Head
from allennlp.models.multitask import MultiTaskModel
from allennlp.modules import Seq2SeqEncoder, TextFieldEmbedder
from allennlp.modules.backbones import Backbone
from allennlp.nn.util import get_text_field_mask, sequence_cross_entropy_with_logits
from allennlp.predictors import Predictor
from allennlp.training.metrics import CategoricalAccuracy
from torch import Tensor, nn

from tests.oracles import options
from tests.pretraining_runs import config as pretraining_config
from tests.task_oracles import (
    OPINIONS,
    TOWNS,
    Config,
    D,
    allennlp,
    as_tensors,
    classifier,
    csv_reader,
    experiment,
    lstm,
    tagger,
    tags_reader,
    train,
    word_embedder,
)

KINDS = ["tagger", "classifier", "bilm"]
ELMO = {"bilm": {"options": options().to_dict(), "seed": 0}, "dropout": 0.0}
INTERPRETERS: list[Any] = [SimpleGradient, IntegratedGradient, SmoothGradient, Hotflip, InputReduction]
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
GROUPS = {"tagger": "scalar_parameters$", "classifier": "scalar_parameters$", "bilm": "token_encoder"}
FROZEN = {"tagger": "^text.encoder", "classifier": "^text.encoder", "bilm": "backward_layers.0"}


def config_of(kind: str, folder: Path) -> Config:
    """A config without shuffling, whose trainer uses what `TRAINER` lists."""
    if kind == "tagger":
        config = experiment(tagger(ELMO, **CONSTANT), tags_reader(), TOWNS)
    elif kind == "classifier":
        config = experiment(classifier(ELMO, **CONSTANT), csv_reader(), OPINIONS)
    else:
        config = pretraining_config(folder, "sentence_batches")
        config["data_loader"]["batches_per_epoch"] = 4
        config["vocabulary"] = {**config["vocabulary"], "max_size": 12}
    if kind != "bilm":
        config["data_loader"]["shuffle"] = False
    optimizer = {"type": "adam", "lr": 0.01, "parameter_groups": [[[GROUPS[kind]], {"lr": 0.4}]]}
    return {**config, "trainer": {**TRAINER, "optimizer": optimizer, "no_grad": [FROZEN[kind]]}}


class Run:
    """A model that was trained once for all tests."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder / "run"
        self.config = config_of(kind, folder)
        self.config_file = folder / "config.json"
        self.config_file.write_text(json.dumps(self.config), encoding="utf-8")
        self.model = train(self.config, self.folder)
        self.archive = self.folder / "model.tar.gz"
        self.data = self.config["validation_data_path"]

    def predictor(self) -> Any:
        """Its default predictor."""
        return Predictor.from_path(str(self.archive), frozen=False, import_plugins=False)


def last_json(printed: str) -> Any:
    """The metrics after whatever else was printed."""
    return json.loads(printed[printed.rindex("{\n") :])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """The run of each kind."""
    made: dict[str, Run] = {}

    def run(kind: str) -> Run:
        if kind not in made:
            made[kind] = Run(kind, tmp_path_factory.mktemp(kind))
        return made[kind]

    return run


@pytest.fixture(params=KINDS)
def run(request: pytest.FixtureRequest, runs: Callable[[str], Run]) -> Run:
    """The run of one kind."""
    return runs(request.param)


def test_what_a_trainer_is_told_is_done(run: Run) -> None:
    (state_file,) = run.folder.glob("training_state_*")
    state = torch.load(state_file)
    assert [group["lr"] for group in state["optimizer"]["param_groups"]] == [0.4 / 4, 0.01 / 4]
    averages = state["moving_average"]["shadows"]
    assert averages and not any(FROZEN[run.kind].strip("^") in name for name in averages)
    assert run.model.epoch == 2
    assert list((run.folder / "log" / "train").glob("events*"))
    assert not (run.folder / "metrics_epoch_0.json").read_text().count("validation")  # `should_validate_callback`
    if run.kind == "bilm":
        weight = run.model.bilm.lstm.backward_layers[0].weight_hh
        assert torch.equal(weight, Model.from_archive(str(run.archive)).bilm.lstm.backward_layers[0].weight_hh)
    else:
        assert all((weight == 0.25).all() for weight in run.model.text.encoder.parameters())


def test_several_files_are_evaluated_as_each_alone(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / f"other{Path(run.data).suffix}"
    other.write_bytes(Path(run.data).read_bytes())
    capsys.readouterr()
    allennlp("evaluate", run.archive, f"{run.data},{other}", "--predictions-output-file", f"{tmp_path}/1,{tmp_path}/2")
    metrics = last_json(capsys.readouterr().out)
    alone = json.loads((run.folder / "metrics.json").read_text())
    for name in ("towns", "opinions", "heldout", "other"):
        if f"{name}_loss" in metrics:
            assert metrics[f"{name}_loss"] == pytest.approx(alone["best_validation_loss"], abs=1e-5)
    assert "other_loss" in metrics and (tmp_path / "1").read_text() == (tmp_path / "2").read_text() != ""


def test_an_archive_is_a_model_to_train_further(run: Run, tmp_path: Path) -> None:
    config = {**run.config, "model": {"type": "from_archive", "archive_file": str(run.archive)}}
    config["vocabulary"] = {"type": "from_files", "directory": str(run.folder / "vocabulary")}
    config["trainer"] = {"num_epochs": 1, "cuda_device": -1, "optimizer": {"type": "sgd", "lr": 1e-12}}
    model = train(config, tmp_path / "run")
    for name, value in load_archive(run.archive).model.named_parameters():
        torch.testing.assert_close(model.get_parameter(name), value, atol=1e-6, rtol=0)


def test_a_predictor_shows_the_insides_of_its_model(run: Run) -> None:
    predictor = run.predictor()
    assert not predictor._model.training  # an archive is loaded for prediction, whatever `frozen` says
    with predictor.capture_model_internals() as internals:
        answer = predictor.predict_json(QUESTION)
    shown = {each["name"].partition("(")[0]: each["output"] for each in internals.values()}
    assert answer["tokens"] == QUESTION["tokens"] and {"Embedding", "Highway"} <= shown.keys() and json.dumps(internals)
    if run.kind != "bilm":
        assert torch.tensor(shown["BiLM"][0]).shape == (3, 1, len(QUESTION["tokens"]) + 2, D)


def test_the_check_of_biases_before_normalization_passes(run: Run) -> None:
    archive = load_archive(run.archive)
    keys = archive.config.get("validation_data_loader") or archive.config["data_loader"]
    loader = DataLoader.from_params(keys, reader=archive.validation_dataset_reader, data_path=run.data)
    loader.index_with(archive.model.vocab)
    assert NormalizationBiasVerification(archive.model).check(next(iter(loader)))


def test_interpreters_say_that_they_need_a_label(runs: Callable[[str], Run]) -> None:
    embedder = Predictor.from_path(str(runs("tagger").archive), "elmo_embedder", import_plugins=False)
    predictors = {"bilm": runs("bilm").predictor(), "elmo_embedder": embedder}
    for tool, (name, predictor) in product(INTERPRETERS, predictors.items()):
        ask: Any = getattr(tool(predictor), "saliency_interpret_from_json", None) or tool(predictor).attack_from_json
        with pytest.raises(ConfigurationError, match=f"got '{name}'"):
            ask(QUESTION)


def gradient_of(model: Model, parameters: list[nn.Parameter], batch: Any) -> Tensor:
    """The gradient of the loss of a batch, of all parameters in a row."""
    gradients = torch.autograd.grad(model(**batch)["loss"], parameters, materialize_grads=True)
    return torch.cat([gradient.reshape(-1) for gradient in gradients])


@pytest.mark.parametrize(("kind", "overrides"), [("tagger", {}), ("bilm", {"model.kernel": "reference"})])
def test_influences_are_those_of_hessians_by_differences(
    kind: str, overrides: Config, runs: Callable[[str], Run]
) -> None:
    run = runs(kind)
    keys = {"recursion_depth": 1, "lissa_batch_size": 100, "damping": 0.003, "scale": 10.0}
    tool: Any = InfluenceInterpreter.from_path(
        run.archive, train_data_path=run.data, import_plugins=False, overrides=overrides, **keys
    )
    model, data = tool.model.double(), list(tool._train_loader.iter_instances())
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    (found,) = tool.interpret_instances(data[:1], k=len(data))
    parameters, whole = tool.used_params, as_tensors(data, model.vocab)
    each = [gradient_of(model, parameters, as_tensors([one], model.vocab)) for one in data]
    v, step = each[0], 1e-4 / float(each[0].norm())
    sizes = [parameter.numel() for parameter in parameters]

    def gradient_after(share: float) -> Tensor:
        with torch.no_grad():
            for parameter, part in zip(parameters, v.split(sizes), strict=True):
                parameter += share * part.view_as(parameter)
        return gradient_of(model, parameters, whole)

    forward, backward = gradient_after(step), gradient_after(-2 * step)
    inverse = (v + (1 - keys["damping"]) * v - (forward - backward) / (2 * step) / keys["scale"]) / keys["scale"]
    expected = sorted((float(inverse @ gradient) for gradient in each), reverse=True)
    assert [one.score for one in found.top_k] == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert len({one.score for one in found.top_k}) > 3


def test_influences_on_the_fast_kernel_are_an_error(runs: Callable[[str], Run]) -> None:
    keys = {"train_data_path": runs("bilm").data, "recursion_depth": 1, "import_plugins": False}
    with pytest.raises(RuntimeError, match=r"'kernel'.*'reference'"):
        InfluenceInterpreter.from_path(runs("bilm").archive, **keys).interpret_from_file(runs("bilm").data, k=1)


@Backbone.register("test_text")
class TextBackbone(Backbone):
    """Embeds and encodes a text for all heads."""

    def __init__(self, vocab: Vocabulary, text_field_embedder: TextFieldEmbedder, encoder: Seq2SeqEncoder) -> None:
        super().__init__()
        self.embedder = text_field_embedder
        self.encoder = encoder

    def forward(self, tokens: TextFieldTensors) -> dict[str, Tensor]:  # type: ignore[override]
        """Return what AllenNLP's head `classifier` reads."""
        mask = get_text_field_mask(tokens)
        return {"encoded_text": self.encoder(self.embedder(tokens), mask), "encoded_text_mask": mask}


@Head.register("test_tags")
class TagHead(Head):
    """Gives each token a tag."""

    def __init__(self, vocab: Vocabulary, input_dim: int) -> None:
        super().__init__(vocab)
        self.projection = nn.Linear(input_dim, vocab.get_vocab_size("tags"))
        self.accuracy = CategoricalAccuracy()

    def forward(
        self, encoded_text: Tensor, encoded_text_mask: Tensor, tags: Optional[Tensor] = None
    ) -> dict[str, Tensor]:
        """Score the tags."""
        logits = self.projection(encoded_text)
        if tags is None:
            return {"logits": logits}
        self.accuracy(logits, tags, encoded_text_mask)
        return {"logits": logits, "loss": sequence_cross_entropy_with_logits(logits, tags, encoded_text_mask)}

    def get_metrics(self, reset: bool = False) -> dict[str, float]:
        """Return the accuracy."""
        return {"accuracy": self.accuracy.get_metric(reset)}


@Head.register("test_texts")
class TextsHead(Head):
    """Notes the texts that it reads."""

    def __init__(self, vocab: Vocabulary) -> None:
        super().__init__(vocab)
        self.read: list[list[int]] = []

    def forward(self, tokens: TextFieldTensors) -> dict[str, Tensor]:  # type: ignore[override]
        """Note the ids."""
        self.read += tokens["tokens"]["tokens"].tolist()
        return {}


class NoBackbone(Backbone):
    """Computes nothing."""

    def forward(self) -> dict[str, Tensor]:  # type: ignore[override]
        """Return nothing."""
        return {}


def test_each_head_reads_the_texts_of_its_own_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> list[list[list[int]]]:
        heads = {"one": TextsHead(Vocabulary()), "other": TextsHead(Vocabulary())}
        ids = torch.arange(8).view(4, 2)
        tokens = {"tokens": {"tokens": ids}}
        MultiTaskModel(Vocabulary(), NoBackbone(), heads)(tokens=tokens, task=["other", "one", "other", "one"])
        assert tokens["tokens"]["tokens"] is ids
        return [head.read for head in heads.values()]

    assert read() == [[[2, 3], [6, 7]], [[0, 1], [4, 5]]]
    monkeypatch.setattr(MultiTaskModel, "_get_arguments", MultiTaskModel._get_arguments.__wrapped__)
    with pytest.raises(IndexError):
        read()


def test_two_tasks_share_elmo_in_one_multitask_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"tags": str(TOWNS), "topics": str(OPINIONS)}
    embedder = word_embedder(5, elmo={"type": "elmo", **ELMO})
    pooling = {"type": "boe", "embedding_dim": 12, "averaged": True}
    config: Config = {
        "dataset_reader": {
            "type": "multitask",
            "readers": {"tags": tags_reader(label_namespace="tags"), "topics": csv_reader()},
        },
        "train_data_path": files,
        "validation_data_path": files,
        "model": {
            "type": "multitask",
            "backbone": {"type": "test_text", "text_field_embedder": embedder, "encoder": lstm(5 + D)},
            "heads": {
                "tags": {"type": "test_tags", "input_dim": 12},
                "topics": {"type": "classifier", "seq2vec_encoder": pooling},
            },
        },
        "data_loader": {"type": "multitask", "scheduler": {"batch_size": 4}},
        "trainer": {"num_epochs": 1, "optimizer": "adam", "cuda_device": -1},
    }
    train(config, tmp_path / "run")
    capsys.readouterr()
    allennlp("evaluate", tmp_path / "run" / "model.tar.gz", json.dumps(files))
    metrics = last_json(capsys.readouterr().out)
    best = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert {"tags_accuracy", "topics_accuracy"} <= metrics.keys()
    assert all(metrics[name] == best[f"best_validation_{name}"] for name in ("tags_accuracy", "topics_accuracy"))
    embed = Predictor.from_path(str(tmp_path / "run" / "model.tar.gz"), "elmo_embedder", import_plugins=False)
    assert len(embed.predict_json(QUESTION)["elmo"]) == 4
