"""Write Markdown tables, and the pages that the commands of this package print."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

from elmo_plugin.analysis.minimal_pairs import PairAccuracy
from elmo_plugin.analysis.nearest_contexts import Found, Query
from elmo_plugin.analysis.probing import Accuracies
from elmo_plugin.models import DataCheck

MOST_LABELS = 50
"""The number of labels that a table shows."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1) -> str:
    r"""Return a Markdown table. The first `names` columns hold words, aligned left; the others hold numbers.

    >>> print(table(["layer", "accuracy, %"], [["a|b", "87.03"]]))
    | layer | accuracy, % |
    | --- | ---: |
    | a\|b | 87.03 |
    """
    ruler = ["---" if column < names else "---:" for column in range(len(head))]
    escaped = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in [head, ruler, *rows]]
    return "\n".join(f"| {' | '.join(row)} |" for row in escaped)


def plain(text: str) -> str:
    r"""Escape what Markdown would read as markup, so that the page shows `text` as it is. `table` escapes bars.

    >>> print(plain("without_elmo <*>"))
    without_elmo \<\*\>
    """
    return re.sub(r"([\\`*\[\]<>&#~]|\b_|_\b)", r"\\\1", text)  # an underscore inside a word is not markup


def neighbors_page(queries: Sequence[Query], found: Sequence[Found], layer: int) -> str:
    """Return one table per query, as in Table 4 of ELMo: neighbours by a layer beside neighbours by the token layer."""
    sections = ["# Nearest neighbours in context\n"]
    for query, neighbors in zip(queries, found, strict=True):
        contexts = [
            [_in_bold(each.tokens, each.position), f"{each.cosine:.3f}", f"{each.line:,}"]
            for each in neighbors.in_context
        ]
        words = [[plain(each.tokens[each.position]), f"{each.cosine:.3f}"] for each in neighbors.context_free]
        rows = [[*(context or ["", "", ""]), *(word or ["", ""])] for context, word in zip_longest(contexts, words)]
        head = [f"layer {layer}, in context", "cosine", "line", "token layer, without context", "cosine"]
        width = 5 if words else 3
        text = table(head[:width], [row[:width] for row in rows])
        sections += [f"## {plain(query.word)}\n", f"{_in_bold(query.tokens, query.position)}\n"]
        sections.append(f"{text}\n" if rows else "No other sentence of the text contains this word.\n")
    return "\n".join(sections)


def frequent_words_page(words: Sequence[tuple[str, list[str], int]]) -> str:
    """Return one row per word, with a sentence to search with."""
    rows = [[plain(word), _in_bold(sentence, sentence.index(word)), f"{count:,}"] for word, sentence, count in words]
    return f"# Frequent words\n\n{table(['word', 'a sentence with it', 'count'], rows, names=2)}\n"


def accuracies_page(title: str, columns: dict[str, Accuracies]) -> str:
    """Return one row per layer and one column per biLM, by its name, as in Tables 5 and 6 of ELMo."""
    first = next(iter(columns.values()))
    names = ["most frequent label of the word", "0, token layer", *map(str, range(1, len(first.layers)))]
    numbers = zip(*([column.most_frequent, *column.layers] for column in columns.values()), strict=True)
    rows = [[name, *(f"{number:.2f}" for number in row)] for name, row in zip(names, numbers, strict=True)]
    return (
        f"# What the layers know\n\n## {plain(title)}\n\n"
        f"The accuracy of each layer by itself on {first.dev:,} tokens, after training on {first.train:,}.\n\n"
        f"{table(['layer', *map(plain, columns)], rows)}\n"
    )


def minimal_pairs_page(title: str, by_phenomenon: dict[str, PairAccuracy], overall: PairAccuracy) -> str:
    """Return one row per phenomenon and a last row for all pairs, as in Table 3 of BLiMP."""
    named = [*((plain(name), row) for name, row in by_phenomenon.items()), ("**all**", overall)]
    rows = [
        [name, *(f"{accuracy:.1f}" for accuracy in row[:3]), str(row.ties), f"{row.pairs:,}"] for name, row in named
    ]
    head = ["phenomenon", "forward, %", "backward, %", "sum, %", "ties in the sum", "pairs"]
    return (
        f"# Minimal pairs\n\n## {plain(title)}\n\n"
        "The share of pairs whose grammatical sentence has the higher log probability; a tie counts as half.\n\n"
        f"{table(head, rows)}\n"
    )


def data_check_page(config: str, checked: DataCheck) -> str:
    """Return the sizes of all parts, a table per field of labels, and what to do."""
    sections = [f"# {plain(config)}"]
    rows = [
        [part.name, *(f"{n:,}" for n in (part.n_texts, len(part.compared), part.n_tokens, part.longest))]
        for part in checked.parts
    ]
    if rows:
        sections.append(table(["part", "texts", "distinct", "tokens", "longest"], rows))
    for field in dict.fromkeys(field for part in checked.parts for field in part.labels):
        counts = [part.labels.get(field, Counter()) for part in checked.parts]
        labels = sorted(
            {label for each in counts for label in each}, key=lambda label: (-counts[0].get(label, 0), label)
        )
        shown = [[plain(label), *(f"{each.get(label, 0):,}" for each in counts)] for label in labels[:MOST_LABELS]]
        more = f"\n\n… and {len(labels) - MOST_LABELS:,} more" if len(labels) > MOST_LABELS else ""
        sections += [
            f"## Labels: {plain(field)}",
            table(["label", *(part.name for part in checked.parts)], shown) + more,
        ]
    listed = [*(f"**Cannot train.** {plain(text)}" for text in checked.failures), *map(plain, checked.advice)]
    to_do = "\n".join(f"{number}. {text}" for number, text in enumerate(listed, 1))
    return "\n\n".join([*sections, "## What to do", to_do or "Nothing: no problem was found."]) + "\n"


def _in_bold(tokens: Sequence[str], position: int) -> str:
    return " ".join(f"**{plain(token)}**" if i == position else plain(token) for i, token in enumerate(tokens))
