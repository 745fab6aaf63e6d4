"""Every kernel against float64 arithmetic on the same inputs: ragged shapes, batch 1 to 8, strided views.

The other tests compare with fp32 references that round as the kernel does; here nothing of the reference is
shared with the kernel. Results may differ by one rounding to the dtype and by the order of fp32 additions.
"""

from __future__ import annotations

import math

import pytest
import torch

from profiler.ops.triton.add import add
from profiler.ops.triton.attention import attention
from profiler.ops.triton.gemm import linear
from profiler.ops.triton.rms_norm import rms_norm
from profiler.ops.triton.rope import rope
from profiler.ops.triton.silu_mul import silu_mul
from tests.profiler.ops.triton.checks import DEVICE, rand

BATCHES = pytest.mark.parametrize("batch", range(1, 9))
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def dtype_of(batch: int) -> torch.dtype:
    """Take turns: the interpreter is slow, and a dtype and a batch size have little to do with each other."""
    return DTYPES[batch % 3]


def near(actual: torch.Tensor, exact: torch.Tensor, *, additions: int = 1, inner: float = 0.0) -> None:
    """Within half a unit in the last place, plus fp32 rounding of `additions` sums, plus `inner` roundings.

    `inner` counts roundings to the dtype inside the kernel, relative to the largest result.
    """
    assert exact.dtype == torch.float64
    assert not actual.isnan().any(), "an element was not written, or was read unwritten"
    eps = torch.finfo(actual.dtype).eps
    scale = exact.abs().max().item()
    # Triton 3.6's interpreter cuts fp32 down to bf16 where a GPU rounds to nearest
    units = 1.01 if DEVICE == "cpu" and actual.dtype == torch.bfloat16 else 0.51
    slack = 4 * torch.finfo(torch.float32).eps * math.sqrt(additions) * scale + inner * eps * scale
    assert ((actual.double() - exact).abs() <= units * eps * exact.abs() + slack).all()


@BATCHES
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("tokens", "n", "k"), [(1, 45, 193), (3, 70, 66)])
def test_linear(batch: int, tokens: int, n: int, k: int, bias: bool) -> None:
    """Also the switch from the kernel of few rows to the tiled one, at 16 rows."""
    dtype = dtype_of(batch)
    x, weight = rand(batch, tokens, k, dtype=dtype), rand(n, k, dtype=dtype)
    b = rand(n, dtype=dtype) * 9 if bias else None
    exact = x.double() @ weight.double().t() + (b.double() if b is not None else 0)
    near(linear(x, weight, b), exact, additions=k)


@BATCHES
def test_rms_norm(batch: int) -> None:
    dtype = dtype_of(batch)
    x, weight = rand(batch, 3, 129, dtype=dtype)[:, -1:], rand(129, dtype=dtype)
    wide = x.double()
    exact = wide / (wide.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double()
    near(rms_norm(x, weight, 1e-5), exact, additions=129)


@BATCHES
def test_rope(batch: int) -> None:
    """On views of one projection, with angles that are the halves of one table."""
    dtype, tokens = dtype_of(batch), 1 + batch % 3
    heads = rand(batch, tokens, 5, 24, dtype=dtype).transpose(1, 2)
    angle = rand(tokens, 12)
    cos, sin = torch.cat((angle.cos(), angle.sin()), -1).to(dtype).chunk(2, -1)
    for x, out in zip(
        (heads[:, :3], heads[:, 3:4]), rope(heads[:, :3], heads[:, 3:4], cos, sin), strict=True
    ):
        a, b = x.double().chunk(2, -1)
        c, s = cos.double(), sin.double()
        near(out, torch.cat((a * c - b * s, b * c + a * s), -1))


@BATCHES
def test_silu_mul_and_add(batch: int) -> None:
    dtype = dtype_of(batch)
    gate_up = rand(batch, 2, 2 * 131, dtype=dtype) * 3
    gate, up = gate_up.double().chunk(2, -1)
    near(silu_mul(gate_up), gate / (1 + (-gate).exp()) * up)
    x, y = gate_up[..., :131], gate_up[..., 131:]
    near(add(x, y), x.double() + y.double())


@BATCHES
@pytest.mark.parametrize(("tokens", "start", "length"), [(1, 70, 90), (5, 33, 61)])
def test_attention(batch: int, tokens: int, start: int, length: int) -> None:
    """The cache beyond the last position is NaN, and caches lie token by token as the model has them."""
    dtype = dtype_of(batch)
    q = rand(batch, tokens, 6, 16, dtype=dtype).transpose(1, 2)
    k, v = (rand(batch, length, 2, 16, dtype=dtype).transpose(1, 2) for _ in range(2))
    k[:, :, start + tokens :] = v[:, :, start + tokens :] = float("nan")
    positions = torch.arange(start, start + tokens, device=DEVICE)
    seen = start + tokens
    keys, values = (t[:, :, :seen].double().repeat_interleave(3, 1) for t in (k, v))
    scores = q.double() @ keys.transpose(-1, -2) / 4
    hidden = torch.arange(seen, device=DEVICE) > positions[:, None]
    exact = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ values
    # probabilities are rounded to the dtype before they meet V
    near(attention(q, k, v, positions), exact, additions=seen, inner=0.0 if dtype == torch.float32 else 0.5)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
@pytest.mark.parametrize("batch", [1, 2, 8])
@pytest.mark.parametrize(
    ("n", "k"), [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (49152, 4096)]
)
def test_linear_of_granite_8b(batch: int, n: int, k: int, dtype: torch.dtype) -> None:
    """Decode and a prompt, with biases. Tensor cores cut what they add off: errors grow as K, not sqrt(K)."""
    weight, bias = (rand(n, k) * k**-0.5).to(dtype), rand(n, dtype=dtype)
    for tokens in (1, 100):
        x = rand(batch, tokens, k, dtype=dtype)
        near(
            linear(x, weight, bias),
            x.double() @ weight.double().t() + bias.double(),
            additions=(k // 16) ** 2,
        )


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
@pytest.mark.parametrize("batch", [1, 2, 8])
@pytest.mark.parametrize(("tokens", "start", "length"), [(1, 640, 768), (1, 4000, 4096), (512, 0, 512)])
def test_attention_of_8b_models(batch: int, tokens: int, start: int, length: int, dtype: torch.dtype) -> None:
    q = rand(batch, tokens, 32, 128, dtype=dtype).transpose(1, 2)
    k, v = (rand(batch, length, 8, 128, dtype=dtype).transpose(1, 2) for _ in range(2))
    k[:, :, start + tokens :] = v[:, :, start + tokens :] = float("nan")
    positions = torch.arange(start, start + tokens, device=DEVICE)
    seen = start + tokens
    keys, values = (t[:, :, :seen].double().repeat_interleave(4, 1) for t in (k, v))
    scores = q.double() @ keys.transpose(-1, -2) / math.sqrt(128)
    hidden = torch.arange(seen, device=DEVICE) > positions[:, None]
    exact = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ values
    near(attention(q, k, v, positions), exact, additions=seen, inner=0.5)
