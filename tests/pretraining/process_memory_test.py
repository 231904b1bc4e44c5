"""Training on a CPU keeps the memory that it frees, and oneDNN caches only a few shapes."""

import os
import platform
import subprocess
import sys
from functools import partial

import pytest
import torch

from elmo_plugin.lstm.products import _is_for_onednn
from elmo_plugin.pretraining import language_model
from elmo_plugin.pretraining.process_memory import PRIMITIVES, bound_primitive_cache, keep_freed_memory
from elmo_plugin.pretraining.word_ids import WordIds
from tests.language_model_oracles import language_model as build

COUNT_FAULTS = """
import resource, torch
from elmo_plugin.pretraining.process_memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        torch.ones(2**24)  # 64 MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
print(faults(), keep_freed_memory(), faults() and faults())
"""
"""Prints the page faults of a loop that allocates and frees memory, before and after, once the heap has grown."""

MEET_SHAPES_TWICE = """
import torch
from elmo_plugin.lstm.products import product
from elmo_plugin.pretraining.process_memory import PRIMITIVES, bound_primitive_cache

bound_primitive_cache()
weight = torch.ones(8, 8)
for _ in range(2):
    for rows in range(8, 8 + PRIMITIVES + 10):
        product(torch.ones(rows, 8), weight)
"""
"""Computes products of more shapes than oneDNN may cache, twice."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_freed_memory_is_reused_without_page_faults() -> None:
    done = subprocess.run([sys.executable, "-c", COUNT_FAULTS], capture_output=True, text=True, check=True)
    before, could, after = done.stdout.split()
    assert could == "True"
    assert int(after) * 10 < int(before)


def test_memory_is_prepared_only_for_training(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(language_model, "prepare_memory", partial(calls.append, "prepared"))
    model = build()
    batch = WordIds(model.vocab).of_sentences([["a", "b"]])
    model.eval()(tokens=batch)
    assert not calls
    model.train()(tokens=batch)
    assert calls


def test_other_systems_than_linux_have_no_mallopt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not keep_freed_memory.__wrapped__()


@pytest.mark.skipif(not _is_for_onednn(torch.ones(1, 1)), reason="oneDNN computes no product here")
def test_onednn_forgets_old_shapes() -> None:
    environment = {name: value for name, value in os.environ.items() if "PRIMITIVE_CACHE" not in name}
    done = subprocess.run(
        [sys.executable, "-c", MEET_SHAPES_TWICE],
        env={**environment, "ONEDNN_VERBOSE": "profile_create", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("create:cache_miss") >= 2 * (PRIMITIVES + 10)


def test_the_environment_may_set_the_number_of_cached_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "512")
    bound_primitive_cache()
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "512"
