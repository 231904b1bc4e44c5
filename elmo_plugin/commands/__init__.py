"""COMMAND LINES → CALLS: subcommands of `elmo-plugin`. Each parses its arguments, calls one function and prints."""

from elmo_plugin.commands.check_data import CheckData
from elmo_plugin.commands.console import OURS, adapt_console, is_command, other_plugins, program
from elmo_plugin.commands.convert_elmo import ConvertElmo
from elmo_plugin.commands.embed_corpus import EmbedCorpus
from elmo_plugin.commands.evaluate import adapt_evaluate
from elmo_plugin.commands.minimal_pairs import MinimalPairs
from elmo_plugin.commands.nearest_contexts import NearestContexts
from elmo_plugin.commands.prepare_text import PrepareText
from elmo_plugin.commands.probe_layers import ProbeLayers
from elmo_plugin.commands.report_elmo import ReportElmo
from elmo_plugin.commands.serve_elmo import ServeElmo
from elmo_plugin.commands.train import adapt_train

__all__ = [
    "CheckData",
    "ConvertElmo",
    "EmbedCorpus",
    "MinimalPairs",
    "NearestContexts",
    "PrepareText",
    "ProbeLayers",
    "ReportElmo",
    "ServeElmo",
    "adapt_console",
    "program",
]

if program() in OURS or (is_command() and not other_plugins()):
    adapt_console()
adapt_train()
adapt_evaluate()
