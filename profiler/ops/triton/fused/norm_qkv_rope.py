"""Kernel 1 of a layer: RMSNorm, the QKV product, RoPE, and the write into the KV cache.

A few rows (decode) run here, many (prefill) in `prefill_qkv_rope`.
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
from profiler.ops.triton.fused import prefill_qkv_rope
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
def norm_qkv_rope_gemm_kernel(
    x_ptr: tl.tensor, squares_ptr: tl.tensor, w_ptr: tl.tensor, bias_ptr: tl.tensor, rope_ptr: tl.tensor,
    position_ptr: tl.tensor, q_ptr: tl.tensor, k_ptr: tl.tensor, v_ptr: tl.tensor,
    cache_b: tl.tensor, cache_h: tl.tensor, M: tl.tensor, eps: tl.tensor,
    K: tl.constexpr, HEADS: tl.constexpr, KV_HEADS: tl.constexpr, D: tl.constexpr,
    PARTS: tl.constexpr, PAD_PARTS: tl.constexpr, HAS_BIAS: tl.constexpr,
    PAD_M: tl.constexpr, PARTS_K: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr, ahead_ptr: tl.tensor, LINES: tl.constexpr, ROW: tl.constexpr, COLUMNS: tl.constexpr,
    SECOND: tl.constexpr, LINE: tl.constexpr, PDL: tl.constexpr,
) -> None:  # fmt: skip
    """One program: BLOCK_N / 2 pairs of rows of one head, that RoPE turns: row i and row i + D / 2."""
    PAIRS: tl.constexpr = BLOCK_N // 2
    head = tl.program_id(0) // (D // BLOCK_N)
    first = tl.program_id(0) % (D // BLOCK_N) * PAIRS
    if HAS_BIAS:
        n = tl.arange(0, BLOCK_N)
        bias = tl.load(bias_ptr + head * D + first + n // 2 + n % 2 * (D // 2))
    n = tl.arange(0, BLOCK_N * PARTS_K) // PARTS_K
    wait(PDL)
    position = tl.load(position_ptr)
    squares = load_squares(squares_ptr, M, 1, M, PARTS, PAD_PARTS, PAD_M)
    w_rows = head * D + first + n // 2 + n % 2 * (D // 2)
    acc = product(x_ptr, K, M, w_ptr, w_rows, K, PAD_M, PARTS_K, BLOCK_N, BLOCK_K, STAGES)
    leave(ahead_ptr, LINES, ROW, COLUMNS, SECOND, LINE, PDL)
    out = summed(acc, BLOCK_N, PAD_M, PARTS_K) * rstd(squares, eps, K)[None, :]
    if HAS_BIAS:
        out += bias.to(tl.float32)[:, None]
    a, b = tl.split(tl.permute(tl.reshape(out, (PAIRS, 2, PAD_M)), (0, 2, 1)))
    pairs = first + tl.arange(0, PAIRS)
    if head < HEADS + KV_HEADS:
        cos = tl.load(rope_ptr + position * D + pairs).to(tl.float32)[:, None]
        sin = tl.load(rope_ptr + position * D + D // 2 + pairs).to(tl.float32)[:, None]
        a, b = a * cos - b * sin, b * cos + a * sin
    rows = tl.arange(0, PAD_M).to(tl.int64)
    here = rows[None, :] * cache_b + position * D + pairs[:, None]
    if head < HEADS:
        ptrs = q_ptr + (rows * HEADS + head)[None, :] * D + pairs[:, None]
    elif head < HEADS + KV_HEADS:
        ptrs = k_ptr + (head - HEADS) * cache_h + here
    else:
        ptrs = v_ptr + (head - HEADS - KV_HEADS) * cache_h + here
    tl.store(ptrs, a.to(q_ptr.dtype.element_ty), mask=(rows < M)[None, :])
    tl.store(ptrs + D // 2, b.to(q_ptr.dtype.element_ty), mask=(rows < M)[None, :])


def launch(
    x: torch.Tensor, squares: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None,
    rope: torch.Tensor, position: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor,
    q: torch.Tensor, eps: float, tile: Tile, ahead: Ahead | None = None, *, pdl: bool = True,
) -> None:  # fmt: skip
    """Fill q[M, H, D] and one position of the caches."""
    (m, k), (parts, _), d = x.shape, squares.shape, q.shape[-1]
    heads, kv_heads = q.shape[1], k_cache.shape[1]
    programs = (heads + 2 * kv_heads) * (d // tile.block_n)
    norm_qkv_rope_gemm_kernel[(programs,)](
        x, squares, weight, bias, rope, position, q, k_cache, v_cache,
        k_cache.stride(0), k_cache.stride(1), m, eps,
        K=k, HEADS=heads, KV_HEADS=kv_heads, D=d, PARTS=parts, PAD_PARTS=next_power_of_2(parts),
        HAS_BIAS=bias is not None, **tile.constants(x), **follow(x, programs, ahead, pdl=pdl),
    )  # fmt: skip


def norm_qkv_rope_reference(
    x: torch.Tensor, squares: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None,
    rope: torch.Tensor, positions: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor,
    heads: int, eps: float,
) -> torch.Tensor:  # fmt: skip
    """The same in plain PyTorch, fp32 but for what is stored; fills the caches as well."""
    (batch, kv_heads, _, d), tokens = k_cache.shape, positions.shape[0]
    out = normed_reference(x, squares, eps) @ weight.float().T
    out = out if bias is None else out + bias.float()
    out = out.view(batch, tokens, -1, d)
    q, k, v = out[:, :, :heads], out[:, :, heads:-kv_heads], out[:, :, -kv_heads:]
    cos, sin = rope[positions].float()[:, None].chunk(2, dim=-1)
    turned = []
    for part in (q, k):
        a, b = part.chunk(2, dim=-1)
        turned.append(torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype))
    k_cache[:, :, positions] = turned[1].transpose(1, 2)
    v_cache[:, :, positions] = v.to(x.dtype).transpose(1, 2)
    return turned[0].reshape(batch * tokens, heads, d)


@custom_op("norm_qkv_rope", mutates=("k_cache", "v_cache"))
def norm_qkv_rope(
    x: torch.Tensor, squares: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None,
    rope: torch.Tensor, positions: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor,
    heads: int, eps: float, pdl: bool,
) -> torch.Tensor:  # fmt: skip
    """Queries of B sequences at T new positions, and their keys and values in the caches.

    x[B * T, E] and squares[P, B * T] of a `Stream`; weight[(H + 2 Hkv) * D, E] = q | k | v heads, bias[same];
    rope[L, D] = cos | sin; positions[T] int64; caches [B, Hkv, L, D], in place -> q [B * T, H, D]. Sums,
    norm and RoPE are in fp32, everything stored in x's dtype (fp16, bf16, fp32). `pdl`: see `stream`.

    Raises:
        UsageError: unsupported or mixed dtypes, or shapes that do not fit.
    """
    check_inputs("norm_qkv_rope", x, weight, rope, k_cache, v_cache)
    (batch, kv_heads, _, d), tokens = k_cache.shape, positions.shape[0]
    fits = x.shape == (batch * tokens, weight.shape[1]) and weight.shape[0] == (heads + 2 * kv_heads) * d
    found = f"x {list(x.shape)}, weight {list(weight.shape)}, cache {list(k_cache.shape)}, {tokens} positions"
    check_shape("norm_qkv_rope", fits, f"{found} do not fit {heads} query heads")
    q = x.new_empty(batch * tokens, heads, d)
    x, weight = interpretable(x, weight)
    if tokens == 1 and batch <= DECODE_ROWS:
        tile = decode_tile("qkv", x, d)
        launch(x, squares, weight, bias, rope, positions, k_cache, v_cache, q, eps, tile, pdl=pdl)
    else:
        tiling = prefill_tiling("qkv", x, d // 2)
        prefill_qkv_rope.launch(x, squares, weight, bias, rope, positions, k_cache, v_cache, q, eps, tiling)
    return q


@norm_qkv_rope.register_fake
def _(
    x: torch.Tensor, squares: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None,
    rope: torch.Tensor, positions: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor,
    heads: int, eps: float, pdl: bool,
) -> torch.Tensor:  # fmt: skip
    return x.new_empty(x.shape[0], heads, k_cache.shape[-1])
