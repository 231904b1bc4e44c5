"""Subcommands of `allennlp`: each parses, calls one function and prints."""

from elmo_plugin.commands.convert_elmo import ConvertElmo
from elmo_plugin.commands.embed_corpus import EmbedCorpus

__all__ = ["ConvertElmo", "EmbedCorpus"]
