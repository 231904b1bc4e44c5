"""COMMAND LINES → CALLS: subcommands of `elmo-plugin`. Each parses its arguments, calls one function and prints.

`command_line` answers `--help`, `--version` and mistakes in options in a fraction of a second. So nothing here imports
torch or AllenNLP outside of functions, except `console`, `train`, `evaluate` and `register`, which adapt AllenNLP's own
command line.
"""

from elmo_plugin.commands import (
    check_data,
    convert_elmo,
    embed_corpus,
    minimal_pairs,
    nearest_contexts,
    prepare_text,
    probe_layers,
    report_elmo,
    serve_elmo,
)

COMMANDS = {
    command.__name__.rpartition(".")[2].replace("_", "-"): command
    for command in (
        check_data,
        convert_elmo,
        embed_corpus,
        minimal_pairs,
        nearest_contexts,
        prepare_text,
        probe_layers,
        report_elmo,
        serve_elmo,
    )
}
"""The module of each command."""

__all__ = ["COMMANDS"]
