"""Short errors of the `allennlp` command: the message of a wrong config, without a traceback."""

import logging
import os
import re
import sys
from typing import Any

from allennlp.common import logging as allennlp_logging
from allennlp.common.checks import ConfigurationError

JSONNET_ERRORS = ("RUNTIME ERROR: ", "STATIC ERROR: ")
"""How jsonnet begins its messages about a config; Python raises them as `RuntimeError`."""


def shorten_errors() -> None:
    """Let the `allennlp` command print only the message of a wrong config or a missing file.

    The traceback goes to `out.log`. `ALLENNLP_DEBUG=1`, AllenNLP's own switch, prints it. Other exceptions keep theirs,
    and so does a program that merely imports this package.
    """
    module: Any = sys.modules["__main__"]
    # The script `allennlp` imports `allennlp.__main__`, and `python -m allennlp` runs it.
    is_command = "allennlp.__main__" in {*sys.modules, getattr(module.__spec__, "name", None)}
    if not is_command or os.environ.get("ALLENNLP_DEBUG"):
        return
    prepare_logging = allennlp_logging.prepare_global_logging

    def prepare_global_logging(*args: Any, **kwargs: Any) -> None:
        prepare_logging(*args, **kwargs)
        _install_hook()  # AllenNLP has just replaced the hook by its own

    allennlp_logging.prepare_global_logging = prepare_global_logging
    _install_hook()


def _install_hook() -> None:
    previous = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        is_jsonnet = isinstance(error, RuntimeError) and str(error).startswith(JSONNET_ERRORS)
        if not isinstance(error, ConfigurationError | FileNotFoundError) and not is_jsonnet:
            previous(kind, error, traceback)
            return
        uncaught = (kind, error, traceback)
        record = logging.LogRecord("root", logging.CRITICAL, "", 0, "Uncaught exception", (), uncaught)
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.FileHandler):
                handler.handle(record)
        variable = re.search(r"undefined external variable: (\w+)", str(error))
        hint = f"\n  set the environment variable {variable[1]}" if variable else ""
        print(f"allennlp: {str(error).rstrip()}{hint}", file=sys.stderr)
        cause = error.__cause__  # AllenNLP says here why a value fits no type of a `Union`
        while cause is not None and str(cause) not in str(error):
            print(f"  {type(cause).__name__}: {cause}", file=sys.stderr)
            cause = cause.__cause__

    sys.excepthook = excepthook
