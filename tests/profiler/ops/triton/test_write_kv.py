from __future__ import annotations

import pytest
import torch

from profiler.ops.triton.write_kv import write_kv, write_kv_reference
from tests.profiler.ops.triton.checks import DEVICE, rand
from traces.errors import UsageError

Shape = tuple[int, int, int, int, int]


def check(shape: Shape, dtype: torch.dtype) -> None:
    b, heads, length, t, d = shape
    caches = [rand(b, heads, length, d, dtype=dtype) for _ in range(2)]
    new = [rand(b, t, heads, d, dtype=dtype).transpose(1, 2) for _ in range(2)]
    positions = torch.randperm(length, device=DEVICE)[:t]
    expected = [cache.clone() for cache in caches]
    write_kv(*caches, *new, positions)
    write_kv_reference(*expected, *new, positions)
    assert all(torch.equal(a, e) for a, e in zip(caches, expected, strict=True))


@pytest.mark.parametrize("shape", [(1, 1, 1, 1, 1), (2, 3, 9, 4, 16), (8, 2, 20, 1, 24), (1, 8, 6, 2, 128)])
def test_matches_reference(shape: Shape, dtype: torch.dtype) -> None:
    check(shape, dtype)


def test_writes_through_a_view() -> None:
    """One layer of a stacked cache."""
    stacked = rand(3, 2, 1, 2, 8, 16) * 0
    new = rand(1, 2, 1, 16)
    write_kv(stacked[1, 0], stacked[1, 1], new, new * 2, torch.tensor([5], device=DEVICE))
    assert torch.equal(stacked[1, 0, :, :, 5:6], new)
    assert torch.equal(stacked[1, 1, :, :, 5:6], new * 2)
    assert stacked.count_nonzero() == 2 * new.numel()


def test_opcheck() -> None:
    args = (rand(1, 2, 6, 8), rand(1, 2, 6, 8), rand(1, 2, 3, 8), rand(1, 2, 3, 8))
    torch.library.opcheck(write_kv, (*args, torch.tensor([1, 2, 5], device=DEVICE)))


def test_refuses_bad_input() -> None:
    cache, new, positions = rand(1, 2, 6, 8), rand(1, 2, 3, 8), torch.arange(3, device=DEVICE)
    with pytest.raises(UsageError, match=r"write_kv: cache .* do not fit"):
        write_kv(cache, cache.clone(), new[:, :1], new, positions)
    with pytest.raises(UsageError, match=r"write_kv: positions .* use torch\.int64\[3\]"):
        write_kv(cache, cache.clone(), new, new, positions[:2])


@pytest.mark.gpu
@pytest.mark.parametrize("t", [1, 512])
def test_llama3_8b(t: int) -> None:
    check((2, 8, 768, t, 128), torch.float16)
