from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.ops.triton import splitk
from profiler.ops.triton.splitk import Config, Shape, splitk_gemm, splitk_linear, splitk_linear_reference
from tests.profiler.ops.triton.checks import rand
from traces.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

LLAMA3_8B = [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (128256, 4096)]


def operands(m: int, n: int, k: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    return rand(m, k, dtype=dtype), (rand(n, k) * k**-0.5).to(dtype)


def near(actual: torch.Tensor, expected: torch.Tensor, splits: int = 4) -> None:
    """One rounding of a sum of about 1, and two more for every split: of its part and of the sum so far."""
    assert actual.dtype == expected.dtype
    scale = 1 + expected.abs().max().item() if expected.numel() else 1.0
    bound = scale * (torch.finfo(expected.dtype).eps * (1 + 2 * splits) + 2e-5)
    torch.testing.assert_close(actual.float(), expected.float(), rtol=0, atol=bound)


@pytest.fixture(autouse=True)
def nothing_selected() -> Iterator[None]:
    yield
    splitk.select({})


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("mnk", [(1, 64, 64), (2, 50, 700), (16, 1, 1), (17, 130, 70), (70, 140, 129)])
def test_matches_reference(mnk: tuple[int, int, int], bias: bool, dtype: torch.dtype) -> None:
    x, weight = operands(*mnk, dtype=dtype)
    b = rand(mnk[1], dtype=dtype) if bias else None
    near(splitk_linear(x, weight, b), splitk_linear_reference(x, weight, b))


@settings(max_examples=25, deadline=None)
@given(m=st.integers(1, 40), n=st.integers(1, 80), k=st.integers(1, 300))
def test_any_size(m: int, n: int, k: int) -> None:
    x, weight = operands(m, n, k)
    near(splitk_linear(x, weight), splitk_linear_reference(x, weight))


@pytest.mark.parametrize("split_k", [1, 2, 3, 5, 9])
def test_split_k(split_k: int) -> None:
    """Also where the splits do not divide the K blocks, and where there are more splits than blocks."""
    x, weight = operands(3, 20, 8 * 32 - 5, torch.float16)
    config = Config(16, 16, 32, split_k, num_warps=4, num_stages=2, group_m=1)
    bias = rand(20, dtype=torch.float16)
    expected = splitk_linear_reference(x, weight, bias)
    near(splitk_gemm(x, weight, config, bias), expected, split_k)


@pytest.mark.parametrize(("m", "n"), [(40, 70), (100, 16), (48, 33)])
def test_grouped_order_covers_every_tile(m: int, n: int) -> None:
    x, weight = operands(m, n, 40)
    config = Config(16, 16, 16, split_k=2, num_warps=4, num_stages=2, group_m=3)
    near(splitk_gemm(x, weight, config), splitk_linear_reference(x, weight))


def test_the_default_is_one_configuration_per_phase() -> None:
    assert len({splitk.default_config(m, 2) for m in (1, 2, 16)}) == 1
    assert len({splitk.default_config(m, 2) for m in (17, 64, 1024)}) == 1
    assert splitk.default_config(2, 2).split_k == 4
    assert splitk.default_config(1024, 2).split_k == 1


def test_a_selected_configuration_is_used_for_its_shape_only(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[Config] = []
    real = splitk.splitk_gemm

    def spy(x: torch.Tensor, weight: torch.Tensor, config: Config, bias: object = None) -> torch.Tensor:
        used.append(config)
        return real(x, weight, config)

    monkeypatch.setattr(splitk, "splitk_gemm", spy)
    mine = Config(16, 16, 64, 2, 4, 2, 1)
    splitk.select({Shape(2, 24, 96): mine})
    for n in (24, 40):
        x, weight = operands(2, n, 96)
        near(splitk_linear(x, weight), splitk_linear_reference(x, weight))
    assert used == [mine, splitk.default_config(2, 4)]


def test_strided_and_batched_input() -> None:
    x, weight = rand(2, 5, 96)[:, -1:, :32], rand(7, 32)
    assert splitk_linear(x, weight).shape == (2, 1, 7)
    near(splitk_linear(x, weight), splitk_linear_reference(x, weight))


def test_no_rows() -> None:
    assert splitk_linear(rand(0, 3, 8), rand(5, 8)).shape == (0, 3, 5)


def test_opcheck() -> None:
    torch.library.opcheck(splitk_linear, operands(3, 8, 16))
    torch.library.opcheck(splitk_linear, (*operands(3, 8, 16), rand(8)))


def test_refuses_bad_input() -> None:
    with pytest.raises(UsageError, match=r"splitk_linear: weight is \[5, 9\], x needs \[N, 8\]"):
        splitk_linear(rand(2, 8), rand(5, 9))


@pytest.mark.gpu
@pytest.mark.parametrize("m", [1, 2, 16, 17, 1024])
@pytest.mark.parametrize(("n", "k"), LLAMA3_8B)
@pytest.mark.parametrize("dtype_name", ["float16", "bfloat16"])
def test_llama3_8b(m: int, n: int, k: int, dtype_name: str) -> None:
    x, weight = operands(m, n, k, getattr(torch, dtype_name))
    near(splitk_linear(x, weight), splitk_linear_reference(x, weight))
