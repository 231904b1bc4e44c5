"""The command `elmo-plugin minimal-pairs`: test a biLM's grammar by the probabilities that it gives to sentences."""

import argparse
from functools import partial
from pathlib import Path

from elmo_plugin.commands.arguments import Parsers, add_command, add_device, output

NAME = "minimal-pairs"
ABOUT = "Test a biLM's grammar on pairs of sentences."
EXAMPLE = "elmo-plugin minimal-pairs english-tiny blimp.jsonl"
MORE = """
This prints a Markdown table: for each phenomenon, how often the biLM gives the
grammatical sentence a higher probability than the ungrammatical one (BLiMP,
Warstadt et al. 2020), by the forward direction, by the backward direction, and
by the sum of both log probabilities.

PAIRS has one JSON object per line, with raw text in `sentence_good` and
`sentence_bad`, which spaCy's rules for the biLM's language split into tokens.

Read tokenized text, and take the phenomenon from another key:
  elmo-plugin minimal-pairs runs/bilm/model.tar.gz pairs.jsonl \\
      --split space --by UID

Write PAIRS again, with forward_good, forward_bad, backward_good and backward_bad,
the log probabilities of both sentences in nats:
  elmo-plugin minimal-pairs english-tiny blimp.jsonl --scores scored.jsonl

The biLM must have its softmax: a bundled name, a .safetensors file that
`convert-elmo` wrote, or an archive or run of the model `bilm`.
"""
SPLITS = ["spacy", "space"]


def add_parser(parsers: Parsers) -> argparse.ArgumentParser:
    """Add the command and its arguments."""
    subparser = add_command(parsers, NAME, ABOUT, "BILM PAIRS", EXAMPLE, MORE, run)
    add = subparser.add_argument
    add("bilm", metavar="BILM", help="a biLM with its softmax")
    add("pairs", metavar="PAIRS", type=Path, help="JSON lines, plain, .gz or .xz; - is stdin")
    add("--by", metavar="KEY", default="linguistics_term", help="the key with the phenomenon")
    split = "split into tokens by spaCy's rules for the biLM's language, or at white space"
    add("--split", choices=SPLITS, default="spacy", help=split)
    add("--scores", metavar="FILE", type=output, help="also write the log probabilities of each pair")
    add_device(subparser)
    return subparser


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
