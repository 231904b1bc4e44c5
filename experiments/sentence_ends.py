"""How many sentence ends `prepare-text` finds, and how many of those that it sets are right.

    python -m experiments.sentence_ends ud_ewt/dev.conllu litbank/dev.tsv

A text is a CoNLL-U file, whose comments hold the raw sentences and the paragraphs; or columns with a token first and a
blank line after each sentence, from which paragraphs of 50 sentences are written with the spaces that English has.
"""

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from elmo_plugin.text import SentenceSplitter, TextFile

AFTER_A_TOKEN = tuple(",.;:!?)]}%’”")
SENTENCES_OF_A_PARAGRAPH = 50


def conllu_paragraphs(path: Path) -> Iterator[list[str]]:
    """Yield the raw sentences of each paragraph of a CoNLL-U file."""
    sentences: list[str] = []
    for line in TextFile(path).lines():
        if line.startswith(("# newpar", "# newdoc")) and sentences:
            yield sentences
            sentences = []
        elif line.startswith("# text = "):
            sentences.append(line.removeprefix("# text = ").strip())
    yield sentences


def column_paragraphs(path: Path) -> Iterator[list[str]]:
    """Yield the sentences of a file of columns, with the spaces of written English, 50 at a time."""
    sentences: list[str] = []
    text, in_quotes, glue = "", False, True
    for line in [*TextFile(path).lines(), "\n"]:
        if not line.strip():
            sentences += [text] * bool(text)
            text, in_quotes, glue = "", False, True
            if len(sentences) == SENTENCES_OF_A_PARAGRAPH:
                yield sentences
                sentences = []
            continue
        token = line.split("\t")[0].strip()
        closes = token.startswith((*AFTER_A_TOKEN, "'", "n't")) or (token == '"' and in_quotes)
        text += token if closes or glue else f" {token}"
        glue = token in "([“‘" or (token == '"' and not in_quotes)
        in_quotes ^= token == '"'
    if sentences:
        yield sentences


def ends(sentences: Iterable[str]) -> set[int]:
    """Return where sentences end, counted in characters that are not white space."""
    found, position = set(), 0
    for sentence in sentences:
        position += len("".join(sentence.split()))
        found.add(position)
    return found


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path)
    parser.add_argument("--language", metavar="CODE", default="en")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Print a Markdown table."""
    args = parse(arguments)
    splitter = SentenceSplitter(args.language)
    print("| text | sentences | ends found | ends set that are right |\n|---|---:|---:|---:|")
    for path in args.files:
        is_conllu = ".conllu" in path.suffixes
        paragraphs = list(conllu_paragraphs(path) if is_conllu else column_paragraphs(path))
        n_set = n_right = n_true = 0
        for sentences in paragraphs:
            made = ends(" ".join(tokens) for tokens in splitter.sentences([f"{' '.join(sentences)}\n"]))
            true = ends(sentences)
            n_set, n_right, n_true = n_set + len(made), n_right + len(made & true), n_true + len(true)
        print(f"| {path.name} | {n_true:,} | {n_right / n_true:.1%} | {n_right / n_set:.1%} |")


if __name__ == "__main__":
    main()
