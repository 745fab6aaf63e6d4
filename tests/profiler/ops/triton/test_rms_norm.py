from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.ops.triton.rms_norm import rms_norm, rms_norm_reference
from tests.profiler.ops.triton.checks import close, rand
from traces.errors import UsageError


@pytest.mark.parametrize("shape", [(1, 1), (3, 100), (2, 3, 64), (8, 1, 129), (1, 4096)])
def test_matches_reference(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, weight = rand(*shape, dtype=dtype), rand(shape[-1], dtype=dtype)
    close(rms_norm(x, weight, 1e-5), rms_norm_reference(x, weight, 1e-5))


def test_last_position_of_a_prompt_is_a_view() -> None:
    x, weight = rand(2, 5, 64)[:, -1:], rand(64)
    close(rms_norm(x, weight, 1e-5), rms_norm_reference(x, weight, 1e-5))


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(0, 5), width=st.integers(1, 300), eps=st.sampled_from([1e-6, 1e-5, 0.1]))
def test_any_size(rows: int, width: int, eps: float) -> None:
    x, weight = rand(rows, width), rand(width)
    close(rms_norm(x, weight, eps), rms_norm_reference(x, weight, eps))


def test_zeros_stay_finite() -> None:
    assert torch.equal(rms_norm(rand(2, 32) * 0, rand(32), 1e-5), rand(2, 32) * 0)


def test_large_fp16_squares_do_not_overflow() -> None:
    x, weight = rand(2, 64, dtype=torch.float16) * 1000, rand(64, dtype=torch.float16)
    close(rms_norm(x, weight, 1e-5), rms_norm_reference(x, weight, 1e-5))


def test_opcheck() -> None:
    torch.library.opcheck(rms_norm, (rand(2, 3, 32), rand(32), 1e-5))


def test_refuses_bad_input() -> None:
    with pytest.raises(UsageError, match=r"rms_norm: inputs are torch\.float64; use one of"):
        rms_norm(rand(2, 8).double(), rand(8).double(), 1e-5)
    with pytest.raises(UsageError, match=r"rms_norm: weight is \[7\], x needs \[8\]"):
        rms_norm(rand(2, 8), rand(7), 1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [2, 1024])
def test_llama3_8b(rows: int) -> None:
    x, weight = rand(rows, 4096, dtype=torch.float16), rand(4096, dtype=torch.float16)
    close(rms_norm(x, weight, 1e-5), rms_norm_reference(x, weight, 1e-5))
