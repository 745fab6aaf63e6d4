from __future__ import annotations

import pytest
import torch

from profiler.ops.triton.add import add, add_reference
from tests.profiler.ops.triton.checks import close, rand
from traces.errors import UsageError


@pytest.mark.parametrize("shape", [(1,), (2, 5, 100), (3, 1025), (0, 4)])
def test_matches_reference(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, y = rand(*shape, dtype=dtype), rand(*shape, dtype=dtype)
    close(add(x, y), add_reference(x, y))


def test_strided_input() -> None:
    x, y = rand(4, 6).t(), rand(6, 4)
    close(add(x, y), add_reference(x, y))


def test_opcheck() -> None:
    torch.library.opcheck(add, (rand(3, 8), rand(3, 8)))


def test_refuses_bad_input() -> None:
    with pytest.raises(UsageError, match=r"add: x is \[3, 8\], y is \[8\]; shapes must be equal"):
        add(rand(3, 8), rand(8))


@pytest.mark.gpu
def test_llama3_8b() -> None:
    x, y = rand(1024, 4096, dtype=torch.float16), rand(1024, 4096, dtype=torch.float16)
    close(add(x, y), add_reference(x, y))
