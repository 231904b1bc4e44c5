"""Compute the tables of a report, as Markdown."""

from collections.abc import Iterator, Sequence

from elmo_plugin.analysis.confusion import Confusion, add_up
from elmo_plugin.analysis.findings import Findings
from elmo_plugin.analysis.groups import Experiment, Group, side_by_side, summary
from elmo_plugin.analysis.layer_weights import PLACES, LearnedMix
from elmo_plugin.analysis.page import plain, table
from elmo_plugin.analysis.runs import Run, Task, number_of

PERPLEXITY = ("forward_perplexity", "backward_perplexity", "perplexity", "oov_rate", "n_tokens")

Mixes = list[tuple[str, Group, list[LearnedMix]]]
"""The scalar mixes of a place (`input` or `output`) and a group: one per seed that has a mix there."""


def scores(experiment: Experiment, seeds: int) -> Iterator[str]:
    """Yield a table of variants by tasks for all tasks with the same variants, so that no cell is empty."""
    cells = {(group.task, group.variant): group for task in experiment.tasks for group in experiment.full(task)}
    for tasks, variants in side_by_side(cells.values()):
        rows = []
        for variant in variants:
            row = [plain(variant)]
            for task in tasks:
                total = cells[task, variant].summary()
                text = f"**{total.text()}**" if experiment.best(task) == variant else total.text()
                row.append(text if total.seeds == seeds else f"{text} ({total.seeds})")
            rows.append(row)
        yield table(["variant", *(f"{plain(task.name)}: {task.label}" for task in tasks)], rows)


def fractions(experiment: Experiment, task: Task) -> str:
    """Return the scores of variants by the share of the training data."""
    lines = experiment.by_fraction(task)
    shares = sorted({group.fraction for groups in lines.values() for group in groups})
    cells = {(group.variant, group.fraction): group.summary().text() for groups in lines.values() for group in groups}
    head = [f"{plain(task.name)}: {task.label}", *(f"{100 * share:g} % of the data" for share in shares)]
    return table(head, [[plain(variant), *(cells.get((variant, share), "") for share in shares)] for variant in lines])


def as_good_as_all(experiment: Experiment, task: Task) -> Iterator[str]:
    """Yield which share of the data is enough for ELMo to reach what the baseline reaches with all of its data."""
    lines = experiment.by_fraction(task)
    for baseline in (groups[-1] for variant, groups in lines.items() if variant in experiment.baselines):
        goal = baseline.summary().mean
        for variant, groups in lines.items():
            means = {group.fraction: group.summary().mean for group in groups}
            enough = [part for part, mean in means.items() if (mean >= goal if task.higher_is_better else mean <= goal)]
            if variant not in experiment.baselines and enough:
                yield (
                    f"{plain(task.name)}: **{plain(variant)}** reaches {means[min(enough)]:.1f} with "
                    f"{100 * min(enough):g} % of the data; **{plain(baseline.variant)}** reaches {goal:.1f} with "
                    f"{100 * baseline.fraction:g} %."
                )


def mixes(experiment: Experiment, findings: Findings) -> Mixes:
    """Return the learned mixes of each place and group; the input comes first, then the output."""
    found = findings.layer_weights
    places = {place for learned in found.values() for place in learned}
    return [
        (place, group, seeds)
        for place in sorted(places, key=lambda place: (place not in PLACES, place))
        for task in experiment.tasks
        for group in experiment.full(task)
        if (seeds := [found[run][place] for run in group.runs if place in found.get(run, {})])
    ]


def layer_weights(learned: Mixes) -> str:
    """Return γ and softmax(w) of each layer, mean over seeds."""
    rows = []
    for place, group, seeds in learned:
        layers = [summary(values).text() for values in zip(*(mix.weights for mix in seeds), strict=True)]
        gamma = summary([mix.gamma for mix in seeds]).text()
        rows.append([plain(place), plain(group.task.name), plain(group.variant), gamma, *layers])
    width = max(map(len, rows))
    head = ["ELMo at", "task", "variant", "γ", *(f"layer {layer}" for layer in range(width - 4))]
    return table(head, [row + [""] * (width - len(row)) for row in rows], names=3)


def confusions(experiment: Experiment, findings: Findings) -> tuple[str, dict[Task, dict[str, Confusion]]]:
    """Return accuracy and F1, mean over seeds; and for each task and variant the matrix of all seeds together."""
    rows, sums = [], {}
    for task in experiment.tasks:
        found = {
            group.variant: [findings.confusions[run] for run in group.runs if run in findings.confusions]
            for group in experiment.full(task)
        }
        found = {variant: seeds for variant, seeds in found.items() if seeds}
        labels = list(dict.fromkeys(label for seeds in found.values() for matrix in seeds for label in matrix.labels))
        for variant, seeds in found.items():
            percents = [[100 * matrix.accuracy, 100 * matrix.macro_f1] for matrix in seeds]
            totals = [summary(values).text() for values in zip(*percents, strict=True)]
            rows.append([plain(task.name), plain(variant), *totals, str(len(seeds))])
        if found:
            sums[task] = {variant: add_up(seeds, labels) for variant, seeds in found.items()}
    return table(["task", "variant", "accuracy, %", "macro F1, %", "seeds"], rows, names=2), sums


def pretraining(runs: Sequence[Run]) -> str:
    """Return the perplexity of pretraining runs at their best epoch."""
    rows = []
    for run in runs:
        best = [number_of(run.metrics, f"best_validation_{key}") for key in PERPLEXITY]
        forward, backward, both, unknown, tokens = best
        perplexities = [f"{value:.2f}" for value in (forward, backward, both)]
        rows.append([plain(run.name), *perplexities, f"{100 * unknown:.2f}", f"{tokens:,.0f}", str(len(run.epochs))])
    return table(["run", "forward", "backward", "mean of both", "unknown tokens, %", "tokens", "epochs"], rows)


def runs(counted: Sequence[Run]) -> str:
    """Return one row per run."""
    rows = []
    for run in counted:
        names = [plain(run.name), plain(run.task.name), plain(run.variant), run.task.label]
        best = run.metrics.get("best_epoch")
        epochs = [str(best + 1) if isinstance(best, int) else "", str(len(run.epochs))]
        time = str(run.metrics.get("training_duration", "")).split(".")[0]
        rows.append([*names, f"{100 * run.fraction:g}", str(run.seed), f"{run.score:.2f}", *epochs, time])
    head = ["run", "task", "variant", "metric", "data, %", "seed", "score", "best epoch", "epochs", "time"]
    return table(head, rows, names=4)
