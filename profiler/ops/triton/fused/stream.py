"""The residual stream between fused kernels, and the product that all decode kernels share.

RMSNorm is x * rstd * gamma with rstd one number per row. A product is linear in its rows, so whoever writes
the residual x also writes x * gamma, and how much each of its programs saw of sum(x^2); whoever multiplies
x * gamma by a weight scales the result by rstd at the end. The sums are added in a fixed order: results
repeat bit for bit.

Decode multiplies a few rows by a weight that is read once, so everything is about keeping memory busy. The
tensor core's tile is at least 8 columns wide. With M < 8 rows its columns hold (row, part of K) pairs instead
of padding, and the rows of its other side (weight row, part of K): the same work, of which the products of
equal parts are kept. The chain of dependent tensor-core instructions becomes PARTS_K times shorter, which is
what a tile's time is made of.

Programmatic dependent launch (PDL): a kernel's programs may take their places while the one before it still
runs. Every kernel waits before its first dependent read and its first write. It lets the next one start when
its own loads are done, and asks for the first lines of the next weight (`leave`), so that memory does not
idle meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import triton.language as tl

from profiler.ops.triton.common import jit

if TYPE_CHECKING:
    import torch


class Stream(NamedTuple):
    """The residual of some rows, and what the next norm needs of them."""

    x: torch.Tensor  # [rows, E]
    scaled: torch.Tensor  # [rows, E], x * the next norm's weight
    squares: torch.Tensor  # [parts, rows] fp32, sum(x^2) of each part of a row


def stream_reference(x: torch.Tensor, gamma: torch.Tensor, parts: int) -> Stream:
    """What a kernel leaves of x[rows, E] for the norm with weight gamma[E], in `parts` equal parts."""
    squares = x.float().square().view(x.shape[0], parts, -1).sum(-1).T.contiguous()
    return Stream(x, (x.float() * gamma.float()).to(x.dtype), squares)


def normed_reference(scaled: torch.Tensor, squares: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm fp32 [rows, E] from what a `Stream` holds."""
    mean = squares.sum(0) / scaled.shape[-1]
    return scaled.float() * (mean + eps).rsqrt()[:, None]


@jit
def wait(PDL: tl.constexpr) -> None:
    """Until all that earlier kernels wrote can be read."""
    if PDL:
        tl.extra.cuda.gdc_wait()


@jit
def leave(
    ahead_ptr: tl.tensor, LINES: tl.constexpr, ROW: tl.constexpr, COLUMNS: tl.constexpr,
    SECOND: tl.constexpr, LINE: tl.constexpr, PDL: tl.constexpr,
) -> None:  # fmt: skip
    """Ask for this program's LINES of the next weight (rows of ROW elements), and let the next kernel start.

    The programs share the first COLUMNS of its first rows. SECOND: a tile of the next kernel alternates rows
    of two halves, the other one that many rows further on; else 0.
    """
    if PDL:
        if LINES > 0:
            line = tl.program_id(0) * LINES + tl.arange(0, LINES)
            row = line // (COLUMNS // LINE)
            if SECOND > 0:
                row = row // 2 + row % 2 * SECOND
            prefetch(ahead_ptr + row.to(tl.int64) * ROW + line % (COLUMNS // LINE) * LINE)
        tl.extra.cuda.gdc_launch_dependents()


@jit
def prefetch(ptrs: tl.tensor) -> None:
    """Ask for the 128-byte lines at `ptrs` to be brought into L2; no result, no wait."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1];\nmov.u32 $0, 0;", "=r,l", [ptrs], dtype=tl.int32, is_pure=False, pack=1
    )


@jit
def product(
    x_ptr: tl.tensor, x_row: tl.tensor, M: tl.tensor, w_ptr: tl.tensor, w_rows: tl.tensor,
    K: tl.constexpr, PAD_M: tl.constexpr, PARTS_K: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """x[M, K], rows `x_row` apart, times the rows `w_rows` of the weight, each PARTS_K times in a row.

    fp32 [BLOCK_N * PARTS_K, PAD_M * PARTS_K], for `summed`.
    """
    PART: tl.constexpr = BLOCK_K // PARTS_K
    n = tl.arange(0, BLOCK_N * PARTS_K)
    m = tl.arange(0, PAD_M * PARTS_K)
    cols = tl.arange(0, PART)
    w_ptrs = w_ptr + w_rows.to(tl.int64)[:, None] * K + (n % PARTS_K * PART)[:, None] + cols[None, :]
    x_ptrs = x_ptr + (m // PARTS_K * x_row + m % PARTS_K * PART)[None, :] + cols[:, None]
    inside = (m // PARTS_K < M)[None, :]
    acc = tl.zeros((BLOCK_N * PARTS_K, PAD_M * PARTS_K), dtype=tl.float32)
    for k in tl.range(0, K, BLOCK_K, num_stages=STAGES):
        if K % BLOCK_K == 0:
            w = tl.load(w_ptrs + k, eviction_policy="evict_first")
            x = tl.load(x_ptrs + k, mask=inside, other=0.0)
        else:
            left = K - k
            w = tl.load(w_ptrs + k, mask=(n % PARTS_K * PART)[:, None] + cols[None, :] < left, other=0.0)
            here = (m % PARTS_K * PART)[None, :] + cols[:, None] < left
            x = tl.load(x_ptrs + k, mask=inside & here, other=0.0)
        acc = tl.dot(w, x, acc, input_precision="ieee")
    return acc


@jit
def summed(acc: tl.tensor, BLOCK_N: tl.constexpr, PAD_M: tl.constexpr, PARTS_K: tl.constexpr) -> tl.tensor:
    """The sums over equal parts of K: fp32 [BLOCK_N, PAD_M]."""
    part = tl.arange(0, PARTS_K)
    equal = (part[:, None, None] == part[None, None, :]).to(tl.float32)[None]
    # finite or not, a product of unequal parts must not count: inf * 0 would be NaN
    parts = tl.reshape(acc, (BLOCK_N, PARTS_K, PAD_M, PARTS_K))
    return tl.sum(tl.sum(tl.where(equal > 0, parts, 0.0), axis=3), axis=1)


@jit
def load_squares(
    squares_ptr: tl.tensor, part_stride: tl.tensor, row_stride: tl.tensor, M: tl.tensor,
    PARTS: tl.constexpr, PAD_PARTS: tl.constexpr, PAD_M: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """The parts of sum(x^2), fp32 [PAD_PARTS, PAD_M]: asked for before the product, used after it."""
    parts, rows = tl.arange(0, PAD_PARTS), tl.arange(0, PAD_M)
    inside = (parts < PARTS)[:, None] & (rows < M)[None, :]
    ptrs = squares_ptr + parts[:, None] * part_stride + rows[None, :] * row_stride
    return tl.load(ptrs, mask=inside, other=0.0)


@jit
def rstd(squares: tl.tensor, eps: tl.tensor, DIM: tl.constexpr) -> tl.tensor:
    """1 / sqrt(mean(x^2) + eps) of each row, fp32 [PAD_M]."""
    return 1.0 / tl.sqrt(tl.sum(squares, axis=0) / DIM + eps)
