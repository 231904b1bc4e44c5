"""The sections of the page: what each says of the runs, and how to read it. One without runs is left out."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Optional, Union

from elmo_plugin.analysis import curves, maps
from elmo_plugin.analysis.confusion import Confusion
from elmo_plugin.analysis.findings import Findings
from elmo_plugin.analysis.groups import Experiment, Group, summary
from elmo_plugin.analysis.layer_weights import PLACES, LearnedMix
from elmo_plugin.analysis.page import Picture, Section, Table, Text
from elmo_plugin.analysis.runs import Run, Task, Uncounted


def sections(runs: Sequence[Run], uncounted: Sequence[Uncounted], findings: Findings) -> Iterator[Section]:
    """All that there is to say, the most important first."""
    experiment = Experiment(run for run in runs if not run.is_pretraining)
    pretraining = [run for run in runs if run.is_pretraining]
    if experiment.groups:
        yield _scores(experiment)
    if any(map(experiment.by_fraction, experiment.tasks)):
        yield _sample_efficiency(experiment)
    if findings.layer_weights:
        yield _layer_weights(experiment, findings)
    if experiment.groups:
        yield _learning_curves(experiment)
    if findings.confusions:
        yield _confusion(experiment, findings)
    if pretraining:
        yield _pretraining(pretraining)
    yield _all_runs(runs, uncounted, findings)


def _scores(experiment: Experiment) -> Section:
    """Variants by tasks."""
    cells = {(group.task, group.variant): group for task in experiment.tasks for group in experiment.full(task)}
    seeds = Counter(len(group.runs) for group in cells.values()).most_common(1)[0][0]
    rows = [
        [variant, *(_score(cells.get((task, variant)), seeds, experiment) for task in experiment.tasks)]
        for variant in experiment.variants
    ]
    most = "the best epoch on the validation data, with the most training data that a task was trained on"
    counted = f"{seeds} seeds, where no other number stands in brackets" if seeds > 1 else "one seed"
    said = f"The score of {most}: mean ± standard deviation over {counted}."
    if len(experiment.variants) > 1:
        said += " **Strong**: the best mean of a column."
    head = ["", *(f"{task.name}: {task.label}" for task in experiment.tasks)]
    shows = "Scores of all variants: a pale dot a seed, a line for their mean, a bar for the standard deviation."
    picture = Picture("scores.png", maps.scores(experiment), shows)
    return Section("Scores", [Text(said), Table(head, rows), picture])


def _score(group: Optional[Group], seeds: int, experiment: Experiment) -> str:
    if group is None:
        return ""
    total = group.summary()
    means = [other.summary().mean for other in experiment.full(group.task)]
    is_best = total.mean == (max if group.task.higher_is_better else min)(means) and len(means) > 1
    text = f"**{total.text()}**" if is_best else total.text()
    return text if total.seeds == seeds else f"{text} ({total.seeds})"


def _sample_efficiency(experiment: Experiment) -> Section:
    """Score by the size of the training data."""
    tasks = [task for task in experiment.tasks if experiment.by_fraction(task)]
    shows = (
        "Score by the part of the training data, on a logarithmic scale; bars are the standard deviation over seeds."
    )
    picture = Picture("sample_efficiency.png", curves.sample_efficiency(experiment, tasks), shows)
    said = "What each variant reaches with a part of the training data: figure 1 of the paper."
    reached = [Text(line) for task in tasks for line in _as_good_as_all(experiment, task)]
    tables = [_fractions(experiment, task) for task in tasks]
    return Section("Score by training-set size", [Text(said), picture, *reached, *tables])


def _as_good_as_all(experiment: Experiment, task: Task) -> Iterator[str]:
    """Which part of the data is enough for a variant to reach what one without ELMo reaches with all that it had."""
    lines = experiment.by_fraction(task)
    for baseline in (groups[-1] for variant, groups in lines.items() if variant in experiment.baselines):
        goal = baseline.summary().mean
        for variant, groups in lines.items():
            means = {group.fraction: group.summary().mean for group in groups}
            enough = [part for part, mean in means.items() if (mean >= goal if task.higher_is_better else mean <= goal)]
            if variant not in experiment.baselines and enough:
                yield (
                    f"{task.name}: with {100 * min(enough):g} % of the data **{variant}** reaches "
                    f"{means[min(enough)]:.1f}, **{baseline.variant}** with {100 * baseline.fraction:g} % {goal:.1f}."
                )


def _fractions(experiment: Experiment, task: Task) -> Table:
    lines = experiment.by_fraction(task)
    fractions = sorted({group.fraction for groups in lines.values() for group in groups})
    cells = {(group.variant, group.fraction): group.summary().text() for groups in lines.values() for group in groups}
    rows = [[variant, *(cells.get((variant, fraction), "") for fraction in fractions)] for variant in lines]
    return Table([f"{task.name}: {task.label}", *(f"{100 * fraction:g} % of the data" for fraction in fractions)], rows)


def _layer_weights(experiment: Experiment, findings: Findings) -> Section:
    """softmax(w) of each layer, mean over seeds."""
    drawn: dict[tuple[str, str, str], Sequence[float]] = {}
    rows: list[list[str]] = []
    for place, group, mixes in _mixes(experiment, findings):
        layers = [summary(values) for values in zip(*(mix.weights for mix in mixes), strict=True)]
        drawn[place, group.task.name, group.variant] = [layer.mean for layer in layers]
        gamma = summary([mix.gamma for mix in mixes])
        rows.append([place, group.task.name, group.variant, gamma.text(), *(layer.text() for layer in layers)])
    width = max(map(len, rows))
    head = ["ELMo at", "task", "variant", "γ", *(f"layer {layer}" for layer in range(width - 4))]
    said = (
        "How much each layer of the biLM counts where ELMo joins the task RNN, softmax(w), which sums to 1: figure 2 "
        "of the paper. Layer 0 is the token vector, which knows no context. γ is the scale of their sum."
    )
    shows = "Layer weights at the input and the output of the task RNN, mean over seeds: the darker, the higher."
    picture = Picture("layer_weights.png", maps.layer_weights(drawn, experiment.variants), shows)
    padded = [row + [""] * (width - len(row)) for row in rows]
    return Section("Layer weights", [Text(said), picture, Table(head, padded, names=3, folded="The numbers")])


def _mixes(experiment: Experiment, findings: Findings) -> Iterator[tuple[str, Group, list[LearnedMix]]]:
    """The mixes of each place, input and output first, and group: those of its seeds that have one there."""
    found = findings.layer_weights
    places = sorted(
        {place for mixes in found.values() for place in mixes}, key=lambda place: (place not in PLACES, place)
    )
    for place in places:
        for group in (group for task in experiment.tasks for group in experiment.full(task)):
            mixes = [found[run][place] for run in group.runs if place in found.get(run, {})]
            if mixes:
                yield place, group, mixes


def _learning_curves(experiment: Experiment) -> Section:
    said = "The score after each epoch, a line for each seed; a dot is the epoch whose model was kept."
    pictures = [
        Picture(
            _file("learning_curves", task),
            curves.learning_curves(experiment, task),
            f"Learning curves of {task.name}: {task.label} by epoch, training and validation.",
        )
        for task in experiment.tasks
    ]
    return Section("Learning curves", [Text(said), *pictures])


def _confusion(experiment: Experiment, findings: Findings) -> Section:
    """The texts of all seeds together in pictures, F1 for each seed in the table."""
    rows, pictures = [], []
    for task in experiment.tasks:
        drawn = {}
        for group in experiment.full(task):
            matrices = [findings.confusions[run] for run in group.runs if run in findings.confusions]
            if matrices:
                drawn[group.variant] = _together(matrices)
                percents = [[100 * matrix.accuracy, 100 * matrix.macro_f1] for matrix in matrices]
                totals = [summary(values).text() for values in zip(*percents, strict=True)]
                rows.append([task.name, group.variant, *totals, str(len(matrices))])
        if drawn:
            shows = f"Confusion matrices of {task.name}: what share of the texts of each label, in percent, got which."
            pictures.append(Picture(_file("confusion", task), maps.confusion_matrices(drawn), shows))
    said = "The labels that classifiers give to the validation data. Macro F1 is the mean of F1 over the labels."
    table = Table(["task", "variant", "accuracy, %", "macro F1, %", "seeds"], rows, names=2)
    return Section("Confusion", [Text(said), table, *pictures])


def _together(matrices: Sequence[Confusion]) -> Confusion:
    """The sum of matrices; labels that one of them lacks are 0 there."""
    counts: Counter[tuple[str, str]] = Counter()
    for labels, rows in matrices:
        for gold, row in zip(labels, rows, strict=True):
            counts.update({(gold, taken): count for taken, count in zip(labels, row, strict=True)})
    names = sorted({label for matrix in matrices for label in matrix.labels})
    return Confusion(names, [[counts[gold, taken] for taken in names] for gold in names])


def _pretraining(runs: Sequence[Run]) -> Section:
    """Perplexity by tokens, and at the best epoch."""
    head = ["run", "forward", "backward", "mean of both", "unknown tokens, %", "tokens", "epochs"]
    rows = []
    for run in runs:
        best = {key: run.metrics.get(f"best_validation_{key}", float("nan")) for key in PERPLEXITY}
        forward, backward, both, unknown, tokens = best.values()
        perplexities = [f"{value:.2f}" for value in (forward, backward, both)]
        rows.append([run.name, *perplexities, f"{100 * unknown:.2f}", f"{tokens:,.0f}", str(len(run.epochs))])
    said = (
        "Perplexity on the validation text at the best epoch, over the full softmax, each direction apart. Runs may be "
        "compared where vocabulary and text are the same, which the last columns show in part."
    )
    shows = "Perplexity of both directions in the course of training, logarithmic: lower is better."
    picture = Picture("perplexity.png", curves.perplexity(runs), shows)
    return Section("Pretraining", [Text(said), Table(head, rows), picture])


PERPLEXITY = ("forward_perplexity", "backward_perplexity", "perplexity", "oov_rate", "n_tokens")


def _all_runs(runs: Sequence[Run], uncounted: Sequence[Uncounted], findings: Findings) -> Section:
    """Each run, those that are left out with the reason."""
    head = ["run", "task", "variant", "metric", "data, %", "seed", "score", "best epoch", "epochs", "time"]
    rows = [_row(run) for run in runs]
    number = "1 finished run is" if len(runs) == 1 else f"{len(runs)} finished runs are"
    blocks: list[Union[Text, Table]] = [Text(f"{number} counted."), Table(head, rows, names=4, folded="All of them")]
    if uncounted:
        blocks += [
            Text("**Not counted:**"),
            Table(["run", "why"], [[f"`{name}`", why] for name, why in uncounted], names=2),
        ]
    if findings.notes:
        blocks += [Text("**Counted, but not wholly read:**"), *map(Text, findings.notes)]
    return Section("Runs", blocks)


def _row(run: Run) -> list[str]:
    place = [run.name, run.task.name, run.variant, run.task.label, f"{100 * run.fraction:g}", str(run.seed)]
    best = run.metrics.get("best_epoch")
    epochs = [str(best + 1) if isinstance(best, int) else "", str(len(run.epochs))]
    return [*place, f"{run.score:.2f}", *epochs, str(run.metrics.get("training_duration", "")).split(".")[0]]


def _file(kind: str, task: Task) -> str:
    return re.sub(r"[^\w.-]+", "_", f"{kind}_{task.name}_{task.metric}") + ".png"
