"""How `allennlp` ends where a config is wrong: with what is wrong, and not with the way there."""

import logging
import os
import sys
from typing import Any

from allennlp.common import logging as allennlp_logging
from allennlp.common.checks import ConfigurationError


def shorten_errors() -> None:
    """Let the command `allennlp` show the message of a `ConfigurationError` alone; `out.log` has the traceback.

    `ALLENNLP_DEBUG=1`, AllenNLP's own switch, shows the traceback. A program that only imports this package keeps its
    way to end, and so does any other exception.
    """
    module: Any = sys.modules["__main__"]
    # The script `allennlp` imports the first of the two, `python -m allennlp` runs it.
    is_command = "allennlp.__main__" in {*sys.modules, getattr(module.__spec__, "name", None)}
    if not is_command or os.environ.get("ALLENNLP_DEBUG"):
        return
    prepare_logging = allennlp_logging.prepare_global_logging

    def prepare_global_logging(*args: Any, **kwargs: Any) -> None:
        prepare_logging(*args, **kwargs)
        _shorten_uncaught_errors()  # it has put a hook of its own in the place of ours

    allennlp_logging.prepare_global_logging = prepare_global_logging
    _shorten_uncaught_errors()


def _shorten_uncaught_errors() -> None:
    usual = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        if not isinstance(error, ConfigurationError):
            usual(kind, error, traceback)
            return
        uncaught = (kind, error, traceback)
        record = logging.LogRecord("root", logging.CRITICAL, "", 0, "Uncaught exception", (), uncaught)
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.FileHandler):
                handler.handle(record)
        print(f"allennlp: {error}", file=sys.stderr)
        cause = error.__cause__  # where a value fits no type of a `Union`, AllenNLP says there why
        while cause is not None and str(cause) not in str(error):
            print(f"  {type(cause).__name__}: {cause}", file=sys.stderr)
            cause = cause.__cause__

    sys.excepthook = excepthook
