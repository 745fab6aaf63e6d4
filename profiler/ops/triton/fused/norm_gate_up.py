"""Kernel 4 of a layer: RMSNorm, the products with gate and up, and SwiGLU.

A few rows (decode) run here, many (prefill) in `prefill_gate_up`.
"""

import torch
import triton.language as tl

from profiler.ops.triton.common import (
    check_inputs,
    check_shape,
    custom_op,
    interpretable,
    jit,
    next_power_of_2,
)
from profiler.ops.triton.fused import prefill_gate_up
from profiler.ops.triton.fused.launch import Ahead, Tile, follow
from profiler.ops.triton.fused.stream import (
    leave,
    load_squares,
    normed_reference,
    product,
    rstd,
    summed,
    wait,
)
from profiler.ops.triton.fused.tiles import DECODE_ROWS, decode_tile, prefill_tiling


@jit
def norm_gate_up_silu_gemm_kernel(
    x_ptr: tl.tensor, squares_ptr: tl.tensor, w_ptr: tl.tensor, bias_ptr: tl.tensor, out_ptr: tl.tensor,
    M: tl.tensor, eps: tl.tensor, F: tl.constexpr, K: tl.constexpr,
    PARTS: tl.constexpr, PAD_PARTS: tl.constexpr, HAS_BIAS: tl.constexpr,
    PAD_M: tl.constexpr, PARTS_K: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr, ahead_ptr: tl.tensor, LINES: tl.constexpr, ROW: tl.constexpr, COLUMNS: tl.constexpr,
    SECOND: tl.constexpr, LINE: tl.constexpr, PDL: tl.constexpr,
) -> None:  # fmt: skip
    """One program: BLOCK_N / 2 columns of silu(gate) * up; the rows of gate and up alternate in its tile."""
    WIDTH: tl.constexpr = BLOCK_N // 2
    first = tl.program_id(0) * WIDTH
    n = tl.arange(0, BLOCK_N * PARTS_K) // PARTS_K
    wait(PDL)
    squares = load_squares(squares_ptr, M, 1, M, PARTS, PAD_PARTS, PAD_M)
    w_rows = first + n // 2 + n % 2 * F
    acc = product(x_ptr, K, M, w_ptr, w_rows, K, PAD_M, PARTS_K, BLOCK_N, BLOCK_K, STAGES)
    leave(ahead_ptr, LINES, ROW, COLUMNS, SECOND, LINE, PDL)
    both = summed(acc, BLOCK_N, PAD_M, PARTS_K) * rstd(squares, eps, K)[None, :]
    if HAS_BIAS:
        n = tl.arange(0, BLOCK_N)
        both += tl.load(bias_ptr + first + n // 2 + n % 2 * F).to(tl.float32)[:, None]
    gate, up = tl.split(tl.permute(tl.reshape(both, (WIDTH, 2, PAD_M)), (0, 2, 1)))
    out = gate / (1.0 + tl.exp(-gate)) * up
    rows = tl.arange(0, PAD_M)
    here = rows[None, :] * F + first + tl.arange(0, WIDTH)[:, None]
    tl.store(out_ptr + here, out.to(out_ptr.dtype.element_ty), mask=(rows < M)[None, :])


def launch(
    x: torch.Tensor, squares: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, eps: float,
    tile: Tile, ahead: Ahead | None = None, *, pdl: bool = True,
) -> torch.Tensor:  # fmt: skip
    """x[M, K] (scaled), squares[P, M], weight[2F, K] = gate | up: [M, F]."""
    (m, k), (parts, _), f = x.shape, squares.shape, weight.shape[0] // 2
    out = x.new_empty(m, f)
    programs = 2 * f // tile.block_n
    norm_gate_up_silu_gemm_kernel[(programs,)](
        x, squares, weight, bias, out, m, eps,
        F=f, K=k, PARTS=parts, PAD_PARTS=next_power_of_2(parts), HAS_BIAS=bias is not None,
        **tile.constants(x), **follow(x, programs, ahead, pdl=pdl),
    )  # fmt: skip
    return out


def norm_gate_up_silu_reference(
    x: torch.Tensor, squares: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, eps: float
) -> torch.Tensor:
    """The same in plain PyTorch: fp32, rounded once to x's dtype."""
    both = normed_reference(x, squares, eps) @ weight.float().T
    gate, up = (both if bias is None else both + bias.float()).chunk(2, dim=-1)
    return (torch.nn.functional.silu(gate) * up).to(x.dtype)


@custom_op("norm_gate_up_silu")
def norm_gate_up_silu(
    x: torch.Tensor, squares: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, eps: float,
    pdl: bool,
) -> torch.Tensor:  # fmt: skip
    """silu(gate) * up of the normed rows.

    x[M, E] and squares[P, M] of a `Stream`, weight[2F, E] = gate | up, bias[2F], fp16, bf16 or fp32; sums,
    norm and SwiGLU in fp32 -> [M, F]. `pdl`: see `stream`.

    Raises:
        UsageError: unsupported or mixed dtypes, or shapes that do not fit.
    """
    check_inputs("norm_gate_up_silu", x, weight)
    fits = x.shape[1] == weight.shape[1] and weight.shape[0] % 16 == 0
    found = f"x {list(x.shape)}, weight {list(weight.shape)}"
    check_shape("norm_gate_up_silu", fits, f"{found} do not fit; use [M, E], [2F, E], F a multiple of 8")
    dtype = x.dtype
    x, weight = interpretable(x, weight)
    if x.shape[0] <= DECODE_ROWS:
        out = launch(x, squares, weight, bias, eps, decode_tile("gate_up", x, 16), pdl=pdl)
    else:
        tiling = prefill_tiling("gate_up", x, 128)
        out = prefill_gate_up.launch(x, squares, weight, bias, eps, tiling)
    return out.to(dtype)


@norm_gate_up_silu.register_fake
def _(
    x: torch.Tensor, squares: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, eps: float,
    pdl: bool,
) -> torch.Tensor:  # fmt: skip
    return x.new_empty(x.shape[0], weight.shape[0] // 2)
