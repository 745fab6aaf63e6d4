"""SwiGLU's elementwise half: y = silu(gate) * up (Shazeer 2020, arXiv 2002.05202)."""

import torch
import triton.language as tl

from profiler.ops.triton.common import cdiv, check_inputs, check_shape, custom_op, jit

BLOCK = 1024  # 4 warps x 32 threads x 8 fp16: one 128-bit load per thread and half


@jit
def silu_mul_kernel(
    gate_up_ptr: tl.tensor, out_ptr: tl.tensor, width: tl.tensor, BLOCK: tl.constexpr
) -> None:
    """One program, BLOCK columns of one row."""
    row = tl.program_id(0).to(tl.int64) * width
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = cols < width
    gate = tl.load(gate_up_ptr + 2 * row + cols, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up_ptr + 2 * row + width + cols, mask=inside, other=0.0).to(tl.float32)
    silu = gate * tl.sigmoid(gate)
    tl.store(out_ptr + row + cols, (silu * up).to(out_ptr.dtype.element_ty), mask=inside)


def silu_mul_reference(gate_up: torch.Tensor) -> torch.Tensor:
    """The same in plain PyTorch: fp32 math, one rounding to the input's dtype at the end."""
    gate, up = gate_up.float().chunk(2, dim=-1)
    return (torch.nn.functional.silu(gate) * up).to(gate_up.dtype)


@custom_op("silu_mul")
def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """silu of the first half times the second half.

    gate_up[..., 2*I], fp16, bf16 or fp32 -> [..., I], contiguous, same dtype; computes in fp32.

    Raises:
        UsageError: unsupported dtype, or a last dimension that is odd.
    """
    check_inputs("silu_mul", gate_up)
    double = gate_up.shape[-1]
    check_shape("silu_mul", double % 2 == 0, f"last dimension {double} is odd; it must hold gate and up")
    gate_up, width = gate_up.contiguous(), double // 2
    out = gate_up.new_empty(*gate_up.shape[:-1], width)
    if out.numel():
        grid = (out.numel() // width, cdiv(width, BLOCK))
        silu_mul_kernel[grid](gate_up, out, width, BLOCK=BLOCK, num_warps=4)
    return out


@silu_mul.register_fake
def _(gate_up: torch.Tensor) -> torch.Tensor:
    return gate_up.new_empty(*gate_up.shape[:-1], gate_up.shape[-1] // 2)
