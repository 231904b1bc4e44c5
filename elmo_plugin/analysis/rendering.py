"""Write the pages with figures, in Markdown and in HTML: the report of runs, and the uses of words in context."""

import re
import shlex
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import NamedTuple, Optional

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.figure import Figure
from pandas import Categorical, DataFrame, Series

from elmo_plugin.analysis import figures
from elmo_plugin.analysis.nearest_contexts import Found, Query, Uses
from elmo_plugin.analysis.page import plain, table
from elmo_plugin.analysis.report import Findings
from elmo_plugin.analysis.runs import METRICS, Run, Task, Unread, number_of

TEMPLATE = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
).get_template("sections.html.j2")
LABEL_F1 = re.compile(r"best_validation_f1-measure-(?!overall$)(.+)")
"""The key of a label's F1 in the metrics of a tagger with `verbose_metrics`."""
Senses = Mapping[tuple[int, int], str]
"""The sense of the token at a line, from 1, and a position."""


class Picture(NamedTuple):
    """A figure, the name of its file, and what it shows."""

    name: str
    caption: str
    figure: Figure


class Section(NamedTuple):
    """A part of the page."""

    title: str
    paragraphs: Sequence[str]
    tables: Sequence[DataFrame]
    pictures: Sequence[Picture] = ()


def page_files(name: str, title: str, head: str, sections: Sequence[Section]) -> dict[str, bytes]:
    """Return the content of `NAME.md`, of the figures beside it, and of `NAME.html`, which needs no other file."""
    svgs = {picture.name: figures.svg(picture.figure) for section in sections for picture in section.pictures}
    images = {name: f"data:image/svg+xml;base64,{b64encode(content).decode()}" for name, content in svgs.items()}
    html = TEMPLATE.render(title=title, head=head, sections=sections, images=images)
    blocks = [f"# {title}", plain(head)]
    for section in sections:
        blocks += [f"## {plain(section.title)}", *map(plain, section.paragraphs)]
        for frame in section.tables:
            cells = [[plain(cell) for cell in row] for row in frame.fillna("").astype(str).to_numpy()]
            blocks.append(table([plain(column) for column in frame.columns], cells, names=len(frame.columns)))
        blocks += [f"![{plain(picture.caption)}]({picture.name})" for picture in section.pictures]
    return {**svgs, f"{name}.md": ("\n\n".join(blocks) + "\n").encode(), f"{name}.html": html.encode()}


def render(
    paths: Sequence[Path], runs: Sequence[Run], uncounted: Sequence[Unread], findings: Findings
) -> dict[str, bytes]:
    """Return the content of each file of a report, by name. Sections without data are left out."""
    sections: list[Section] = []
    if tasks := [run for run in runs if not run.is_pretraining]:
        frame = _frame(tasks)
        full = frame[frame["share"] == frame.groupby("task")["share"].transform("max")]
        sections += [
            _scores(full),
            *_sample_efficiency(frame),
            *_layer_weights(full, findings),
            _learning_curves(full),
            *_labels(full, findings),
            *_confusion(full, findings),
        ]
    if pretraining := [run for run in runs if run.is_pretraining]:
        sections.append(_pretraining(pretraining))
    sections.append(_runs(runs, uncounted, findings.errors))
    ended = max((run.folder / METRICS).stat().st_mtime for run in runs)
    commits = sorted({run.commit for run in runs if run.commit})
    head = (
        f"Finished runs: {len(runs)}, the newest from {datetime.fromtimestamp(ended, UTC).date()}"
        f"{', trained with the code of commit ' * bool(commits)}{', '.join(commits)}. "
        f"Written by: {shlex.join(['elmo-plugin', 'report-elmo', *map(str, paths), '--output', 'FOLDER'])}"
    )
    return page_files("report", "Report on finished runs", head, sections)


def mean_and_deviation(scores: Series) -> str:
    """Return the mean ± the sample standard deviation and, in brackets, the number of runs.

    >>> mean_and_deviation(Series([1.0, 2.0]))
    '1.50 ± 0.71 (2)'
    """
    deviation = f" ± {scores.std():.2f}" if len(scores) > 1 else ""
    return f"{scores.mean():.2f}{deviation} ({len(scores)})"


def _frame(runs: Sequence[Run]) -> DataFrame:
    """Return a row per run. Variants without ELMo come first."""
    with_elmo = {run.variant for run in runs if run.has_elmo}
    variants = sorted({run.variant for run in runs}, key=lambda variant: (variant in with_elmo, variant))
    columns = {
        "task": [run.task.title for run in runs],
        "variant": Categorical([run.variant for run in runs], variants),
        "share": [100 * run.fraction for run in runs],
        "ELMo": [run.variant in with_elmo for run in runs],
        "score": [run.score for run in runs],
        "run": runs,
    }
    return DataFrame(columns).sort_values(["task", "variant", "share"], kind="stable")


def _table(rows: DataFrame, index: Sequence[str], columns: str, values: str = "score") -> DataFrame:
    """Return the mean and the deviation of `values` for each row of `index` and each value of `columns`."""
    cells = rows.groupby([*index, columns], observed=True)[values].apply(mean_and_deviation)
    return cells.unstack(columns).rename_axis(columns=None).reset_index()


def _tasks(rows: DataFrame) -> Iterator[tuple[Task, DataFrame]]:
    """Yield each task with its rows."""
    for _, group in rows.groupby("task"):
        yield group["run"].iloc[0].task, group


def _picture(kind: str, task: Task, figure: Figure) -> Picture:
    """Name a figure of a task; characters other than letters, digits and `_.-` become codes in the file's name."""
    stem = f"{kind.replace(' ', '_')}_{task.name}_{task.metric}"
    name = re.sub(r"[^\w.-]", lambda found: f"_{ord(found[0])}_", stem)
    return Picture(f"{name}.svg", f"{kind}, {task.title}", figure)


def _scores(full: DataFrame) -> Section:
    about = (
        "The score of the best epoch on the validation data, after training on the largest share of a task's training "
        "data: the mean ± the standard deviation over seeds, and the number of seeds in brackets. In the figures, a "
        "dot is a run, and variants without ELMo are grey."
    )
    pictures = [_picture("scores", task, figures.scores(task, rows)) for task, rows in _tasks(full)]
    return Section("Scores", [about], [_table(full, ["variant"], "task")], pictures)


def _sample_efficiency(frame: DataFrame) -> Iterator[Section]:
    paragraphs = ["The score of each variant by the share of the training data, as in figure 1 of the paper."]
    pictures = []
    frame = frame[frame.groupby(["task", "variant"], observed=True)["share"].transform("nunique") > 1]
    if frame.empty:
        return
    for task, rows in _tasks(frame):
        pictures.append(_picture("sample efficiency", task, figures.sample_efficiency(task, rows)))
        means = rows.groupby(["variant", "share"], observed=True)["score"].mean().unstack("share")
        with_elmo = sorted(set(rows["variant"][rows["ELMo"]]))
        for baseline, scores in means.drop(with_elmo).iterrows():
            share, goal = list(scores.dropna().items())[-1]
            for variant in with_elmo:
                reached = means.loc[variant]
                enough = reached[(reached >= goal) if task.higher_is_better else (reached <= goal)]
                if len(enough):
                    paragraphs.append(
                        f"{task.title}: {variant} reaches {enough.iloc[0]:.1f} with {enough.index[0]:g} % of the data; "
                        f"{baseline} reaches {goal:.1f} with {share:g} %."
                    )
    by_share = _table(frame, ["task", "variant"], "share")
    by_share.columns = [f"{name:g} % of the data" if isinstance(name, float) else name for name in by_share.columns]
    yield Section("Score by training-set size", paragraphs, [by_share], pictures)


def _layer_weights(full: DataFrame, findings: Findings) -> Iterator[Section]:
    about = (
        "The weight of each biLM layer at the input and the output of the task RNN: softmax(w), which sums to 1, as in "
        "figure 2 of the paper. Layer 0 is the token vector, which does not depend on context. γ scales the sum."
    )
    learned = [
        {"task": row.task, "variant": row.variant, "run": row.run, "at": place, "part": part, "value": value}
        for row in full.itertuples()
        for place, mix in findings.mixes.get(row.run, {}).items()
        for part, value in [("γ", mix.gamma), *((f"layer {i}", weight) for i, weight in enumerate(mix.weights))]
    ]
    if learned:
        rows = DataFrame(learned)
        pictures = []
        for task, group in _tasks(rows[rows["part"] != "γ"]):
            weights = group.groupby(["variant", "at", "part"])["value"].mean().unstack("part")
            weights.index = [f"{variant}, {place}" for variant, place in weights.index]
            pictures.append(_picture("layer weights", task, figures.layer_weights(weights)))
        yield Section("Layer weights", [about], [_table(rows, ["task", "variant", "at"], "part", "value")], pictures)


def _learning_curves(full: DataFrame) -> Section:
    about = "The score after each epoch, one line per seed. A large dot marks the epoch whose model was kept."
    pictures = [_picture("learning curves", task, figures.learning_curves(task, rows)) for task, rows in _tasks(full)]
    return Section("Learning curves", [about], [], pictures)


def _labels(full: DataFrame, findings: Findings) -> Iterator[Section]:
    about = (
        "The F1 of each label on the validation data, in percent, of classifiers and of taggers with verbose metrics."
    )
    scored = []
    for row in full.itertuples():
        matrix = findings.confusions.get(row.run)
        by_name = {found[1]: row.run.metrics[key] for key in row.run.metrics if (found := LABEL_F1.fullmatch(key))}
        for label, f1 in (matrix.f1 if matrix else by_name).items():
            scored.append({"task": row.task, "variant": row.variant, "label": label, "F1": 100 * f1})
    if scored:
        yield Section("Scores of labels", [about], [_table(DataFrame(scored), ["task", "label"], "variant", "F1")])


def _confusion(full: DataFrame, findings: Findings) -> Iterator[Section]:
    about = (
        "The labels that classifiers predict for the validation data. A cell is the share of the texts of a true label "
        "that got the predicted label, over all seeds. Macro F1 is the mean of F1 over the labels."
    )
    rows = full[[run in findings.confusions for run in full["run"]]]
    if rows.empty:
        return
    measured, pictures = [], []
    for task, of_task in _tasks(rows):
        sums = {}
        for variant, group in of_task.groupby("variant", observed=True):
            matrices = [findings.confusions[run] for run in group["run"]]
            counts = [DataFrame(matrix.counts, matrix.labels, matrix.labels) for matrix in matrices]
            sums[variant] = reduce(lambda one, other: one.add(other, fill_value=0), counts).fillna(0)
            for matrix in matrices:
                accuracy = {"metric": "accuracy, %", "value": 100 * matrix.accuracy}
                f1 = {"metric": "macro F1, %", "value": 100 * Series(matrix.f1).mean()}
                measured += [{"task": task.title, "variant": variant, **score} for score in (accuracy, f1)]
        pictures.append(_picture("confusion", task, figures.confusion_matrices(sums)))
    scores = _table(DataFrame(measured), ["task", "variant"], "metric", "value")
    yield Section("Confusion", [about], [scores], pictures)


def _pretraining(runs: Sequence[Run]) -> Section:
    about = (
        "The perplexity of each direction on the validation text at the best epoch, over the full softmax. Compare "
        "only runs with the same vocabulary and the same text. In the figure, training is dashed."
    )
    rows = []
    for run in runs:
        forward, backward, both, unknown, tokens = (
            number_of(run.metrics, f"best_validation_{key}")
            for key in ("forward_perplexity", "backward_perplexity", "perplexity", "oov_rate", "n_tokens")
        )
        rows.append(
            {
                "run": run.name,
                "forward": f"{forward:.2f}",
                "backward": f"{backward:.2f}",
                "mean of both": f"{both:.2f}",
                "unknown tokens, %": f"{100 * unknown:.2f}",
                "tokens": f"{tokens:,.0f}",
                "epochs": str(len(run.epochs)),
            }
        )
    picture = Picture("perplexity.svg", "Perplexity of each direction in training", figures.perplexity(runs))
    return Section("Pretraining", [about], [DataFrame(rows)], [picture])


def _runs(runs: Sequence[Run], uncounted: Sequence[Unread], unread: Sequence[Unread]) -> Section:
    rows = [
        {
            "run": run.name,
            "task": run.task.title,
            "variant": run.variant,
            "data, %": f"{100 * run.fraction:g}",
            "seed": str(run.seed),
            "score": f"{run.score:.2f}",
            "best epoch": str(run.best_epoch),
            "epochs": str(len(run.epochs)),
            "time": str(run.metrics.get("training_duration", "")).split(".")[0],
        }
        for run in runs
    ]
    reasons = {"not counted, because": uncounted, "not read completely, because": unread}
    listed = [DataFrame(failed, columns=["run", title]) for title, failed in reasons.items() if failed]
    return Section(
        "Runs", ["All runs, and why a run is not counted or not read completely."], [DataFrame(rows), *listed]
    )


def render_uses(
    queries: Sequence[Query], found: Sequence[Found], layer: int, k: int, senses: Optional[Senses]
) -> dict[str, bytes]:
    """Return the content of each file of the page, by name."""
    about = (
        f"Each dot is a use of the word, by its vector of layer {layer}; the star is the query. Dots that are near "
        "each other have similar vectors, as far as two principal components can show. The uses that are nearest to "
        "the query by cosine are numbered in the picture and listed in the table."
    )
    sections = [
        _section(f"contexts_{number}.svg", query, each.uses, k, senses)
        for number, (query, each) in enumerate(zip(queries, found, strict=True), 1)
        if each.uses is not None
    ]
    return page_files("contexts", "Uses of words in context", about, sections)


def _section(name: str, query: Query, uses: Uses, k: int, senses: Optional[Senses]) -> Section:
    sentence = _marked(query.tokens, query.position)
    if len(uses.neighbors) < 2:
        return Section(query.word, [sentence, "Fewer than two other sentences of the text contain this word."], [])
    nearest = np.argsort([-use.cosine for use in uses.neighbors], kind="stable")[:k].tolist()
    if senses is None:
        labels = ["nearest" if i in nearest else "other uses" for i in range(len(uses.neighbors))]
    else:
        labels = [senses.get((use.line, use.position), "no sense") for use in uses.neighbors]
    rows = DataFrame(
        {
            "nearest": [str(number) for number in range(1, len(nearest) + 1)],
            "sentence": [_marked(uses.neighbors[index].tokens, uses.neighbors[index].position) for index in nearest],
            "sense": [labels[index] for index in nearest],
            "cosine": [f"{uses.neighbors[index].cosine:.3f}" for index in nearest],
            "line": [f"{uses.neighbors[index].line:,}" for index in nearest],
        }
    )
    caption = f"{len(labels)} uses of {query.word} in two dimensions"
    picture = Picture(name, caption, figures.contexts(uses.vectors, labels, nearest))
    return Section(query.word, [sentence], [rows if senses else rows.drop(columns="sense")], [picture])


def _marked(tokens: Sequence[str], position: int) -> str:
    """Return the token in marks, and up to eight tokens before and after it."""
    start, end = max(0, position - 8), position + 9
    shown = [*tokens[start:position], f"«{tokens[position]}»", *tokens[position + 1 : end]]
    return " ".join([*["…"] * (start > 0), *shown, *["…"] * (end < len(tokens))])
