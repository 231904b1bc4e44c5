"""Training on a CPU keeps the memory that it frees."""

import platform
import subprocess
import sys
from functools import partial

import pytest

from elmo_plugin.pretraining import language_model
from elmo_plugin.pretraining.heap import keep_freed_memory
from elmo_plugin.pretraining.word_ids import WordIds
from tests.language_model_oracles import language_model as build

COUNT_FAULTS = """
import resource, torch
from elmo_plugin.pretraining.heap import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        torch.ones(2**24)  # 64 MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
print(faults(), keep_freed_memory(), faults() and faults())
"""
"""Prints the page faults of a loop that allocates and frees, before and after, once the heap has grown."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_memory_that_was_freed_is_taken_again_without_page_faults() -> None:
    done = subprocess.run([sys.executable, "-c", COUNT_FAULTS], capture_output=True, text=True, check=True)
    before, could, after = done.stdout.split()
    assert could == "True"
    assert int(after) * 10 < int(before)


def test_it_is_for_training_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(language_model, "keep_freed_memory", partial(calls.append, "kept"))
    model = build()
    batch = WordIds(model.vocab).of_sentences([["a", "b"]])
    model.eval()(tokens=batch)
    assert not calls
    model.train()(tokens=batch)
    assert calls


def test_another_system_has_no_such_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not keep_freed_memory.__wrapped__()
