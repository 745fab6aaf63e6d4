"""Residual add: z = x + y."""

import torch
import triton.language as tl

from profiler.ops.triton.common import cdiv, check_inputs, check_shape, custom_op, jit

BLOCK = 1024


@jit
def add_kernel(
    x_ptr: tl.tensor, y_ptr: tl.tensor, out_ptr: tl.tensor, size: tl.tensor, BLOCK: tl.constexpr
) -> None:
    """One program, BLOCK elements."""
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offs < size
    x = tl.load(x_ptr + offs, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + offs, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + offs, (x + y).to(out_ptr.dtype.element_ty), mask=inside)


def add_reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The same in plain PyTorch: fp32 math, one rounding to x's dtype at the end."""
    return (x.float() + y.float()).to(x.dtype)


@custom_op("add")
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x + y of the same shape and dtype (fp16, bf16 or fp32) -> contiguous, same dtype; no broadcasting.

    Raises:
        UsageError: unsupported or mixed dtypes, or different shapes.
    """
    check_inputs("add", x, y)
    check_shape(
        "add", x.shape == y.shape, f"x is {list(x.shape)}, y is {list(y.shape)}; shapes must be equal"
    )
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty_like(x)
    if size := x.numel():
        add_kernel[(cdiv(size, BLOCK),)](x, y, out, size, BLOCK=BLOCK, num_warps=4)
    return out


@add.register_fake
def _(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)
