"""Remove from LitBank's development set the works in the training text of a biLM."""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Optional

from elmo_plugin.common import atomic_file

STARTS = {
    "The Good Soldier": "PART I I THIS is the saddest story",
    "Howards End": "Chapter 1 One may as well begin",
    "Of Human Bondage": "I The day broke gray",
    "Silas Marner": "CHAPTER I In the days when",
    "The Scarlet Pimpernel": "CHAPTER I PARIS : SEPTEMBER , 1792",
}
"""The first words of the works to remove and of those that follow them. The file does not mark where works begin."""
READ = ["The Good Soldier", "Howards End", "Silas Marner"]
DESCRIPTION = f"""
Copy DEV, LitBank's development set, without the works that are in the training text of english-tiny (ELTeC) or in the
100 English Novels, which other biLMs may be trained on: {", ".join(READ)}.
`experiments.grid` uses OUT as a second development set:

  python -m experiments.litbank litbank/dev.tsv runs/grid/litbank_events.dev2
"""


def parse(arguments: Optional[list[str]] = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        "python -m experiments.litbank", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dev", metavar="DEV", type=Path, help="one token and its tag per line")
    parser.add_argument("output", metavar="OUT", type=Path)
    return parser.parse_args(arguments)


def unread(sentences: Iterable[str]) -> Iterator[str]:
    """Yield the sentences of all works that are not in `READ`. A sentence has one token and its tag per line.

    Raises `ValueError` if a work in `STARTS` is missing.
    """
    work, found = "", set()
    for sentence in sentences:
        text = " ".join(line.split("\t")[0] for line in sentence.split("\n"))
        work = next((title for title, start in STARTS.items() if text.startswith(start)), work)
        found.add(work)
        if work not in READ:
            yield sentence
    if missing := STARTS.keys() - found:
        raise ValueError(f"expected LitBank's development set, got a text without {', '.join(sorted(missing))}")


def main(arguments: Optional[list[str]] = None) -> None:
    """Write the second development set."""
    args = parse(arguments)
    sentences = args.dev.read_text(encoding="utf-8").strip().split("\n\n")
    kept = [*unread(sentences)]
    with atomic_file(args.output) as path:
        path.write_text("\n\n".join(kept) + "\n", encoding="utf-8")
    print(f"{len(kept)} of {len(sentences)} sentences in {args.output}")


if __name__ == "__main__":
    main()
