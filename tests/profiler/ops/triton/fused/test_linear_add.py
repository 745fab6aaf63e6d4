from __future__ import annotations

import pytest
import torch

from profiler.ops.triton.fused.linear_add import linear_add, linear_add_reference
from tests.profiler.ops.triton.checks import rand
from tests.profiler.ops.triton.fused.cases import near, weight
from traces.errors import UsageError


def arguments(m: int, n: int, k: int, dtype: torch.dtype, *, bias: bool) -> tuple[torch.Tensor | None, ...]:
    return (
        rand(m, k, dtype=dtype), weight(n, k, dtype), rand(n, dtype=dtype) if bias else None,
        rand(m, n, dtype=dtype), rand(n, dtype=dtype),
    )  # fmt: skip


@pytest.mark.parametrize("m", [1, 2, 3, 8, 16, 17])
@pytest.mark.parametrize("bias", [False, True])
def test_matches_reference(m: int, bias: bool, dtype: torch.dtype) -> None:
    given = arguments(m, 48, 80, dtype, bias=bias)
    near(linear_add(*given, None, 0, True), linear_add_reference(*given), dtype)


@pytest.mark.parametrize("k", [16, 128, 136, 300])
def test_any_depth(k: int) -> None:
    given = arguments(2, 32, k, torch.float32, bias=True)
    near(linear_add(*given, None, 0, True), linear_add_reference(*given), torch.float32)


def test_the_norm_is_that_of_the_stored_numbers() -> None:
    given = arguments(2, 64, 64, torch.float16, bias=False)
    x, _, squares = linear_add(*given, None, 0, True)
    torch.testing.assert_close(squares.sum(0), x.float().square().sum(1), rtol=1e-6, atol=0)


@pytest.mark.filterwarnings("ignore:invalid value encountered in matmul")  # what this is about
def test_unequal_parts_of_k_never_meet() -> None:
    """One row is infinite where the other is zero: a product of the two would be NaN."""
    x, w, _, residual, gamma = arguments(2, 16, 64, torch.float32, bias=False)
    assert x is not None
    x[0], x[1] = torch.inf, 0.0
    out, _, _ = linear_add(x, w, None, residual, gamma, None, 0, True)
    assert torch.equal(out[1], residual[1])


def test_repeats_bit_for_bit() -> None:
    given = arguments(3, 64, 256, torch.float16, bias=True)
    first = linear_add(*given, None, 0, True)
    assert all(torch.equal(a, b) for a, b in zip(first, linear_add(*given, None, 0, True), strict=True))


def test_refuses_what_does_not_fit() -> None:
    x, w, _, residual, gamma = arguments(2, 32, 64, torch.float32, bias=False)
    with pytest.raises(UsageError, match=r"linear_add: x \[2, 64\], weight \[32, 63\]"):
        linear_add(x, w[:, 1:], None, residual, gamma, None, 0, True)
    with pytest.raises(UsageError, match="linear_add: inputs are"):
        linear_add(x, w.half(), None, residual, gamma, None, 0, True)


@pytest.mark.gpu
@pytest.mark.parametrize("m", [1, 2, 8, 16, 1024, 1000])
@pytest.mark.parametrize(("n", "k"), [(4096, 4096), (4096, 14336)])
def test_8b_shapes(m: int, n: int, k: int) -> None:
    given = arguments(m, n, k, torch.float16, bias=True)
    after = weight(4096, 4096, torch.float16)
    near(linear_add(*given, after, 0, True), linear_add_reference(*given), torch.float16)
