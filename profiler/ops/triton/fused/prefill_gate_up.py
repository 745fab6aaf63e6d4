"""Kernel 4 of a layer for many rows: RMSNorm, the products with gate and up, and SwiGLU."""

import torch
import triton.language as tl

from profiler.ops.triton.common import jit, next_power_of_2
from profiler.ops.triton.fused.stream import load_squares, rstd
from profiler.ops.triton.fused.tiled import Tiling, place, product_pair


@jit
def prefill_norm_gate_up_silu_gemm_kernel(
    x_desc: tl.tensor, w_desc: tl.tensor, squares_ptr: tl.tensor, bias_ptr: tl.tensor, out_ptr: tl.tensor,
    M: tl.tensor, eps: tl.tensor, F: tl.constexpr, K: tl.constexpr, PARTS: tl.constexpr,
    PAD_PARTS: tl.constexpr, HAS_BIAS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr,
    GROUP_M: tl.constexpr,
) -> None:  # fmt: skip
    """One program, a tile of silu(gate) * up."""
    tile_m, tile_n = place(tl.cdiv(M, BLOCK_M), tl.cdiv(F, BLOCK_N), GROUP_M)
    first = tile_n * BLOCK_N
    gate, up = product_pair(
        x_desc, w_desc, tile_m * BLOCK_M, first, F + first, K, BLOCK_M, BLOCK_N, BLOCK_K, STAGES
    )
    rows, n = tile_m * BLOCK_M + tl.arange(0, BLOCK_M), first + tl.arange(0, BLOCK_N)
    first_row = tile_m * BLOCK_M
    squares = load_squares(squares_ptr + first_row, M, 1, M - first_row, PARTS, PAD_PARTS, BLOCK_M)
    scale = rstd(squares, eps, K)[:, None]
    gate, up = gate * scale, up * scale
    if HAS_BIAS:
        gate += tl.load(bias_ptr + n, mask=n < F, other=0.0).to(tl.float32)[None, :]
        up += tl.load(bias_ptr + F + n, mask=n < F, other=0.0).to(tl.float32)[None, :]
    out = gate / (1.0 + tl.exp(-gate)) * up
    here = rows.to(tl.int64)[:, None] * F + n[None, :]
    tl.store(out_ptr + here, out.to(out_ptr.dtype.element_ty), mask=(rows < M)[:, None] & (n < F)[None, :])


def launch(
    x: torch.Tensor, squares: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, eps: float,
    tiling: Tiling,
) -> torch.Tensor:  # fmt: skip
    """x[M, K] (scaled), squares[P, M], weight[2F, K] = gate | up: [M, F]."""
    (m, k), (parts, _), f = x.shape, squares.shape, weight.shape[0] // 2
    out = x.new_empty(m, f)
    prefill_norm_gate_up_silu_gemm_kernel[(tiling.programs(m, f),)](
        *tiling.descriptors(x, weight), squares, bias, out, m, eps,
        F=f, K=k, PARTS=parts, PAD_PARTS=next_power_of_2(parts), HAS_BIAS=bias is not None,
        **tiling.constants(),
    )  # fmt: skip
    return out
