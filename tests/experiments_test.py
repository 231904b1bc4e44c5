"""The programs of `experiments/`: the grid on the demos and for one epoch, and what prepares or scores data."""

import argparse
import functools
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from _jsonnet import evaluate_snippet
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.models import Model

from benchmarks import speedups
from elmo_plugin.checkpoints import build_bilm, load_checkpoint
from elmo_plugin.models import ElmoClassifier
from elmo_plugin.text import batch_to_ids
from experiments import grid, how_much_text
from experiments import run as grid_run
from experiments.grid import EXPERIMENTS, main
from experiments.run import CONFIGS, TASKS, Run, config, read_task, write_sample
from experiments.why_elmo import __main__ as why_elmo
from experiments.why_elmo import plot
from experiments.why_elmo.table import facts, lines
from experiments.why_elmo.tasks import DEFAULT, POSSIBLE, ToolRun
from experiments.widen import widened
from experiments.word_vectors import write_vectors
from tests.task_oracles import D, L, bilm_files

ROOT = CONFIGS.parent
DEMOS = {
    "demo": ("tag/demo", "grid+:: { train: 20, dev: 5, epochs: 1, patience: 3 }"),
    "demo_reviews": ("classify/demo", "grid+:: { train: 20, dev: 10, epochs: 1, patience: 3 }"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configs of two tasks for tests, and a small biLM."""
    folder = tmp_path_factory.mktemp("files")
    bilm_files(folder / "bilm")
    for name, (extended, fields) in DEMOS.items():
        task_config(folder / name, extended, fields)
    return folder


@pytest.fixture(autouse=True)
def demos(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the two tasks, and the biLM for the variant `your_bilm`."""
    monkeypatch.setenv("ELMO_BILM", str(files / "bilm"))
    monkeypatch.setenv("ELMO_BILM_LAYERS", str(L - 1))
    monkeypatch.setenv("ELMO_BILM_PROJECTION", str(D // 2))
    monkeypatch.chdir(ROOT)
    for name in DEMOS:
        monkeypatch.setitem(TASKS, name, files / name / "task.jsonnet")


def task_config(folder: Path, extended: str, fields: str) -> Path:
    """Write a config of a task that extends one of training_configs."""
    folder.mkdir(parents=True)
    extended = json.dumps(str(CONFIGS / f"{extended}.jsonnet"))
    (folder / "task.jsonnet").write_text(f"(import {extended}) {{ {fields} }}", encoding="utf-8")
    return folder / "task.jsonnet"


def command(runs: Path, line: str) -> int:
    """Run the driver with the folder of the runs and this command line."""
    return main([str(runs), *shlex.split(line)])


def params_of(variant: str) -> Params:
    return Params.from_file(CONFIGS / f"variants/{variant}.jsonnet", ext_vars={"TASK": "demo"})


def built(variant: str) -> Any:
    """Build a variant's model for the demo, with the layer weights log 1, log 2, log 3."""
    vocabulary = Vocabulary()
    vocabulary.add_tokens_to_namespace(["O", "B-PER", "I-PER"], "labels")
    model = Model.from_params(params_of(variant)["model"], vocab=vocabulary, serialization_dir="")
    for name, parameter in model.named_parameters():
        if name.endswith("scalar_parameters"):
            parameter.data.copy_(torch.tensor([1.0, 2.0, 3.0]).log())
    return model


def write_score(run: Run, score: float) -> None:
    """Write what a run leaves that ended with this score."""
    run.path().mkdir(parents=True)
    (run.path() / "metrics.json").write_text(json.dumps({f"best_validation_{run.facts().metric}": score}))
    (run.path() / "grid.json").write_text("{}")


def test_every_config_of_a_corpus_is_a_task_of_the_programs_and_of_the_variable() -> None:
    configs = [path for kind in ("tag", "classify", "parse") for path in (CONFIGS / kind).glob("*.jsonnet")]
    names = {path.stem for path in configs if path.stem != "demo"}
    assert TASKS.keys() - DEMOS.keys() == names
    assert len(names) == len(configs) - 2  # no two configs of a corpus share a name
    assert set(POSSIBLE) == names - {"ud_parsing"} and set(grid.PAPER) | set(DEFAULT) < names
    library = CONFIGS / "lib/task.libsonnet"
    imported = dict(re.findall(r"^  (\w+): import '\.\./(.+)',$", library.read_text(encoding="utf-8"), re.M))
    assert {name: CONFIGS / imported[name] for name in names} == {name: TASKS[name] for name in names}
    snippet = f"(import {json.dumps(str(library))}).trainer.validation_metric"
    assert json.loads(evaluate_snippet("", snippet, ext_vars={"TASK": "ag_news"})) == "+accuracy"


@pytest.mark.slow
def test_what_a_task_is_stands_in_its_config_and_needs_no_variable_of_the_environment() -> None:
    facts = {name: read_task(TASKS[name]) for name in ("litbank_events", "ag_news", "conll2003_ner", "ud_parsing")}
    litbank = ("f1-measure-EVENT", "$LITBANK/train.tsv", "$LITBANK/dev.tsv", 5263, 935, 4, 3, "\n\n")
    assert facts["litbank_events"] == litbank
    assert facts["ag_news"] == ("accuracy", "$AG_NEWS/train.csv", "$AG_NEWS/dev.csv", 1000, 2000, 15, 5, "\n")
    conll = ("f1-measure-overall", "$CONLL2003/train.txt", "$CONLL2003/dev.txt", None, None, 30, 5, "\n\n")
    assert facts["conll2003_ner"] == conll
    assert facts["ud_parsing"] == ("LAS", "$UD_EWT/train.conllu", "$UD_EWT/dev.conllu", 2000, 2001, 15, 3, "\n\n")


@pytest.mark.slow
def test_a_task_whose_config_sets_no_sizes_takes_the_whole_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONLL2003", str(tmp_path))
    (tmp_path / "train.txt").write_text("It PRP O O\n\n" * 70, encoding="utf-8")
    run = Run(tmp_path, "conll2003_ner", "elmo", 1, 0.1)
    (tmp_path / "run.jsonnet").write_text(config(run), encoding="utf-8")
    params = Params.from_file(tmp_path / "run.jsonnet", ext_vars={"TASK": ""})
    assert run.size() == 7
    assert params["dataset_reader"]["max_instances"] is None
    assert params["data_loader"]["batches_per_epoch"] == 3  # 70 sentences in batches of 32
    command(tmp_path, "--table --tasks conll2003_ner --experiments int8")
    assert "| `conll2003_ner` | span F1 | all | all | 30, 5 |" in capsys.readouterr().out


def test_a_failed_run_stops_no_other_and_only_unfinished_runs_are_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained: list[str] = []

    def train(run: Run) -> tuple[Run, float]:
        trained.append(run.path().name)
        if trained.count("elmo-1") != 1 or run.variant != "elmo":  # `elmo` fails at first
            write_score(run, 0.5)
        return run, 0.0

    monkeypatch.setattr(grid, "train", train)
    arguments = "--tasks demo --variants elmo without_elmo --seeds 1"
    assert command(tmp_path, arguments) == 1
    printed = capsys.readouterr()
    assert f"demo, elmo-1: failed, see {tmp_path / 'demo/elmo-1.log'}" in printed.err + printed.out
    assert "| `demo` |  | 50.00 |" in printed.out
    assert command(tmp_path, arguments) == 0
    assert trained == ["elmo-1", "without_elmo-1", "elmo-1"]


@pytest.mark.slow
@pytest.mark.parametrize("keeps_archive", [False, True])
def test_a_run_writes_what_reports_read_and_no_weights(
    keeps_archive: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It trains on a fraction of the data for as many steps, and all of a second development set is scored, too."""
    fields = "grid+:: { train: 20, dev: 4, epochs: 1, patience: 3 }"
    monkeypatch.setitem(TASKS, "demo_reviews", task_config(tmp_path / "cut", "classify/demo", fields))
    source = (ROOT / "training_configs/classify/demo/dev.csv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "demo_reviews.dev2").write_text("\n".join(source[-7:]), encoding="utf-8")
    run = Run(tmp_path, "demo_reviews", "your_bilm", 3, 0.1)
    evaluated: list[int] = []
    forward = ElmoClassifier.forward

    def counted(self: ElmoClassifier, *args: Any, **kwargs: Any) -> Any:
        output = forward(self, *args, **kwargs)
        evaluated.extend([len(output["probs"])] * (not self.training))
        return output

    monkeypatch.setattr(ElmoClassifier, "forward", functools.wraps(forward)(counted))
    grid_run.train(run, keeps_archive)
    assert sum(evaluated) == 4 + 7
    place = {"task": "demo_reviews", "variant": "your_bilm", "seed": 3, "fraction": 0.1, "metric": "accuracy"}
    assert json.loads((run.path() / "grid.json").read_text()) == place
    metrics = json.loads((run.path() / "metrics.json").read_text())
    assert json.loads((run.path() / "layer_weights.json").read_text()).keys() == {"input", "output"}
    assert [path.name for path in tmp_path.rglob("*") if path.suffix in (".th", ".gz")] == [
        "model.tar.gz"
    ] * keeps_archive
    config = json.loads((run.path() / "config.json").read_text())
    assert config["data_loader"]["batches_per_epoch"] == 3  # 20 texts in batches of 8
    scores = [100 * metrics[name] for name in ("best_validation_accuracy", "test_accuracy")]
    assert [run.score(), run.score("test")] == scores


def test_a_fraction_of_the_data_is_drawn_by_the_seed_from_the_first_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "train.conll"
    fields = f"data+:: {{ train: {json.dumps(str(source))} }}, grid+:: {{ train: 20 }}"
    monkeypatch.setitem(TASKS, "demo", task_config(tmp_path / "drawn", "tag/demo", fields))
    source.write_text("".join(f"\u2028{n} O\r\n. O\n \t\n\n" for n in range(30)), newline="", encoding="utf-8")

    def drawn(fraction: float, variant: str = "elmo", seed: int = 1) -> list[bytes]:
        run = Run(tmp_path, "demo", variant, seed, fraction)
        run.path().parent.mkdir(exist_ok=True)
        write_sample(run)
        return run.path(".train").read_bytes().removesuffix(b"\n\n").split(b"\n\n")

    assert set(drawn(0.999)) == {f"\u2028{n} O\r\n. O".encode() for n in range(20)}
    assert [len(drawn(fraction)) for fraction in (0.01, 0.1, 0.25)] == [1, 2, 5]
    assert set(drawn(0.1)) < set(drawn(0.25))
    assert drawn(0.25) == drawn(0.25, "without_elmo") != drawn(0.25, seed=2)


def test_tables_have_mean_and_deviation_and_the_number_of_missing_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "demo_reviews.dev2").touch()  # came later, so no run has a score on it
    for variant, seed, score in [("elmo", 1, 0.5), ("elmo", 2, 0.6), ("input_only", 1, 0.4)]:
        write_score(Run(tmp_path, "demo_reviews", variant, seed), score)
    command(tmp_path, "--table --tasks demo_reviews --experiments places --seeds 1 2")
    printed = capsys.readouterr().out
    assert "| `demo_reviews` | accuracy | 20 | 10 | 1, 3 |" in printed
    assert "|  | input | both (ELMo) | output |" in printed
    assert "| `demo_reviews` | 40.00 (1 of 2 seeds) | 55.00 ± 7.07 |  |" in printed
    assert "| `demo_reviews`, second dev |  |  |  |" in printed


def test_lambda_weighs_the_squares_of_the_mixes_weights_and_gamma_is_fixed() -> None:
    model = built("lambda_0.001")
    squares = 2 * sum(value**2 for value in torch.tensor([1.0, 2.0, 3.0]).log().tolist())
    assert model.get_regularization_penalty().item() == pytest.approx(0.001 * squares)
    parameters = [*model.named_parameters()]
    (pattern,) = params_of("fixed_gamma")["trainer"]["no_grad"]
    assert sum(bool(re.search(pattern, name)) for name, _ in parameters) == 2  # one per mix


def test_every_condition_is_a_variant() -> None:
    conditions = {condition.variant for experiment in EXPERIMENTS.values() for condition in experiment.conditions}
    assert conditions <= {path.stem for path in (CONFIGS / "variants").glob("*.jsonnet")}


def test_the_table_of_tools_is_built_from_the_files_that_their_runs_leave(tmp_path: Path) -> None:
    write = {
        "bert/result.json": {"cpu_seconds": 5400, "megabytes": 31.4},
        "vectors/bert/ud_pos.json": {"sentences": 3000, "cpu_seconds": 20.0, "dim": 256},
    }
    for seed, score in ((1, 0.9), (2, 0.92)):
        run = ToolRun(tmp_path / "tasks", "ud_pos", "bert", seed)
        write_score(run, score)
        write[f"tasks/ud_pos/bert-{seed}/speed.json"] = {"sentences": 6000, "cpu_seconds": 60 * seed}
    for name, content in write.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    all_data, _ = (line for line in lines(tmp_path, ["bert"], DEFAULT) if line.startswith("| `bert` |"))
    assert all_data == "| `bert` | 91.00 ± 1.41 (2 of 3 seeds) |  |  |  |  |  | 1.50 | 31 | 150 | 67 |"
    assert "|  | `imdb` | mean |" in "\n".join(lines(tmp_path, ["bert"], ["imdb"]))
    *others, last = facts(tmp_path, ["bert"], DEFAULT)
    assert others[1:] == [
        {"vectors": "bert", "task": "ud_pos", **write["vectors/bert/ud_pos.json"]},
        {"run": "bert", "task": "ud_pos", "fraction": 1, "seed": 1, "score": 90, "sentences": 6000, "cpu_seconds": 60},
    ]
    assert others[0] == {"training": "bert", **write["bert/result.json"]}
    assert (last["seed"], last["score"]) == (2, 92)


def test_variants_are_compared_on_each_fraction_of_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "--tasks demo --variants elmo without_elmo --fractions 1 0.1 --seeds 7"
    runs = grid.grid(grid.parse([str(tmp_path), *line.split()]))
    assert [(run.variant, run.fraction, run.seed) for run in runs] == [
        ("elmo", 1, 7), ("without_elmo", 1, 7), ("elmo", 0.1, 7), ("without_elmo", 0.1, 7)
    ]  # fmt: skip
    write_score(runs[2], 0.5)
    command(tmp_path, f"--table {line}")
    small = capsys.readouterr().out.split("Variants, 10 % of the data")[1]
    assert "|  | elmo | without_elmo |" in small and "| `demo` | 50.00 |  |" in small


def test_the_vectors_of_a_treebanks_words_are_written_once_each_with_numbers_of_size_one(tmp_path: Path) -> None:
    row = "1\t{}\t_\tNOUN\t_\t_\t0\troot\t_\t_\n"
    (tmp_path / "dev.conllu").write_text("# text = rosa\n" + "".join(map(row.format, ["rosa", "ros\u2028a", "rosa"])))
    of_word = {"rosa": np.array([3.0, 4.0]), "ros\u2028a": np.array([0.0, 5.0])}
    write_vectors(of_word, [tmp_path / "dev.conllu"], tmp_path / "vectors.txt")
    half = 12.5**0.5  # the root mean square of 3, 4, 0 and 5
    lines_of_file = (tmp_path / "vectors.txt").read_text(encoding="utf-8").split("\n")
    assert lines_of_file == [f"rosa {3 / half:.5f} {4 / half:.5f}", f"ros\u2028a 0.00000 {5 / half:.5f}", ""]


def test_a_tool_is_trained_alone_in_a_folder_that_does_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained(tool: Any, function: str, run: Any) -> dict[str, int]:
        (run.folder / "vectors").write_bytes(b"1234")
        return {"passes": 8}

    monkeypatch.setattr(why_elmo.Tool, "call", trained)
    why_elmo.train(argparse.Namespace(runs=tmp_path / "runs", text=tmp_path, hours=0.5, tool="fasttext"))
    result = json.loads((tmp_path / "runs/fasttext/result.json").read_text())
    assert (result["passes"], result["megabytes"]) == (8, 4e-6)


def test_a_bilm_with_more_cells_computes_the_same(files: Path) -> None:
    small = load_checkpoint(files / "bilm")
    wide = widened(small, small.options.lstm.cell_dim + 3)
    assert wide.options.lstm.cell_dim == small.options.lstm.cell_dim + 3
    ids = batch_to_ids([["A", "few", "words"], ["One"]])
    for layer, expected in zip(*(build_bilm(checkpoint)(ids).layers for checkpoint in (wide, small)), strict=True):
        torch.testing.assert_close(layer, expected)


def results(folder: Path) -> list[dict[str, Any]]:
    """Return the results of a language without the time that they took."""
    rows = [json.loads(line) for line in (folder / "xx.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in row.items() if key != "cpu_seconds"} for row in rows]


@pytest.mark.slow
def test_how_much_text_goes_from_raw_text_to_taggers_and_leaves_out_what_has_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec((ROOT / "examples/another-language/make_text.py").read_text(encoding="utf-8"), {})
    config = json.dumps(str(CONFIGS / "pretrain/small_text.jsonnet"))
    fields = "softmax:: 'full', epochs:: 1, batches_per_epoch:: 2, warmup_steps:: 1"
    (tmp_path / "small.jsonnet").write_text(f"(import {config}) {{ {fields} }}", encoding="utf-8")
    (tmp_path / "test.conllu").symlink_to("dev.conllu")
    line = "xx --text raw/first.txt --treebank . --words 2000 --config small.jsonnet --results results --seeds 1"
    some = "--tasks treebank_pos --fractions 0.5 --systems random elmo"
    assert how_much_text.main(["runs", *line.split(), *some.split()]) == 0
    bilm, *taggers = results(tmp_path / "results")
    assert (bilm["trained"], bilm["bilm"], bilm["epochs"]) == ("bilm", "small", 1)
    assert 2000 <= bilm["n_words"] < 2020
    assert [(row["system"], row["words"]) for row in taggers] == [("random", None), ("elmo", "2000")]
    assert all(row["score"] == row["test"] > 20 for row in taggers)  # the same sentences
    # The second folder is empty, so that anything that is trained would need the text that is no longer there.
    (tmp_path / "raw/first.txt").unlink()
    assert how_much_text.main(["more_runs", *line.split(), *some.split()]) == 0
    assert results(tmp_path / "results") == [bilm, *taggers]
    assert f"| elmo | small | 2000 | {taggers[1]['score']:.1f} |" in capsys.readouterr().out


def test_a_draw_has_so_many_words_and_a_larger_one_contains_it() -> None:
    text = [f"w{number} , and more .\n" for number in range(50)]
    small, large = how_much_text.draw(text, "10"), how_much_text.draw(text, "21")
    assert (len(small), len(large)) == (4, 7)  # three words each, without the punctuation
    assert set(small) < set(large) < set(text) and small != text[:4]
    assert how_much_text.draw(text, "all") == text
    with pytest.raises(ValueError, match=r"150.*200"):
        how_much_text.draw(text, "200")


def test_the_tables_have_a_row_for_each_system_and_the_mean_of_the_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tagger = {"words": "all", "system": "elmo", "bilm": "small_text", "task": "treebank_pos", "fraction": 0.1}
    rows = [
        {
            "words": "all",
            "trained": "bilm",
            "bilm": "small_text",
            "forward_perplexity": 80.5,
            "epochs": 10,
            "n_words": 300_000,
        },
        {**tagger, "seed": 1, "score": 80.0},
        {**tagger, "seed": 2, "score": 82.0},
        {**tagger, "seed": 1, "score": 95.0, "test": 94.0, "fraction": 1.0},
        {**tagger, "seed": 1, "score": 90.0, "system": "none", "words": None, "bilm": None, "fraction": 1.0},
    ]
    for row in rows:
        how_much_text.Results(tmp_path / "ru.jsonl").add(row)
    capsys.readouterr()
    picture = tmp_path / "plot.svg"
    assert how_much_text.main(["--table", "--results", str(tmp_path), "--plot", str(picture)]) == 0
    assert {"ru: parts of speech", "0.3 M", "ELMo", "no ELMo"} <= {
        *re.findall(r">([^<]+)</text>", picture.read_text(encoding="utf-8"))
    }
    printed = capsys.readouterr().out
    assert "| bilm small_text | all | 80.5 |  |  |  | 10 |  |  |" in printed
    assert "### ru, treebank_pos" in printed and "|  | biLM | words | 10 % | 100 % |" in printed
    assert "| elmo | small_text | all | 81.0 ± 1.4 (2 seeds) | 95.0 |" in printed
    assert "| elmo, test part | small_text | all |  | 94.0 |" in printed
    assert "| none |  |  |  | 90.0 |" in printed


def test_the_plot_of_tools_names_each_once_in_the_order_of_its_lines(tmp_path: Path) -> None:
    results = plot.read(str(ROOT / "experiments/why_elmo/results/6m.jsonl"))
    plot.draw([results], [], tmp_path / "plot.svg")
    shown = re.findall(r">([^<]+)</text>", (tmp_path / "plot.svg").read_text(encoding="utf-8"))
    assert [name for name in shown if name in ("ELMo + fastText", "ELMo", "BERT, fine-tuned", "BERT")] == [
        "ELMo + fastText",
        "ELMo",
        "BERT, fine-tuned",
        "BERT",
    ]


def test_the_plot_of_speedups_shows_the_first_table_of_its_page(tmp_path: Path) -> None:
    series, rows = speedups.read(ROOT / "docs/benchmarks.md")
    assert len(series) == 2 and rows and all(len(values) == 2 for values in rows.values())
    speedups.draw(series, rows, tmp_path / "plot.svg")
    svg = (tmp_path / "plot.svg").read_text(encoding="utf-8")
    assert all(f">{value:.1f} ×</text>" in svg for values in rows.values() for value in values)
