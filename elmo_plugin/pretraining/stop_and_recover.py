"""Let `allennlp train` stop a run with `exact_resume` cleanly, and resume it with another number of processes."""

import inspect
import shlex
import sys
from multiprocessing import active_children
from os import PathLike
from pathlib import Path
from signal import SIGINT, SIGTERM, Signals
from typing import Any, Union

from allennlp.commands import train
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import CONFIG_NAME
from allennlp.training import util as training_util
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException
from tqdm import tqdm

from elmo_plugin.common import Stopped, on_stop_signal
from elmo_plugin.compat import replace_once

MAY_CHANGE = (
    ("", "distributed"),
    ("data_loader", "streams"),
    ("data_loader", "batches_per_epoch"),
    ("validation_data_loader", "streams"),
    ("trainer", "num_gradient_accumulation_steps"),
)
"""Blocks and keys of a config that depend on the number of processes. `exact_resume` checks them on `--recover`."""
STOPS = {code: number for number in (SIGINT, SIGTERM) for code in (-number, 128 + number)}
"""The stop signal that each exit code of a process means."""


def stop_and_recover() -> None:
    """Patch `allennlp train`. Calling this again changes nothing."""
    replace_once(train, "train_model", _train_model)
    replace_once(training_util, "create_serialization_dir", _create_serialization_dir)


def _train_model(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Train, and print how to continue if the run is stopped or one of its processes dies.

    `ExactResume` handles signals from the first batch on. Before and after training, and in the process that starts the
    others of a distributed run, this function does. AllenNLP's own handling would first make an archive of the
    unfinished run, which can take minutes.
    """
    given = inspect.signature(original).bind(*args, **kwargs).arguments
    if not _resumes_exactly(given["params"]):
        return original(*args, **kwargs)
    is_distributed = "distributed" in given["params"]
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
            model = original(*args, **kwargs)
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
            sys.exit(f"allennlp train: {error.msg}{memory}; {_advice(given['serialization_dir'])}")
    name = Signals(received[0]).name
    tqdm.write(f"allennlp train: stopped by {name}; {_advice(given['serialization_dir'])}", file=sys.stderr)
    raise Stopped(received[0])


def _create_serialization_dir(
    original: Any, params: Params, serialization_dir: str, recover: bool, force: bool
) -> None:
    """Let the keys in `MAY_CHANGE` have other values on `--recover` than in the run so far."""
    config = Path(serialization_dir, CONFIG_NAME)
    if recover and config.is_file() and _resumes_exactly(params):
        params, found = params.duplicate(), Params.from_file(config)
        for name, key in MAY_CHANGE:
            new, old = _block(params, name), _block(found, name)
            new.pop(key, None)
            if key in old:
                new[key] = old[key]
    try:
        original(params, serialization_dir, recover, force)
    except KeyError as error:  # AllenNLP looks up each key in the config of the run so far
        raise ConfigurationError(f"--recover: expected the config of the first run, got the new key {error}") from error


def _block(params: Params, name: str) -> dict[str, Any]:
    """Return a block of a config, or the whole config for "". A block may be missing, null or the name of a type."""
    block = params.params.get(name) if name else params.params
    return block if isinstance(block, dict) else {}


def _resumes_exactly(params: Params) -> bool:
    callbacks = _block(params, "trainer").get("callbacks") or []
    return any((each.get("type") if isinstance(each, dict) else each) == "exact_resume" for each in callbacks)


def _advice(serialization_dir: Union[str, PathLike[str]]) -> str:
    """Return how to continue: from the last checkpoint, or from the start if there is none."""
    is_saved = any(Path(serialization_dir).glob("model_state_e*_b*.th"))
    option = "recover" if is_saved else "force"
    how = f"{option}=True"
    if sys.argv[1:2] == ["train"]:
        others = [each for each in sys.argv[1:] if each not in ("-r", "--recover", "-f", "--force")]
        how = shlex.join(["allennlp", *others, f"--{option}"])
    return f"{'continue' if is_saved else 'there is no checkpoint yet, start again'} with: {how}"
