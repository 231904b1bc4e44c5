"""The command `allennlp serve-elmo`: a JSON API and a web page for a trained model or a biLM."""

import argparse
import sys
from functools import partial
from pathlib import Path

from allennlp.commands.subcommand import Subcommand
from allennlp.common.checks import ConfigurationError

from elmo_plugin.commands.arguments import add_command, count, device

ABOUT = "Serve a tagger, a classifier or a biLM: a web page and a JSON API."
EXAMPLE = "allennlp serve-elmo runs/tagger/model.tar.gz"
MORE = """
The page shows the tags or labels of a sentence, how probable each word is from
the left and from the right, and what share each layer has. The API does the
same for many sentences, and gives vectors. /docs describes it.

A biLM, and the uses of a word in a text, which is read into memory:
  allennlp serve-elmo english-tiny --text novels.txt --port 8080

For other machines, under a name and with other limits:
  allennlp serve-elmo runs/tagger/model.tar.gz --host 0.0.0.0 \\
      --allow-host elmo.example.org --limit seconds=10 --limit words=1000

Limits are bytes, sentences and words of a request, sentence_words, characters
of a word, numbers of the vectors in an answer, requests at the same time, and
seconds. Ctrl-C or SIGTERM stops the server.
"""


@Subcommand.register("serve-elmo")
class ServeElmo(Subcommand):
    """Registered as a `Subcommand` with name `serve-elmo`."""

    def add_subparser(self, parser: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
        """Add the command's arguments to the parser."""
        subparser = add_command(parser, self.name, ABOUT, "MODEL", EXAMPLE, MORE)
        add = subparser.add_argument
        add(
            "model", metavar="MODEL", help="the archive of a tagger or classifier, or a biLM: path, URL or bundled name"
        )
        add("--text", metavar="FILE", type=Path, help="find uses of words in it: one tokenised sentence per line")
        add("--sentences", metavar="N", type=count, help="read the first N of the text (default: all)")
        add(
            "--language-model",
            metavar="BILM",
            help="a biLM with its softmax that scores words (default: the served one)",
        )
        add("--predictor", metavar="NAME", help="elmo_tagger or elmo_classifier, for models of AllenNLP")
        add("--language", default="en", metavar="CODE", help="spaCy's code of the language of raw text")
        add("--cuda-device", type=device, default=-1, help="the number of a GPU, -1 for the processor")
        add("--host", default="127.0.0.1", help="the address to listen at; 0.0.0.0 for all machines")
        add("--port", type=port, default=8000, help="the port to listen at, 0 for a free one")
        add("--allow-host", metavar="NAME", action="append", default=[], help="a name of the server; may be repeated")
        add("--limit", metavar="NAME=N", action="append", default=[], help="change a limit; may be repeated")
        subparser.set_defaults(func=run)
        return subparser


def port(text: str) -> int:
    """Return the number of a port."""
    if not (text.isascii() and text.isdecimal() and int(text[:6]) < 2**16):
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 65535, got {text!r}")
    return int(text)


def run(args: argparse.Namespace) -> None:
    """Serve until a signal. Errors are one line and exit code 1."""
    try:
        try:
            from elmo_plugin.serving import Address, Text, load_served, read_limits, serve
        except ImportError as error:
            raise ConfigurationError(
                f"{error.name} is not installed; install it with `pip install 'elmo-plugin[serve]'`"
            ) from error
        text = None if args.text is None else Text(args.text, args.sentences)
        load = partial(
            load_served, args.model, text, args.language_model, args.predictor, args.language, args.cuda_device
        )
        address = Address(args.host, args.port, tuple(args.allow_host))
        serve(load, address, read_limits(args.limit))
    except (ConfigurationError, OSError) as error:
        sys.exit(f"serve-elmo: {error}")
