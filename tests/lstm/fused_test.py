"""The Triton kernel equals the reference: on a GPU, or without one in Triton's interpreter."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch
from hypothesis import example, given, settings
from torch import Tensor
from torch.utils._pytree import tree_map_only

import elmo_plugin
from elmo_plugin.lstm import KERNELS, LstmClips, LstmState, kernels, packed
from elmo_plugin.lstm import triton as triton_kernels
from elmo_plugin.lstm.reference import reference
from elmo_plugin.lstm.triton import fused
from tests.kernel_compiler import compile_kernel
from tests.kernel_oracles import DEVICE, Case, assert_same, cases, in_float32, layer, make_case, run

CLIPS = LstmClips(0.3, 0.2)
MANY = [2] * 20 + [1] * 120
"""Sentences of more than one tile; and all numbers of a step are more than are added at a time."""


@pytest.mark.slow
@settings(max_examples=5 if DEVICE == "cpu" else 1)  # each size takes a GPU's compiler seconds
@given(case=cases)
@example(case=make_case([]))
@example(case=make_case([0, 0], steps=2))
@example(case=make_case([1, 0, 3], steps=9, clips=CLIPS))
@example(case=make_case([3, 5], sizes=(1, 1, 1), clips=LstmClips(1, 1)))  # whole numbers, as options files have them
@example(case=make_case([2, 4, 1], projected=False, clips=CLIPS))
@example(case=make_case([3, 2, 1], sizes=(5, 130, 67), clips=CLIPS))  # more cells and outputs than one tile
def test_fused_equals_the_reference_in_outputs_state_and_every_gradient(case: Case) -> None:
    case = in_float32(case)
    assert_same(run(fused, case), run(reference, case))
    with torch.no_grad():
        torch.testing.assert_close(layer(fused, *case), layer(reference, *case), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_large_batch_equals_the_reference_and_has_the_same_bits_twice() -> None:
    case = in_float32(make_case(MANY, sizes=(8, 130, 36), clips=LstmClips(0.8, 0.5)))
    first, second = run(fused, case), run(fused, case)
    torch.testing.assert_close(first._asdict(), second._asdict(), rtol=0.0, atol=0.0)
    assert_same(first, run(reference, case))
    with torch.no_grad():
        torch.testing.assert_close(layer(fused, *case), layer(reference, *case), rtol=1e-4, atol=1e-5)


def test_float64_is_packed() -> None:
    case = make_case([3, 1], clips=CLIPS)
    assert_same(run(fused, case), run(packed, case))


def test_in_float32_even_small_numbers_keep_their_digits() -> None:
    """Near zero, tanh is not computed as a difference of numbers near one."""
    case = in_float32(make_case([1, 1]))
    tiny = [each._replace(input=each.input * 1e-4, bias=each.bias * 0) for each in case.weights]
    case = case._replace(weights=tiny, state=LstmState(case.state.hidden * 0, case.state.cell * 0))
    found, _ = layer(fused, *case)
    wanted, _ = layer(reference, *case)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=0.0)


def test_clips_do_not_hide_nan() -> None:
    case = in_float32(make_case([3], clips=CLIPS))
    inputs = case.inputs.detach().clone()
    inputs[:, 0, 1] = torch.nan
    outputs, _ = layer(fused, *case._replace(inputs=inputs))
    assert not outputs[:, 0, 0].isnan().any() and outputs[:, 0, 1:].isnan().all()


@pytest.fixture(scope="module")
def compiler() -> Iterator[ProcessPoolExecutor]:
    """A process without Triton's interpreter, which runs the kernels in this one."""
    with pytest.MonkeyPatch.context() as environment, ProcessPoolExecutor(1, get_context("spawn")) as pool:
        environment.delenv("TRITON_INTERPRET", raising=False)
        pool.submit(int).result()  # starts it
        yield pool


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["forward_steps", "backward_steps"])
def test_each_kernel_compiles_without_a_gpu(
    name: str, dtype: str, compiler: ProcessPoolExecutor, tmp_path: Path
) -> None:
    """The interpreter also accepts code that Triton cannot compile."""
    assert compiler.submit(compile_kernel, name, dtype, str(tmp_path)).result() > 1000


def test_fused_rejects_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_kernels, "INTERPRETED", False)
    with pytest.raises(ValueError, match=r"'fused'.* CUDA .*TRITON_INTERPRET.* got 'cpu'"):
        layer(KERNELS["fused"], *tree_map_only(Tensor, Tensor.cpu, tuple(make_case([3, 1]))))


@pytest.mark.slow
def test_triton_is_imported_only_when_a_kernel_runs() -> None:
    """In a process of its own, with only the kernels of the package: the rest takes long to import."""
    program = f"""if True:
        import sys, types
        package = sys.modules["elmo_plugin"] = types.ModuleType("elmo_plugin")
        package.__path__ = [{str(Path(elmo_plugin.__file__).parent)!r}]
        sys.modules["triton"] = None  # as if it were not installed
        from elmo_plugin.lstm import KERNELS
        try:
            KERNELS["fused"](None)
        except ImportError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.count("import of triton halted") == 1, done.stderr


@pytest.fixture
def fresh_choice() -> Iterator[None]:
    """Let `auto` choose anew, in the test and after it."""
    kernels._fused_or_packed.cache_clear()
    yield
    kernels._fused_or_packed.cache_clear()


@pytest.mark.usefixtures("fresh_choice")
def test_auto_is_fused_on_a_gpu_and_warns_once_if_triton_is_missing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert kernels._fused_or_packed() is fused
    kernels._fused_or_packed.cache_clear()
    monkeypatch.setitem(sys.modules, "elmo_plugin.lstm.triton", None)
    assert kernels._fused_or_packed() is packed and kernels._fused_or_packed() is packed
    (said,) = caplog.messages
    assert "'packed'" in said and "'triton'" in said
