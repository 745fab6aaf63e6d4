"""Rotary position embedding, half-rotation layout: element i pairs with i + D/2 (arXiv 2104.09864)."""

import torch
import triton.language as tl

from profiler.ops.triton.common import DTYPES, check_inputs, check_shape, custom_op, jit, next_power_of_2


@jit
def rotate_heads(
    in_ptr: tl.tensor, out_ptr: tl.tensor, in_h: tl.tensor, cos: tl.tensor, sin: tl.tensor,
    HEADS: tl.constexpr, PAD: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Rotate the heads of one token: heads are in_h apart at in_ptr and dense at out_ptr."""
    heads = tl.arange(0, PAD)[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    inside = (heads < HEADS) & (cols < HALF)
    a = tl.load(in_ptr + heads * in_h + cols, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(in_ptr + heads * in_h + HALF + cols, mask=inside, other=0.0).to(tl.float32)
    out_ptrs = out_ptr + heads * 2 * HALF + cols
    tl.store(out_ptrs, (a * cos - b * sin).to(out_ptr.dtype.element_ty), mask=inside)
    tl.store(out_ptrs + HALF, (b * cos + a * sin).to(out_ptr.dtype.element_ty), mask=inside)


@jit
def rope_kernel(
    q_ptr: tl.tensor, k_ptr: tl.tensor, cos_ptr: tl.tensor, sin_ptr: tl.tensor,
    q_out_ptr: tl.tensor, k_out_ptr: tl.tensor,
    q_b: tl.tensor, q_h: tl.tensor, q_t: tl.tensor, k_b: tl.tensor, k_h: tl.tensor, k_t: tl.tensor,
    angle_t: tl.tensor, T: tl.tensor,
    HEADS: tl.constexpr, HEADS_PAD: tl.constexpr, KV_HEADS: tl.constexpr, KV_PAD: tl.constexpr,
    HALF: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Program b*T + t rotates all heads of one token; outputs are [B, T, heads, D]."""
    token = tl.program_id(0).to(tl.int64)
    b, t = token // T, token % T
    cols = tl.arange(0, BLOCK)
    cos = tl.load(cos_ptr + t * angle_t + cols, mask=cols < HALF, other=0.0).to(tl.float32)[None, :]
    sin = tl.load(sin_ptr + t * angle_t + cols, mask=cols < HALF, other=0.0).to(tl.float32)[None, :]
    q_out, k_out = q_out_ptr + token * HEADS * 2 * HALF, k_out_ptr + token * KV_HEADS * 2 * HALF
    rotate_heads(q_ptr + b * q_b + t * q_t, q_out, q_h, cos, sin, HEADS, HEADS_PAD, HALF, BLOCK)
    rotate_heads(k_ptr + b * k_b + t * k_t, k_out, k_h, cos, sin, KV_HEADS, KV_PAD, HALF, BLOCK)


def rope_reference(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same in plain PyTorch: fp32 math, one rounding to the input's dtype at the end."""

    def rotate(x: torch.Tensor) -> torch.Tensor:
        a, b = x.float().chunk(2, dim=-1)
        return torch.cat((a * cos.float() - b * sin.float(), b * cos.float() + a * sin.float()), -1).to(
            x.dtype
        )

    return rotate(q), rotate(k)


@custom_op("rope")
def rope(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotate queries and keys by their positions' angles.

    q[B, H, T, D], k[B, Hkv, T, D] fp16, bf16 or fp32, any strides with D contiguous; cos and sin[T, D/2], any
    of these dtypes -> rotated q and k, each laid out as [B, T, heads, D]; computes in fp32.

    Raises:
        UsageError: unsupported or mixed dtypes, an odd D, or shapes that do not fit.
    """
    check_inputs("rope", q, k)
    b, h, t, d = q.shape
    kv_heads = k.shape[1]
    fits = k.shape == (b, kv_heads, t, d) and d % 2 == 0
    check_shape(
        "rope", fits, f"q {list(q.shape)}, k {list(k.shape)} must differ in heads only, with an even D"
    )
    angles = cos.shape == sin.shape == (t, d // 2) and cos.dtype in DTYPES and sin.dtype in DTYPES
    check_shape("rope", angles, f"cos {list(cos.shape)}, sin {list(sin.shape)} must be float [{t}, {d // 2}]")
    q, k = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k))
    if cos.stride() != sin.stride() or cos.stride(-1) != 1:  # two halves of one table need no copies
        cos, sin = cos.contiguous(), sin.contiguous()
    q_out, k_out = q.new_empty(b, t, h, d), k.new_empty(b, t, kv_heads, d)
    if b * t:
        rope_kernel[(b * t,)](
            q, k, cos, sin, q_out, k_out, *q.stride()[:3], *k.stride()[:3], cos.stride(0), t,
            HEADS=h, HEADS_PAD=next_power_of_2(h), KV_HEADS=kv_heads, KV_PAD=next_power_of_2(kv_heads),
            HALF=d // 2, BLOCK=next_power_of_2(d // 2), num_warps=4,
        )  # fmt: skip
    return q_out.transpose(1, 2), k_out.transpose(1, 2)


@rope.register_fake
def _(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    (b, h, t, d), kv_heads = q.shape, k.shape[1]
    return q.new_empty(b, t, h, d).transpose(1, 2), k.new_empty(b, t, kv_heads, d).transpose(1, 2)
