"""`python -m elmo_plugin` and the script `elmo-plugin`: AllenNLP's command line, with the commands of this package.

The package is imported before AllenNLP, which needs its repairs, so the command works in any folder, without a list of
plugins, and with releases of transformers that the script `allennlp` cannot be imported with.
"""

from elmo_plugin.commands import adapt_console


def run() -> None:
    """Run one of the commands."""
    from allennlp.__main__ import run as run_allennlp  # sets up AllenNLP's logging

    adapt_console()
    run_allennlp()


if __name__ == "__main__":
    run()
