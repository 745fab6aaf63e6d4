"""Linear layer as the published CUDA-free study ran it: one SplitK GEMM for decode and prefill.

Source: "CUDA-Free Inference for LLMs" (PyTorch blog, 2024) and the SplitK kernel behind it (arXiv
2402.00025). Programs split K between them, each adds up its share in fp32, rounds it to the output's dtype
and adds it to a zeroed output with an atomic. So with a split above 1 a sum is rounded at every split, in an
order that changes from run to run: **results do not repeat bit for bit**. `gemm.py` adds up in fp32 and in a
fixed order instead; here the published method is the point. A split of 1 stores directly, and repeats.

The study zeroes with `torch.zeros`, an ATen kernel; here a Triton kernel does it.
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Final, NamedTuple

import torch
import triton.language as tl

from profiler.ops.triton.common import cdiv, custom_op, jit
from profiler.ops.triton.gemm import linear_inputs, linear_reference

DECODE_ROWS: Final = 16  # rows of the smallest tensor-core tile: up to here a product is a decode one
_ZERO_BLOCK: Final = 1024

splitk_linear_reference = linear_reference


class Shape(NamedTuple):
    """x[M, K] by weight[N, K] transposed."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"M{self.m} N{self.n} K{self.k}"


@dataclass(frozen=True, order=True)
class Config:
    """Launch configuration: a tile, in how many parts K is split, and how a program runs."""

    block_m: int
    block_n: int
    block_k: int
    split_k: int
    num_warps: int
    num_stages: int
    group_m: int  # row tiles that share columns at a time

    def __str__(self) -> str:
        m, n, k, split, warps, stages, group = astuple(self)
        return f"{m}x{n}x{k} split {split} warps {warps} stages {stages} group {group}"


@jit
def splitk_gemm_kernel(
    x_ptr: tl.tensor, w_ptr: tl.tensor, bias_ptr: tl.tensor, out_ptr: tl.tensor,
    M: tl.tensor, N: tl.tensor, K: tl.tensor, group_m: tl.tensor,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    EVEN_M: tl.constexpr, EVEN_K: tl.constexpr, ATOMIC: tl.constexpr, HAS_BIAS: tl.constexpr,
) -> None:  # fmt: skip
    """Program (tile, s) of S splits adds up the K blocks s, s + S, s + 2S... of a [BLOCK_M, BLOCK_N] tile."""
    tile = tl.program_id(0)
    split = tl.program_id(1)
    stride = tl.num_programs(1) * BLOCK_K
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first_m = tile // (group_m * tiles_n) * group_m
    group = tl.minimum(tiles_m - first_m, group_m)
    in_group = tile % (group_m * tiles_n)
    rows_m = (first_m + in_group % group) * BLOCK_M + tl.arange(0, BLOCK_M)
    rows_n = in_group // group * BLOCK_N + tl.arange(0, BLOCK_N)
    inside_m = rows_m < M
    cols = tl.arange(0, BLOCK_K)
    begin = split * BLOCK_K
    x_ptrs = x_ptr + rows_m.to(tl.int64)[:, None] * K + begin + cols[None, :]
    # rows past N read the last row again: cheaper than a mask, and never stored
    w_ptrs = w_ptr + tl.minimum(rows_n, N - 1).to(tl.int64)[None, :] * K + begin + cols[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(begin, K, stride):
        if EVEN_K:
            w = tl.load(w_ptrs)
            x = tl.load(x_ptrs) if EVEN_M else tl.load(x_ptrs, mask=inside_m[:, None], other=0.0)
        else:
            w = tl.load(w_ptrs, mask=(cols < K - k)[:, None], other=0.0)
            x = tl.load(x_ptrs, mask=inside_m[:, None] & (cols < K - k)[None, :], other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
        x_ptrs += stride
        w_ptrs += stride
    if HAS_BIAS:  # once, by the first split
        mine = (rows_n < N) & (split == 0)
        acc += tl.load(bias_ptr + rows_n, mask=mine, other=0.0).to(tl.float32)[None, :]
    out_ptrs = out_ptr + rows_m.to(tl.int64)[:, None] * N + rows_n[None, :]
    inside = inside_m[:, None] & (rows_n < N)[None, :]
    if ATOMIC:
        tl.atomic_add(out_ptrs, acc.to(out_ptr.dtype.element_ty), mask=inside, sem="relaxed")
    else:
        tl.store(out_ptrs, acc.to(out_ptr.dtype.element_ty), mask=inside)


@jit
def splitk_zero_fill_kernel(out_ptr: tl.tensor, size: tl.tensor, BLOCK: tl.constexpr) -> None:
    """One program, BLOCK zeros."""
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.zeros((BLOCK,), dtype=out_ptr.dtype.element_ty), mask=offs < size)


def default_config(m: int, itemsize: int) -> Config:
    """The untuned kernel: one configuration per phase, whatever N and K are.

    Up to 16 rows tiles of 16x32x128 and a split of 4: enough programs for every layer of an 8B model. Above,
    128x128x64 without a split (fp32, which has no tensor cores here: 64x64x32).
    """
    if m <= DECODE_ROWS:
        return Config(16, 32, 128, split_k=4, num_warps=4, num_stages=3, group_m=1)
    if itemsize == 4:
        return Config(64, 64, 32, split_k=1, num_warps=4, num_stages=3, group_m=8)
    return Config(128, 128, 64, split_k=1, num_warps=8, num_stages=3, group_m=8)


_selected: dict[Shape, Config] = {}


def select(configs: Mapping[Shape, Config]) -> None:
    """From now on shapes in `configs` run with theirs, all others with `default_config`.

    One table for the process: `splitk_linear` is an opaque op, so that what runs can change without compiling
    the model again. A captured CUDA graph keeps what was selected when it was captured.
    """
    _selected.clear()
    _selected.update(configs)


def splitk_gemm(
    x: torch.Tensor, weight: torch.Tensor, config: Config, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """x[M, K], weight[N, K], bias[N], contiguous -> [M, N] of x's dtype; two launches where K is split."""
    out = x.new_empty(x.shape[0], weight.shape[0])
    launch(x, weight, out, config, bias)
    return out


def launch(
    x: torch.Tensor,
    weight: torch.Tensor,
    out: torch.Tensor,
    config: Config,
    bias: torch.Tensor | None = None,
) -> None:
    """`splitk_gemm` into an `out`[M, N] that exists: it allocates nothing."""
    (m, k), n = x.shape, weight.shape[0]
    splits = min(config.split_k, cdiv(k, config.block_k))  # never launch an empty split
    if splits > 1:
        size = m * n
        splitk_zero_fill_kernel[(cdiv(size, _ZERO_BLOCK),)](out, size, BLOCK=_ZERO_BLOCK, num_warps=4)
    splitk_gemm_kernel[(cdiv(m, config.block_m) * cdiv(n, config.block_n), splits)](
        x, weight, bias, out, m, n, k, config.group_m, **constants(m, k, config, bias=bias is not None)
    )


def constants(m: int, k: int, config: Config, *, bias: bool = False) -> dict[str, int | bool]:
    """What one launch compiles for: compile-time arguments of `splitk_gemm_kernel`, warps and stages.

    N, the number of splits and the group are run-time values, so that many shapes share one binary.
    """
    return {
        "BLOCK_M": config.block_m,
        "BLOCK_N": config.block_n,
        "BLOCK_K": config.block_k,
        "EVEN_M": m % config.block_m == 0,
        "EVEN_K": k % config.block_k == 0,
        "ATOMIC": min(config.split_k, cdiv(k, config.block_k)) > 1,
        "HAS_BIAS": bias,
        "num_warps": config.num_warps,
        "num_stages": config.num_stages,
    }


@custom_op("splitk_linear")
def splitk_linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Linear layer with the configuration selected for its shape.

    x[..., K], weight[N, K], bias[N], all fp16, bf16 or fp32 -> [..., N], contiguous, x's dtype; each split
    adds up in fp32 and is rounded to the output's dtype before it is added (see the module).

    Raises:
        UsageError: unsupported or mixed dtypes, weight not [N, K], bias not [N], or N or K of 0.
    """
    rows, weight, bias = linear_inputs("splitk_linear", x, weight, bias)
    (m, k), n = rows.shape, weight.shape[0]
    if m == 0:
        return x.new_empty(*x.shape[:-1], n)
    config = _selected.get(Shape(m, n, k)) or default_config(m, rows.element_size())
    return splitk_gemm(rows, weight, config, bias).view(*x.shape[:-1], n).to(x.dtype)


@splitk_linear.register_fake
def _(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    return x.new_empty(*x.shape[:-1], weight.shape[0])
