r"""Test a biLM's grammar on pairs of sentences.

  elmo-plugin minimal-pairs english-tiny blimp.jsonl

This prints a Markdown table: for each phenomenon, how often the biLM gives the
grammatical sentence a higher probability than the ungrammatical one (BLiMP,
Warstadt et al. 2020), by the forward direction, by the backward direction, and
by the sum of both log probabilities.

PAIRS has one JSON object per line, with raw text in `sentence_good` and
`sentence_bad`, which spaCy's rules for the biLM's language split into tokens.

Read tokenized text, and take the phenomenon from another key:
  elmo-plugin minimal-pairs runs/bilm/model.tar.gz pairs.jsonl \
      --split space --by UID

Write PAIRS again, with forward_good, forward_bad, backward_good and backward_bad,
the log probabilities of both sentences in nats:
  elmo-plugin minimal-pairs english-tiny blimp.jsonl --scores scored.jsonl

The biLM must have its softmax: a bundled name, a .safetensors file that
`convert-elmo` wrote, or an archive or run of the model `bilm`.
"""

import argparse
from functools import partial
from pathlib import Path

from elmo_plugin.commands.arguments import add_device, output

USAGE = "BILM PAIRS"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("bilm", metavar="BILM", help="a biLM with its softmax")
    parser.add_argument("pairs", metavar="PAIRS", type=Path, help="JSON lines, plain, .gz or .xz; - is stdin")
    parser.add_argument("--by", metavar="KEY", default="linguistics_term", help="the key with the phenomenon")
    parser.add_argument(
        "--split",
        choices=["spacy", "space"],
        default="spacy",
        help="split into tokens by spaCy's rules for the biLM's language, or at white space",
    )
    parser.add_argument("--scores", metavar="FILE", type=output, help="also write the log probabilities of each pair")
    add_device(parser)


def run(args: argparse.Namespace) -> None:
    """Score the pairs, print the accuracies and write the scores."""
    from elmo_plugin.analysis import minimal_pairs_page, pair_accuracies, read_pairs, score_pairs, write_scores
    from elmo_plugin.bilm import language_of
    from elmo_plugin.commands.console import print_page
    from elmo_plugin.embedding import find_device
    from elmo_plugin.pretraining import load_language_model, sentence_log_probabilities
    from elmo_plugin.text import AsciiSpacesTokenizer, LanguageCheck, SpacyBlankTokenizer

    model = load_language_model(args.bilm).to(find_device(args.cuda_device))
    tokenizer = AsciiSpacesTokenizer() if args.split == "space" else SpacyBlankTokenizer(language_of(model) or "en")
    pairs = read_pairs(args.pairs, tokenizer, args.by)
    LanguageCheck(language_of(model)).read(" ".join(pair.good) for pair in pairs)
    scores = score_pairs(partial(sentence_log_probabilities, model), pairs)
    by_phenomenon, overall = pair_accuracies(pairs, scores)
    print_page(minimal_pairs_page(f"{args.bilm} on {args.pairs}", by_phenomenon, overall), "pairs.md")
    if args.scores:
        write_scores(args.scores, pairs, scores)
