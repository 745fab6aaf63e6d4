"""Kernel 1 of a layer for many rows: RMSNorm, the QKV product, RoPE, and the write into the KV cache."""

import torch
import triton.language as tl

from profiler.ops.triton.common import jit, next_power_of_2
from profiler.ops.triton.fused.stream import load_squares, rstd
from profiler.ops.triton.fused.tiled import Tiling, place, product_pair


@jit
def prefill_norm_qkv_rope_gemm_kernel(
    x_desc: tl.tensor, w_desc: tl.tensor, squares_ptr: tl.tensor, bias_ptr: tl.tensor, rope_ptr: tl.tensor,
    positions_ptr: tl.tensor, q_ptr: tl.tensor, k_ptr: tl.tensor, v_ptr: tl.tensor,
    cache_b: tl.tensor, cache_h: tl.tensor, M: tl.tensor, T: tl.tensor, eps: tl.tensor,
    K: tl.constexpr, HEADS: tl.constexpr, KV_HEADS: tl.constexpr, D: tl.constexpr, PARTS: tl.constexpr,
    PAD_PARTS: tl.constexpr, HAS_BIAS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr,
    GROUP_M: tl.constexpr,
) -> None:  # fmt: skip
    """One program: BLOCK_N pairs of columns of one head (i and i + D / 2), BLOCK_M of the B * T rows."""
    A_HEAD: tl.constexpr = D // 2 // BLOCK_N
    tile_m, tile_n = place(tl.cdiv(M, BLOCK_M), (HEADS + 2 * KV_HEADS) * A_HEAD, GROUP_M)
    head = tile_n // A_HEAD
    first = head * D + tile_n % A_HEAD * BLOCK_N
    a, b = product_pair(
        x_desc, w_desc, tile_m * BLOCK_M, first, first + D // 2, K, BLOCK_M, BLOCK_N, BLOCK_K, STAGES
    )
    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    inside = rows < M
    first_row = tile_m * BLOCK_M
    squares = load_squares(squares_ptr + first_row, M, 1, M - first_row, PARTS, PAD_PARTS, BLOCK_M)
    scale = rstd(squares, eps, K)[:, None]
    a, b = a * scale, b * scale
    pairs = tile_n % A_HEAD * BLOCK_N + tl.arange(0, BLOCK_N)
    if HAS_BIAS:
        a += tl.load(bias_ptr + head * D + pairs).to(tl.float32)[None, :]
        b += tl.load(bias_ptr + head * D + D // 2 + pairs).to(tl.float32)[None, :]
    positions = tl.load(positions_ptr + rows % T, mask=inside, other=0)
    if head < HEADS + KV_HEADS:
        angle = rope_ptr + positions[:, None] * D + pairs[None, :]
        cos = tl.load(angle).to(tl.float32)
        sin = tl.load(angle + D // 2).to(tl.float32)
        a, b = a * cos - b * sin, b * cos + a * sin
    wide = rows.to(tl.int64)
    here = (wide // T * cache_b + positions * D)[:, None] + pairs[None, :]
    if head < HEADS:
        ptrs = q_ptr + ((wide * HEADS + head) * D)[:, None] + pairs[None, :]
    elif head < HEADS + KV_HEADS:
        ptrs = k_ptr + (head - HEADS) * cache_h + here
    else:
        ptrs = v_ptr + (head - HEADS - KV_HEADS) * cache_h + here
    tl.store(ptrs, a.to(q_ptr.dtype.element_ty), mask=inside[:, None])
    tl.store(ptrs + D // 2, b.to(q_ptr.dtype.element_ty), mask=inside[:, None])


def launch(
    x: torch.Tensor, squares: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None,
    rope: torch.Tensor, positions: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor,
    q: torch.Tensor, eps: float, tiling: Tiling,
) -> None:  # fmt: skip
    """Fill q[B * T, H, D] and the caches [B, Hkv, L, D] at `positions`[T] from x[B * T, K]."""
    (m, k), (parts, _), d = x.shape, squares.shape, q.shape[-1]
    heads, kv_heads = q.shape[1], k_cache.shape[1]
    columns = (heads + 2 * kv_heads) * d // 2
    prefill_norm_qkv_rope_gemm_kernel[(tiling.programs(m, columns),)](
        *tiling.descriptors(x, weight), squares, bias, rope, positions, q, k_cache, v_cache,
        k_cache.stride(0), k_cache.stride(1), m, positions.shape[0], eps,
        K=k, HEADS=heads, KV_HEADS=kv_heads, D=d, PARTS=parts, PAD_PARTS=next_power_of_2(parts),
        HAS_BIAS=bias is not None, **tiling.constants(),
    )  # fmt: skip
