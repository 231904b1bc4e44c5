"""A sample of `python -m tests.fuzz`, with the same inputs each time, and what the harness itself must find."""

import mmap
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from random import Random

import pytest
from allennlp.common.checks import ConfigurationError

from tests.fuzz.attacks import ATTACKS
from tests.fuzz.engine import Run, fuzz
from tests.fuzz.targets import TARGETS, fuzz_attack
from tests.fuzz.text_attacks import TEXT_ATTACKS

SAMPLE = {"archive": 30, "native": 40, "pickle": 100}
SLOW_SAMPLE = {
    "bilm-tf": 100,
    "language-model": 60,
    "many-langs": 60,
    "zip": 40,
    "run": 40,
    "reader-conll2003": 200,
    "reader-news": 200,
    "reader-shards": 200,
}


@pytest.mark.parametrize(
    ("name", "inputs"),
    [*SAMPLE.items(), *(pytest.param(*target, marks=pytest.mark.slow) for target in SLOW_SAMPLE.items())],
)
def test_each_input_is_answered_or_rejected(name: str, inputs: int) -> None:
    result = fuzz(TARGETS[name], inputs, seed=0)
    assert not result.findings, result.findings
    assert result.answers and result.errors and result.answers + result.errors == inputs


@pytest.fixture(scope="module")
def new_process() -> Iterator[ProcessPoolExecutor]:
    """A process whose heap is as small as at its start: what a limit of memory leaves is on top of what there is."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield pool


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_each_attack_is_rejected_at_once_and_leaves_nothing(name: str, new_process: ProcessPoolExecutor) -> None:
    result = new_process.submit(fuzz_attack, name).result()
    assert not result.findings, result.findings
    assert result.errors == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXT_ATTACKS)
def test_each_hostile_text_is_answered_or_rejected_at_once(name: str, new_process: ProcessPoolExecutor) -> None:
    result = new_process.submit(fuzz_attack, name).result()
    assert not result.findings, result.findings
    assert result.answers + result.errors == 1


def raise_another_error() -> None:
    raise KeyError("key")


def write_outside() -> None:
    Path("/tmp/elmo_plugin-fuzz-outside").write_text("", encoding="utf-8")


def take_memory() -> None:
    with mmap.mmap(-1, 2**29) as pages:  # a test that trained a biLM may have left the heap as much free memory
        for start in range(0, len(pages), mmap.PAGESIZE):
            pages[start] = 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("harm", "what"),
    [
        (raise_another_error, "KeyError"),
        (take_memory, "bytes of memory"),
        (write_outside, "elmo_plugin-fuzz-outside"),
    ],
)
def test_harm_is_found(harm: Callable[[], None], what: str) -> None:
    """The third of four inputs does it; the others are an answer and errors."""
    numbers: list[int] = []

    def prepare(folder: Path) -> Run:
        def run(random: Random, folder: Path) -> None:
            numbers.append(int(random.random() * 1000))
            if numbers[-1] == third:
                harm()
            if len(numbers) > 1:
                raise ConfigurationError("an error of ours")

        return run

    third = int(Random("0/2").random() * 1000)
    result = fuzz(prepare, 4, seed=0)
    assert {finding.number for finding in result.findings} == {2}
    assert any(what in finding.what for finding in result.findings)
