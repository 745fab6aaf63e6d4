"""Decode, kernel 2: one query per sequence over the KV cache, in one launch.

All query heads of a KV head make one tile, so that the cache is read once (GQA), and the keys are split over
programs (Flash-Decoding, Dao et al. 2023). The parts of one KV head are merged by whichever of its programs
finishes last: it takes them in their order, so results repeat bit for bit.
"""

import math

import torch
import triton.language as tl

from profiler.ops.triton.attention import check_heads, online_softmax_step
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
from profiler.ops.triton.fused.launch import Ahead, follow
from profiler.ops.triton.fused.stream import leave, wait


@jit
def fused_decode_attention_kernel(
    q_ptr: tl.tensor, k_ptr: tl.tensor, v_ptr: tl.tensor, position_ptr: tl.tensor, out_ptr: tl.tensor,
    m_ptr: tl.tensor, norm_ptr: tl.tensor, acc_ptr: tl.tensor, arrived_ptr: tl.tensor,
    cache_b: tl.tensor, cache_h: tl.tensor, L: tl.tensor, scale: tl.tensor,
    KV_HEADS: tl.constexpr, GROUP: tl.constexpr, PAD: tl.constexpr, D: tl.constexpr, SPLITS: tl.constexpr,
    BLOCK_L: tl.constexpr, STAGES: tl.constexpr, ahead_ptr: tl.tensor, LINES: tl.constexpr, ROW: tl.constexpr,
    COLUMNS: tl.constexpr, SECOND: tl.constexpr, LINE: tl.constexpr, PDL: tl.constexpr,
) -> None:  # fmt: skip
    """Program (b * KV_HEADS + kv) * SPLITS + s: part s of the keys for the GROUP query heads of a KV head."""
    pair, split = tl.program_id(0) // SPLITS, tl.program_id(0) % SPLITS
    # nothing in a step writes the position before its end: it can be read before the wait
    position = tl.load(position_ptr).to(tl.int32)
    end = tl.minimum(position + 1, L)
    chunk = tl.cdiv(tl.cdiv(end, SPLITS), BLOCK_L) * BLOCK_L
    begin = split * chunk
    stop = tl.minimum(begin + chunk, end)
    b, kv = (pair // KV_HEADS).to(tl.int64), pair % KV_HEADS
    g, d = tl.arange(0, PAD), tl.arange(0, D)
    inside = g < GROUP
    heads = pair * GROUP + g  # of all sequences
    k_base = k_ptr + b * cache_b + kv * cache_h + d[:, None]
    v_base = v_ptr + b * cache_b + kv * cache_h + d[None, :]
    wait(PDL)
    leave(ahead_ptr, LINES, ROW, COLUMNS, SECOND, LINE, PDL)  # memory has little to do here: at once
    q = tl.load(q_ptr + heads[:, None] * D + d[None, :], mask=inside[:, None], other=0.0)
    visible_to = tl.zeros((PAD,), dtype=tl.int32) + position
    m = tl.full((PAD,), float("-inf"), dtype=tl.float32)
    norm = tl.zeros((PAD,), dtype=tl.float32)
    acc = tl.zeros((PAD, D), dtype=tl.float32)
    for start in tl.range(begin, stop, BLOCK_L, num_stages=STAGES):
        keys = start + tl.arange(0, BLOCK_L)
        k_ptrs, v_ptrs = k_base + keys[None, :] * D, v_base + keys[:, None] * D
        m, norm, acc = online_softmax_step(q, k_ptrs, v_ptrs, keys, end, visible_to, m, norm, acc, scale)
    part = heads * SPLITS + split
    tl.store(m_ptr + part, m, mask=inside)
    tl.store(norm_ptr + part, norm, mask=inside)
    tl.store(acc_ptr + part[:, None] * D + d[None, :], acc, mask=inside[:, None])
    tl.debug_barrier()  # all of this program's parts are written before it says so
    arrived = tl.atomic_add(arrived_ptr + pair, 1, sem="acq_rel", scope="gpu")
    if arrived == SPLITS - 1:
        tl.store(arrived_ptr + pair, 0)  # for the next launch
        best = tl.full((PAD,), float("-inf"), dtype=tl.float32)
        for s in tl.static_range(SPLITS):
            part = heads * SPLITS + s
            best = tl.maximum(best, tl.load(m_ptr + part, mask=inside, other=0.0, cache_modifier=".cg"))
        total = tl.zeros((PAD,), dtype=tl.float32)
        merged = tl.zeros((PAD, D), dtype=tl.float32)
        for s in tl.static_range(SPLITS):
            other = heads * SPLITS + s
            weight = tl.exp2(tl.load(m_ptr + other, mask=inside, other=0.0, cache_modifier=".cg") - best)
            total += weight * tl.load(norm_ptr + other, mask=inside, other=1.0, cache_modifier=".cg")
            o_ptrs = acc_ptr + other[:, None] * D + d[None, :]
            merged += weight[:, None] * tl.load(o_ptrs, mask=inside[:, None], other=0.0, cache_modifier=".cg")
        out = merged / total[:, None]
        tl.store(
            out_ptr + heads[:, None] * D + d[None, :], out.to(out_ptr.dtype.element_ty), mask=inside[:, None]
        )


def scratch(pairs: int, group: int, d: int, splits: int, device: torch.device | str) -> torch.Tensor:
    """Zeroed fp32 memory for `pairs` KV heads in `splits` parts; kernels leave its counters zero again."""
    return torch.zeros(pairs * (group * splits * (d + 2) + 1), dtype=torch.float32, device=device)


def launch(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, position: torch.Tensor, memory: torch.Tensor,
    splits: int, ahead: Ahead | None = None, *, block_l: int = 128, warps: int = 4, stages: int = 2,
    pdl: bool = True,
) -> torch.Tensor:  # fmt: skip
    """q[M, H, D], caches [M, Hkv, L, D], `memory` from `scratch`: [M, H, D]."""
    (m, h, d), (kv_heads, length) = q.shape, k.shape[1:3]
    pairs, group = m * kv_heads, h // kv_heads
    parts = pairs * group * splits
    arrived = memory[:pairs].view(torch.int32)
    floats = memory[pairs:]
    maxima, norms, sums = floats[:parts], floats[parts : 2 * parts], floats[2 * parts :]
    out = torch.empty_like(q)
    fused_decode_attention_kernel[(pairs * splits,)](
        q, k, v, position, out, maxima, norms, sums, arrived, k.stride(0), k.stride(1), length,
        LOG2_E / math.sqrt(d), KV_HEADS=kv_heads, GROUP=group, PAD=max(16, next_power_of_2(group)), D=d,
        SPLITS=splits, BLOCK_L=block_l, STAGES=stages, num_warps=warps,
        **follow(q, pairs * splits, ahead, pdl=pdl),
    )  # fmt: skip
    return out


def splits_for(pairs: int, length: int) -> int:
    """Parts of a cache of `length` slots: a tile of keys each, two programs per SM at most, 16 at most."""
    return max(1, min(cdiv(length, 128), 2 * SM_COUNT // pairs, 16))


@custom_op("decode_attention", mutates=("memory",))
def decode_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, position: torch.Tensor, memory: torch.Tensor, pdl: bool
) -> torch.Tensor:
    """Attention of one query per sequence, that sees the keys up to `position`; softmax in fp32.

    q[B, H, 1, D], caches [B, Hkv, L, D], fp16, bf16 or fp32; position[1] int64 in [0, L); `memory` from
    `scratch(B * Hkv, H / Hkv, D, splits_for(B * Hkv, L))` -> [B, H, 1, D]. `pdl`: see `stream`.
    The reference is `attention.attention_reference`.

    Raises:
        UsageError: unsupported or mixed dtypes, or shapes that do not fit.
    """
    check_inputs("decode_attention", q, k, v)
    (batch, heads, tokens, d), (kv_batch, kv_heads, length, kv_d) = q.shape, k.shape
    check_heads(heads, kv_heads, d)
    fits = k.shape == v.shape and (batch, d, tokens) == (kv_batch, kv_d, 1) and k.stride() == v.stride()
    found = f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)}"
    check_shape(
        "decode_attention", fits and k.stride(2) == d, f"{found} do not fit; use one query, whole caches"
    )
    dtype = q.dtype
    q, k, v = interpretable(q, k, v)
    splits = splits_for(batch * kv_heads, length)
    block_l = 32 if q.element_size() == 4 else 128
    out = launch(q.reshape(batch, heads, d), k, v, position, memory, splits, block_l=block_l, pdl=pdl)
    return out.view(batch, heads, 1, d).to(dtype)


@decode_attention.register_fake
def _(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, position: torch.Tensor, memory: torch.Tensor, pdl: bool
) -> torch.Tensor:
    return q.new_empty(q.shape)
