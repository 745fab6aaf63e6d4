"""Kernels 3 and 5 of a layer for many rows: a product, its bias, the residual; leaves the next `Stream`."""

import torch
import triton.language as tl

from profiler.ops.triton.common import cdiv, jit
from profiler.ops.triton.fused.stream import Stream
from profiler.ops.triton.fused.tiled import Tiling, place, product


@jit
def prefill_linear_add_gemm_kernel(
    x_desc: tl.tensor, w_desc: tl.tensor, bias_ptr: tl.tensor, residual_ptr: tl.tensor, gamma_ptr: tl.tensor,
    out_ptr: tl.tensor, scaled_ptr: tl.tensor, squares_ptr: tl.tensor, M: tl.tensor,
    N: tl.constexpr, K: tl.constexpr, HAS_BIAS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr,
    GROUP_M: tl.constexpr,
) -> None:  # fmt: skip
    """One program, a tile of residual + x W^T + bias."""
    tile_m, tile_n = place(tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP_M)
    out = product(x_desc, w_desc, tile_m * BLOCK_M, tile_n * BLOCK_N, K, BLOCK_M, BLOCK_N, BLOCK_K, STAGES)
    rows, n = tile_m * BLOCK_M + tl.arange(0, BLOCK_M), tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    here = rows[:, None] * N + n[None, :]
    inside = (rows < M)[:, None] & (n < N)[None, :]
    out += tl.load(residual_ptr + here, mask=inside, other=0.0).to(tl.float32)
    if HAS_BIAS:
        out += tl.load(bias_ptr + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    stored = out.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + here, stored, mask=inside)
    wide = stored.to(tl.float32)  # the next norm is that of the numbers that were stored
    scaled = wide * tl.load(gamma_ptr + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    tl.store(scaled_ptr + here, scaled.to(out_ptr.dtype.element_ty), mask=inside)
    squares = tl.sum(wide * wide, axis=1)  # columns past N are zero
    tl.store(squares_ptr + tile_n * M + rows, squares, mask=rows < M)


def launch(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor,
    gamma: torch.Tensor, tiling: Tiling,
) -> Stream:  # fmt: skip
    """x[M, K], weight[N, K], residual[M, N], the next norm's gamma[N]: the next stream of M rows."""
    (m, k), n = x.shape, weight.shape[0]
    out, scaled = torch.empty_like(residual), torch.empty_like(residual)
    squares = residual.new_empty(cdiv(n, tiling.block_n), m, dtype=torch.float32)
    prefill_linear_add_gemm_kernel[(tiling.programs(m, n),)](
        *tiling.descriptors(x, weight), bias, residual, gamma, out, scaled, squares, m,
        N=n, K=k, HAS_BIAS=bias is not None, **tiling.constants(),
    )  # fmt: skip
    return Stream(out, scaled, squares)
