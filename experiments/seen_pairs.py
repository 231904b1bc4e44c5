"""Keep the minimal pairs whose words a language model has seen."""

import argparse
import json
from collections import Counter
from pathlib import Path

from elmo_plugin.text import SpacyBlankTokenizer, split_tokens

DESCRIPTION = """
Copy to OUT the minimal pairs of PAIRS whose words all occur at least twice in TEXT, as BabyLM's evaluation of 2023 does
with its own text:

  python -m experiments.seen_pairs blimp/pairs.jsonl seen.jsonl novels/train-*.txt
"""


def main() -> None:
    """Write the pairs and print how many there are."""
    parser = argparse.ArgumentParser(
        "python -m experiments.seen_pairs",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("pairs", metavar="PAIRS", type=Path)
    parser.add_argument("output", metavar="OUT", type=Path)
    parser.add_argument("text", metavar="TEXT", nargs="+", type=Path, help="tokenized sentences, one per line")
    args = parser.parse_args()
    counts = Counter(word for file in args.text for line in file.open(encoding="utf-8") for word in split_tokens(line))
    tokenizer = SpacyBlankTokenizer()
    rows = args.pairs.read_text(encoding="utf-8").splitlines(keepends=True)

    def seen(row: str) -> bool:
        pair = json.loads(row)
        text = f"{pair['sentence_good']} {pair['sentence_bad']}"
        return all(counts[str(token.text)] >= 2 for token in tokenizer.tokenize(text))

    kept = [row for row in rows if seen(row)]
    args.output.write_text("".join(kept), encoding="utf-8")
    print(f"{len(kept):,} of {len(rows):,} pairs")


if __name__ == "__main__":
    main()
