"""Draw the uses of words in a text, by the vectors of a layer in two dimensions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Optional

import numpy as np
from matplotlib.figure import Figure
from pandas import DataFrame
from sklearn.decomposition import PCA

from elmo_plugin.analysis.figure_page import WIDTH, Section, add_legend, panels, styled, write_page
from elmo_plugin.analysis.nearest_contexts import Found, Query, Uses

SAME_PLACE = 0.012
"""How near dots in the same place are, as a part of the plot."""
Senses = Mapping[tuple[int, int], str]
"""The sense of the token at a line, from 1, and a position."""


@styled
def write(
    output: Path, queries: Sequence[Query], found: Sequence[Found], layer: int, k: int, senses: Optional[Senses]
) -> list[Path]:
    """Write the files of the page to a folder, and return them."""
    about = (
        f"Each dot is a use of the word, by its vector of layer {layer}; the star is the query. Dots that are near "
        "each other have similar vectors, as far as two principal components can show. The uses that are nearest to "
        "the query by cosine are numbered in the picture and listed in the table."
    )
    pairs = zip(queries, found, strict=True)
    sections = [_section(query, each.uses, k, senses) for query, each in pairs if each.uses is not None]
    return write_page(output, "contexts", "Uses of words in context", about, sections)


def _section(query: Query, uses: Uses, k: int, senses: Optional[Senses]) -> Section:
    sentence = _marked(query.tokens, query.position)
    if len(uses.neighbors) < 2:
        return Section(query.word, f"{sentence} – fewer than two other sentences of the text contain this word.")
    nearest = np.argsort([-use.cosine for use in uses.neighbors], kind="stable")[:k].tolist()
    texts = list(dict.fromkeys(use.text for use in uses.neighbors))
    if senses is None and len(texts) > 1:
        labels = [use.text for use in uses.neighbors]
    elif senses is None:
        labels = ["nearest" if i in nearest else "other uses" for i in range(len(uses.neighbors))]
    else:
        labels = [senses.get((use.line, use.position), "no sense") for use in uses.neighbors]
    table = DataFrame(
        {
            "nearest": number,
            "sentence": _marked(uses.neighbors[index].tokens, uses.neighbors[index].position),
            "text": uses.neighbors[index].text,
            "sense": labels[index],
            "cosine": f"{uses.neighbors[index].cosine:.3f}",
            "line": uses.neighbors[index].line,
        }
        for number, index in enumerate(nearest, 1)
    )
    unused = ["sense"] * (not senses) + ["text"] * (len(texts) < 2)
    picture = _picture(uses.vectors, labels, nearest, (senses is None and texts) or [])
    figures = {f"{len(labels)} uses of {query.word} in two dimensions: {sentence}": picture}
    return Section(query.word, sentence, [table.drop(columns=unused)], figures)


def _picture(vectors: np.ndarray, labels: Sequence[str], nearest: Sequence[int], order: Sequence[str]) -> Figure:
    """Draw the uses of a word by the first two principal components of their vectors, in a colour per label.

    `vectors` (1 + N, D) are those of the query and of N uses, which `labels` describe. The uses at the indices
    `nearest` get the numbers 1, 2, …  The labels are in the given order, or else the most frequent one comes first.
    """
    components = PCA(2, random_state=0)
    query, *points = components.fit_transform(vectors)  # (2,) each
    counts = Counter(labels)
    figure, (axis,) = panels(WIDTH + 0.1 * len(counts))
    ordered = [label for label in order if label in counts] or [label for label, _ in counts.most_common()]
    for number, label in enumerate(ordered):
        x, y = np.array([point for point, each in zip(points, labels, strict=True) if each == label]).T
        look = {"color": f"C{number % 6}", "marker": "os^Dv"[number // 6 % 5]}  # there are six colours
        axis.scatter(x, y, s=14, alpha=0.6, label=f"{label} ({counts[label]})", **look)
    axis.plot(*query, color="black", ls="", marker="*", ms=12, label="the query")
    first, second = 100 * components.explained_variance_ratio_
    axis.set(
        xlabel=f"Component 1 ({first:.0f} % of the variance)", ylabel=f"Component 2 ({second:.0f} % of the variance)"
    )
    add_legend(figure, axis)
    # The numbers stand beside the plot, with a line from each to its point, so that no number hides anything. Points
    # that are drawn on top of each other share a label, such as `3, 5`.
    scaled = np.array(points) / np.maximum(np.ptp(points, axis=0), 1e-9)  # (N, 2)
    numbers: dict[int, list[int]] = {}  # by the first of the points in a place
    for number, index in enumerate(nearest, 1):
        here = (other for other in numbers if np.abs(scaled[other] - scaled[index]).max() < SAME_PLACE)
        numbers.setdefault(next(here, index), []).append(number)
    from_below = sorted(numbers, key=lambda index: float(points[index][1]))
    for height, index in zip(np.linspace(0, 1, len(numbers) + 2)[1:-1], from_below, strict=True):
        axis.annotate(
            ", ".join(map(str, numbers[index])),
            points[index],
            textcoords="axes fraction",
            xytext=(1.04, height),
            va="center",
            fontsize=min(9, 200 / len(numbers)),
            arrowprops={"arrowstyle": "-", "color": "gray", "lw": 0.5, "relpos": (0, 0.5)},
        )
    return figure


def _marked(tokens: Sequence[str], position: int) -> str:
    """Return the token in marks, and up to eight tokens before and after it."""
    start, end = max(0, position - 8), position + 9
    shown = [*tokens[start:position], f"«{tokens[position]}»", *tokens[position + 1 : end]]
    return " ".join([*["…"] * (start > 0), *shown, *["…"] * (end < len(tokens))])
