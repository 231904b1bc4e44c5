r"""Serve a tagger, a classifier or a biLM: a web page and a JSON API.

elmo-plugin serve-elmo MODEL [options]

  elmo-plugin serve-elmo runs/tagger/model.tar.gz

The page shows the tags or labels of a sentence, or how probable a biLM finds
each word from the left and from the right. The API does the same for many
sentences, and also returns vectors. /docs describes it.

Serve a biLM at another port:
  elmo-plugin serve-elmo english-tiny --port 8080

Serve other machines, under a name and with other limits:
  elmo-plugin serve-elmo runs/tagger/model.tar.gz --host 0.0.0.0 \
      --allow-host elmo.example.org --limit seconds=10 --limit words=1000

The limits are the bytes, sentences, words and seconds of a request; the words
of a sentence, sentence_words; the characters of a word; the numbers in the
vectors of an answer; the requests at the same time; and the bytes of all
answers that are being sent, sending. With ALLENNLP_LOG_LEVEL=INFO each request
writes a line to standard error. Ctrl-C or SIGTERM stops the server.
"""

import argparse
from functools import partial

from elmo_plugin.commands.arguments import add_device, whole_number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a trained model, NAME.tar.gz or the folder of its run, which is a program; or a biLM, which is data",
    )
    parser.add_argument(
        "--language-model",
        metavar="BILM",
        help="a biLM with its softmax, to score words with (default: the served biLM)",
    )
    parser.add_argument("--predictor", metavar="NAME", help="elmo_tagger or elmo_classifier, for AllenNLP's own models")
    parser.add_argument(
        "--language", metavar="CODE", help="the language of raw text (default: that of the biLM, or English)"
    )
    add_device(parser)
    parser.add_argument(
        "--host", default="127.0.0.1", help="the address to listen on; 0.0.0.0 serves other machines, too"
    )
    parser.add_argument(
        "--port",
        type=whole_number("a number from 0 to 65535", least=0, most=2**16 - 1),
        default=8000,
        help="the port to listen on, 0 for a free one",
    )
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a host name that requests may use for the server; may be repeated",
    )
    parser.add_argument(
        "--limit", metavar="NAME=N", action="append", default=[], help="change a limit; may be repeated"
    )


def run(args: argparse.Namespace) -> None:
    """Serve until a signal stops the server."""
    from elmo_plugin.common import extra

    with extra("serve"):
        from elmo_plugin.serving import load_served, read_limits, serve
    load = partial(load_served, args.model, args.language_model, args.predictor, args.language, args.cuda_device)
    serve(load, read_limits(args.limit), args.host, args.port, args.allow_host)
