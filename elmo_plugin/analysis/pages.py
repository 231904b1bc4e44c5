"""What was found, as one page of Markdown."""

import re
from collections.abc import Sequence
from itertools import zip_longest

from elmo_plugin.analysis.nearest_contexts import Found, Neighbor, Query
from elmo_plugin.analysis.page import Section, Table, Text, markdown
from elmo_plugin.analysis.probing import Accuracies


def neighbors_page(queries: Sequence[Query], found: Sequence[Found], layer: int) -> str:
    """A table a query, as Table 4 of ELMo: sentences by a layer, and words by the token layer beside them."""
    sections = [
        Section(query.word, [Text(_in_bold(query.tokens, query.place)), _neighbors(neighbors, layer)])
        for query, neighbors in zip(queries, found, strict=True)
    ]
    return markdown("Nearest neighbours in context", sections)


def accuracies_page(title: str, columns: dict[str, Accuracies]) -> str:
    """A row a layer and a column a biLM, whose name is its key, as Tables 5 and 6 of ELMo."""
    first = next(iter(columns.values()))
    rows = [["most frequent of the word", *[f"{column.most_frequent:.2f}" for column in columns.values()]]]
    for layer in range(len(first.layers)):
        name = "0, token layer" if layer == 0 else str(layer)
        rows.append([name, *[f"{column.layers[layer]:.2f}" for column in columns.values()]])
    text = f"Accuracy on {first.dev:,} tokens, after training on {first.train:,}, each layer by itself."
    return markdown("What the layers know", [Section(title, [Text(text), Table(["layer", *columns], rows)])])


def _neighbors(found: Found, layer: int) -> Table:
    head, in_context = [f"layer {layer}, in context", "cosine", "line"], map(_context, found.in_context)
    if not found.context_free:
        return Table(head, list(in_context))
    pairs = zip_longest(in_context, map(_word, found.context_free))
    rows = [[*(context or ["", "", ""]), *(word or ["", ""])] for context, word in pairs]
    return Table([*head, "token layer, without context", "cosine"], rows)


def _context(neighbor: Neighbor) -> list[str]:
    return [_in_bold(neighbor.tokens, neighbor.place), f"{neighbor.cosine:.3f}", f"{neighbor.line:,}"]


def _word(neighbor: Neighbor) -> list[str]:
    return [_plain(neighbor.tokens[neighbor.place]), f"{neighbor.cosine:.3f}"]


def _in_bold(tokens: Sequence[str], place: int) -> str:
    plain = list(map(_plain, tokens))
    return " ".join([*plain[:place], f"**{plain[place]}**", *plain[place + 1 :]])


def _plain(token: str) -> str:
    """A token that Markdown shows as it is; the bars of tables are `markdown`'s business."""
    return re.sub(r"([\\`*_\[\]<>&#~])", r"\\\1", token)
