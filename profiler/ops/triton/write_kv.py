"""Append to the KV cache: cache[:, :, positions] = new keys and values, in place."""

import torch
import triton.language as tl

from profiler.ops.triton.common import check_inputs, check_shape, custom_op, jit, next_power_of_2


@jit
def write_kv_kernel(
    k_cache_ptr: tl.tensor, v_cache_ptr: tl.tensor, k_ptr: tl.tensor, v_ptr: tl.tensor,
    positions_ptr: tl.tensor,
    kc_b: tl.tensor, kc_h: tl.tensor, kc_l: tl.tensor, vc_b: tl.tensor, vc_h: tl.tensor, vc_l: tl.tensor,
    k_b: tl.tensor, k_h: tl.tensor, k_t: tl.tensor, v_b: tl.tensor, v_h: tl.tensor, v_t: tl.tensor,
    T: tl.tensor,
    HEADS: tl.constexpr, HEADS_PAD: tl.constexpr, D: tl.constexpr, D_PAD: tl.constexpr,
) -> None:  # fmt: skip
    """Program b*T + t copies all heads of one token's key and value."""
    b = (tl.program_id(0) // T).to(tl.int64)
    t = (tl.program_id(0) % T).to(tl.int64)
    position = tl.load(positions_ptr + t)
    h = tl.arange(0, HEADS_PAD)[:, None]
    d = tl.arange(0, D_PAD)[None, :]
    inside = (h < HEADS) & (d < D)
    k = tl.load(k_ptr + b * k_b + h * k_h + t * k_t + d, mask=inside)
    v = tl.load(v_ptr + b * v_b + h * v_h + t * v_t + d, mask=inside)
    tl.store(k_cache_ptr + b * kc_b + h * kc_h + position * kc_l + d, k, mask=inside)
    tl.store(v_cache_ptr + b * vc_b + h * vc_h + position * vc_l + d, v, mask=inside)


def write_kv_reference(
    k_cache: torch.Tensor, v_cache: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor
) -> None:
    """The same in plain PyTorch."""
    k_cache[:, :, positions] = k
    v_cache[:, :, positions] = v


@custom_op("write_kv", mutates=("k_cache", "v_cache"))
def write_kv(
    k_cache: torch.Tensor, v_cache: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor
) -> None:
    """Write T new keys and values at `positions`.

    Caches [B, Hkv, L, D], k and v[B, Hkv, T, D], all of one dtype (fp16, bf16, fp32), any strides with D
    contiguous; positions[T] int64 in [0, L), distinct, on the same device.

    Raises:
        UsageError: unsupported or mixed dtypes, shapes that do not fit, or caches whose D is not contiguous.
    """
    check_inputs("write_kv", k_cache, v_cache, k, v)
    (b, heads, _, d), t = k_cache.shape, k.shape[2]
    fits = k_cache.shape == v_cache.shape and k.shape == v.shape == (b, heads, t, d)
    found = f"cache {list(k_cache.shape)}, k {list(k.shape)}, v {list(v.shape)}"
    check_shape("write_kv", fits, f"{found} do not fit; use [B, Hkv, L, D] caches and [B, Hkv, T, D] k and v")
    named = positions.shape == (t,) and positions.dtype == torch.int64
    check_shape(
        "write_kv", named, f"positions is {positions.dtype}{list(positions.shape)}; use torch.int64[{t}]"
    )
    dense = k_cache.stride(-1) == v_cache.stride(-1) == 1
    check_shape("write_kv", dense, "the last dimension of a cache must be contiguous")
    k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (k, v))
    strides = [s for x in (k_cache, v_cache, k, v) for s in x.stride()[:3]]
    if k.numel():
        write_kv_kernel[(b * t,)](
            k_cache, v_cache, k, v, positions.contiguous(), *strides, t,
            HEADS=heads, HEADS_PAD=next_power_of_2(heads), D=d, D_PAD=next_power_of_2(d), num_warps=4,
        )  # fmt: skip
