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
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from elmo_plugin.lstm.recurrence import Gradients, Steps, Trace, packed
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
        return packed(inputs, FusedSteps())


class FusedSteps(Steps):
    """`Steps` in one launch per pass. There must be a projection."""

    def forward(self, inputs: LstmInputs, trace: Trace) -> LstmState:
        """Run the steps forward; see `Steps`."""
        gates, sizes, recurrent, projection, state, clips = inputs
        assert projection is not None
        activations, cells = trace.activations, trace.cells
        dtype = product_type(recurrent.weights[0])
        by_recurrent, by_projection = _Pair.of(recurrent, dtype), _Pair.of(projection, dtype)
        hidden, cell = (part.clone(memory_format=torch.contiguous_format) for part in state)  # (R, B, P), (R, B, H)
        if not sizes:
            return LstmState(hidden, cell)
        directions, batch, width = hidden.shape
        most, cell_dim = sizes[0], cell.size(2)
        plan = plan_of(gates.device, most, cell_dim, width, cell_dim, dtype)
        operand = hidden if dtype == hidden.dtype else hidden.to(dtype)  # h as the product reads it
        cell_output = cell.new_empty(directions, most, cell_dim, dtype=dtype)
        parts = hidden.new_empty(plan.parts, directions, most, width)
        launch(
            forward_steps,
            plan,
            [
                *(gates.contiguous(), hidden, operand, cell, by_recurrent.first, by_projection.first),
                *(cell_output, parts, trace.outputs),
                *((gates, cell) if activations is None or cells is None else (activations, cells)),
            ],
            sizes,
            [by_recurrent.stride, by_projection.stride, gates.size(1), batch],
            KEEP=activations is not None,
            CELL_CLIP=clips.cell,
            OUTPUT_CLIP=clips.projection,
            DIRECTIONS=directions,
            H=cell_dim,
            P=width,
        )
        return LstmState(hidden, cell)

    def backward(self, inputs: LstmInputs, trace: Trace, gradients: Gradients) -> LstmState:
        """Run the steps backward; see `Steps`."""
        _, sizes, recurrent, projection, state, clips = inputs
        assert projection is not None and trace.activations is not None and trace.cells is not None
        directions, batch, width = state.hidden.shape
        dtype = gradients.gates.dtype
        by_recurrent, by_projection = _Pair.of(recurrent, dtype), _Pair.of(projection, dtype)
        d_hidden, d_cell = (part.clone(memory_format=torch.contiguous_format) for part in gradients.state)
        if not sizes:
            return LstmState(d_hidden, d_cell)
        most, cell_dim = sizes[0], state.cell.size(2)
        plan = plan_of(gradients.gates.device, most, cell_dim, width, 4 * cell_dim, dtype)
        parts = d_hidden.new_empty(plan.parts, directions, most, width)
        launch(
            backward_steps,
            plan,
            [
                *(gradients.outputs.contiguous(), trace.outputs, d_hidden, d_cell),
                *(trace.activations, trace.cells, state.cell.contiguous()),
                *(by_recurrent.first, by_projection.first, gradients.raw, gradients.gates, parts),
            ],
            sizes,
            [by_recurrent.stride, by_projection.stride, trace.outputs.size(1), batch],
            CELL_CLIP=clips.cell,
            OUTPUT_CLIP=clips.projection,
            DIRECTIONS=directions,
            H=cell_dim,
            P=width,
        )
        return LstmState(d_hidden, d_cell)


class _Pair(NamedTuple):
    """The weights of all directions as one address and the distance to the next, in numbers, without a copy."""

    first: Tensor
    stride: int
    others: list[Tensor]
    """Kept alive until the kernel is launched."""

    @classmethod
    def of(cls, product: Product, dtype: torch.dtype) -> "_Pair":
        first, *others = (weight.detach().to(dtype).contiguous() for weight in product.weights)
        stride = (others[0].data_ptr() - first.data_ptr()) // first.element_size() if others else 0
        return cls(first, stride, others)


class Plan(NamedTuple):
    """The sizes of the tiles that a program computes at a time, and the number of programs.

    rows, cells, outputs : of the batch, of H and of P
    depth : numbers of each row of a product that are loaded together, `stages` times ahead
    parts : into which the deepest product is divided
    """

    programs: int
    rows: int
    cells: int
    outputs: int
    depth: int
    parts: int
    stages: int
    warps: int
    precision: str


def plan_of(device: torch.device, most: int, cell_dim: int, width: int, deepest: int, dtype: torch.dtype) -> Plan:
    """Choose tiles for at most `most` sentences, so that every multiprocessor has a part of each weight to read.

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
    warps = 4 if size == 4 and rows == 32 else 8
    return Plan(programs, rows, cells, outputs, depth, parts, stages, warps, precision)


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
    kernel: Any, plan: Plan, tensors: list[Tensor], sizes: list[int], numbers: list[int], **constants: Any
) -> None:
    """Run a kernel over all steps."""
    device = tensors[0].device
    steps = torch.tensor(sizes, dtype=torch.int32).to(device, non_blocking=True)  # (steps,)
    arrivals = torch.zeros(1, dtype=torch.int32, device=device)
    options = {} if INTERPRETED else {"num_warps": plan.warps, "num_stages": plan.stages, **COOPERATIVE}
    kernel[(plan.programs,)](
        *tensors,
        steps,
        arrivals,
        *numbers,
        len(sizes),
        sizes[0],
        **constants,
        PRECISION=plan.precision,
        ROWS=plan.rows,
        CELLS=plan.cells,
        OUTPUTS=plan.outputs,
        DEPTH=plan.depth,
        PARTS=plan.parts,
        INTERPRETED=INTERPRETED,
        **options,
    )


BLOCK: tl.constexpr = tl.constexpr(1024)
"""The count of numbers that a program adds or clips at a time."""


@triton.jit(do_not_specialize=["tokens", "batch", "n_steps", "most"])
def forward_steps(
    gates: tl.tensor,
    hidden: tl.tensor,
    operand: tl.tensor,
    cell: tl.tensor,
    recurrent: tl.tensor,
    projection: tl.tensor,
    cell_output: tl.tensor,
    parts: tl.tensor,
    outputs: tl.tensor,
    activations: tl.tensor,
    cells: tl.tensor,
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
    """Compute h and c of every step, as `Steps.forward` says.

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
            weight = recurrent + direction * recurrent_stride + column[:, None] * P
            token = direction * tokens + begin + row[:, None]  # (ROWS, 1)
            now = cell + (direction * batch + row[:, None]) * H + column[None, :]
            to = cell_output + (direction * most + row[:, None]) * H + column[None, :]
            i, f, g, o = _gates(h, weight, row, column, active, H, P, PRECISION, ROWS, CELLS, DEPTH, INTERPRETED)
            _forward_cells(
                i, f, g, o, token, now, to, row, column, active, gates, activations, cells, KEEP, CELL_CLIP, H
            )
        arrived = _wait_for_all(arrivals, arrived, programs)
        for tile in range(program, DIRECTIONS * _count(P, OUTPUTS) * PARTS * n_row_tiles, programs):
            row, part, column, direction = _place(tile, n_row_tiles, PARTS, _count(P, OUTPUTS), ROWS, OUTPUTS)
            x_row = cell_output + (direction * most + row[:, None]) * H
            weight = projection + direction * projection_stride + column[:, None] * H
            part_depth: tl.constexpr = ((H + PARTS - 1) // PARTS + DEPTH - 1) // DEPTH * DEPTH
            total = tl.full((ROWS, OUTPUTS), 0.0, tl.float32)
            for start in range(0, part_depth, DEPTH):
                k = (part * part_depth + start + tl.arange(0, DEPTH))[None, :]
                x = tl.load(x_row + k, mask=(row[:, None] < active) & (k < H), other=0.0, cache_modifier=".cg")
                w = tl.load(weight + k, mask=(column[:, None] < P) & (k < H), other=0.0)
                total = _multiply(x, w, total, PRECISION, INTERPRETED)
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
def _gates(
    h: tl.tensor,
    weight: tl.tensor,
    row: tl.tensor,
    column: tl.tensor,
    active: tl.tensor,
    H: tl.constexpr,
    P: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    CELLS: tl.constexpr,
    DEPTH: tl.constexpr,
    INTERPRETED: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """Compute the four parts of R h of a tile, (ROWS, CELLS) each."""
    i = tl.full((ROWS, CELLS), 0.0, tl.float32)
    f = tl.full((ROWS, CELLS), 0.0, tl.float32)
    g = tl.full((ROWS, CELLS), 0.0, tl.float32)
    o = tl.full((ROWS, CELLS), 0.0, tl.float32)
    for start in range(0, P, DEPTH):
        k = (start + tl.arange(0, DEPTH))[None, :]
        x = tl.load(h + k, mask=(row[:, None] < active) & (k < P), other=0.0, cache_modifier=".cg")
        here = (column[:, None] < H) & (k < P)
        i = _multiply(x, tl.load(weight + k, mask=here, other=0.0), i, PRECISION, INTERPRETED)
        f = _multiply(x, tl.load(weight + H * P + k, mask=here, other=0.0), f, PRECISION, INTERPRETED)
        g = _multiply(x, tl.load(weight + 2 * H * P + k, mask=here, other=0.0), g, PRECISION, INTERPRETED)
        o = _multiply(x, tl.load(weight + 3 * H * P + k, mask=here, other=0.0), o, PRECISION, INTERPRETED)
    return i, f, g, o


@triton.jit
def _forward_cells(
    i: tl.tensor,
    f: tl.tensor,
    g: tl.tensor,
    o: tl.tensor,
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
) -> None:
    """Compute c, and o·tanh c, of a tile from the four parts of R h, (ROWS, CELLS) each."""
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


@triton.jit(do_not_specialize=["tokens", "batch", "n_steps", "most"])
def backward_steps(
    d_outputs: tl.tensor,
    outputs: tl.tensor,
    d_hidden: tl.tensor,
    d_cell: tl.tensor,
    activations: tl.tensor,
    cells: tl.tensor,
    first_cell: tl.tensor,
    recurrent: tl.tensor,
    projection: tl.tensor,
    d_raw: tl.tensor,
    d_gates: tl.tensor,
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
    """Compute the gradients of every step, the last one first, as `Steps.backward` says.

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
            weight = projection + direction * projection_stride + column[None, :]
            d_h = tl.full((ROWS, CELLS), 0.0, tl.float32)
            for start in range(0, P, DEPTH):
                k = start + tl.arange(0, DEPTH)
                x_here = (row[:, None] < active) & (k[None, :] < P)
                x = tl.load(d_raw + token * P + k[None, :], mask=x_here, other=0.0, cache_modifier=".cg")
                w = tl.load(weight + k[:, None] * H, mask=(k[:, None] < P) & (column[None, :] < H), other=0.0)
                d_h = _multiply_by_columns(x, w, d_h, PRECISION, INTERPRETED)
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
            x_row = d_gates + (direction * tokens + begin + row[:, None]) * (4 * H)
            weight = recurrent + direction * recurrent_stride + column[None, :]
            part_depth: tl.constexpr = ((4 * H + PARTS - 1) // PARTS + DEPTH - 1) // DEPTH * DEPTH
            total = tl.full((ROWS, OUTPUTS), 0.0, tl.float32)
            for start in range(0, part_depth, DEPTH):
                k = part * part_depth + start + tl.arange(0, DEPTH)
                x_here = (row[:, None] < active) & (k[None, :] < 4 * H)
                x = tl.load(x_row + k[None, :], mask=x_here, other=0.0, cache_modifier=".cg")
                w = tl.load(weight + k[:, None] * P, mask=(k[:, None] < 4 * H) & (column[None, :] < P), other=0.0)
                total = _multiply_by_columns(x, w, total, PRECISION, INTERPRETED)
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
    x: tl.tensor, rows: tl.tensor, start: tl.tensor, PRECISION: tl.constexpr, INTERPRETED: tl.constexpr
) -> tl.tensor:
    """Compute start + x Wᵀ from x (N, K) and rows of W (O, K)."""
    return _multiply_by_columns(x, tl.trans(rows), start, PRECISION, INTERPRETED)


@triton.jit
def _multiply_by_columns(
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


def _cooperative() -> dict[str, bool]:
    """Return the option that starts all programs of a kernel together or none of them, from Triton 3.3 on."""
    from triton.backends.nvidia.compiler import CUDAOptions

    name = "launch_cooperative_grid"
    return {name: True} if name in CUDAOptions.__dataclass_fields__ else {}


COOPERATIVE = {} if INTERPRETED else _cooperative()
