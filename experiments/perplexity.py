"""Measure the perplexity of a biLM with its softmax on any text, for example before and after fine-tuning."""

import argparse
import json
from typing import Optional

import torch
from allennlp.training.util import evaluate

from elmo_plugin.pretraining import SentenceBatches, TextShardsReader, load_language_model

DESCRIPTION = """
Print the perplexity of a biLM on held-out text: forward, backward and the mean of both, with the out-of-vocabulary rate
and the number of predicted tokens. Each sentence is scored by itself, over the whole vocabulary.

  python -m experiments.perplexity english-tiny heldout.txt
  python -m experiments.perplexity runs/tuned/model.tar.gz 'texts/heldout-*.txt.gz'
"""


def parse(arguments: Optional[list[str]] = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        "python -m experiments.perplexity",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bilm", help="a bundled name, a .safetensors file, or an archive or run of the model `bilm`")
    parser.add_argument("text", help="a path or a pattern; one tokenized sentence per line, plain, .gz or .xz")
    return parser.parse_args(arguments)


def main() -> None:
    """Evaluate the biLM and print its metrics as JSON."""
    args = parse()
    model = load_language_model(args.bilm)
    loader = SentenceBatches(TextShardsReader(), args.text, shuffle=False)
    loader.index_with(model.vocab)
    loader.set_target_device(torch.device("cpu"))
    print(json.dumps({"bilm": args.bilm, "n_words": model.softmax.vocab_size, **evaluate(model, loader)}, indent=2))


if __name__ == "__main__":
    main()
