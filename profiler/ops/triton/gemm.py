"""Linear layer: y = x W^T + b, in two kernels.

Up to 16 rows (decode) the weights are the traffic and the multiply is free, so `gemm_small_m_kernel` streams
[BLOCK_N, BLOCK_K] weight tiles past x padded to 16 rows, and splits K where N alone gives too few programs.
Above that (prefill) `gemm_tiled_kernel` is the classic tiled product, its programs grouped so that those
running at the same time share weight tiles in L2. Configurations are fixed: no tuning at run time.
"""

from dataclasses import dataclass

import torch
import triton.language as tl

from profiler.ops.triton.common import (
    SM_COUNT,
    cdiv,
    check_inputs,
    check_shape,
    custom_op,
    interpretable,
    jit,
)

SMALL_M = 16  # rows of the smallest tensor-core tile


@dataclass(frozen=True)
class SmallConfig:
    """Launch configuration of `gemm_small_m_kernel`."""

    block_n: int
    block_k: int
    split_k: int
    num_warps: int = 4
    num_stages: int = 4


@dataclass(frozen=True)
class TiledConfig:
    """Launch configuration of `gemm_tiled_kernel`."""

    block_m: int
    block_n: int
    block_k: int
    num_warps: int
    num_stages: int
    group_m: int = 8


@jit
def gemm_small_m_kernel(
    x_ptr: tl.tensor, w_ptr: tl.tensor, bias_ptr: tl.tensor, out_ptr: tl.tensor,
    M: tl.tensor, N: tl.tensor, K: tl.tensor, k_per_split: tl.tensor,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PAD_M: tl.constexpr, EVEN_K: tl.constexpr,
    HAS_BIAS: tl.constexpr,
) -> None:  # fmt: skip
    """Program (n, s) adds up columns n*BLOCK_N.. over the s-th part of K; the result goes to out[s, M, N].

    The tile is W x^T, [BLOCK_N, PAD_M]: the long side belongs where the tensor core is 64 wide.
    """
    split = tl.program_id(1)
    rows_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    rows_m = tl.arange(0, PAD_M)
    k_begin = split * k_per_split
    k_end = tl.minimum(k_begin + k_per_split, K)
    cols = k_begin + tl.arange(0, BLOCK_K)
    # rows past N read the last row again: cheaper than a mask, and never stored
    w_ptrs = w_ptr + tl.minimum(rows_n, N - 1).to(tl.int64)[:, None] * K + cols[None, :]
    x_ptrs = x_ptr + rows_m[None, :] * K + cols[:, None]
    acc = tl.zeros((BLOCK_N, PAD_M), dtype=tl.float32)
    for k in range(k_begin, k_end, BLOCK_K):
        if EVEN_K:
            w = tl.load(w_ptrs, eviction_policy="evict_first")
            x = tl.load(x_ptrs, mask=(rows_m < M)[None, :], other=0.0)
        else:
            left = K - k
            w = tl.load(
                w_ptrs, mask=(tl.arange(0, BLOCK_K) < left)[None, :], other=0.0, eviction_policy="evict_first"
            )
            x = tl.load(
                x_ptrs, mask=(rows_m < M)[None, :] & (tl.arange(0, BLOCK_K) < left)[:, None], other=0.0
            )
        acc = tl.dot(w, x, acc, input_precision="ieee")
        w_ptrs += BLOCK_K
        x_ptrs += BLOCK_K
    if HAS_BIAS:
        acc += tl.load(bias_ptr + rows_n, mask=rows_n < N, other=0.0).to(tl.float32)[:, None]
    out_ptrs = out_ptr + (split * M + rows_m[None, :]).to(tl.int64) * N + rows_n[:, None]
    inside = (rows_n < N)[:, None] & (rows_m < M)[None, :]
    tl.store(out_ptrs, acc.to(out_ptr.dtype.element_ty), mask=inside)


@jit
def gemm_reduce_kernel(
    part_ptr: tl.tensor, bias_ptr: tl.tensor, out_ptr: tl.tensor, size: tl.tensor, N: tl.tensor,
    SPLIT_K: tl.constexpr, BLOCK: tl.constexpr, HAS_BIAS: tl.constexpr,
) -> None:  # fmt: skip
    """out[i] = sum over s of part[s, i], plus bias[i % N], in fp32 and in a fixed order."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offs < size
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for split in tl.static_range(SPLIT_K):
        acc += tl.load(part_ptr + split * size + offs, mask=inside, other=0.0)
    if HAS_BIAS:
        acc += tl.load(bias_ptr + offs % N, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + offs, acc.to(out_ptr.dtype.element_ty), mask=inside)


@jit
def gemm_tiled_kernel(
    x_ptr: tl.tensor, w_ptr: tl.tensor, bias_ptr: tl.tensor, out_ptr: tl.tensor,
    M: tl.tensor, N: tl.tensor, K: tl.tensor,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, EVEN_K: tl.constexpr, HAS_BIAS: tl.constexpr,
) -> None:  # fmt: skip
    """One program, one [BLOCK_M, BLOCK_N] tile of out; GROUP_M row tiles share columns at a time."""
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP_M * tiles_n) * GROUP_M
    group_m = tl.minimum(tiles_m - first_m, GROUP_M)
    in_group = pid % (GROUP_M * tiles_n)
    rows_m = (first_m + in_group % group_m) * BLOCK_M + tl.arange(0, BLOCK_M)
    rows_n = in_group // group_m * BLOCK_N + tl.arange(0, BLOCK_N)
    cols = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + tl.minimum(rows_m, M - 1).to(tl.int64)[:, None] * K + cols[None, :]
    w_ptrs = w_ptr + tl.minimum(rows_n, N - 1).to(tl.int64)[None, :] * K + cols[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        if EVEN_K:
            x = tl.load(x_ptrs)
            w = tl.load(w_ptrs)
        else:
            x = tl.load(x_ptrs, mask=(cols < K - k)[None, :], other=0.0)
            w = tl.load(w_ptrs, mask=(cols < K - k)[:, None], other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    if HAS_BIAS:
        acc += tl.load(bias_ptr + rows_n, mask=rows_n < N, other=0.0).to(tl.float32)[None, :]
    out_ptrs = out_ptr + rows_m.to(tl.int64)[:, None] * N + rows_n[None, :]
    tl.store(out_ptrs, acc.to(out_ptr.dtype.element_ty), mask=(rows_m < M)[:, None] & (rows_n < N)[None, :])


def small_config(n: int, k: int, itemsize: int) -> SmallConfig:
    """Decode configuration of a [N, K] weight, from a sweep on one H200 (M=2, fp16, L2 cold).

    N >= 65536 (lm_head)     BLOCK_N 128, BLOCK_K 128, split 2
    N >= 16384 (gate_up)     BLOCK_N 128, BLOCK_K 128, split 1
    K >= 8192  (down)        BLOCK_N 32, BLOCK_K 256, split so that about 256 programs run
    else       (qkv, o)      BLOCK_N 32, BLOCK_K 128, split so that about 256 programs run

    A split keeps at least 4 K blocks, else its pipeline never fills. Warps and stages were not swept: stages
    are what two programs per SM leave room for. fp32 has no tensor core here and keeps to narrow tiles.
    """
    wide = n >= 16384 and itemsize == 2
    block_n = 128 if wide else 32
    block_k = 256 if k >= 8192 and not wide and itemsize == 2 else 128
    programs, blocks_k = cdiv(n, block_n), cdiv(k, block_k)
    split = (2 if n >= 65536 else 1) if wide else cdiv(256, programs)
    split = max(1, min(split, blocks_k // 4))
    return SmallConfig(block_n, block_k, split, num_stages=3 if wide else 4)


def tiled_config(m: int, n: int, k: int, itemsize: int) -> TiledConfig:
    """Prefill configuration.

    128x256 tiles need the least traffic per flop; 128x128 ones (worth about 0.9 of them) win where they fill
    the last wave of SMs better. Up to 64 rows 64x128, and also where K is no multiple of 64, whose masks cost
    registers. fp32 takes 64x64x32, to fit shared memory.
    """
    if itemsize == 4:
        return TiledConfig(64, 64, 32, num_warps=4, num_stages=3)
    if m <= 64 or k % 64:
        return TiledConfig(64, 128, 64, num_warps=4, num_stages=4)
    tiles = cdiv(m, 128) * cdiv(n, 256)
    if wave_efficiency(tiles) >= 0.9 * wave_efficiency(cdiv(m, 128) * cdiv(n, 128)):
        return TiledConfig(128, 256, 64, num_warps=8, num_stages=3)
    return TiledConfig(128, 128, 64, num_warps=8, num_stages=4)


def wave_efficiency(programs: int) -> float:
    """Share of the SMs that are busy if each runs one program at a time, 0..1."""
    return programs / (cdiv(programs, SM_COUNT) * SM_COUNT)


def gemm_small_m(
    x: torch.Tensor, weight: torch.Tensor, config: SmallConfig, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """x[M, K] (M <= 16), weight[N, K], bias[N], contiguous -> [M, N]; a split K uses fp32 scratch."""
    (m, k), n = x.shape, weight.shape[0]
    k_per_split = cdiv(cdiv(k, config.block_k), config.split_k) * config.block_k
    split_k = cdiv(k, k_per_split)  # never launch an empty split
    out = x.new_empty(m, n)
    part = out if split_k == 1 else x.new_empty(split_k, m, n, dtype=torch.float32)
    gemm_small_m_kernel[(cdiv(n, config.block_n), split_k)](
        x, weight, bias, part, m, n, k, k_per_split,
        BLOCK_N=config.block_n, BLOCK_K=config.block_k, PAD_M=SMALL_M, EVEN_K=k % config.block_k == 0,
        HAS_BIAS=bias is not None and split_k == 1,
        num_warps=config.num_warps, num_stages=config.num_stages,
    )  # fmt: skip
    if split_k > 1:
        grid = (cdiv(m * n, 1024),)
        gemm_reduce_kernel[grid](
            part, bias, out, m * n, n, SPLIT_K=split_k, BLOCK=1024, HAS_BIAS=bias is not None, num_warps=4
        )
    return out


def gemm_tiled(
    x: torch.Tensor, weight: torch.Tensor, config: TiledConfig, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """x[M, K], weight[N, K], bias[N], contiguous -> [M, N]."""
    (m, k), n = x.shape, weight.shape[0]
    out = x.new_empty(m, n)
    gemm_tiled_kernel[(cdiv(m, config.block_m) * cdiv(n, config.block_n),)](
        x, weight, bias, out, m, n, k,
        BLOCK_M=config.block_m, BLOCK_N=config.block_n, BLOCK_K=config.block_k, GROUP_M=config.group_m,
        EVEN_K=k % config.block_k == 0, HAS_BIAS=bias is not None,
        num_warps=config.num_warps, num_stages=config.num_stages,
    )  # fmt: skip
    return out


def linear_reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """The same in plain PyTorch: fp32 math, one rounding to x's dtype at the end."""
    out = x.float() @ weight.float().t()
    return (out if bias is None else out + bias.float()).to(x.dtype)


@custom_op("linear")
def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Linear layer.

    x[..., K], weight[N, K], bias[N], all fp16, bf16 or fp32 -> [..., N], contiguous, x's dtype; fp32 sums.

    Raises:
        UsageError: unsupported or mixed dtypes, weight not [N, K], bias not [N], or N or K of 0.
    """
    rows, weight, bias = linear_inputs("linear", x, weight, bias)
    (m, k), n = rows.shape, weight.shape[0]
    if m == 0:
        return x.new_empty(*x.shape[:-1], n)
    if m <= SMALL_M:
        out = gemm_small_m(rows, weight, small_config(n, k, rows.element_size()), bias)
    else:
        out = gemm_tiled(rows, weight, tiled_config(m, n, k, rows.element_size()), bias)
    return out.view(*x.shape[:-1], n).to(x.dtype)


@linear.register_fake
def _(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    return x.new_empty(*x.shape[:-1], weight.shape[0])


def linear_inputs(
    op: str, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Checked inputs as a GEMM kernel takes them: x[M, K], weight[N, K], bias[N] or None, contiguous."""
    check_inputs(op, x, weight, *(() if bias is None else (bias,)))
    k = x.shape[-1]
    fits = weight.dim() == 2 and weight.shape[1] == k and weight.numel() > 0
    check_shape(op, fits, f"weight is {list(weight.shape)}, x needs [N, {k}] with N and K above 0")
    rows, weight = interpretable(x.reshape(-1, k).contiguous(), weight.contiguous())
    if bias is None:
        return rows, weight, None
    n = weight.shape[0]
    check_shape(op, bias.shape == (n,), f"bias is {list(bias.shape)}, weight needs [{n}]")
    return rows, weight, interpretable(bias.contiguous())[0]
