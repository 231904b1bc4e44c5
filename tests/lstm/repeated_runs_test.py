"""Repeated runs of each kernel give the same bits: results, states and every gradient."""

from collections.abc import Iterator

import pytest
import torch

from elmo_plugin.lstm import KERNELS, LstmClips
from tests.kernel_oracles import DEVICE, in_float32, layer, make_case, run


@pytest.fixture(autouse=True)
def several_threads() -> Iterator[None]:
    """Use more than one thread, because their order could change the sums."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(2, before))
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["packed", "fused"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_kernel_gives_the_same_bits_again(name: str, dtype: torch.dtype) -> None:
    lengths, sizes = ([8, 5, 0, 1] * 4, (64, 96, 48))
    if name == "fused" and DEVICE == "cpu":  # Triton's interpreter, which is slow
        lengths, sizes = ([3, 0, 2], (20, 33, 17))
    case = in_float32(make_case(lengths, sizes=sizes, clips=LstmClips(0.8, 0.5)))
    with torch.autocast(DEVICE, dtype, enabled=dtype != torch.float32):
        first, again = (run(KERNELS[name], case) for _ in range(2))
        with torch.no_grad():
            assert torch.equal(*(layer(KERNELS[name], *case)[0] for _ in range(2)))
    torch.testing.assert_close(again._asdict(), first._asdict(), rtol=0, atol=0)
