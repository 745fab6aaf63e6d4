"""Row softmax: y = exp(x - max(x)) / sum(exp(x - max(x))) over the last dimension.

A row of at most ONE_PASS elements stays in registers: it is read once and written once. A longer one takes
two launches: parts of it find their maximum and sum online (Milakov and Gimelshein 2018, arXiv 1805.02867),
then each part reads its elements again, merges what all parts found, and writes. The second reading mostly
meets the L2: a row of 128256 fp16 logits is 0.25 MB.
"""

import torch
import triton.language as tl

from profiler.ops.triton.common import (
    LOG2_E,
    SM_COUNT,
    cdiv,
    check_inputs,
    check_shape,
    custom_op,
    jit,
    next_power_of_2,
)

ONE_PASS = 32768  # 64 fp32 registers of each of 512 threads
BLOCK = 4096  # elements that a program of a longer row works on at a time
MAX_PARTS = 256


@jit
def softmax_kernel(
    x_ptr: tl.tensor,
    out_ptr: tl.tensor,
    x_row: tl.tensor,
    D: tl.tensor,
    log2_e: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """One program, one row; those of x are x_row apart."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < D
    x = tl.load(x_ptr + row * x_row + cols, mask=inside, other=float("-inf")).to(tl.float32)
    y = tl.exp2((x - tl.max(x, axis=0)) * log2_e)
    tl.store(out_ptr + row * D + cols, (y / tl.sum(y, axis=0)).to(out_ptr.dtype.element_ty), mask=inside)


@jit
def softmax_parts_kernel(
    x_ptr: tl.tensor, best_ptr: tl.tensor, sum_ptr: tl.tensor, x_row: tl.tensor, D: tl.tensor,
    width: tl.tensor, log2_e: tl.tensor, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Program (row, part): the maximum of `width` elements, and the sum of exp(x - maximum)."""
    row = tl.program_id(0).to(tl.int64)
    begin = tl.program_id(1) * width
    end = tl.minimum(begin + width, D)
    best = tl.full((), float("-inf"), dtype=tl.float32)
    total = tl.full((), 0.0, dtype=tl.float32)
    for start in range(begin, end, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_row + cols, mask=cols < end, other=float("-inf")).to(tl.float32)
        new = tl.maximum(best, tl.max(x, axis=0))
        zero = tl.where(new == float("-inf"), 0.0, new)  # of nothing but -inf so far the sum is 0, not NaN
        total = total * tl.exp2((best - zero) * log2_e) + tl.sum(tl.exp2((x - zero) * log2_e), axis=0)
        best = new
    here = row * tl.num_programs(1) + tl.program_id(1)
    tl.store(best_ptr + here, best)
    tl.store(sum_ptr + here, total)


@jit
def softmax_scale_kernel(
    x_ptr: tl.tensor, best_ptr: tl.tensor, sum_ptr: tl.tensor, out_ptr: tl.tensor, x_row: tl.tensor,
    D: tl.tensor, width: tl.tensor, log2_e: tl.tensor, PAD: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Program (row, part): exp(x - maximum) / sum of `width` elements, by the row's maximum and sum."""
    row = tl.program_id(0).to(tl.int64)
    parts = tl.arange(0, PAD)
    here = row * tl.num_programs(1) + parts
    inside = parts < tl.num_programs(1)
    bests = tl.load(best_ptr + here, mask=inside, other=float("-inf"))
    sums = tl.load(sum_ptr + here, mask=inside, other=0.0)
    best = tl.max(bests, axis=0)
    zero = tl.where(best == float("-inf"), 0.0, best)
    total = tl.sum(sums * tl.exp2((bests - zero) * log2_e), axis=0)  # 0 in a row of -inf: 0 / 0, as it should
    begin = tl.program_id(1) * width
    end = tl.minimum(begin + width, D)
    for start in range(begin, end, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_row + cols, mask=cols < end, other=float("-inf")).to(tl.float32)
        y = tl.exp2((x - zero) * log2_e) / total
        tl.store(out_ptr + row * D + cols, y.to(out_ptr.dtype.element_ty), mask=cols < end)


def softmax_reference(x: torch.Tensor) -> torch.Tensor:
    """The same in plain PyTorch: fp32 math, one rounding to x's dtype at the end."""
    return x.float().softmax(-1).to(x.dtype)


@custom_op("softmax")
def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension.

    x[..., D], fp16, bf16 or fp32 -> [..., D], contiguous, x's dtype; computes in fp32. A row of -inf alone,
    and one with NaN or +inf, becomes NaN, as in PyTorch.

    Raises:
        UsageError: unsupported dtype, or x without dimensions.
    """
    check_inputs("softmax", x)
    check_shape("softmax", x.dim() > 0, "x is a scalar; it needs a last dimension")
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    if not out.numel():
        return out
    rows = x.reshape(-1, x.shape[-1])  # a view of the last position of every sequence too
    if rows.stride(-1) != 1:
        rows = rows.contiguous()
    count, size = rows.shape
    if size <= ONE_PASS:
        block = next_power_of_2(size)
        softmax_kernel[(count,)](
            rows, out, rows.stride(0), size, LOG2_E, BLOCK=block, num_warps=min(max(block // 512, 1), 16)
        )
        return out
    width, parts = split(count, size)
    best, total = (x.new_empty(count, parts, dtype=torch.float32) for _ in range(2))
    softmax_parts_kernel[(count, parts)](
        rows, best, total, rows.stride(0), size, width, LOG2_E, BLOCK=BLOCK, num_warps=8
    )
    softmax_scale_kernel[(count, parts)](
        rows, best, total, out, rows.stride(0), size, width, LOG2_E, PAD=next_power_of_2(parts), BLOCK=BLOCK,
        num_warps=8,
    )  # fmt: skip
    return out


def split(rows: int, size: int) -> tuple[int, int]:
    """Elements of a part, whole blocks, and the parts of a row: four programs an SM where rows are few."""
    blocks = cdiv(size, BLOCK)
    wanted = min(cdiv(4 * SM_COUNT, rows), blocks, MAX_PARTS)
    width = cdiv(blocks, wanted) * BLOCK
    return width, cdiv(size, width)


@softmax.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)
