"""Compute the page about the uses of words: a picture in two dimensions, and a table of the nearest uses."""

from collections.abc import Mapping, Sequence
from typing import Optional

import numpy as np
from pandas import DataFrame

from elmo_plugin.analysis import figures
from elmo_plugin.analysis.nearest_contexts import Found, Query, Uses
from elmo_plugin.analysis.sections import Picture, Section, page_files

Senses = Mapping[tuple[int, int], str]
"""The sense of the token at a line, from 1, and a position."""


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
