from __future__ import annotations

import pytest
import torch

from profiler.ops.triton.bias_gelu_dropout import (
    QUARTER,
    bias_gelu_dropout,
    bias_gelu_dropout_reference,
)
from tests.profiler.ops.triton.checks import DEVICE, close, rand
from traces.errors import UsageError

SHAPES = [(5,), (1, 1), (2, 3, 64), (0, 8), (2, 0), (2, 4 * QUARTER + 3)]
SATURATES = "ignore:overflow encountered in exp:RuntimeWarning"  # of numpy, in the interpreter: sigmoid(-100)


def mask(*shape: int, p: float, seed: int) -> torch.Tensor:
    """Which elements are kept: gelu(8) is not 0, so every zero was dropped."""
    x = torch.full(shape, 8.0, device=DEVICE)
    return bias_gelu_dropout(x, torch.zeros(shape[-1], device=DEVICE), p, seed) != 0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("approximate", "p"), [("none", 0.0), ("none", 0.25), ("tanh", 0.25), ("tanh", 1.0)])
def test_matches_reference_given_the_mask(
    shape: tuple[int, ...], approximate: str, p: float, dtype: torch.dtype
) -> None:
    x, bias = rand(*shape, dtype=dtype) * 2, rand(shape[-1], dtype=dtype)
    kept = mask(*shape, p=p, seed=7)
    expected = bias_gelu_dropout_reference(x, bias, kept, p, approximate)
    close(bias_gelu_dropout(x, bias, p, 7, approximate), expected)


@pytest.mark.filterwarnings(SATURATES)
def test_without_dropout_it_is_pytorchs_gelu() -> None:
    x, bias = rand(3, 70) * 4, rand(70)
    for approximate in ("none", "tanh"):
        expected = torch.nn.functional.gelu(x + bias, approximate=approximate)
        close(bias_gelu_dropout(x, bias, 0.0, 1, approximate), expected)


@pytest.mark.filterwarnings(SATURATES)
def test_large_numbers_saturate() -> None:
    x, bias = torch.tensor([[-1e4, 1e4, 0.0]], device=DEVICE), torch.zeros(3, device=DEVICE)
    for approximate in ("none", "tanh"):
        close(bias_gelu_dropout(x, bias, 0.0, 1, approximate), torch.tensor([[0.0, 1e4, 0.0]], device=DEVICE))


def test_a_seed_is_a_mask_and_another_seed_another_one() -> None:
    first = mask(4, 3 * QUARTER, p=0.5, seed=3)
    assert torch.equal(first, mask(4, 3 * QUARTER, p=0.5, seed=3))
    for seed in (0, 1, 4, 2**40 + 3):
        other = mask(4, 3 * QUARTER, p=0.5, seed=seed)
        assert 0.45 < (first == other).float().mean() < 0.55


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_share_and_the_independence_of_what_is_dropped(p: float) -> None:
    """Five standard deviations of 5 * 8192 draws; quarters, blocks and rows do not repeat each other."""
    kept = mask(5, 8 * QUARTER, p=p, seed=11).float()
    assert abs(kept.mean() - (1 - p)) < 5 * (p * (1 - p) / kept.numel()) ** 0.5
    pieces = kept.reshape(-1, QUARTER)
    same = (pieces[:, None] == pieces[None]).float().mean(-1)
    expected = p * p + (1 - p) ** 2
    apart = same[~torch.eye(len(pieces), dtype=torch.bool, device=DEVICE)]
    assert (apart - expected).abs().max() < 0.1


def test_the_mask_depends_on_neither_dtype_nor_numbers() -> None:
    kept = mask(2, 100, p=0.5, seed=5)
    x, bias = torch.full((2, 100), 3.0, dtype=torch.float16, device=DEVICE), rand(100, dtype=torch.float16)
    assert torch.equal(bias_gelu_dropout(x.abs() + 5, bias, 0.5, 5, "tanh") != 0, kept)


def test_strided_input() -> None:
    x, bias = rand(2, 5, 64)[:, ::2], rand(128)[::2]
    kept = torch.ones_like(x, dtype=torch.bool)
    close(bias_gelu_dropout(x, bias, 0.0, 1), bias_gelu_dropout_reference(x, bias, kept, 0.0))


def test_opcheck() -> None:
    torch.library.opcheck(bias_gelu_dropout, (rand(2, 3, 32), rand(32), 0.3, 5, "tanh"))


def test_refuses_bad_input() -> None:
    x, bias = rand(2, 8), rand(8)
    with pytest.raises(UsageError, match=r"bias_gelu_dropout: inputs are torch\.float64; use one of"):
        bias_gelu_dropout(x.double(), bias.double(), 0.5, 1)
    with pytest.raises(UsageError, match=r"bias is \[7\], x is \[2, 8\]"):
        bias_gelu_dropout(x, rand(7), 0.5, 1)
    with pytest.raises(UsageError, match=r"p is 1\.5; use a probability"):
        bias_gelu_dropout(x, bias, 1.5, 1)
    with pytest.raises(UsageError, match="approximate is 'erf'; use 'none' or 'tanh'"):
        bias_gelu_dropout(x, bias, 0.5, 1, "erf")


@pytest.mark.gpu
def test_llama3_8b() -> None:
    x, bias = rand(1024, 14336, dtype=torch.float16), rand(14336, dtype=torch.float16)
    kept = mask(1024, 14336, p=0.1, seed=1)
    expected = bias_gelu_dropout_reference(x, bias, kept, 0.1, "tanh")
    close(bias_gelu_dropout(x, bias, 0.1, 1, "tanh"), expected)
