"""Kernel 6: the last RMSNorm and lm_head, after decode and after prefill."""

import torch
import triton.language as tl

from profiler.ops.triton.common import (
    cdiv,
    check_inputs,
    check_shape,
    custom_op,
    interpretable,
    jit,
    next_power_of_2,
)
from profiler.ops.triton.fused.launch import Tile, follow
from profiler.ops.triton.fused.stream import (
    leave,
    load_squares,
    normed_reference,
    product,
    rstd,
    summed,
    wait,
)
from profiler.ops.triton.fused.tiles import decode_tile


@jit
def norm_lm_head_gemm_kernel(
    x_ptr: tl.tensor, squares_ptr: tl.tensor, w_ptr: tl.tensor, out_ptr: tl.tensor,
    x_row: tl.tensor, part_stride: tl.tensor, row_stride: tl.tensor, M: tl.tensor, eps: tl.tensor,
    N: tl.constexpr, K: tl.constexpr, PARTS: tl.constexpr, PAD_PARTS: tl.constexpr,
    PAD_M: tl.constexpr, PARTS_K: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr, ahead_ptr: tl.tensor, LINES: tl.constexpr, ROW: tl.constexpr, COLUMNS: tl.constexpr,
    SECOND: tl.constexpr, LINE: tl.constexpr, PDL: tl.constexpr,
) -> None:  # fmt: skip
    """One program, BLOCK_N columns of the logits."""
    first = tl.program_id(0) * BLOCK_N
    wait(PDL)
    squares = load_squares(squares_ptr, part_stride, row_stride, M, PARTS, PAD_PARTS, PAD_M)
    # rows past the end read the last one again: never stored
    w_rows = tl.minimum(first + tl.arange(0, BLOCK_N * PARTS_K) // PARTS_K, N - 1)
    acc = product(x_ptr, x_row, M, w_ptr, w_rows, K, PAD_M, PARTS_K, BLOCK_N, BLOCK_K, STAGES)
    leave(ahead_ptr, LINES, ROW, COLUMNS, SECOND, LINE, PDL)
    out = summed(acc, BLOCK_N, PAD_M, PARTS_K) * rstd(squares, eps, K)[None, :]
    n, rows = first + tl.arange(0, BLOCK_N), tl.arange(0, PAD_M)
    inside = (rows < M)[None, :] & (n < N)[:, None]
    tl.store(out_ptr + rows[None, :] * N + n[:, None], out.to(out_ptr.dtype.element_ty), mask=inside)


def launch(
    x: torch.Tensor, squares: torch.Tensor, weight: torch.Tensor, eps: float, tile: Tile, *, pdl: bool = True
) -> torch.Tensor:
    """x[M, K] (scaled) and squares[P, M], their rows any distance apart; weight[N, K]: logits [M, N]."""
    (m, k), (parts, _), n = x.shape, squares.shape, weight.shape[0]
    out = x.new_empty(m, n)
    programs = cdiv(n, tile.block_n)
    norm_lm_head_gemm_kernel[(programs,)](
        x, squares, weight, out, x.stride(0), squares.stride(0), squares.stride(1), m, eps,
        N=n, K=k, PARTS=parts, PAD_PARTS=next_power_of_2(parts), **tile.constants(x),
        **follow(x, programs, pdl=pdl),
    )  # fmt: skip
    return out


def norm_lm_head_reference(
    x: torch.Tensor, squares: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    """The same in plain PyTorch: fp32, rounded once to x's dtype."""
    return (normed_reference(x, squares, eps) @ weight.float().T).to(x.dtype)


@custom_op("norm_lm_head")
def norm_lm_head(
    x: torch.Tensor, squares: torch.Tensor, weight: torch.Tensor, eps: float, pdl: bool
) -> torch.Tensor:
    """Logits of the normed rows.

    x[M, E] and squares[P, M] of a `Stream`, or every so many rows of one (M is a batch: one row a sequence);
    weight[V, E], fp16, bf16 or fp32; sums and norm in fp32 -> [M, V]. `pdl`: see `stream`.

    Raises:
        UsageError: unsupported or mixed dtypes, or shapes that do not fit.
    """
    check_inputs("norm_lm_head", x, weight)
    fits = x.shape[1] == weight.shape[1] and x.stride(1) == 1
    check_shape("norm_lm_head", fits, f"x {list(x.shape)} and weight {list(weight.shape)} do not fit")
    dtype = x.dtype
    x, weight = interpretable(x, weight)
    return launch(x, squares, weight, eps, decode_tile("head", x, 64), pdl=pdl).to(dtype)


@norm_lm_head.register_fake
def _(x: torch.Tensor, squares: torch.Tensor, weight: torch.Tensor, eps: float, pdl: bool) -> torch.Tensor:
    return x.new_empty(x.shape[0], weight.shape[0])
