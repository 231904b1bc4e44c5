"""The command `train` for configs with components of this package: how a run stops, continues and ends."""

import inspect
import json
import logging
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from multiprocessing import active_children
from os import PathLike
from pathlib import Path
from signal import SIGINT, SIGTERM, Signals
from traceback import walk_tb
from typing import Any, NoReturn, Optional, Union

from allennlp.commands import train
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import SigTermReceived
from allennlp.models.archival import CONFIG_NAME
from allennlp.training.util import create_serialization_dir
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException
from tqdm import tqdm

from elmo_plugin.commands.console import (
    OURS,
    config_at,
    is_command,
    is_users_mistake,
    program,
    say_written,
)
from elmo_plugin.common import (
    Stopped,
    at_least,
    atomic_file,
    check_config,
    lock_folder,
    names_our_components,
    on_stop_signal,
)
from elmo_plugin.compat import replaces
from elmo_plugin.models import doubtful_columns
from elmo_plugin.pretraining import check_processes

logger = logging.getLogger(__name__)

NO_ROOM = re.compile(r"inline_container\.cc|iostream error|No space left on device|File too large|quota exceeded")
"""What PyTorch, or the system, says if a file cannot be written to its end."""
STOPS = {code: number for number in (SIGINT, SIGTERM) for code in (-number, 128 + number)}
"""The stop signal that each exit code of a process means."""
PREDICTORS = {
    "elmo_tagger": "",
    "elmo_classifier": "",
    "simple_tagger": " --predictor elmo_tagger",
    "crf_tagger": " --predictor elmo_tagger",
    "basic_classifier": " --predictor elmo_classifier",
}
"""The option of `predict` for each model that needs no more than a sentence. AllenNLP's own would download spaCy's."""


class _ConfigOfRun(Params):
    """A config that a killed run leaves in its folder completely or not at all, so that `--recover` can read it.

    AllenNLP writes it as soon as the folder is that of this run, so this also locks the folder until `close`.
    """

    _lock: Optional[int] = None

    def to_file(self, params_file: str, *args: Any, **kwargs: Any) -> None:
        block = self.params.get("distributed") or {}
        if block.get("num_nodes", 1) == 1:  # several computers may share the folder
            self._lock = lock_folder(Path(params_file).parent)
        with atomic_file(Path(params_file)) as partial:
            super().to_file(str(partial), *args, **kwargs)

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)


@replaces(train, "train_model")
def train_model(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Train, and print in one line how to continue if the run is stopped or one of its processes dies.

    Runs of configs without components of this package are not changed.
    """
    given = inspect.signature(original).bind(*args, **kwargs).arguments
    params, folder = given["params"], given["serialization_dir"]
    if not names_our_components(params.params):
        return original(*args, **kwargs)
    given["params"] = config_of_run = _ConfigOfRun(params.params, params.history)
    if not_a_folder := next((path for path in (Path(folder), *Path(folder).parents) if path.is_file()), None):
        raise ConfigurationError(f"'{not_a_folder}': expected a folder for the run, got a file")
    check_config(params.params)
    trainer = params.params.get("trainer")
    at_least(1, **{"trainer.num_epochs": trainer.get("num_epochs") if isinstance(trainer, dict) else None})
    for doubt in chain(_needs_validation(params.params), doubtful_columns(params.params)):
        logger.warning("%s", doubt)
    # Each process of a distributed run imports anew what the config needs.
    given["include_package"] = ["elmo_plugin", *(given.get("include_package") or [])]

    def train_now() -> Any:
        try:
            return original(**given)
        except (OSError, RuntimeError, ProcessRaisedException) as error:
            if not NO_ROOM.search(str(error)):
                raise
            raise ConfigurationError(f"'{folder}': the disk is full; make room, then {_advice(folder)}") from error

    resumes_exactly = _resumes_exactly(params)
    config = Path(folder, CONFIG_NAME)
    if given.get("recover") and config.is_file():
        before = Params.from_file(config)
        if resumes_exactly:
            check_processes(_processes(before), _processes(params))
        _check_same_config(before, params, config)
    with closing(config_of_run):
        if resumes_exactly:
            return _train_with_exact_resume(train_now, folder, _processes(params) > 1)
        try:
            return train_now()
        except (KeyboardInterrupt, SigTermReceived) as error:
            if not is_command():
                raise
            _stop(SIGINT if isinstance(error, KeyboardInterrupt) else SIGTERM, folder)


def _check_same_config(before: Params, now: Params, place: Path) -> None:
    """Raise `ConfigurationError` for the first key that a run to be continued has with another value, or not at all.

    AllenNLP checks it too, but without naming the key, and with a `KeyError` for one that is new.
    """
    old, new = before.as_flat_dict(), now.as_flat_dict()
    for key in [*new, *old]:
        if key not in old or key not in new or old[key] != new[key]:
            expected, got = (json.dumps(each[key]) if key in each else "no such key" for each in (old, new))
            raise ConfigurationError(f"'{key}': expected {expected} to continue the run of '{place}', got {got}")


def _needs_validation(config: dict[str, Any]) -> Iterator[str]:
    """Yield what the trainer is told to do with validation data that the config does not have."""
    trainer = config.get("trainer")
    if config.get("validation_data_path") is not None or not isinstance(trainer, dict):
        return
    if keys := [key for key in ("validation_metric", "patience") if trainer.get(key) is not None]:
        names = " and ".join(f"'trainer.{key}'" for key in keys)
        yield (
            f"{names}: expected 'validation_data_path', got none; so training neither stops early nor picks the best "
            "epoch, and the model is that of the last one"
        )


def _train_with_exact_resume(train_now: Any, folder: Union[str, PathLike[str]], is_distributed: bool) -> Any:
    """Train, and stop at once on a signal before and after training, and in the process that starts the others.

    `ExactResume` handles signals from the first batch on. AllenNLP's own handling would first make an archive of the
    unfinished run, which can take minutes.
    """
    received: list[int] = []

    def react(number: int) -> None:
        received.append(number)
        processes = active_children() if is_distributed else []
        if not processes:
            raise Stopped(number)
        for process in processes:  # one that does not train yet ends at once
            process.terminate()

    try:
        with on_stop_signal(react):
            model = train_now()
        if not received:
            return model
    except Stopped as stopped:
        received = [stopped.signal]
    except ProcessRaisedException as error:
        _, is_config_error, message = error.msg.rpartition(f"{ConfigurationError.__name__}: ")
        if is_config_error:
            raise ConfigurationError(message.strip()) from error
        if not received:
            raise
    except ProcessExitedException as error:
        if error.exit_code in STOPS:
            received.append(STOPS[error.exit_code])
        elif not received:
            memory = "; the system may have run out of memory" if error.signal_name == "SIGKILL" else ""
            sys.exit(f"train: {error.msg}{memory}; {_advice(folder)}")
    _stop(received[0], folder)


def _stop(number: int, folder: Union[str, PathLike[str]]) -> NoReturn:
    tqdm.write(f"train: stopped by {Signals(number).name}; {_advice(folder)}", file=sys.stderr)
    raise Stopped(number)


def _advice(folder: Union[str, PathLike[str]]) -> str:
    """Return how to continue: from the last checkpoint, or from the start if there is none."""
    is_saved = any(Path(folder).glob("model_state_e*_b*.th"))
    option = "recover" if is_saved else "force"
    how = f"{option}=True"
    if sys.argv[1:2] == ["train"]:
        others = [each for each in sys.argv[1:] if each not in ("-r", "--recover", "-f", "--force")]
        how = f"{program()} {shlex.join([*others, f'--{option}'])}"
    return f"{'continue' if is_saved else 'there is no checkpoint yet, start again'} with: {how}"


def _processes(params: Params) -> int:
    """Return how many processes a config trains in."""
    block = params.params.get("distributed") or {}
    return max(1, len(block.get("cuda_devices") or []) * block.get("num_nodes", 1))


def _resumes_exactly(params: Params) -> bool:
    trainer = params.params.get("trainer")  # a block may be the name of a type
    callbacks = (trainer.get("callbacks") or []) if isinstance(trainer, dict) else []
    return any((each.get("type") if isinstance(each, dict) else each) == "exact_resume" for each in callbacks)


@replaces(train, "train_model_from_file")
def train_model_from_file(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Train a model, and say what was written, or leave no folder behind a mistake in the config."""
    if not is_command():
        return original(*args, **kwargs)
    given = inspect.signature(original).bind(*args, **kwargs).arguments
    folder = Path(given["serialization_dir"])
    is_new = not folder.exists()
    try:
        model = original(*args, **kwargs)
    except Exception as error:
        # AllenNLP would refuse the folder when the mistake is corrected. It is not ours if it was refused today: then
        # another process has made it in the meantime.
        is_refused = any(frame.f_code is create_serialization_dir.__code__ for frame, _ in walk_tb(error.__traceback__))
        is_begun = not is_new or is_refused or any(folder.glob("*.th"))
        is_ours = program() in OURS and names_our_components(config_at(folder))
        if is_ours and is_users_mistake(error) and not is_begun:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if not given.get("dry_run") and names_our_components(config_at(folder)):
        say_trained(folder)
    return model


def say_trained(folder: Path) -> None:
    """Print the best metrics of a finished run, which AllenNLP only logs, what it wrote, and how to use it."""
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    kinds = ("best_", "test_") if "best_validation_loss" in metrics else ("training_", "test_")
    shown = {name: value for name, value in metrics.items() if name.startswith(kinds)}
    print(json.dumps(shown, indent=2), flush=True)
    archive = folder / "model.tar.gz"
    name = shlex.quote(str(archive))
    then = f"elmo-plugin evaluate {name} FILE"
    model = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model"].get("type")
    if model in PREDICTORS:
        then = f"""echo '{{"sentence": "One sentence."}}' | elmo-plugin predict {name} -{PREDICTORS[model]}"""
    say_written(archive, "the trained model", then)
