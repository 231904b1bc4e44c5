"""How a weight is multiplied: each way equals torch's product; sizes and the processor decide."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_plugin.tensors import Prepared, Versions, Way, fastest_way, products

ROWS = pytest.mark.parametrize("rows", [1, 2, 33])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
SHAPES = pytest.mark.parametrize("shape", [(256, 16), (16, 64)])


@pytest.fixture(params=products.ROWS_BY_MKL)
def processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Choose and multiply as on another processor."""
    name: str = request.param
    monkeypatch.setattr(products, "rule", lambda: products.ROWS_BY_MKL[name])
    monkeypatch.setattr(products, "mkl_is_fast", lambda: name.startswith("Intel"))
    return name


@DTYPES
@ROWS
@SHAPES
@pytest.mark.parametrize("way", [way for way in Way if way is not Way.INT8])
@pytest.mark.usefixtures("processor")
def test_each_way_equals_torchs(way: Way, dtype: torch.dtype, rows: int, shape: tuple[int, int]) -> None:
    if not products.has_onednn(dtype) and way is not Way.TORCH:
        return  # never chosen
    generator = torch.Generator().manual_seed(0)
    weights = [(0.1 * torch.randn(shape, generator=generator)).to(dtype) for _ in range(2)]
    biases = [torch.randn(shape[0], generator=generator).to(dtype) for _ in range(2)]
    product, biased = Prepared(weights, way), Prepared(weights, way, biases)
    values = torch.randn(2, rows, shape[1], generator=generator).to(dtype)
    wanted = torch.stack([functional.linear(*pair) for pair in zip(values, weights, strict=True)])
    tolerance = 0.1 if dtype == torch.bfloat16 else 1e-5
    start, out = torch.randn(wanted.shape, generator=generator).to(dtype), torch.empty_like(wanted)
    torch.testing.assert_close(product(values), wanted, rtol=0, atol=tolerance)
    assert product(values, start, out) is out
    torch.testing.assert_close(out, start + wanted, rtol=0, atol=tolerance)
    torch.testing.assert_close(product(values, out=out), wanted, rtol=0, atol=tolerance)
    for direction, (x, y, bias) in enumerate(zip(values, wanted, biases, strict=True)):
        found, written = biased.one(direction, x), torch.empty(y.shape, dtype=biased.dtype)
        torch.testing.assert_close(found.to(dtype), y + bias, rtol=0, atol=tolerance)
        assert torch.equal(biased.one(direction, x, written), found) and torch.equal(written, found)


@pytest.fixture
def threads() -> Iterator[None]:
    """Set the number of threads back afterwards."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("is_kept", [True, False])
def test_the_number_of_threads_changes_no_bit_of_few_rows(is_kept: bool) -> None:
    """MKL divides the rows among threads, and may multiply those that are left over by another routine."""
    if not is_kept and products.mkl_is_fast() and torch.backends.cpu.get_cpu_capability() == "AVX2":
        pytest.skip("with AVX2 on Intel's processors MKL divides the columns too, unless it multiplies both directions")
    for shape in ((256, 64), (64, 128)):
        weights = [torch.randn(shape) for _ in range(2)]
        product = Prepared(weights, fastest_way(weights[0], 32, is_kept))
        for rows in range(1, 33):
            values = torch.randn(2, 40, shape[1])[:, :rows]
            start = torch.randn(2, 40, shape[0])[:, :rows]
            results = []
            for threads in (1, 2):
                torch.set_num_threads(threads)
                results.append(product(values, start, torch.empty_like(start)))
            assert torch.equal(*results), (shape, rows)


def test_a_row_is_not_rounded_for_small_weights_in_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "has_onednn", lambda dtype: True)  # its products are not used
    weights = [torch.randn(40, 24).bfloat16() for _ in range(2)]
    values, start, out = torch.randn(2, 1, 24), torch.randn(2, 1, 40).bfloat16(), torch.empty(2, 1, 40)
    wanted = start.double() + values.double() @ torch.stack(weights).double().mT
    Prepared(weights, fastest_way(weights[0], 1, is_kept=True))(values, start, out)
    torch.testing.assert_close(out.double(), wanted, rtol=0, atol=1e-5)


def weight(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, dtype=dtype)


def test_the_way_follows_from_sizes_and_processor(processor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "has_onednn", lambda dtype: dtype in products.WORTH_COPYING)
    tiny, tall, wide, large = weight(512, 32), weight(2048, 256), weight(256, 512), weight(16384, 512)
    by_mkl, by_onednn = Way.MKL_COPY, Way.ONEDNN_COPY
    ways = [[fastest_way(each, rows, True) for rows in (0, 1, 2, 33)] for each in (tiny, tall, wide, large)]
    few = {"Intel, AVX-512": [by_mkl, by_mkl], "AVX2": [by_mkl, by_onednn], "others": [by_mkl, by_onednn]}[processor]
    tall_few = [by_onednn, by_onednn] if processor == "others" else few
    assert ways == [
        [by_mkl] * 4,
        [by_mkl, by_mkl, *tall_few],
        [by_mkl, by_mkl, *few],
        [Way.MKL, Way.MKL, by_onednn, by_onednn],
    ]
    assert fastest_way(large, 2) is Way.ONEDNN and fastest_way(tiny, 99) is Way.MKL
    assert fastest_way(tall, 99) is (Way.MKL if processor.startswith("Intel") else Way.ONEDNN)
    assert fastest_way(weight(4, 4, dtype=torch.float64), 2, True) is Way.TORCH
    assert fastest_way(weight(2048, 256, dtype=torch.bfloat16), 2, True) is by_onednn


def test_a_weight_at_the_address_of_a_deleted_one_has_another_version() -> None:
    weight = nn.Parameter(torch.zeros(64, 64))
    for _ in range(20):
        version = Versions([weight])
        weight.data = torch.zeros(64, 64)
        assert Versions([weight]) != version
    assert Versions([weight], 1) == Versions([weight], 1) != Versions([weight], 2)
