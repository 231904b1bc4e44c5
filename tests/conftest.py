"""What all tests run with: one thread a process, and Ctrl-C that is heard.

Tensors of tests are small, and threads that wait for each other on a busy machine are slow.
"""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes that tests start
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a background job of a shell, as in `make test &`
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collectstart() -> None:
    """Import the package before AllenNLP, which then takes half the time to import.

    This is called where tests run. The process that starts the others collects none, and needs no PyTorch.
    """
    import torch

    import elmo_plugin  # noqa: F401

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def plugins_once() -> Iterator[None]:
    """Let AllenNLP look for plugins once in a process. Each command looks again, which takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        plugins = sys.modules.get("allennlp.common.plugins")  # tests that need no AllenNLP do not import it
        if plugins is not None:
            once = cache(plugins.import_plugins)
            patch.setattr(plugins, "import_plugins", once)
            patch.setattr("allennlp.commands.import_plugins", once)
        yield


@pytest.fixture(autouse=True)
def no_handlers_of_a_run() -> Iterator[None]:
    """Remove the handlers that a run leaves at AllenNLP's loggers: its folder is gone, the captured output closed."""
    loggers = [logging.getLogger(), logging.getLogger("tqdm")]
    before = [handler for logger in loggers for handler in logger.handlers]
    yield
    for logger in loggers:
        for handler in [*logger.handlers]:
            if isinstance(handler, logging.StreamHandler) and handler not in before:
                logger.removeHandler(handler)
                handler.close()


@pytest.fixture
def rounded_small_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let int8 round weights of every size: those of the tests are so small that it leaves them in float32."""
    monkeypatch.setattr("elmo_plugin.bilm.precision.LARGEST_UNROUNDED", 0)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory with what a checkout has, to run a page in: configs and the list of plugins."""
    for name in ("training_configs", "experiments", "benchmarks", ".allennlp_plugins"):
        (tmp_path / name).symlink_to(Path(__file__).resolve().parents[1] / name)
    monkeypatch.chdir(tmp_path)
    with patch.dict(os.environ):  # what a page exports ends with it
        yield tmp_path


@pytest.fixture
def native_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that multiplies faster in bfloat16, whatever this one does."""
    monkeypatch.setattr("elmo_plugin.bilm.precision.has_native_bfloat16", lambda: True)


@pytest.fixture
def emulated_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that multiplies faster in float32."""
    monkeypatch.setattr("elmo_plugin.bilm.precision.has_native_bfloat16", lambda: False)


@pytest.fixture
def leave_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Return what puts the Hugging Face Hub out of reach until the test ends.

    `huggingface_hub` keeps its sessions, so one that was made out of reach would stay so for the tests that follow.
    """

    from huggingface_hub import utils

    reset = utils.reset_sessions if hasattr(utils, "reset_sessions") else utils.close_session  # renamed in 1.0

    def leave() -> None:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        reset()

    yield leave
    reset()


@pytest.fixture
def golden() -> Path:
    """AllenNLP's `allennlp/tests/fixtures/elmo`: a tiny bilm-tf model and the activations of TensorFlow."""
    folder = os.environ.get("ELMO_FIXTURE")
    if not folder:
        pytest.skip("ELMO_FIXTURE names no folder with the golden activations of the TensorFlow original")
    return Path(folder)
