from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.ops.triton import softmax as module
from profiler.ops.triton.softmax import softmax, softmax_reference, split
from tests.profiler.ops.triton.checks import DEVICE, close, rand
from traces.errors import UsageError


@pytest.mark.parametrize(
    "shape",
    [(1,), (1, 1), (3, 100), (2, 3, 64), (0, 8), (2, 0), (1, 32768), (2, 32769), (1, 70001), (1, 2, 131072)],
)
def test_matches_reference(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = rand(*shape, dtype=dtype) * 4
    close(softmax(x), softmax_reference(x))


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(0, 5), width=st.integers(1, 300))
def test_any_size(rows: int, width: int) -> None:
    x = rand(rows, width)
    close(softmax(x), softmax_reference(x))


@pytest.mark.parametrize("width", [50, 40000])
def test_rows_of_a_larger_tensor_and_another_order(width: int) -> None:
    x = rand(2, 3, width)[:, -1:]
    close(softmax(x), softmax_reference(x))
    turned = rand(width, 2).T
    close(softmax(turned), softmax_reference(turned))
    assert softmax(turned).is_contiguous()


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # of numpy, in the interpreter: inf - inf
@pytest.mark.parametrize("width", [50, 40000])
def test_masked_infinite_and_broken_rows_are_as_in_pytorch(width: int) -> None:
    x = rand(5, width)
    x[0, : width // 2] = float("-inf")  # whole parts of the row are hidden
    x[1] = float("-inf")
    x[2, 7] = float("inf")
    x[3, 7] = float("nan")
    torch.testing.assert_close(softmax(x), x.softmax(-1), equal_nan=True, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("width", [50, 40000])
def test_large_numbers_do_not_overflow(width: int, dtype: torch.dtype) -> None:
    x = (rand(2, width) * 1000).clamp(-6e4, 6e4).to(dtype)
    close(softmax(x), softmax_reference(x))
    assert (softmax(x).float().sum(-1) - 1).abs().max() < 2e-2


@pytest.mark.parametrize(
    ("rows", "size"), [(1, 32769), (1, 128256), (2, 10**6), (1024, 128256), (10**5, 40000)]
)
def test_parts_cover_a_row_and_none_is_empty(rows: int, size: int) -> None:
    width, parts = split(rows, size)
    assert width % module.BLOCK == 0
    assert (parts - 1) * width < size <= parts * width
    assert parts <= module.MAX_PARTS
    assert rows < 1000 or parts == 1


def test_opcheck() -> None:
    torch.library.opcheck(softmax, (rand(2, 3, 32),))


def test_refuses_bad_input() -> None:
    with pytest.raises(UsageError, match=r"softmax: inputs are torch\.float64; use one of"):
        softmax(rand(2, 8).double())
    with pytest.raises(UsageError, match="softmax: x is a scalar"):
        softmax(torch.tensor(1.0, device=DEVICE))


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(2, 128256), (1024, 128256), (32768, 512), (4096, 32768)])
def test_llama3_8b(shape: tuple[int, int]) -> None:
    x = rand(*shape, dtype=torch.float16)
    close(softmax(x), softmax_reference(x))
