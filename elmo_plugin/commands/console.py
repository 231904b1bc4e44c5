"""What the command line prints: warnings, results, errors without a traceback, and what to do next."""

import logging
import os
import re
import sys
import tarfile
import warnings
from functools import partial
from types import SimpleNamespace
from typing import Any

from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError
from allennlp.data.dataset_readers.dataset_utils.span_utils import InvalidTagSequence
from allennlp.training import gradient_descent_trainer

from elmo_plugin.commands.arguments import OURS, program
from elmo_plugin.commands.command_line import REMOVED
from elmo_plugin.common import installed, printable
from elmo_plugin.compat import replaces

SHORT: tuple[tuple[type[BaseException], str], ...] = (
    (ConfigurationError, ""),
    (OSError, ""),
    (tarfile.ReadError, ""),
    (RuntimeError, "(RUNTIME|STATIC) ERROR: "),  # jsonnet's messages about a config
    (RuntimeError, "config file .* does not exist, unable to archive"),  # the folder of a run was deleted
    (TypeError, "Expected .* to be "),  # AllenNLP's message about a value of the wrong type
    (ValueError, r"'[\w.]+': |overrides (for|dict) |Using AMP requires "),
    (RuntimeError, r"'[\w.]+': "),  # of a block of a config, see `compat/configs.py`
    (UnicodeDecodeError, ""),
    (NotImplementedError, "the model: expected a predictor"),  # see `compat/models.py`
    (InvalidTagSequence, ""),
)
"""Exceptions that a mistake in the user's input causes: the type, and a pattern for the start of the message."""
HINTS = (
    (r"undefined external variable: (\w+)", r"set the environment variable: export \1=…"),
    (r": file \S+ not found$", "check the name; a relative path begins at the working directory"),
    (r"is not empty. Specify --recover", "or replace it with --force"),
    (r"GPU but none is available", """add -o '{"trainer.cuda_device": -1}'"""),
    (r"metric_name must start with", "write validation_metric: '+accuracy' or '-loss'"),
    (r"Using AMP requires", "leave 'use_amp' out; 'precision' is the number type of a biLM on any device"),
    (r"STATIC ERROR: 1:", """--overrides takes JSON between single quotes: -o '{"trainer.num_epochs": 2}'"""),
    (r"STATIC ERROR: ", "a config is written in JSON or jsonnet: { key: value, … }"),
    (r"spacy-models", "name a predictor that needs no model of spaCy: --predictor elmo_tagger, or elmo_classifier"),
    (
        r"codec can't decode byte 0xf[ef] in position 0",
        "expected UTF-8; convert the file with iconv -f UTF-16 -t UTF-8",
    ),
    (r"codec can't decode byte", "expected UTF-8; convert the file, for example with iconv -f WINDOWS-1252 -t UTF-8"),
    (r"not a gzip file", "expected the folder or the model.tar.gz that `train` wrote, then the data"),
    (
        r"Incompatible sizes found for parameter",
        "a layer of another size, as for new labels, starts anew with prevent_regexes: ['tag_projection', 'crf', "
        "'classification'] beside the 'regexes' of 'initializer'",
    ),
    (
        r"^InvalidTagSequence",
        "such tags are no spans; a model with a CRF cannot predict them: see "
        + str(installed("docs/guides/old-configs.md")),
    ),
)
"""A pattern for the type and message of an error of AllenNLP or jsonnet, and what to do; a hint may use its groups."""
LOGGED_RESULTS = ("allennlp.commands.checklist", "allennlp.commands.test_install")
"""The modules of the commands whose results AllenNLP only logs."""
NEEDLESS = re.compile(
    "You provided a validation dataset but patience was set to None|Parameter local_rank for class|"
    r"Worker \d+ completed its entire epoch|vocabulary serialization directory .* is not empty"
)
"""Warnings of AllenNLP about what the config says, or about what AllenNLP itself did."""


def is_command() -> bool:
    """Return whether this process runs a command, rather than a program that imports this package.

    The script `allennlp` imports `allennlp.__main__`, and so do the processes that it spawns for several devices. The
    processes that `python -m allennlp` and ours spawn only share their `sys.argv`.
    """
    return program() in (*OURS, "python -m allennlp") or "allennlp.__main__" in sys.modules


def adapt_console() -> None:
    """Let the command line print only warnings and results, bars that say where they are, and one line for a mistake.

    `out.log` still gets every message of level INFO, and the traceback. AllenNLP's own switches print them, too:
    `ALLENNLP_LOG_LEVEL=INFO` the messages, and `ALLENNLP_DEBUG=1` all messages and the traceback. Exceptions that are
    not in `SHORT` keep their traceback.
    """
    if os.environ.get("ALLENNLP_DEBUG"):
        return
    logging.raiseExceptions = False  # each message would print a traceback while the disk is full
    # Deprecated since torch 2.4. The trainer uses it for every batch, also on a CPU, in the middle of the progress bar.
    warnings.filterwarnings("ignore", r"`torch\.cuda\.amp\.", FutureWarning, "allennlp")

    @replaces("allennlp.common.logging.prepare_global_logging")
    def prepare_global_logging(original: Any, *args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        _adapt_logging()  # AllenNLP has just replaced the hook and the handlers

    @replaces("allennlp.training.gradient_descent_trainer.GradientDescentTrainer._train_epoch")
    @replaces("allennlp.training.gradient_descent_trainer.GradientDescentTrainer._validation_loss")
    def with_named_bar(original: Any, trainer: Any, epoch: int) -> Any:
        part = "training" if original.__name__ == "_train_epoch" else "validation"
        bar_format = f"epoch {epoch + 1}/{trainer._num_epochs} {part}: {{l_bar}}{{bar}}{{r_bar}}"
        gradient_descent_trainer.Tqdm = SimpleNamespace(tqdm=partial(Tqdm.tqdm, bar_format=bar_format))  # type: ignore[assignment, misc]
        return original(trainer, epoch)

    @replaces("allennlp.commands.ArgumentParserWithDefaults.error")
    def error(original: Any, parser: Any, message: str) -> None:
        if parser._subparsers and message.startswith("unrecognized"):  # the main program says it for its commands
            parser = parser._subparsers._group_actions[0].choices.get(sys.argv[1], parser)
        original(parser, next((REMOVED[name] for name in REMOVED if f"invalid choice: '{name}'" in message), message))

    _adapt_logging()


def _adapt_logging() -> None:
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream in (sys.stdout, sys.stderr):
            handler.addFilter(_is_shown)
            if "ALLENNLP_LOG_LEVEL" not in os.environ:
                handler.setStream(sys.stderr)  # AllenNLP logs to standard output, where results belong
    previous = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        if not is_users_mistake(error):
            previous(kind, error, traceback)
            return
        logging.getLogger().critical(
            "Uncaught exception", exc_info=(kind, error, traceback), extra={"is_printed": True}
        )
        print(f"{program()}: {printable(with_hint(error))}", file=sys.stderr)

    sys.excepthook = excepthook


def _is_shown(record: logging.LogRecord) -> bool:
    is_warning = record.levelno >= logging.WARNING and not NEEDLESS.match(record.getMessage())
    is_wanted = is_warning or record.name in LOGGED_RESULTS or "ALLENNLP_LOG_LEVEL" in os.environ
    return is_wanted and not hasattr(record, "is_printed")


def is_users_mistake(error: BaseException) -> bool:
    """Return whether one line explains the error."""
    message = str(error).strip()
    is_short = any(isinstance(error, each) and re.match(beginning, message) for each, beginning in SHORT)
    is_missing_package = isinstance(error, ModuleNotFoundError) and error.name in sys.argv
    return bool(message) and (is_short or is_missing_package)


def with_hint(error: BaseException) -> str:
    """Return the message of an error, and what to do about it."""
    message = str(error).strip()
    for pattern, hint in HINTS:
        if match := re.search(pattern, f"{type(error).__name__}: {message}"):
            return f"{message.splitlines()[0].rstrip('.')}; {match.expand(hint)}"
    return message
