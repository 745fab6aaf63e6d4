"""RMSNorm: y = x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019, arXiv 1910.07467)."""

import torch
import triton.language as tl

from profiler.ops.triton.common import check_inputs, check_shape, custom_op, jit, next_power_of_2

MAX_WIDTH = 65536  # one program holds a whole row in registers


@jit
def rms_norm_kernel(
    x_ptr: tl.tensor,
    weight_ptr: tl.tensor,
    out_ptr: tl.tensor,
    x_row: tl.tensor,
    D: tl.tensor,
    eps: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """One program, one row; those of x are x_row apart."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < D
    x = tl.load(x_ptr + row * x_row + cols, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / D + eps)
    tl.store(out_ptr + row * D + cols, (x * rstd * weight).to(out_ptr.dtype.element_ty), mask=inside)


def rms_norm_reference(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """The same in plain PyTorch: fp32 math, one rounding to x's dtype at the end."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.float()).to(x.dtype)


@custom_op("rms_norm")
def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Normalise the last dimension.

    x[..., D], weight[D], both fp16, bf16 or fp32 -> [..., D], contiguous, x's dtype; accumulates in fp32.

    Raises:
        UsageError: unsupported or mixed dtypes, weight that is not [D], D above 65536.
    """
    width = x.shape[-1]
    check_inputs("rms_norm", x, weight)
    check_shape("rms_norm", weight.shape == (width,), f"weight is {list(weight.shape)}, x needs [{width}]")
    check_shape("rms_norm", 0 < width <= MAX_WIDTH, f"width {width} is outside 1..{MAX_WIDTH}")
    weight = weight.contiguous()
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    rows = x.reshape(-1, width)  # a view of the last position of every sequence too
    if rows.stride(-1) != 1:
        rows = rows.contiguous()
    if len(rows):
        block = next_power_of_2(width)
        rms_norm_kernel[(len(rows),)](
            rows, weight, out, rows.stride(0), width, eps, BLOCK=block, num_warps=warps_for(block)
        )
    return out


def warps_for(block: int) -> int:
    """Threads enough for 16 elements each: two 128-bit fp16 loads in flight per thread."""
    return min(max(block // 512, 1), 16)


@rms_norm.register_fake
def _(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)
