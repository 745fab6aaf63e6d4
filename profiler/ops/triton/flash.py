"""Causal attention as the published CUDA-free study ran it: FlashAttention-2 in Triton, one kernel.

Source: "CUDA-Free Inference for LLMs" (PyTorch blog, 2024), which wraps AMD's Triton kernel in a custom op;
the algorithm is FlashAttention-2 (arXiv 2307.08691). As there, one program holds a tile of queries of one
head and walks all keys: first tiles that every query sees in full, without a mask, then the rest with one.
A decode step is the same kernel with a tile of 16 queries of which one is real. Keys are not split over
programs and query heads not packed, so decode keeps few SMs busy; `attention.py` does both.

How many keys are visible is read on the device: one captured CUDA graph serves every length.
"""

import math

import torch
import triton.language as tl

from profiler.ops.triton.attention import attention_reference, check_attention
from profiler.ops.triton.common import LOG2_E, cdiv, custom_op, interpretable, jit

flash_attention_reference = attention_reference


@jit
def flash_step(
    q: tl.tensor, k_ptrs: tl.tensor, v_ptrs: tl.tensor, keys: tl.tensor, visible_to: tl.tensor,
    m: tl.tensor, norm: tl.tensor, acc: tl.tensor, scale: tl.tensor, end: tl.tensor, MASKED: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Fold one tile of keys into (running maximum m, running sum norm, acc); scores are in units of log2."""
    if MASKED:  # beyond `end` the cache is unwritten, and 0 * NaN would be NaN
        k = tl.load(k_ptrs, mask=(keys < end)[None, :], other=0.0)
        v = tl.load(v_ptrs, mask=(keys < end)[:, None], other=0.0)
    else:
        k = tl.load(k_ptrs)
        v = tl.load(v_ptrs)
    scores = tl.dot(q, k, input_precision="ieee") * scale
    if MASKED:
        scores = tl.where(keys[None, :] <= visible_to[:, None], scores, float("-inf"))
    m_new = tl.maximum(m, tl.max(scores, axis=1))
    p = tl.exp2(scores - m_new[:, None])
    alpha = tl.exp2(m - m_new)
    norm = norm * alpha + tl.sum(p, axis=1)
    acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")
    return m_new, norm, acc


@jit
def flash_attention_kernel(
    q_ptr: tl.tensor, k_ptr: tl.tensor, v_ptr: tl.tensor, positions_ptr: tl.tensor, out_ptr: tl.tensor,
    q_b: tl.tensor, q_h: tl.tensor, q_t: tl.tensor, k_b: tl.tensor, k_h: tl.tensor, k_l: tl.tensor,
    v_b: tl.tensor, v_h: tl.tensor, v_l: tl.tensor, T: tl.tensor, L: tl.tensor, scale: tl.tensor,
    HEADS: tl.constexpr, GROUP: tl.constexpr, D: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_L: tl.constexpr,
) -> None:  # fmt: skip
    """Program (b*HEADS + h, t): BLOCK_T queries of one head. out is [B, T, H, D]."""
    b = (tl.program_id(0) // HEADS).to(tl.int64)
    h = tl.program_id(0) % HEADS
    # later queries see more keys: start the longest programs first
    rows = (tl.num_programs(1) - 1 - tl.program_id(1)) * BLOCK_T + tl.arange(0, BLOCK_T)
    inside = rows < T
    # a row past T repeats the last query, so that it changes neither the first nor the last visible key
    visible_to = tl.load(positions_ptr + tl.minimum(rows, T - 1)).to(tl.int32)
    end = tl.minimum(tl.max(visible_to, axis=0) + 1, L)
    full = tl.minimum(tl.min(visible_to, axis=0) + 1, L) // BLOCK_L * BLOCK_L
    d = tl.arange(0, D)
    q = tl.load(q_ptr + b * q_b + h * q_h + rows[:, None] * q_t + d[None, :], mask=inside[:, None], other=0.0)
    k_base = k_ptr + b * k_b + h // GROUP * k_h + d[:, None]
    v_base = v_ptr + b * v_b + h // GROUP * v_h + d[None, :]
    m = tl.full((BLOCK_T,), float("-inf"), dtype=tl.float32)
    norm = tl.zeros((BLOCK_T,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_T, D), dtype=tl.float32)
    for start in range(0, full, BLOCK_L):
        keys = start + tl.arange(0, BLOCK_L)
        k_ptrs, v_ptrs = k_base + keys[None, :] * k_l, v_base + keys[:, None] * v_l
        m, norm, acc = flash_step(q, k_ptrs, v_ptrs, keys, visible_to, m, norm, acc, scale, end, False)
    for start in range(full, end, BLOCK_L):
        keys = start + tl.arange(0, BLOCK_L)
        k_ptrs, v_ptrs = k_base + keys[None, :] * k_l, v_base + keys[:, None] * v_l
        m, norm, acc = flash_step(q, k_ptrs, v_ptrs, keys, visible_to, m, norm, acc, scale, end, True)
    out_ptrs = out_ptr + ((b * T + rows[:, None]) * HEADS + h) * D + d[None, :]
    tl.store(out_ptrs, (acc / norm[:, None]).to(out_ptr.dtype.element_ty), mask=inside[:, None])


def tiles(tokens: int, itemsize: int) -> tuple[int, int, int, int]:
    """Queries and keys of a tile, warps, stages: 128x64 for a prompt, 16x64 for one query (fp32: 32 keys)."""
    if tokens == 1:
        return (16, 32, 4, 2) if itemsize == 4 else (16, 64, 4, 3)
    return (32, 32, 4, 2) if itemsize == 4 else (128, 64, 8, 3)


@custom_op("flash_attention")
def flash_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor
) -> torch.Tensor:
    """Attention where query i sees the keys j <= positions[i]; scale D**-0.5, softmax in fp32.

    q[B, H, T, D], k and v[B, Hkv, L, D], fp16, bf16 or fp32, any strides with D contiguous; positions[T]
    int64 in [0, L), on the same device -> [B, H, T, D] of q's dtype, laid out as [B, T, H, D]. Query head h
    uses KV head h // (H/Hkv). Cache entries beyond the largest position are never used.

    Raises:
        UsageError: unsupported or mixed dtypes, shapes that do not fit, a head size not in 16, 32, 64, 128.
    """
    check_attention(q, k, v, positions)
    dtype = q.dtype
    q, k, v = interpretable(*(t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v)))
    (b, h, t, d), (kv_heads, length) = q.shape, k.shape[1:3]
    out = q.new_empty(b, t, h, d)
    if out.numel():
        block_t, block_l, warps, stages = tiles(t, q.element_size())
        flash_attention_kernel[(b * h, cdiv(t, block_t))](
            q, k, v, positions.contiguous(), out, *q.stride()[:3], *k.stride()[:3], *v.stride()[:3],
            t, length, LOG2_E / math.sqrt(d), HEADS=h, GROUP=h // kv_heads, D=d,
            BLOCK_T=block_t, BLOCK_L=block_l, num_warps=warps, num_stages=stages,
        )  # fmt: skip
    return out.transpose(1, 2).to(dtype)


@flash_attention.register_fake
def _(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    b, h, t, d = q.shape
    return q.new_empty(b, t, h, d).transpose(1, 2)
