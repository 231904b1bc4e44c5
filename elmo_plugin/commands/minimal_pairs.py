r"""Test a biLM's grammar on pairs of sentences.

elmo-plugin minimal-pairs BILM PAIRS [options]

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

from elmo_plugin.commands.arguments import add_device, output, print_page


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
    from elmo_plugin import analysis, bilm, embedding, pretraining, text

    model = pretraining.load_language_model(args.bilm).to(embedding.find_device(args.cuda_device))
    language = bilm.language_of(model)
    split = text.AsciiSpacesTokenizer() if args.split == "space" else text.SpacyBlankTokenizer(language or "en")
    pairs = analysis.read_pairs(args.pairs, split, args.by)
    text.LanguageCheck(language).read(" ".join(pair.good) for pair in pairs)
    scores = analysis.score_pairs(partial(pretraining.sentence_log_probabilities, model), pairs)
    by_phenomenon, overall = analysis.pair_accuracies(pairs, scores)
    print_page(analysis.minimal_pairs_page(f"{args.bilm} on {args.pairs}", by_phenomenon, overall), "pairs.md")
    if args.scores:
        analysis.write_scores(args.scores, pairs, scores)
