"""The kernel `fused` for GPUs: all time steps of a layer in one launch of a Triton kernel, forward or backward.

A loop over the steps launches several small GPU kernels for each step, and the GPU waits for the launches. Here one
program per multiprocessor stays for all steps. A step has phases, and no program begins a phase before all have ended
the one before. The phases of a forward step are:

1. i, f, g, o, c and o·tanh c, from R h
2. W (o·tanh c), in parts
3. h, the clipped sum of the parts

The phases of a backward step are:

1. the gradient of W (o·tanh c)
2. the gradients of c and of the gates
3. the gradient of the earlier h, in parts

A part of a product is that with some of the columns: otherwise a product with few results would keep few programs busy.
Parts are added in a fixed order, so the same batch has the same bits in every run.

The kernels use only `tl`, so that Triton's interpreter can run them without a GPU, with one program.
"""

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from elmo_plugin.lstm.recurrence import Gradients, Trace, packed
from elmo_plugin.lstm.types import LstmInputs, LstmState, Product
from elmo_plugin.tensors import product_type


def fused(inputs: LstmInputs) -> tuple[Tensor, LstmState]:
    """Run the recurrence with Triton kernels; see `Kernel`. State and outputs are float32.

    A product of float32 is the sum of three products of TF32 (`tf32x3`), which has the errors of float32. With float64,
    or without a projection, this is `packed`.

    Raises `ValueError` on a CPU, unless Triton's interpreter runs the kernels.
    """
    gates = inputs.gates
    if gates.device.type != "cuda" and not INTERPRETED:
        raise ValueError(
            "kernel 'fused': expected a CUDA device, or TRITON_INTERPRET=1 before Triton is imported, got "
            f"'{gates.device}'"
        )
    if inputs.projection is None or torch.float64 in (gates.dtype, inputs.state.cell.dtype):
        return packed(inputs)
    with torch.cuda.device_of(gates):
        return packed(inputs, fused_forward, fused_backward)


def fused_forward(inputs: LstmInputs, trace: Trace) -> LstmState:
    """Run the steps in one launch; see `forward_steps` of `recurrence.py`. There must be a projection."""
    hidden, cell = (part.clone(memory_format=torch.contiguous_format) for part in inputs.state)
    dtype, keep = product_type(inputs.recurrent.weights[0]), trace.activations is not None
    operand = hidden if dtype == hidden.dtype else hidden.to(dtype)  # h as the product reads it
    cell_output = cell.new_empty(len(cell), max(inputs.sizes, default=0), cell.size(2), dtype=dtype)
    kept = (trace.activations, trace.cells) if keep else (inputs.gates, cell)
    tensors = [inputs.gates.contiguous(), hidden, operand, cell, cell_output, trace.outputs, *kept]
    launch(forward_steps, inputs, tensors, dtype, deepest=cell.size(2), KEEP=keep)
    return LstmState(hidden, cell)


def fused_backward(inputs: LstmInputs, trace: Trace, gradients: Gradients) -> LstmState:
    """Run the steps in reverse in one launch; see `backward_steps` of `recurrence.py`."""
    d_hidden, d_cell = (part.clone(memory_format=torch.contiguous_format) for part in gradients.state)
    tensors = [
        *(gradients.outputs.contiguous(), trace.outputs, d_hidden, d_cell, trace.activations, trace.cells),
        *(inputs.state.cell.contiguous(), gradients.raw, gradients.gates),
    ]
    launch(backward_steps, inputs, tensors, gradients.gates.dtype, deepest=4 * d_cell.size(2))
    return LstmState(d_hidden, d_cell)


def plan_of(
    device: torch.device, most: int, cell_dim: int, width: int, deepest: int, dtype: torch.dtype
) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Choose tiles for at most `most` sentences, so that every multiprocessor has a part of each weight to read.

    Return the number of programs, the constants of the kernel, and the options of its launch. A program computes ROWS
    of the batch and CELLS of H, or OUTPUTS of P, at a time. It loads DEPTH numbers of each row of a product together,
    `num_stages` times ahead. The deepest product, of `deepest` numbers, is divided into PARTS.

    Triton compiles the kernels for each plan, which takes seconds, so there are few: five for any `most`.
    """
    processors, memory, precision = _gpu(device)
    size = dtype.itemsize
    most = next((limit for limit in (16, 32, 64, 128) if most <= limit), 512)
    rows = min(most, 128 if size == 4 else 64)
    row_tiles = most // rows
    cells = 64
    while cells > 16 and 2 * triton.cdiv(cell_dim, cells) * row_tiles < 0.75 * processors:
        cells //= 2
    outputs, depth, parts = 64, 128 // size, 1
    tiles = 2 * triton.cdiv(width, outputs) * row_tiles
    while 2 * parts * tiles <= processors and deepest >= 4 * parts * depth:
        parts *= 2
    stages = max(1, min(4, memory // ((rows + 4 * cells) * depth * size) - 1))
    programs = min(processors, max(2 * triton.cdiv(cell_dim, cells) * row_tiles, tiles * parts))
    tile = {"PRECISION": precision, "ROWS": rows, "CELLS": cells, "OUTPUTS": outputs, "DEPTH": depth, "PARTS": parts}
    return programs, tile, {"num_warps": 4 if size == 4 and rows == 32 else 8, "num_stages": stages}


@cache
def _gpu(device: torch.device) -> tuple[int, int, str]:
    """Return the number of multiprocessors, the bytes of shared memory of each, and Triton's name of float32."""
    if device.type != "cuda":  # the interpreter runs one program after the other, so none may wait for another
        return 1, 2**16, "ieee"
    properties = torch.cuda.get_device_properties(device)
    memory = getattr(properties, "shared_memory_per_block_optin", 2**16)
    has_tf32 = properties.major >= 8 and torch.version.hip is None
    return properties.multi_processor_count, memory, "tf32x3" if has_tf32 else "ieee"


def launch(
    kernel: Any, inputs: LstmInputs, tensors: list[Any], dtype: torch.dtype, deepest: int, **constants: Any
) -> None:
    """Run a kernel over all steps. The deepest of its products by weights, of type `dtype`, adds so many numbers."""
    gates, sizes, _, _, state, clips = inputs
    assert inputs.projection is not None
    if not sizes:
        return
    directions, batch, width = state.hidden.shape
    cell_dim = state.cell.size(2)
    recurrent, recurrent_stride = weights_of(inputs.recurrent, dtype)
    projection, projection_stride = weights_of(inputs.projection, dtype)
    programs, tile, options = plan_of(gates.device, sizes[0], cell_dim, width, deepest, dtype)
    kernel[(programs,)](
        *tensors,
        recurrent[0],
        projection[0],
        state.hidden.new_empty(tile["PARTS"], directions, sizes[0], width),
        torch.tensor(sizes, dtype=torch.int32).to(gates.device, non_blocking=True),
        torch.zeros(1, dtype=torch.int32, device=gates.device),
        recurrent_stride,
        projection_stride,
        gates.size(1),
        batch,
        len(sizes),
        sizes[0],
        **constants,
        CELL_CLIP=clips.cell,
        OUTPUT_CLIP=clips.projection,
        DIRECTIONS=directions,
        H=cell_dim,
        P=width,
        INTERPRETED=INTERPRETED,
        **tile,
        **({} if INTERPRETED else {**options, "launch_cooperative_grid": True}),
    )


def weights_of(product: Product, dtype: torch.dtype) -> tuple[list[Tensor], int]:
    """Return the weight of each direction, and the distance in memory from one to the next, in numbers."""
    weights = [weight.detach().to(dtype).contiguous() for weight in product.weights]
    first, last = weights[0], weights[-1]  # there are at most two
    return weights, (last.data_ptr() - first.data_ptr()) // first.element_size()


BLOCK: tl.constexpr = tl.constexpr(1024)
"""The count of numbers that a program adds or clips at a time."""


@triton.jit(do_not_specialize=["tokens", "batch", "n_steps", "most"])
def forward_steps(
    gates: tl.tensor,
    hidden: tl.tensor,
    operand: tl.tensor,
    cell: tl.tensor,
    cell_output: tl.tensor,
    outputs: tl.tensor,
    activations: tl.tensor,
    cells: tl.tensor,
    recurrent: tl.tensor,
    projection: tl.tensor,
    parts: tl.tensor,
    sizes: tl.tensor,
    arrivals: tl.tensor,
    recurrent_stride: tl.tensor,
    projection_stride: tl.tensor,
    tokens: tl.tensor,
    batch: tl.tensor,
    n_steps: tl.tensor,
    most: tl.tensor,
    KEEP: tl.constexpr,
    CELL_CLIP: tl.constexpr,
    OUTPUT_CLIP: tl.constexpr,
    DIRECTIONS: tl.constexpr,
    H: tl.constexpr,
    P: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    CELLS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    DEPTH: tl.constexpr,
    PARTS: tl.constexpr,
    INTERPRETED: tl.constexpr,
) -> None:
    """Compute h and c of every step, as `forward_steps` of `recurrence.py` says.

    *Shape:* gates (R, tokens, 4H) · hidden, operand (R, batch, P) · cell (R, batch, H) · recurrent (4H, P) and
    projection (P, H) of the first direction · cell_output (R, most, H) · parts (PARTS, R, most, P) · outputs (R,
    tokens, P) · activations (R, tokens, 4H) · cells (R, tokens, H) · sizes (n_steps,) · arrivals (1,).
    """
    program, programs = tl.program_id(0), tl.num_programs(0)
    begin = tl.full((), 0, tl.int64)  # the tokens of the steps before
    arrived = 0
    for step in range(n_steps):
        active = tl.load(sizes + step)
        n_row_tiles = (active + ROWS - 1) // ROWS
        for tile in range(program, DIRECTIONS * _count(H, CELLS) * n_row_tiles, programs):
            row, _, column, direction = _place(tile, n_row_tiles, 1, _count(H, CELLS), ROWS, CELLS)
            h = operand + (direction * batch + row[:, None]) * P
            weight = recurrent + direction * recurrent_stride + column[None, :] * P
            token = direction * tokens + begin + row[:, None]  # (ROWS, 1)
            now = cell + (direction * batch + row[:, None]) * H + column[None, :]
            to = cell_output + (direction * most + row[:, None]) * H + column[None, :]
            _forward_cells(
                h,
                weight,
                token,
                now,
                to,
                row,
                column,
                active,
                gates,
                activations,
                cells,
                KEEP,
                CELL_CLIP,
                H,
                P,
                PRECISION,
                ROWS,
                CELLS,
                DEPTH,
                INTERPRETED,
            )
        arrived = _wait_for_all(arrivals, arrived, programs)
        for tile in range(program, DIRECTIONS * _count(P, OUTPUTS) * PARTS * n_row_tiles, programs):
            row, part, column, direction = _place(tile, n_row_tiles, PARTS, _count(P, OUTPUTS), ROWS, OUTPUTS)
            x = cell_output + (direction * most + row[:, None]) * H
            weight = projection + direction * projection_stride + column[None, :] * H
            total = _product(
                x, weight, 1, row, column, active, part, H, P, PARTS, ROWS, OUTPUTS, DEPTH, PRECISION, INTERPRETED
            )
            to = parts + ((part * DIRECTIONS + direction) * most + row[:, None]) * P + column[None, :]
            tl.store(to, total, mask=(row[:, None] < active) & (column[None, :] < P))
        arrived = _wait_for_all(arrivals, arrived, programs)
        for start in range(program * BLOCK, DIRECTIONS * active * P, programs * BLOCK):
            direction, number, here = _numbers(start, active * P, DIRECTIONS)
            total = _sum_of_parts(parts, direction, number, here, most, DIRECTIONS, P, PARTS)
            total = _clip(total, OUTPUT_CLIP)
            tl.store(outputs + (direction * tokens + begin) * P + number, total, mask=here)
            tl.store(hidden + direction * batch * P + number, total, mask=here)
            tl.store(operand + direction * batch * P + number, total, mask=here)
        arrived = _wait_for_all(arrivals, arrived, programs)
        begin += active


@triton.jit
def _forward_cells(
    h: tl.tensor,
    weight: tl.tensor,
    token: tl.tensor,
    now: tl.tensor,
    to: tl.tensor,
    row: tl.tensor,
    column: tl.tensor,
    active: tl.tensor,
    gates: tl.tensor,
    activations: tl.tensor,
    cells: tl.tensor,
    KEEP: tl.constexpr,
    CELL_CLIP: tl.constexpr,
    H: tl.constexpr,
    P: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    CELLS: tl.constexpr,
    DEPTH: tl.constexpr,
    INTERPRETED: tl.constexpr,
) -> None:
    """Compute the four parts of R h of a tile, (ROWS, CELLS) each, then c and o·tanh c."""
    i = tl.full((ROWS, CELLS), 0.0, tl.float32)
    f = tl.full((ROWS, CELLS), 0.0, tl.float32)
    g = tl.full((ROWS, CELLS), 0.0, tl.float32)
    o = tl.full((ROWS, CELLS), 0.0, tl.float32)
    for start in range(0, P, DEPTH):
        k = start + tl.arange(0, DEPTH)
        x_here = (row[:, None] < active) & (k[None, :] < P)
        x = tl.load(h + k[None, :], mask=x_here, other=0.0, cache_modifier=".cg")
        w_here, w = (k[:, None] < P) & (column[None, :] < H), weight + k[:, None]
        i = _multiply(x, tl.load(w, mask=w_here, other=0.0), i, PRECISION, INTERPRETED)
        f = _multiply(x, tl.load(w + H * P, mask=w_here, other=0.0), f, PRECISION, INTERPRETED)
        g = _multiply(x, tl.load(w + 2 * H * P, mask=w_here, other=0.0), g, PRECISION, INTERPRETED)
        o = _multiply(x, tl.load(w + 3 * H * P, mask=w_here, other=0.0), o, PRECISION, INTERPRETED)
    here = (row[:, None] < active) & (column[None, :] < H)
    quarter = token * (4 * H) + column[None, :]
    i = _sigmoid(i + tl.load(gates + quarter, mask=here, other=0.0).to(tl.float32))
    f = _sigmoid(f + tl.load(gates + quarter + H, mask=here, other=0.0).to(tl.float32))
    g = _tanh(g + tl.load(gates + quarter + 2 * H, mask=here, other=0.0).to(tl.float32))
    o = _sigmoid(o + tl.load(gates + quarter + 3 * H, mask=here, other=0.0).to(tl.float32))
    c = _clip(f * tl.load(now, mask=here, other=0.0, cache_modifier=".cg") + i * g, CELL_CLIP)
    tl.store(now, c, mask=here)
    if KEEP:
        tl.store(activations + quarter, i, mask=here)
        tl.store(activations + quarter + H, f, mask=here)
        tl.store(activations + quarter + 2 * H, g, mask=here)
        tl.store(activations + quarter + 3 * H, o, mask=here)
        tl.store(cells + token * H + column[None, :], c, mask=here)
    tl.store(to, o * _tanh(c), mask=here)


@triton.jit
def _product(
    x: tl.tensor,
    weight: tl.tensor,
    stride: tl.constexpr,
    row: tl.tensor,
    column: tl.tensor,
    active: tl.tensor,
    part: tl.tensor,
    K: tl.constexpr,
    N: tl.constexpr,
    PARTS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
    INTERPRETED: tl.constexpr,
) -> tl.tensor:
    """Compute a part of x W of a tile, (ROWS, COLUMNS), from rows `x` of K numbers and N columns `weight`.

    The numbers of a column are `stride` apart. A part is one of PARTS that add up to the product.
    """
    part_depth: tl.constexpr = ((K + PARTS - 1) // PARTS + DEPTH - 1) // DEPTH * DEPTH
    total = tl.full((ROWS, COLUMNS), 0.0, tl.float32)
    for start in range(0, part_depth, DEPTH):
        k = part * part_depth + start + tl.arange(0, DEPTH)
        x_here = (row[:, None] < active) & (k[None, :] < K)
        w_here = (k[:, None] < K) & (column[None, :] < N)
        x_part = tl.load(x + k[None, :], mask=x_here, other=0.0, cache_modifier=".cg")
        w_part = tl.load(weight + k[:, None] * stride, mask=w_here, other=0.0)
        total = _multiply(x_part, w_part, total, PRECISION, INTERPRETED)
    return total


@triton.jit(do_not_specialize=["tokens", "batch", "n_steps", "most"])
def backward_steps(
    d_outputs: tl.tensor,
    outputs: tl.tensor,
    d_hidden: tl.tensor,
    d_cell: tl.tensor,
    activations: tl.tensor,
    cells: tl.tensor,
    first_cell: tl.tensor,
    d_raw: tl.tensor,
    d_gates: tl.tensor,
    recurrent: tl.tensor,
    projection: tl.tensor,
    parts: tl.tensor,
    sizes: tl.tensor,
    arrivals: tl.tensor,
    recurrent_stride: tl.tensor,
    projection_stride: tl.tensor,
    tokens: tl.tensor,
    batch: tl.tensor,
    n_steps: tl.tensor,
    most: tl.tensor,
    CELL_CLIP: tl.constexpr,
    OUTPUT_CLIP: tl.constexpr,
    DIRECTIONS: tl.constexpr,
    H: tl.constexpr,
    P: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    CELLS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    DEPTH: tl.constexpr,
    PARTS: tl.constexpr,
    INTERPRETED: tl.constexpr,
) -> None:
    """Compute the gradients of every step, the last one first, as `backward_steps` of
    `recurrence.py` says.

    *Shape:* d_outputs, outputs, d_raw (R, tokens, P) · d_hidden (R, batch, P) · d_cell, first_cell (R, batch, H) ·
    activations, d_gates (R, tokens, 4H) · cells (R, tokens, H) · parts (PARTS, R, most, P); the rest as in
    `forward_steps`.
    """
    program, programs = tl.program_id(0), tl.num_programs(0)
    begin = tl.full((), 0, tl.int64) + tokens  # the tokens of this step and those before
    later = 0  # the sentences of the step after this one
    arrived = 0
    for back in range(n_steps):
        step = n_steps - 1 - back
        active = tl.load(sizes + step)
        begin -= active
        n_row_tiles = (active + ROWS - 1) // ROWS
        for start in range(program * BLOCK, DIRECTIONS * active * P, programs * BLOCK):
            direction, number, here = _numbers(start, active * P, DIRECTIONS)
            token = (direction * tokens + begin) * P + number
            continues = number < later * P
            at = d_hidden + direction * batch * P + number
            d_h = tl.load(at, mask=here & (number >= later * P), other=0.0)
            d_h += _sum_of_parts(parts, direction, number, here & continues, most, DIRECTIONS, P, PARTS)
            d_h += tl.load(d_outputs + token, mask=here, other=0.0).to(tl.float32)
            d_h = _stop_at_clip(d_h, tl.load(outputs + token, mask=here, other=0.0), OUTPUT_CLIP)
            tl.store(d_raw + token, d_h, mask=here)
        arrived = _wait_for_all(arrivals, arrived, programs)
        for tile in range(program, DIRECTIONS * _count(H, CELLS) * n_row_tiles, programs):
            row, _, column, direction = _place(tile, n_row_tiles, 1, _count(H, CELLS), ROWS, CELLS)
            token = direction * tokens + begin + row[:, None]  # (ROWS, 1)
            x = d_raw + token * P
            weight = projection + direction * projection_stride + column[None, :]
            d_h = _product(x, weight, H, row, column, active, 0, P, H, 1, ROWS, CELLS, DEPTH, PRECISION, INTERPRETED)
            here = (row[:, None] < active) & (column[None, :] < H)
            sentence = (direction * batch + row[:, None]) * H + column[None, :]
            if step > 0:  # the tokens of the step before begin earlier by their number
                past = token - tl.load(sizes + step - 1)
                before = tl.load(cells + past * H + column[None, :], mask=here, other=0.0)
            else:
                before = tl.load(first_cell + sentence, mask=here, other=0.0)
            _backward_cells(
                d_h, before, d_cell + sentence, token, column, here, activations, cells, d_gates, CELL_CLIP, H
            )
        arrived = _wait_for_all(arrivals, arrived, programs)
        for tile in range(program, DIRECTIONS * _count(P, OUTPUTS) * PARTS * n_row_tiles, programs):
            row, part, column, direction = _place(tile, n_row_tiles, PARTS, _count(P, OUTPUTS), ROWS, OUTPUTS)
            x = d_gates + (direction * tokens + begin + row[:, None]) * (4 * H)
            weight = recurrent + direction * recurrent_stride + column[None, :]
            total = _product(
                x, weight, P, row, column, active, part, 4 * H, P, PARTS, ROWS, OUTPUTS, DEPTH, PRECISION, INTERPRETED
            )
            to = parts + ((part * DIRECTIONS + direction) * most + row[:, None]) * P + column[None, :]
            tl.store(to, total, mask=(row[:, None] < active) & (column[None, :] < P))
        arrived = _wait_for_all(arrivals, arrived, programs)
        later = active
    for start in range(program * BLOCK, DIRECTIONS * later * P, programs * BLOCK):
        direction, number, here = _numbers(start, later * P, DIRECTIONS)
        total = _sum_of_parts(parts, direction, number, here, most, DIRECTIONS, P, PARTS)
        tl.store(d_hidden + direction * batch * P + number, total, mask=here)


@triton.jit
def _backward_cells(
    d_h: tl.tensor,
    before: tl.tensor,
    d_now: tl.tensor,
    token: tl.tensor,
    column: tl.tensor,
    here: tl.tensor,
    activations: tl.tensor,
    cells: tl.tensor,
    d_gates: tl.tensor,
    CELL_CLIP: tl.constexpr,
    H: tl.constexpr,
) -> None:
    """Compute the gradients of the gates and of the earlier c of a tile, from those of o·tanh c and of c."""
    quarter = token * (4 * H) + column[None, :]
    i = tl.load(activations + quarter, mask=here, other=0.0)
    f = tl.load(activations + quarter + H, mask=here, other=0.0)
    g = tl.load(activations + quarter + 2 * H, mask=here, other=0.0)
    o = tl.load(activations + quarter + 3 * H, mask=here, other=0.0)
    c = tl.load(cells + token * H + column[None, :], mask=here, other=0.0)
    tanh_c = _tanh(c)
    d_c = tl.load(d_now, mask=here, other=0.0, cache_modifier=".cg")
    d_c = _stop_at_clip(d_c + d_h * o * (1 - tanh_c * tanh_c), c, CELL_CLIP)
    tl.store(d_gates + quarter, d_c * g * i * (1 - i), mask=here)
    tl.store(d_gates + quarter + H, d_c * before * f * (1 - f), mask=here)
    tl.store(d_gates + quarter + 2 * H, d_c * i * (1 - g * g), mask=here)
    tl.store(d_gates + quarter + 3 * H, d_h * tanh_c * o * (1 - o), mask=here)
    tl.store(d_now, d_c * f, mask=here)


@triton.jit
def _count(SIZE: tl.constexpr, TILE: tl.constexpr) -> tl.constexpr:
    """Return the number of tiles that cover a size. The interpreter cannot call a `tl.cdiv` that was compiled."""
    return (SIZE + TILE - 1) // TILE


@triton.jit
def _place(
    tile: tl.tensor,
    n_row_tiles: tl.tensor,
    PARTS: tl.constexpr,
    n_column_tiles: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """Return the rows, the part of a product, the columns and the direction of a tile."""
    row = tile % n_row_tiles * ROWS + tl.arange(0, ROWS)
    part = tile // n_row_tiles % PARTS
    column = tile // n_row_tiles // PARTS % n_column_tiles * COLUMNS + tl.arange(0, COLUMNS)
    direction = (tile // n_row_tiles // PARTS // n_column_tiles).to(tl.int64)
    return row, part, column, direction


@triton.jit
def _numbers(start: tl.tensor, size: tl.tensor, DIRECTIONS: tl.constexpr) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Return the direction and the place in it, of `size` numbers, of a block of numbers, and which of them exist."""
    n = start + tl.arange(0, BLOCK)
    return (n // size).to(tl.int64), n % size, n < DIRECTIONS * size


INTERPRETED = not isinstance(forward_steps, triton.runtime.JITFunction)
"""Whether Triton's interpreter runs the kernels."""


@triton.jit
def _wait_for_all(arrivals: tl.tensor, arrived: tl.tensor, programs: tl.tensor) -> tl.tensor:
    """Wait until every program has come here, and return how many arrivals there were until then."""
    arrived += programs
    tl.debug_barrier()  # all threads of this program have written their results
    tl.atomic_add(arrivals, 1, sem="acq_rel")
    while tl.atomic_add(arrivals, 0, sem="acq_rel") < arrived:
        pass
    tl.debug_barrier()
    return arrived


@triton.jit
def _multiply(
    x: tl.tensor, columns: tl.tensor, start: tl.tensor, PRECISION: tl.constexpr, INTERPRETED: tl.constexpr
) -> tl.tensor:
    """Compute start + x W from x (N, K) and columns of W (K, O)."""
    if INTERPRETED:  # numpy, which it multiplies by, has no bfloat16
        x, columns = x.to(tl.float32), columns.to(tl.float32)
    return tl.dot(x, columns, start, input_precision=PRECISION)


@triton.jit
def _sum_of_parts(
    parts: tl.tensor,
    direction: tl.tensor,
    number: tl.tensor,
    here: tl.tensor,
    most: tl.tensor,
    DIRECTIONS: tl.constexpr,
    P: tl.constexpr,
    PARTS: tl.constexpr,
) -> tl.tensor:
    """Add the parts of a product at a place (active, P) of a direction."""
    total = tl.full(number.shape, 0.0, tl.float32)
    for part in tl.static_range(PARTS):
        at = parts + (part * DIRECTIONS + direction) * most * P + number
        total += tl.load(at, mask=here, other=0.0, cache_modifier=".cg")
    return total


@triton.jit
def _sigmoid(x: tl.tensor) -> tl.tensor:
    small = tl.exp(-tl.abs(x))  # never overflows
    return tl.where(x < 0, small, 1.0) / (1 + small)


@triton.jit
def _tanh(x: tl.tensor) -> tl.tensor:
    """Compute tanh by exp, and near zero, where that is imprecise, by Lambert's continued fraction (1770)."""
    square = x * x
    near = x / (1 + square / (3 + square / (5 + square / (7 + square / (9 + square / 11)))))
    small = tl.exp(-2 * tl.abs(x))
    far = (1 - small) / (1 + small)
    return tl.where(tl.abs(x) < 0.25, near, tl.where(x < 0, -far, far))


@triton.jit
def _clip(x: tl.tensor, CLIP: tl.constexpr) -> tl.tensor:
    if CLIP is not None:
        x = tl.where(x > CLIP, CLIP, tl.where(x < -CLIP, -CLIP, x))
    return x


@triton.jit
def _stop_at_clip(gradient: tl.tensor, clipped: tl.tensor, CLIP: tl.constexpr) -> tl.tensor:
    """Return the gradient, set to zero where the clipped value is at its bound."""
    if CLIP is not None:
        gradient = tl.where(tl.abs(clipped) < CLIP, gradient, 0.0)
    return gradient
