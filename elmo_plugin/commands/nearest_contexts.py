r"""Find the tokens of a text whose contextual vectors are nearest to a word's.

elmo-plugin nearest-contexts BILM TEXT [--query SENTENCE --word WORD] [options]

  elmo-plugin nearest-contexts english-tiny novels.txt \
      --query "They went to the play ." --word play

Vectors are compared by cosine (Table 4 of the ELMo paper). This prints a
Markdown table of the nearest sentences, each with the token in bold, and beside
them the nearest words by the token layer, which ignores context. Each sentence
appears once, with its nearest token. The query's own sentence is left out.

List frequent words of the text, each with a sentence to search with:
  elmo-plugin nearest-contexts english-tiny novels.txt

Search for several words in one pass over the first 5000 lines of the text:
  elmo-plugin nearest-contexts english-tiny novels.txt --sentences 5000 \
      --query "They went to the play ." --word play \
      --query "He sat on the bank of the river ." --word bank

Draw the uses of a word in three periods, each in a text of its own:
  elmo-plugin nearest-contexts english-tiny 1840s.txt 1880s.txt 1920s.txt \
      --group --draw plots --query "They went to the play ." --word play

Draw up to 1000 uses of the word in two dimensions (the first two principal
components), with the nearest ones numbered, in plots/contexts.html and an SVG
file. It needs the extra `report`. Here senses.txt also gives the senses for
colours: one token and its sense (or O) per line, a blank line after a sentence:
  elmo-plugin nearest-contexts english-tiny senses.txt --senses --draw plots \
      --query "He sat on the bank ." --word bank
"""

import argparse
import shlex
from pathlib import Path

from elmo_plugin.commands.arguments import add_bilm, count, output, print_page, reject, say_written


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_bilm(parser)
    parser.add_argument(
        "text",
        metavar="TEXT",
        nargs="+",
        help="one tokenized sentence per line, plain, .gz or .xz: paths or patterns; - is stdin",
    )
    parser.add_argument(
        "--query",
        metavar="SENTENCE",
        action="append",
        default=[],
        help="a tokenized sentence; may be repeated (default: list frequent words)",
    )
    parser.add_argument(
        "--word",
        action="append",
        default=[],
        help="one token of each query; WORD:2 is the second occurrence of WORD",
    )
    parser.add_argument(
        "--layer", type=int, metavar="N", help="the layer to compare, from 0, the token layer (default: the top)"
    )
    parser.add_argument("--k", type=count, default=10, help="the number of neighbours per query")
    parser.add_argument("--same-word", action="store_true", help="find only tokens with the query's word form")
    parser.add_argument(
        "--draw", metavar="FOLDER", type=output, help="also draw the uses of each word in two dimensions"
    )
    parser.add_argument(
        "--group", action="store_true", help="compare the texts: as many uses of each, in colours by text"
    )
    parser.add_argument("--senses", action="store_true", help="TEXT has a token and its sense, or O, per line")


def run(args: argparse.Namespace) -> None:
    """Search and print the neighbours, or list words to search for."""
    from elmo_plugin import analysis, bilm, embedding, models, text

    paths = [Path("-")] if args.text == ["-"] else text.find_shards(*args.text)
    by_name = {path.name.split(".")[0]: path for path in paths}
    reject(
        (
            len(args.query) != len(args.word),
            f"expected one --word per --query, got {len(args.query)} --query and {len(args.word)} --word",
        ),
        (args.draw and args.draw.exists(), f"{args.draw} exists already: expected the name of a new folder"),
        (
            args.senses and (len(paths) > 1 or args.group),
            f"--senses: expected one text, got {len(paths)} or --group",
        ),
        (
            args.group and len(by_name) < max(2, len(paths)),
            f"--group: expected several texts with different names, got {args.text}",
        ),
    )
    queries = list(map(analysis.find_query, args.query, args.word))
    embedder = embedding.load(args.bilm, "all", cuda_device=args.cuda_device, initial_state=args.initial_state)
    corpus = embedding.Corpus(paths, text.AsciiSpacesTokenizer())
    senses = None
    if args.senses:
        sentences = analysis.read_senses(
            paths[0], models.ColumnTagsReader(token_column=0, max_instances=args.sentences)
        )
        corpus = embedding.Corpus([" ".join(sentence.tokens) for sentence in sentences], text.AsciiSpacesTokenizer())
        senses = {
            (line, position): sense
            for line, sentence in enumerate(sentences, 1)
            for position, sense in enumerate(sentence.labels)
            if sense is not None
        }
    if not queries:
        words = analysis.frequent_words(corpus, args.sentences, language=bilm.language_of(embedder.elmo))
        print_page(analysis.frequent_words_page(words), "words.md")
        return
    layer = embedder.shape[0] - 1 if args.layer is None else args.layer
    how = analysis.Search(layer, args.k, args.same_word, args.sentences, uses=1000 if args.draw else 0)
    corpora = {name: embedding.Corpus([path], text.AsciiSpacesTokenizer()) for name, path in by_name.items()}
    found = analysis.search_texts(embedder, corpora if args.group else {"": corpus}, queries, how)
    print_page(analysis.neighbors_page(queries, found, layer), "contexts.md")
    if args.draw:
        analysis.write_contexts(args.draw, queries, found, layer, args.k, senses)
        say_written(
            args.draw,
            "contexts.html, contexts.md and a figure per query",
            f"python -m webbrowser {shlex.quote(str(args.draw / 'contexts.html'))}",
        )
