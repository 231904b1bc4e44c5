"""`python -m elmo_plugin` and the script `elmo-plugin`: AllenNLP's command line, with the commands of this package.

The package is imported before AllenNLP, which needs its repairs, so the command works in any folder, without a list of
plugins, and with releases of transformers that the script `allennlp` cannot be imported with.
"""

import gc
import sys

from elmo_plugin.commands.arguments import program
from elmo_plugin.commands.command_line import answer
from elmo_plugin.commands.console import adapt_console
from elmo_plugin.postponed_imports import postponed_imports


def run() -> None:
    """Run one of the commands."""
    import allennlp.__main__  # noqa: F401  (sets up AllenNLP's logging)
    from allennlp import commands
    from allennlp.common.util import import_module_and_submodules, install_sigterm_handler

    answer(program(), sys.argv[1:])
    adapt_console()  # again: there are handlers now
    install_sigterm_handler()
    with postponed_imports():  # what AllenNLP would import first, and wholly
        import_module_and_submodules("allennlp", exclude={"allennlp.sanity_checks", "allennlp.tools"})
    gc.freeze()  # modules stay until the end: looking through them, also at the end, takes a quarter of a short command
    gc.enable()
    commands.main(prog=program())


if __name__ == "__main__":
    run()
