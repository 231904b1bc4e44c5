"""What `precision` means on each processor: native bfloat16 is used, emulated bfloat16 is not."""

import logging
import os
import platform
import subprocess
import sys

import pytest
import torch

from elmo_plugin.bilm.precision import dtype_on, warn_of_fallback

CPU, META = torch.device("cpu"), torch.device("meta")
EMULATED = pytest.mark.usefixtures("emulated_bfloat16")
NATIVE = pytest.mark.usefixtures("native_bfloat16")
X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the flags are those of x86")
WITHOUT_AVX512 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
COMPARE = """
import elmo_plugin
words = [["The", "ship", "sank", "."]]
(wanted,), (found,), (chosen,) = (
    elmo_plugin.load("english-tiny", precision=precision).embed(words) for precision in ("float32", "bfloat16", "auto")
)
print((wanted == found).all(), (wanted == chosen).all())
"""


def caught(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]


@NATIVE
@pytest.mark.parametrize(("name", "wanted"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)])
def test_a_native_type_is_used_without_a_warning(
    name: str, wanted: torch.dtype, caplog: pytest.LogCaptureFixture
) -> None:
    assert dtype_on(CPU, name) == dtype_on(META, name) == wanted
    warn_of_fallback(CPU, name)
    assert not caught(caplog) and dtype_on(CPU, "auto") == torch.bfloat16


@EMULATED
@pytest.mark.parametrize("name", ["float32", "bfloat16", "auto"])
def test_a_processor_that_emulates_bfloat16_computes_in_float32(name: str) -> None:
    assert dtype_on(CPU, name) == torch.float32 and dtype_on(META, "bfloat16") == torch.bfloat16


@pytest.mark.slow
@X86
def test_without_avx512_every_precision_has_the_vectors_of_float32_and_one_warning() -> None:
    environment = {**os.environ, **WITHOUT_AVX512}
    ended = subprocess.run([sys.executable, "-c", COMPARE], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout == "True True\n"
    assert ended.stderr.count("'precision' is 'bfloat16'") == 1
