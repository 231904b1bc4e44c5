"""Perplexity of a biLM that holds its softmax and vocabulary, on any text: before fine-tuning, after it, as shipped."""

import argparse
import json

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.training.util import evaluate

from elmo_plugin.checkpoints import load_checkpoint
from elmo_plugin.pretraining import BidirectionalLanguageModel, SentenceBatches, TextShardsReader
from elmo_plugin.pretraining.vocabulary import vocabulary_of

DESCRIPTION = """
Print the perplexity of a biLM on held-out text, sentence by sentence, over its whole vocabulary: forward, backward
and the mean of both, with the rate of unknown words and the number of tokens that were predicted.

  python benchmarks/perplexity.py english-tiny heldout.txt
  python benchmarks/perplexity.py runs/tuned/model.tar.gz 'texts/heldout-*.txt.gz'
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bilm", help="a name, a .safetensors file, an archive or a run of the model `bilm`")
    parser.add_argument("text", help="a path or a pattern; one tokenised sentence a line, plain, .gz or .xz")
    args = parser.parse_args()
    words = load_checkpoint(args.bilm).vocabulary
    if words is None:
        raise ConfigurationError(f"'{args.bilm}' holds no vocabulary; wanted a biLM with its softmax")
    model = BidirectionalLanguageModel(vocabulary_of(words), {"pretrained": args.bilm})
    loader = SentenceBatches(TextShardsReader(), args.text, shuffle=False)
    loader.index_with(model.vocab)
    loader.set_target_device(torch.device("cpu"))
    print(json.dumps({"bilm": args.bilm, "n_words": len(words), **evaluate(model, loader)}, indent=2))


if __name__ == "__main__":
    main()
