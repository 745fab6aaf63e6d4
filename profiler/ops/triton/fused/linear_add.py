"""Kernels 3 and 5 of a layer: a product, its bias and the residual; leaves the next `Stream`.

A few rows (decode) run here, many (prefill) in `prefill_linear_add`.
"""

import torch
import triton.language as tl

from profiler.ops.triton.common import cdiv, check_inputs, check_shape, custom_op, interpretable, jit
from profiler.ops.triton.fused import prefill_linear_add
from profiler.ops.triton.fused.launch import Ahead, Tile, follow
from profiler.ops.triton.fused.stream import Stream, leave, product, stream_reference, summed, wait
from profiler.ops.triton.fused.tiles import DECODE_ROWS, decode_tile, prefill_tiling


@jit
def linear_add_gemm_kernel(
    x_ptr: tl.tensor, w_ptr: tl.tensor, bias_ptr: tl.tensor, residual_ptr: tl.tensor, gamma_ptr: tl.tensor,
    out_ptr: tl.tensor, scaled_ptr: tl.tensor, squares_ptr: tl.tensor, M: tl.tensor,
    N: tl.constexpr, K: tl.constexpr, HAS_BIAS: tl.constexpr,
    PAD_M: tl.constexpr, PARTS_K: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr, ahead_ptr: tl.tensor, LINES: tl.constexpr, ROW: tl.constexpr, COLUMNS: tl.constexpr,
    SECOND: tl.constexpr, LINE: tl.constexpr, PDL: tl.constexpr,
) -> None:  # fmt: skip
    """One program, BLOCK_N columns of residual + x W^T + bias."""
    first = tl.program_id(0) * BLOCK_N
    n, rows = first + tl.arange(0, BLOCK_N), tl.arange(0, PAD_M)
    here = rows[None, :] * N + n[:, None]
    inside = (rows < M)[None, :]
    gamma = tl.load(gamma_ptr + n)
    wait(PDL)
    residual = tl.load(residual_ptr + here, mask=inside, other=0.0)  # asked for now, used after the product
    w_rows = first + tl.arange(0, BLOCK_N * PARTS_K) // PARTS_K
    acc = product(x_ptr, K, M, w_ptr, w_rows, K, PAD_M, PARTS_K, BLOCK_N, BLOCK_K, STAGES)
    leave(ahead_ptr, LINES, ROW, COLUMNS, SECOND, LINE, PDL)
    out = summed(acc, BLOCK_N, PAD_M, PARTS_K) + residual.to(tl.float32)
    if HAS_BIAS:
        out += tl.load(bias_ptr + n).to(tl.float32)[:, None]
    stored = out.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + here, stored, mask=inside)
    wide = stored.to(tl.float32)  # the next norm is that of the numbers that were stored
    scaled = wide * gamma.to(tl.float32)[:, None]
    tl.store(scaled_ptr + here, scaled.to(out_ptr.dtype.element_ty), mask=inside)
    tl.store(squares_ptr + tl.program_id(0) * M + rows, tl.sum(wide * wide, axis=0), mask=rows < M)


def launch(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor,
    gamma: torch.Tensor, tile: Tile, ahead: Ahead | None = None, *, pdl: bool = True,
) -> Stream:  # fmt: skip
    """x[M, K], weight[N, K], residual[M, N], the next norm's gamma[N]: the next stream of M rows."""
    (m, k), n = x.shape, weight.shape[0]
    out, scaled = torch.empty_like(residual), torch.empty_like(residual)
    programs = n // tile.block_n
    squares = residual.new_empty(programs, m, dtype=torch.float32)
    linear_add_gemm_kernel[(programs,)](
        x, weight, bias, residual, gamma, out, scaled, squares, m,
        N=n, K=k, HAS_BIAS=bias is not None, **tile.constants(x), **follow(x, programs, ahead, pdl=pdl),
    )  # fmt: skip
    return Stream(out, scaled, squares)


def linear_add_reference(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor,
    gamma: torch.Tensor, parts: int = 1,
) -> Stream:  # fmt: skip
    """The same in plain PyTorch: fp32, rounded once to x's dtype."""
    out = residual.float() + x.float() @ weight.float().T
    out = out if bias is None else out + bias.float()
    return stream_reference(out.to(x.dtype), gamma, parts)


def _tile(x: torch.Tensor, n: int) -> Tile:
    """The tile for a few rows x[M, K] and N columns, which it divides."""
    return decode_tile("short" if x.shape[1] < 8192 else "long", x, 32 if n % 32 == 0 else 16)


@custom_op("linear_add")
def linear_add(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor,
    gamma: torch.Tensor, ahead: torch.Tensor | None, second: int, pdl: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """residual + x W^T + bias, as the next norm wants it: the three tensors of a `Stream`.

    x[M, K], weight[N, K], bias[N], residual[M, N], the next norm's weight gamma[N], all fp16, bf16 or fp32;
    sums in fp32 -> x [M, N], scaled [M, N], squares fp32 [P, M]. `ahead` is the next kernel's weight, whose
    first lines are asked for on the way out, `second` and `pdl`: see `launch.Ahead` and `stream`.

    Raises:
        UsageError: unsupported or mixed dtypes, or shapes that do not fit.
    """
    check_inputs("linear_add", x, weight, residual, gamma)
    (m, k), n = x.shape, weight.shape[0]
    fits = weight.shape[1] == k and residual.shape == (m, n) and n % 16 == 0
    found = f"x {list(x.shape)}, weight {list(weight.shape)}, residual {list(residual.shape)}"
    check_shape("linear_add", fits, f"{found} do not fit; use [M, K], [N, K], [M, N], N a multiple of 16")
    check_shape("linear_add", m * n < 2**31, f"{m} x {n} results are too many; run fewer rows at once")
    x, weight = interpretable(x, weight)
    if m <= DECODE_ROWS:
        tile = _tile(x, n)
        next_ = None if ahead is None else Ahead(ahead, min(4096, ahead.shape[0]), 256, second)
        out, scaled, squares = launch(x, weight, bias, residual, gamma, tile, next_, pdl=pdl)
        return out, scaled, squares
    tiling = prefill_tiling("add", x, 256)
    out, scaled, squares = prefill_linear_add.launch(x, weight, bias, residual, gamma, tiling)
    return out, scaled, squares


@linear_add.register_fake
def _(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor,
    gamma: torch.Tensor, ahead: torch.Tensor | None, second: int, pdl: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    m, n = x.shape[0], weight.shape[0]
    tile = _tile(x, n) if m <= DECODE_ROWS else prefill_tiling("add", x, 256)
    squares = residual.new_empty(cdiv(n, tile.block_n), m, dtype=torch.float32)
    return torch.empty_like(residual), torch.empty_like(residual), squares
