"""Compute the tables of a report, as Markdown."""

from collections.abc import Iterator, Sequence

from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.confusion import Confusion, add_up
from elmo_plugin.analysis.findings import Findings
from elmo_plugin.analysis.groups import Experiment, Group, side_by_side, summary
from elmo_plugin.analysis.layer_weights import PLACES, LearnedMix
from elmo_plugin.analysis.page import plain, table
from elmo_plugin.analysis.runs import Run, Task, number_of

PERPLEXITY = ("forward_perplexity", "backward_perplexity", "perplexity", "oov_rate", "n_tokens")

Mixes = list[tuple[str, Group, list[LearnedMix]]]
"""A place (`input` or `output`), a group, and the scalar mix of each of its seeds that has one there."""


def scores(experiment: Experiment, seeds: int) -> Iterator[str]:
    """Yield tables of variants by tasks. Tasks with the same variants share a table, so that no cell is empty."""
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
    """Return the scores of a task's variants by the share of the training data."""
    lines = experiment.by_fraction(task)
    shares = sorted({group.fraction for groups in lines.values() for group in groups})
    cells = {(group.variant, group.fraction): group.summary().text() for groups in lines.values() for group in groups}
    head = [f"{plain(task.name)}: {task.label}", *(f"{100 * share:g} % of the data" for share in shares)]
    return table(head, [[plain(variant), *(cells.get((variant, share), "") for share in shares)] for variant in lines])


def as_good_as_all(experiment: Experiment, task: Task) -> Iterator[str]:
    """Yield a line for each variant with ELMo that reaches the baseline's best score with a share of the data."""
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
    """Return the learned mixes of each place and group; the input comes first, then the output.

    Raises `ConfigurationError` if the seeds of a group have mixes of different numbers of layers.
    """
    found = findings.layer_weights
    places = {place for learned in found.values() for place in learned}
    learned = [
        (place, group, seeds)
        for place in sorted(places, key=lambda place: (place not in PLACES, place))
        for task in experiment.tasks
        for group in experiment.full(task)
        if (seeds := [found[run][place] for run in group.runs if place in found.get(run, {})])
    ]
    for place, group, seeds in learned:
        layers = sorted({len(mix.weights) for mix in seeds})
        if len(layers) > 1:
            raise ConfigurationError(
                f"variant '{group.variant}' of task '{group.task.name}': expected the same number of layers at the "
                f"{place} for all seeds, got {' and '.join(map(str, layers))}; name two variants in `grid.json`"
            )
    return learned


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
    """Return a table of accuracy and F1, and the matrix of each task and variant, summed over seeds."""
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


def reasons(listed: Sequence[tuple[str, str]]) -> str:
    """Return one row per run that is not counted or not read completely, with the reason."""
    return table(["run", "reason"], [[plain(name), plain(reason)] for name, reason in listed], names=2)
