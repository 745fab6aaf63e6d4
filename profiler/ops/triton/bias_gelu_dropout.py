"""Bias, GELU and dropout in one pass: y = dropout(gelu(x + bias)).

GELU (Hendrycks and Gimpel 2016, arXiv 1606.08415) is x * Phi(x), or its approximation by tanh. Dropout
(Srivastava et al. 2014) keeps an element with probability 1 - p and scales it by 1 / (1 - p). Whether an
element is kept depends on its place and on the seed alone, by the counter-based generator Philox (Salmon et
al. 2011): a backward pass draws the same mask again and nobody stores it. One Philox call gives four numbers,
for four elements a quarter of a block apart. A captured CUDA graph keeps the seed it was captured with.
"""

import torch
import triton.language as tl

from profiler.ops.triton.common import cdiv, check_inputs, check_shape, custom_op, jit

QUARTER = 1024  # elements: 4 warps x 32 threads x 8 fp16, one 128-bit load per thread and quarter
APPROXIMATIONS = ("none", "tanh")


@jit
def gelu(x: tl.tensor, TANH: tl.constexpr) -> tl.tensor:
    """GELU in fp32."""
    if TANH:  # (1 + tanh(u)) / 2 = sigmoid(2u), and 2 sqrt(2 / pi) is 1.5957691
        return x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@jit
def bias_gelu_dropout_quarter(
    x_ptr: tl.tensor, bias_ptr: tl.tensor, out_ptr: tl.tensor, row: tl.tensor, cols: tl.tensor,
    width: tl.tensor, random: tl.tensor, p: tl.tensor, scale: tl.tensor,
    TANH: tl.constexpr, DROPOUT: tl.constexpr,
) -> None:  # fmt: skip
    """The elements `cols` of the row that begins at `row`."""
    inside = cols < width
    x = tl.load(x_ptr + row + cols, mask=inside, other=0.0).to(tl.float32)
    x += tl.load(bias_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    y = gelu(x, TANH)
    if DROPOUT:
        y = tl.where(random >= p, y * scale, 0.0)
    tl.store(out_ptr + row + cols, y.to(out_ptr.dtype.element_ty), mask=inside)


@jit
def bias_gelu_dropout_kernel(
    x_ptr: tl.tensor, bias_ptr: tl.tensor, out_ptr: tl.tensor, width: tl.tensor, p: tl.tensor,
    scale: tl.tensor, seed: tl.tensor, TANH: tl.constexpr, DROPOUT: tl.constexpr, QUARTER: tl.constexpr,
) -> None:  # fmt: skip
    """Program (row, block): four quarters of columns of one row, all out of one Philox call."""
    row = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * 4 * QUARTER + tl.arange(0, QUARTER)
    counter = (row * tl.num_programs(1) + tl.program_id(1)) * QUARTER + tl.arange(0, QUARTER)
    begin = row * width
    if DROPOUT:
        a, b, c, d = tl.rand4x(seed, counter)
    else:
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
    bias_gelu_dropout_quarter(x_ptr, bias_ptr, out_ptr, begin, first, width, a, p, scale, TANH, DROPOUT)
    bias_gelu_dropout_quarter(
        x_ptr, bias_ptr, out_ptr, begin, first + QUARTER, width, b, p, scale, TANH, DROPOUT
    )
    bias_gelu_dropout_quarter(
        x_ptr, bias_ptr, out_ptr, begin, first + 2 * QUARTER, width, c, p, scale, TANH, DROPOUT
    )
    bias_gelu_dropout_quarter(
        x_ptr, bias_ptr, out_ptr, begin, first + 3 * QUARTER, width, d, p, scale, TANH, DROPOUT
    )


def bias_gelu_dropout_reference(
    x: torch.Tensor, bias: torch.Tensor, kept: torch.Tensor, p: float, approximate: str = "none"
) -> torch.Tensor:
    """The same in plain PyTorch, given which elements are kept (bool, x's shape): fp32, rounded once."""
    y = torch.nn.functional.gelu(x.float() + bias.float(), approximate=approximate)
    return torch.where(kept, y * _scale(p), 0.0).to(x.dtype)


@custom_op("bias_gelu_dropout")
def bias_gelu_dropout(
    x: torch.Tensor, bias: torch.Tensor, p: float, seed: int, approximate: str = "none"
) -> torch.Tensor:
    """dropout(gelu(x + bias)).

    x[..., N], bias[N], both fp16, bf16 or fp32 -> [..., N], contiguous, x's dtype; computes in fp32. `p` in
    [0, 1] is the probability of a zero; `approximate` is `none` or `tanh`, as in PyTorch. Equal seeds give
    equal masks for equal shapes, whatever the dtype and the numbers.

    Raises:
        UsageError: unsupported or mixed dtypes, bias not [N], p outside [0, 1], unknown `approximate`.
    """
    check_inputs("bias_gelu_dropout", x, bias)
    width = x.shape[-1] if x.dim() else 0
    fits = x.dim() > 0 and bias.shape == (width,)
    check_shape(
        "bias_gelu_dropout", fits, f"bias is {list(bias.shape)}, x is {list(x.shape)}; use [N], [..., N]"
    )
    check_shape("bias_gelu_dropout", 0 <= p <= 1, f"p is {p}; use a probability from 0 to 1")
    known = approximate in APPROXIMATIONS
    check_shape("bias_gelu_dropout", known, f"approximate is {approximate!r}; use 'none' or 'tanh'")
    x, bias = x.contiguous(), bias.contiguous()
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    if out.numel():
        grid = (out.numel() // width, cdiv(width, 4 * QUARTER))
        bias_gelu_dropout_kernel[grid](
            x, bias, out, width, p, _scale(p), seed, TANH=approximate == "tanh", DROPOUT=p > 0,
            QUARTER=QUARTER, num_warps=4,
        )  # fmt: skip
    return out


def _scale(p: float) -> float:
    """What a kept element is multiplied by; nothing is kept at p = 1."""
    return 1 / (1 - p) if p < 1 else 0.0


@bias_gelu_dropout.register_fake
def _(x: torch.Tensor, bias: torch.Tensor, p: float, seed: int, approximate: str = "none") -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)
