"""Causal attention over a KV cache, grouped query heads, online softmax in fp32.

Prefill is FlashAttention-2 (Dao 2023, arXiv 2307.08691): one program holds a tile of queries and walks
the keys. Decode (one query) packs all query heads of a KV head into one tile, so that the cache is read once,
and splits the keys over programs; a second kernel merges the parts (Flash-Decoding, Dao et al. 2023). Both
stop at the largest visible position, which they read on the device: one captured CUDA graph serves every
length.
"""

import math

import torch
import triton.language as tl

from profiler.ops.triton.common import (
    LOG2_E,
    SM_COUNT,
    cdiv,
    check_inputs,
    check_shape,
    custom_op,
    interpretable,
    jit,
    next_power_of_2,
)

HEAD_SIZES = (16, 32, 64, 128)
MAX_SPLITS = 32


@jit
def online_softmax_step(
    q: tl.tensor, k_ptrs: tl.tensor, v_ptrs: tl.tensor, keys: tl.tensor, end: tl.tensor,
    visible_to: tl.tensor, m: tl.tensor, norm: tl.tensor, acc: tl.tensor, scale: tl.tensor,
) -> tl.tensor:  # fmt: skip
    """Fold one tile of keys into (running maximum m, running sum norm, acc); scores are in units of log2."""
    # beyond `end` the cache is unwritten: 0 * NaN would be NaN, so V must be masked, not only the scores
    k = tl.load(k_ptrs, mask=(keys < end)[None, :], other=0.0)
    v = tl.load(v_ptrs, mask=(keys < end)[:, None], other=0.0)
    scores = tl.dot(q, k, input_precision="ieee") * scale
    scores = tl.where(keys[None, :] <= visible_to[:, None], scores, float("-inf"))
    m_new = tl.maximum(m, tl.max(scores, axis=1))
    p = tl.exp2(scores - m_new[:, None])
    alpha = tl.exp2(m - m_new)
    norm = norm * alpha + tl.sum(p, axis=1)
    acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")
    return m_new, norm, acc


@jit
def attention_prefill_kernel(
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
    d = tl.arange(0, D)
    inside = rows < T
    visible_to = tl.load(positions_ptr + rows, mask=inside, other=0).to(tl.int32)
    end = tl.minimum(tl.max(visible_to, axis=0) + 1, L)
    q = tl.load(q_ptr + b * q_b + h * q_h + rows[:, None] * q_t + d[None, :], mask=inside[:, None], other=0.0)
    k_base = k_ptr + b * k_b + h // GROUP * k_h + d[:, None]
    v_base = v_ptr + b * v_b + h // GROUP * v_h + d[None, :]
    m = tl.full((BLOCK_T,), float("-inf"), dtype=tl.float32)
    norm = tl.zeros((BLOCK_T,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_T, D), dtype=tl.float32)
    for start in range(0, end, BLOCK_L):
        keys = start + tl.arange(0, BLOCK_L)
        k_ptrs, v_ptrs = k_base + keys[None, :] * k_l, v_base + keys[:, None] * v_l
        m, norm, acc = online_softmax_step(q, k_ptrs, v_ptrs, keys, end, visible_to, m, norm, acc, scale)
    out_ptrs = out_ptr + ((b * T + rows[:, None]) * HEADS + h) * D + d[None, :]
    tl.store(out_ptrs, (acc / norm[:, None]).to(out_ptr.dtype.element_ty), mask=inside[:, None])


@jit
def attention_decode_kernel(
    q_ptr: tl.tensor, k_ptr: tl.tensor, v_ptr: tl.tensor, positions_ptr: tl.tensor,
    m_ptr: tl.tensor, norm_ptr: tl.tensor, acc_ptr: tl.tensor, q_b: tl.tensor, q_h: tl.tensor, k_b: tl.tensor,
    k_h: tl.tensor, k_l: tl.tensor, v_b: tl.tensor, v_h: tl.tensor, v_l: tl.tensor,
    L: tl.tensor, scale: tl.tensor,
    KV_HEADS: tl.constexpr, GROUP: tl.constexpr, PAD: tl.constexpr, D: tl.constexpr,
    SPLITS: tl.constexpr, BLOCK_L: tl.constexpr,
) -> None:  # fmt: skip
    """Program (b*KV_HEADS + kv, s): the s-th part of the keys for the GROUP query heads of one KV head.

    Leaves unmerged parts m[B*H, SPLITS], norm[B*H, SPLITS], acc[B*H, SPLITS, D]; a part without keys has m of
    -inf and no acc.
    """
    b = (tl.program_id(0) // KV_HEADS).to(tl.int64)
    kv = tl.program_id(0) % KV_HEADS
    split = tl.program_id(1)
    position = tl.load(positions_ptr).to(tl.int32)
    end = tl.minimum(position + 1, L)
    chunk = tl.cdiv(tl.cdiv(end, SPLITS), BLOCK_L) * BLOCK_L
    begin = split * chunk
    stop = tl.minimum(begin + chunk, end)
    g = tl.arange(0, PAD)
    d = tl.arange(0, D)
    inside = g < GROUP
    heads = kv * GROUP + g
    q = tl.load(q_ptr + b * q_b + heads[:, None] * q_h + d[None, :], mask=inside[:, None], other=0.0)
    k_base = k_ptr + b * k_b + kv * k_h + d[:, None]
    v_base = v_ptr + b * v_b + kv * v_h + d[None, :]
    visible_to = tl.zeros((PAD,), dtype=tl.int32) + position
    m = tl.full((PAD,), float("-inf"), dtype=tl.float32)
    norm = tl.zeros((PAD,), dtype=tl.float32)
    acc = tl.zeros((PAD, D), dtype=tl.float32)
    for start in range(begin, stop, BLOCK_L):
        keys = start + tl.arange(0, BLOCK_L)
        k_ptrs, v_ptrs = k_base + keys[None, :] * k_l, v_base + keys[:, None] * v_l
        m, norm, acc = online_softmax_step(q, k_ptrs, v_ptrs, keys, end, visible_to, m, norm, acc, scale)
    part = (tl.program_id(0) * GROUP + g) * SPLITS + split
    tl.store(m_ptr + part, m, mask=inside)
    tl.store(norm_ptr + part, norm, mask=inside)
    written = tl.where(inside, begin, stop) < stop
    tl.store(acc_ptr + part[:, None] * D + d[None, :], acc, mask=written[:, None])


@jit
def attention_reduce_kernel(
    m_ptr: tl.tensor,
    norm_ptr: tl.tensor,
    acc_ptr: tl.tensor,
    out_ptr: tl.tensor,
    SPLITS: tl.constexpr,
    D: tl.constexpr,
) -> None:
    """Program b*H + h merges the parts of one query head; out is [B, 1, H, D]."""
    row = tl.program_id(0)
    splits = row * SPLITS + tl.arange(0, SPLITS)
    d = tl.arange(0, D)
    m = tl.load(m_ptr + splits)
    weight = tl.exp2(m - tl.max(m, axis=0))
    norm = tl.sum(weight * tl.load(norm_ptr + splits), axis=0)
    written = (m > float("-inf"))[:, None]
    acc = tl.load(acc_ptr + splits[:, None] * D + d[None, :], mask=written, other=0.0)
    out = tl.sum(acc * weight[:, None], axis=0) / norm
    tl.store(out_ptr + row * D + d, out.to(out_ptr.dtype.element_ty))


def attention_prefill(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor, out: torch.Tensor
) -> None:
    """Fill out[B, T, H, D]. Tiles: 128 queries x 64 keys, 8 warps, 3 stages (fp32: 32 x 32, 4 warps, 2)."""
    (b, h, t, d), (kv_heads, length) = q.shape, k.shape[1:3]
    wide = q.element_size() == 4
    block_t, block_l, warps, stages = (32, 32, 4, 2) if wide else (128, 64, 8, 3)
    attention_prefill_kernel[(b * h, cdiv(t, block_t))](
        q, k, v, positions, out, *q.stride()[:3], *k.stride()[:3], *v.stride()[:3],
        t, length, LOG2_E / math.sqrt(d), HEADS=h, GROUP=h // kv_heads, D=d,
        BLOCK_T=block_t, BLOCK_L=block_l, num_warps=warps, num_stages=stages,
    )  # fmt: skip


def attention_decode(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor, out: torch.Tensor
) -> None:
    """Fill out[B, 1, H, D]. Tiles are max(16, H/Hkv) heads x 64 keys (fp32: 32 keys), 4 warps, 2 stages."""
    (b, h, _, d), (kv_heads, length) = q.shape, k.shape[1:3]
    block_l = 32 if q.element_size() == 4 else 64
    splits = decode_splits(b * kv_heads, cdiv(length, block_l))
    m, norm = q.new_empty(2, b * h, splits, dtype=torch.float32)
    acc = q.new_empty(b * h, splits, d, dtype=torch.float32)
    group = h // kv_heads
    attention_decode_kernel[(b * kv_heads, splits)](
        q, k, v, positions, m, norm, acc, *q.stride()[:2], *k.stride()[:3], *v.stride()[:3],
        length, LOG2_E / math.sqrt(d),
        KV_HEADS=kv_heads, GROUP=group, PAD=max(16, next_power_of_2(group)), D=d,
        SPLITS=splits, BLOCK_L=block_l, num_warps=4, num_stages=2,
    )  # fmt: skip
    attention_reduce_kernel[(b * h,)](m, norm, acc, out, SPLITS=splits, D=d, num_warps=4)


def decode_splits(programs: int, blocks: int) -> int:
    """Parts of the KV length, a power of 2: about two programs per SM, a block of keys each, 32 at most."""
    wanted = min(cdiv(2 * SM_COUNT, programs), blocks, MAX_SPLITS)
    return min(next_power_of_2(wanted), MAX_SPLITS)


def attention_reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor
) -> torch.Tensor:
    """The same in plain PyTorch: fp32 math, one rounding to q's dtype at the end."""
    group = q.shape[1] // k.shape[1]
    end = min(int(positions.max()) + 1, k.shape[2])  # what lies beyond is unwritten
    k, v = (t[:, :, :end].float().repeat_interleave(group, dim=1) for t in (k, v))
    scores = q.float() @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    hidden = torch.arange(end, device=q.device)[None, :] > positions[:, None]
    return (scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v).to(q.dtype)


@custom_op("attention")
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Attention where query i sees the keys j <= positions[i]; scale D**-0.5, softmax in fp32.

    q[B, H, T, D], k and v[B, Hkv, L, D], fp16, bf16 or fp32, any strides with D contiguous; positions[T]
    int64 in [0, L), on the same device -> [B, H, T, D] of q's dtype, laid out as [B, T, H, D] so that the
    output projection reads it as a view. Query head h uses KV head h // (H/Hkv). Cache entries beyond the
    largest position are never used, so they may hold anything.

    Raises:
        UsageError: unsupported or mixed dtypes, shapes that do not fit, a head size not in 16, 32, 64, 128.
    """
    check_attention(q, k, v, positions)
    dtype = q.dtype
    q, k, v = interpretable(*(t if t.stride(-1) == 1 else t.contiguous() for t in (q, k, v)))
    b, h, t, d = q.shape
    out = q.new_empty(b, t, h, d)
    if out.numel():
        run = attention_decode if t == 1 else attention_prefill
        run(q, k, v, positions.contiguous(), out)
    return out.transpose(1, 2).to(dtype)


def check_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor) -> None:
    """Raise UsageError unless the four inputs fit together."""
    check_inputs("attention", q, k, v)
    check_shape(
        "attention", q.dim() == 4 and k.dim() == 4, "q and k need 4 dimensions [batch, heads, length, D]"
    )
    (b, h, t, d), (kv_b, kv_heads, length, kv_d) = q.shape, k.shape
    check_heads(h, kv_heads, d)
    found = f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)}"
    fits = k.shape == v.shape and (b, d) == (kv_b, kv_d) and length > 0
    check_shape("attention", fits, f"{found} do not fit; use q[B, H, T, D], k and v[B, Hkv, L, D], L above 0")
    named = positions.shape == (t,) and positions.dtype == torch.int64 and positions.device == q.device
    where = f"{positions.dtype}{list(positions.shape)} on {positions.device}"
    check_shape("attention", named, f"positions is {where}; use torch.int64[{t}] on {q.device}")


def check_heads(heads: int, kv_heads: int, size: int) -> None:
    """Raise UsageError for heads that no kernel here can run."""
    sizes = ", ".join(map(str, HEAD_SIZES))
    check_shape("attention", size in HEAD_SIZES, f"head size {size} is not one of {sizes}")
    groups = kv_heads > 0 and heads % kv_heads == 0
    check_shape("attention", groups, f"{heads} query heads cannot share {kv_heads} KV heads; use a multiple")


@attention.register_fake
def _(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    b, h, t, d = q.shape
    return q.new_empty(b, t, h, d).transpose(1, 2)
