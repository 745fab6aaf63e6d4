from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.ops.triton.gemm import (
    SmallConfig,
    TiledConfig,
    gemm_small_m,
    gemm_tiled,
    linear,
    linear_reference,
    small_config,
    tiled_config,
)
from tests.profiler.ops.triton.checks import close, rand
from traces.errors import UsageError

LLAMA3_8B = [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (128256, 4096)]


def operands(m: int, n: int, k: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    return rand(m, k, dtype=dtype), (rand(n, k) * k**-0.5).to(dtype)


@pytest.mark.parametrize(
    "mnk", [(1, 64, 64), (2, 50, 700), (8, 33, 1100), (16, 1, 1), (17, 130, 70), (70, 300, 129)]
)
def test_matches_reference(mnk: tuple[int, int, int], dtype: torch.dtype) -> None:
    x, weight = operands(*mnk, dtype=dtype)
    close(linear(x, weight), linear_reference(x, weight))


@settings(max_examples=25, deadline=None)
@given(m=st.integers(1, 40), n=st.integers(1, 80), k=st.integers(1, 300))
def test_any_size(m: int, n: int, k: int) -> None:
    x, weight = operands(m, n, k)
    close(linear(x, weight), linear_reference(x, weight))


@pytest.mark.parametrize("split_k", [1, 2, 3, 5, 9])
def test_split_k(split_k: int) -> None:
    """Also where the splits do not divide the K blocks, and where there are more splits than blocks."""
    x, weight = operands(3, 20, 8 * 32 - 5)
    close(gemm_small_m(x, weight, SmallConfig(16, 32, split_k)), linear_reference(x, weight))


@pytest.mark.parametrize("split_k", [1, 3])
def test_bias_is_added_once_whatever_the_split(split_k: int, dtype: torch.dtype) -> None:
    (x, weight), bias = operands(3, 21, 200, dtype), rand(21, dtype=dtype) * 100
    if dtype == torch.bfloat16:  # the interpreter cannot multiply it
        x, weight, bias = x.float(), weight.float(), bias.float()
    close(gemm_small_m(x, weight, SmallConfig(16, 32, split_k), bias), linear_reference(x, weight, bias))


@pytest.mark.parametrize("m", [1, 16, 17, 70])
def test_bias(m: int, dtype: torch.dtype) -> None:
    (x, weight), bias = operands(m, 35, 90, dtype), rand(35, dtype=dtype)
    close(linear(x, weight, bias), linear_reference(x, weight, bias))
    view = rand(70, dtype=dtype)[::2]
    close(linear(x, weight, view), linear_reference(x, weight, view))


def test_split_k_is_deterministic() -> None:
    x, weight = operands(2, 40, 2048, torch.float16)
    assert torch.equal(linear(x, weight), linear(x, weight))


@pytest.mark.parametrize(("m", "n"), [(40, 70), (100, 16), (130, 33)])
def test_grouped_order_covers_every_tile(m: int, n: int) -> None:
    x, weight = operands(m, n, 20)
    config = TiledConfig(16, 16, 16, num_warps=4, num_stages=2, group_m=3)
    close(gemm_tiled(x, weight, config), linear_reference(x, weight))


def test_strided_and_batched_input() -> None:
    x, weight = rand(2, 5, 96)[:, -1:, :32], rand(7, 32)
    assert linear(x, weight).shape == (2, 1, 7)
    close(linear(x, weight), linear_reference(x, weight))


def test_no_rows() -> None:
    assert linear(rand(0, 3, 8), rand(5, 8)).shape == (0, 3, 5)


def test_opcheck() -> None:
    torch.library.opcheck(linear, operands(3, 8, 16))
    torch.library.opcheck(linear, (*operands(3, 8, 16), rand(8)))


def test_refuses_bad_input() -> None:
    with pytest.raises(UsageError, match=r"linear: weight is \[5, 9\], x needs \[N, 8\]"):
        linear(rand(2, 8), rand(5, 9))
    with pytest.raises(UsageError, match=r"linear: inputs are torch\.float16, torch\.float32"):
        linear(rand(2, 8), rand(5, 8).half())
    with pytest.raises(UsageError, match=r"linear: bias is \[4\], weight needs \[5\]"):
        linear(rand(2, 8), rand(5, 8), rand(4))
    with pytest.raises(UsageError, match=r"linear: inputs are torch\.float16, torch\.float32"):
        linear(rand(2, 8), rand(5, 8), rand(5).half())


def test_decode_configurations() -> None:
    """The table of the docstring."""
    small = {(n, k): small_config(n, k, 2) for n, k in LLAMA3_8B}
    assert small[6144, 4096] == SmallConfig(32, 128, 2)
    assert small[4096, 4096] == SmallConfig(32, 128, 2)
    assert small[28672, 4096] == SmallConfig(128, 128, 1, num_stages=3)
    assert small[4096, 14336] == SmallConfig(32, 256, 2)
    assert small[128256, 4096] == SmallConfig(128, 128, 2, num_stages=3)
    assert small_config(64, 64, 4).split_k == 1


def test_prefill_configurations() -> None:
    """128x128 tiles only where they fill the last wave clearly better."""
    tiles = {n: tiled_config(1024, n, 4096, 2).block_n for n in (6144, 4096, 28672)}
    assert tiles == {6144: 128, 4096: 256, 28672: 256}
    assert tiled_config(64, 4096, 4096, 2).block_m == 64
    assert tiled_config(1024, 4096, 4095, 2).block_m == 64


@pytest.mark.gpu
@pytest.mark.parametrize("m", [1, 2, 16, 17, 1024])
@pytest.mark.parametrize(("n", "k"), LLAMA3_8B)
def test_llama3_8b(m: int, n: int, k: int) -> None:
    x, weight = operands(m, n, k, torch.float16)
    close(linear(x, weight), linear_reference(x, weight))
