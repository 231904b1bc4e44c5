"""Fill in the templates of a report: `report.md`, its figures, and `report.html`, which contains both."""

import re
import shlex
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markdown_it import MarkdownIt

from elmo_plugin.analysis import figures, tables
from elmo_plugin.analysis.findings import Findings
from elmo_plugin.analysis.groups import Experiment
from elmo_plugin.analysis.page import plain
from elmo_plugin.analysis.panels import svg
from elmo_plugin.analysis.runs import METRICS, Run, Task, Uncounted

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=select_autoescape(["html.j2"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
TEMPLATES.filters["plain"] = plain


def render(
    paths: Sequence[Path], runs: Sequence[Run], uncounted: Sequence[Uncounted], findings: Findings
) -> dict[str, bytes]:
    """Return the content of each file of a report, by name."""
    experiment = Experiment(run for run in runs if not run.is_pretraining)
    pretraining = [run for run in runs if run.is_pretraining]
    by_fraction = [task for task in experiment.tasks if experiment.by_fraction(task)]
    learned = tables.mixes(experiment, findings)
    confusions, matrices = tables.confusions(experiment, findings)
    drawn = {}
    if experiment.groups:
        drawn["scores.svg"] = figures.scores(experiment)
    if by_fraction:
        drawn["sample_efficiency.svg"] = figures.sample_efficiency(experiment, by_fraction)
    if learned:
        drawn["layer_weights.svg"] = figures.layer_weights(learned)
    drawn |= {
        file_name("learning_curves", task): figures.learning_curves(experiment, task) for task in experiment.tasks
    }
    drawn |= {file_name("confusion", task): figures.confusion_matrices(found) for task, found in matrices.items()}
    if pretraining:
        drawn["perplexity.svg"] = figures.perplexity(pretraining)
    pictures = {name: svg(figure) for name, figure in drawn.items()}
    seeds = Counter(len(group.runs) for task in experiment.tasks for group in experiment.full(task))
    ended = max((run.folder / METRICS).stat().st_mtime for run in runs)
    markdown = TEMPLATES.get_template("report.md.j2").render(
        experiment=experiment,
        seeds=seeds.most_common(1)[0][0] if seeds else 0,
        by_fraction=by_fraction,
        learned=learned,
        confusions=confusions,
        matrices=matrices,
        pretraining=pretraining,
        runs=runs,
        uncounted=uncounted,
        unread=findings.errors,
        date=datetime.fromtimestamp(ended, UTC).date(),
        commits=sorted({run.commit for run in runs if run.commit}),
        command=shlex.join(["allennlp", "report-elmo", *map(str, paths), "--output", "FOLDER"]),
        tables=tables,
        file_name=file_name,
        plain=plain,
    )
    return {**pictures, "report.md": markdown.encode(), "report.html": html(markdown, pictures).encode()}


def html(markdown: str, pictures: dict[str, bytes]) -> str:
    """Return a Markdown page as one HTML file, with a link to each section and with the pictures inside."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = parser.parse(markdown)
    sections = {}
    for token, following in pairwise(tokens):
        if token.type == "heading_open" and token.tag == "h2":
            anchor = re.sub(r"\W+", "-", following.content.lower())
            token.attrSet("id", anchor)
            sections[anchor] = following.content
        for child in token.children or []:
            if child.type == "image":
                content = b64encode(pictures[unquote(str(child.attrs["src"]))]).decode()
                child.attrSet("src", f"data:image/svg+xml;base64,{content}")
    body = parser.renderer.render(tokens, parser.options, {})
    return TEMPLATES.get_template("report.html.j2").render(sections=sections, body=body)


def file_name(kind: str, task: Task) -> str:
    """Return the name of a task's figure. Characters other than letters, digits and `_.-` become their codes."""
    return re.sub(r"[^\w.-]", lambda found: f"_{ord(found[0])}_", f"{kind}_{task.name}_{task.metric}") + ".svg"
