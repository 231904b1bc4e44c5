"""The command `train` for configs with components of this package: how a run stops, continues and ends."""

import inspect
import json
import logging
import os
import re
import shlex
import shutil
import sys
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from signal import SIGINT, SIGTERM, Signals
from typing import Any, NoReturn, Optional

from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import SigTermReceived
from allennlp.models.archival import CONFIG_NAME
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException
from tqdm import tqdm

from elmo_plugin.commands.arguments import OURS, program, say_written
from elmo_plugin.commands.console import is_command, is_users_mistake
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

    AllenNLP writes it as soon as the folder is that of this run, so this also locks the folder.
    """

    lock: Optional[int] = None

    def to_file(self, params_file: str, *args: Any, **kwargs: Any) -> None:
        if (self.params.get("distributed") or {}).get("num_nodes", 1) == 1:  # several computers may share the folder
            self.lock = lock_folder(Path(params_file).parent)
        with atomic_file(Path(params_file)) as unfinished:
            super().to_file(str(unfinished), *args, **kwargs)


@replaces("allennlp.commands.train.train_model")
def train_model(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Train, and print in one line how to continue if the run is stopped or one of its processes dies.

    As a command, it also says what was written, or leaves no folder behind a mistake in the config. Runs of configs
    without components of this package are not changed.
    """
    given = inspect.signature(original).bind(*args, **kwargs).arguments
    params, folder = given["params"], Path(given["serialization_dir"])
    if not names_our_components(params.params):
        return original(*args, **kwargs)
    if not_a_folder := next((path for path in (folder, *folder.parents) if path.is_file()), None):
        raise ConfigurationError(f"'{not_a_folder}': expected a folder for the run, got a file")
    check_config(params.params)
    trainer = params.params.get("trainer")
    trainer = trainer if isinstance(trainer, dict) else {}  # a block may be the name of a type
    at_least(1, **{"trainer.num_epochs": trainer.get("num_epochs")})
    unused = [f"'trainer.{key}'" for key in ("validation_metric", "patience") if trainer.get(key) is not None]
    if unused and params.params.get("validation_data_path") is None:
        logger.warning(
            "%s: expected 'validation_data_path', got none; so training neither stops early nor picks the best epoch, "
            "and the model is that of the last one",
            " and ".join(unused),
        )
    for doubt in doubtful_columns(params.params):
        logger.warning("%s", doubt)
    callbacks = [each.get("type") if isinstance(each, dict) else each for each in trainer.get("callbacks") or []]
    config = folder / CONFIG_NAME
    if given.get("recover") and config.is_file():
        before = Params.from_file(config)
        if "exact_resume" in callbacks:
            check_processes(_processes(before), _processes(params))
        _check_same_config(before, params, config)

    is_new = not folder.exists()
    given["params"] = config_of_run = _ConfigOfRun(params.params, params.history)
    # Each process of a distributed run imports anew what the config needs.
    given["include_package"] = ["elmo_plugin", *(given.get("include_package") or [])]
    train_now = partial(original, **given)
    try:
        if "exact_resume" in callbacks:
            model = _train_with_exact_resume(train_now, folder, bool(params.params.get("distributed")))
        else:
            model = train_now()
    except (KeyboardInterrupt, SigTermReceived) as error:
        if not is_command():
            raise
        _stop(SIGINT if isinstance(error, KeyboardInterrupt) else SIGTERM, folder)
    except Exception as error:
        if NO_ROOM.search(str(error)):
            raise ConfigurationError(f"'{folder}': the disk is full; make room, then {_advice(folder)}") from error
        # AllenNLP would refuse the folder when the mistake is corrected.
        is_ours = program() in OURS and is_new and config_of_run.lock is not None
        if is_ours and is_users_mistake(error) and not any(folder.glob("*.th")):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        if config_of_run.lock is not None:
            os.close(config_of_run.lock)
    if is_command() and not given.get("dry_run"):
        say_trained(folder)
    return model


def _processes(config: Params) -> int:
    """Return the number of processes that a run has."""
    distributed = config.params.get("distributed") or {}
    return len(distributed.get("cuda_devices") or [-1]) * int(distributed.get("num_nodes", 1))


def _check_same_config(before: Params, now: Params, place: Path) -> None:
    """Raise `ConfigurationError` for the first key that a run to be continued has with another value, or not at all.

    AllenNLP checks it too, but without naming the key, and with a `KeyError` for one that is new.
    """
    old, new = before.as_flat_dict(), now.as_flat_dict()
    for key in [*new, *old]:
        if key not in old or key not in new or old[key] != new[key]:
            expected, got = (json.dumps(each[key]) if key in each else "no such key" for each in (old, new))
            raise ConfigurationError(f"'{key}': expected {expected} to continue the run of '{place}', got {got}")


def _train_with_exact_resume(train_now: Any, folder: Path, is_distributed: bool) -> Any:
    """Train, and stop at once on a signal before and after training, and in the process that starts the others.

    `ExactResume` handles signals from the first batch on. AllenNLP's own handling would first make an archive of the
    unfinished run, which can take minutes.
    """
    received: list[int] = []

    def react(number: int) -> None:
        received.append(number)
        children = active_children() if is_distributed else []
        if not children:
            raise Stopped(number)
        for child in children:  # one that does not train yet ends at once
            child.terminate()

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


def _stop(number: int, folder: Path) -> NoReturn:
    tqdm.write(f"train: stopped by {Signals(number).name}; {_advice(folder)}", file=sys.stderr)
    raise Stopped(number)


def _advice(folder: Path) -> str:
    """Return how to continue: from the last checkpoint, or from the start if there is none."""
    is_saved = any(folder.glob("model_state_e*_b*.th"))
    advice, option = ("continue", "recover") if is_saved else ("there is no checkpoint yet, start again", "force")
    if sys.argv[1:2] != ["train"]:
        return f"{advice} with: {option}=True"
    others = [each for each in sys.argv[1:] if each not in ("-r", "--recover", "-f", "--force")]
    return f"{advice} with: {program()} {shlex.join([*others, f'--{option}'])}"


def say_trained(folder: Path) -> None:
    """Print the best metrics of a finished run, which AllenNLP only logs, what it wrote, and how to use it."""
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    kinds = ("best_", "test_") if "best_validation_loss" in metrics else ("training_", "test_")
    shown = {name: value for name, value in metrics.items() if name.startswith(kinds)}
    print(json.dumps(shown, indent=2), flush=True)
    archive = folder / "model.tar.gz"
    name = shlex.quote(str(archive))
    model = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model"].get("type")
    predict = f"""echo '{{"sentence": "One sentence."}}' | elmo-plugin predict {name} -{PREDICTORS.get(model)}"""
    then = predict if model in PREDICTORS else f"elmo-plugin evaluate {name} FILE"
    say_written(archive, "the trained model", then)
