"""Inputs that the tests of several fused kernels share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from profiler.ops.triton.fused.stream import Stream, stream_reference
from tests.profiler.ops.triton.checks import DEVICE, rand

if TYPE_CHECKING:
    from collections.abc import Sequence

EPS = 1e-5


def stream(rows: int, width: int, dtype: torch.dtype, parts: int = 4) -> Stream:
    """A residual, and what its last writer left for a norm."""
    return stream_reference(rand(rows, width, dtype=dtype), rand(width, dtype=dtype), parts)


def weight(n: int, k: int, dtype: torch.dtype) -> torch.Tensor:
    """A weight that keeps the scale of what it multiplies."""
    return (rand(n, k) * k**-0.5).to(dtype)


def near(actual: Stream | Sequence[torch.Tensor], expected: Stream, dtype: torch.dtype) -> None:
    """Equal streams, whatever the number of parts in which squares are kept."""
    limit = {torch.float32: 3e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}[dtype]
    x, scaled, squares = actual
    torch.testing.assert_close(x, expected.x, rtol=limit, atol=limit)
    torch.testing.assert_close(scaled, expected.scaled, rtol=2 * limit, atol=2 * limit)
    exact = x.float().square().sum(1)  # of what was stored, not of what should have been
    torch.testing.assert_close(squares.sum(0), exact, rtol=1e-4, atol=1e-4)


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Within a rounding of the inputs and one of the result."""
    limit = {torch.float32: 3e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}[expected.dtype]
    torch.testing.assert_close(actual, expected, rtol=limit, atol=limit)


def positions(*values: int) -> torch.Tensor:
    """int64 on the tests' device."""
    return torch.tensor(values, device=DEVICE)
