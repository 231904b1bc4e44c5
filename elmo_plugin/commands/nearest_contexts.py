"""The command `allennlp nearest-contexts`: find sentences that use a word in the way that a given sentence does."""

import argparse
from pathlib import Path

from allennlp.commands.subcommand import Subcommand
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import Search, find_query, neighbors_page, search
from elmo_plugin.commands.arguments import add_bilm, add_command, count, load_bilm
from elmo_plugin.commands.endings import print_page
from elmo_plugin.embedding import Corpus
from elmo_plugin.text import AsciiSpacesTokenizer

ABOUT = "Find the tokens of a text whose contextual vectors are nearest to a word's."
EXAMPLE = """allennlp nearest-contexts english-tiny novels.txt \\
      --query "They went to the play ." --word play"""
MORE = """
Vectors are compared by cosine (Table 4 of the ELMo paper). This prints a
Markdown table of the nearest sentences, each with the token in bold, and beside
them the nearest words by the token layer, which ignores context. Each sentence
appears once, with its nearest token. The query's own sentence is left out.

Search for several words in one pass over the first 5000 lines of the text:
  allennlp nearest-contexts english-tiny novels.txt --sentences 5000 \\
      --query "They went to the play ." --word play \\
      --query "He sat on the bank of the river ." --word bank

Search for the second occurrence of a word in the sentence:
  allennlp nearest-contexts english-tiny novels.txt \\
      --query "They play in a play ." --word play:2

Find only sentences that contain the same word; the same sense comes first:
  allennlp nearest-contexts english-tiny novels.txt --same-word \\
      --query "He sat on the bank ." --word bank
"""


@Subcommand.register("nearest-contexts")
class NearestContexts(Subcommand):
    """Registered as a `Subcommand` with name `nearest-contexts`."""

    def add_subparser(self, parser: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
        """Add the command's arguments to the parser."""
        subparser = add_command(parser, self.name, ABOUT, "BILM TEXT --query TEXT --word WORD", EXAMPLE, MORE, run)
        add_bilm(subparser)
        subparser.add_argument(
            "text", metavar="TEXT", type=Path, help="one tokenized sentence per line, plain, .gz or .xz; - is stdin"
        )
        subparser.add_argument(
            "--query", metavar="SENTENCE", action="append", required=True, help="a tokenized sentence; may be repeated"
        )
        subparser.add_argument(
            "--word",
            action="append",
            required=True,
            help="one token of each query; WORD:2 is the second occurrence of WORD",
        )
        subparser.add_argument(
            "--layer",
            type=int,
            metavar="N",
            help="the layer to compare, 0 for the token layer (default: the top layer)",
        )
        subparser.add_argument("--k", type=count, default=10, help="the number of neighbours per query")
        subparser.add_argument("--same-word", action="store_true", help="find only tokens with the query's word form")
        return subparser


def run(args: argparse.Namespace) -> None:
    """Search and print the neighbours."""
    if len(args.query) != len(args.word):
        raise ConfigurationError(
            f"expected one --word per --query, got {len(args.query)} --query and {len(args.word)} --word"
        )
    queries = list(map(find_query, args.query, args.word))
    embedder = load_bilm(args)
    layer = embedder.shape[0] - 1 if args.layer is None else args.layer
    corpus = Corpus(args.text, AsciiSpacesTokenizer())
    found = search(embedder, corpus, queries, Search(layer, args.k, args.same_word, args.sentences))
    print_page(neighbors_page(queries, found, layer), "contexts.md")
