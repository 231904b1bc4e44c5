"""`allennlp nearest-contexts`: in which sentences a word is used as it is in another one."""

import argparse
import sys
from pathlib import Path

from allennlp.commands.subcommand import Subcommand
from allennlp.common.checks import ConfigurationError
from allennlp.data import Tokenizer

from elmo_plugin.analysis import Query, Search, find_query, neighbors_page, search
from elmo_plugin.commands.arguments import add_bilm, check_values, count, load_bilm
from elmo_plugin.embedding import Corpus

DESCRIPTION = """
Search a text for the tokens whose vectors in context are nearest, by cosine, to those of a word in a sentence
(Table 4 of the ELMo paper), and print a table in Markdown: the sentences, each with the token in bold, and
beside them the words nearest without any context, by the token layer. A sentence is there once, with its
nearest token; the sentence of the query is left out.

  allennlp nearest-contexts english-tiny novels.txt --query "They went to the play ." --word play

Several words in one pass over the text, and the first 5000 sentences of it only:
  allennlp nearest-contexts english-tiny novels.txt --sentences 5000 \\
      --query "They went to the play ." --word play --query "He sat on the bank of the river ." --word bank

A word that the sentence has twice, the second of them:
  allennlp nearest-contexts english-tiny novels.txt --query "They play in a play ." --word play:2

Only sentences with the same word, those with the same sense first:
  allennlp nearest-contexts english-tiny novels.txt --query "He sat on the bank ." --word bank --same-word
"""


@Subcommand.register("nearest-contexts")
class NearestContexts(Subcommand):
    """Registered as a `Subcommand` with name `nearest-contexts`."""

    def add_subparser(self, parser: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
        """Say what the command takes."""
        subparser = parser.add_parser(
            self.name,
            description=DESCRIPTION,
            help="Find the tokens of a text that are nearest to a word in its context.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        check_values(subparser)
        add_bilm(subparser)
        subparser.add_argument(
            "text", metavar="TEXT", type=Path, help="one tokenised sentence a line, plain, .gz or .xz; - is stdin"
        )
        subparser.add_argument(
            "--query", metavar="SENTENCE", action="append", required=True, help="tokenised; one or more of them"
        )
        subparser.add_argument(
            "--word", action="append", required=True, help="one for each query: a token of it, or WORD:2 for the second"
        )
        subparser.add_argument(
            "--layer", type=int, metavar="N", help="whose vectors, 0 for the token layer (default: the top one)"
        )
        subparser.add_argument("--k", type=count, default=10, help="neighbours of each query")
        subparser.add_argument("--same-word", action="store_true", help="only tokens of the query's word form")
        subparser.set_defaults(func=run)
        return subparser


def run(args: argparse.Namespace) -> None:
    """Search and print; one line and exit code 1 if something is wrong."""
    try:
        queries = _queries(args)
        embedder = load_bilm(args)
        layer = embedder.shape[0] - 1 if args.layer is None else args.layer
        corpus = Corpus(args.text, Tokenizer.by_name("just_spaces")())
        found = search(embedder, corpus, queries, Search(layer, args.k, args.same_word, args.sentences))
    except (ConfigurationError, OSError) as error:
        sys.exit(f"nearest-contexts: {error}")
    print(neighbors_page(queries, found, layer), end="")


def _queries(args: argparse.Namespace) -> list[Query]:
    if len(args.query) != len(args.word):
        raise ConfigurationError(
            f"found --query {len(args.query)} times and --word {len(args.word)} times; wanted a word for each query"
        )
    return list(map(find_query, args.query, args.word))
