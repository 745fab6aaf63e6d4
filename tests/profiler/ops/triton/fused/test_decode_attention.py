from __future__ import annotations

import pytest
import torch

from profiler.ops.triton.attention import attention_reference
from profiler.ops.triton.fused.decode_attention import decode_attention, scratch, splits_for
from tests.profiler.ops.triton.checks import DEVICE, rand
from tests.profiler.ops.triton.fused.cases import close, positions
from traces.errors import UsageError


def check(
    batch: int, heads: int, kv_heads: int, length: int, d: int, at: int, dtype: torch.dtype, times: int = 1
) -> None:
    q = rand(batch, heads, 1, d, dtype=dtype)
    k, v = (rand(batch, kv_heads, length, d, dtype=dtype) for _ in range(2))
    k[:, :, at + 1 :], v[:, :, at + 1 :] = torch.nan, torch.nan  # unwritten: must not be read
    pairs = batch * kv_heads
    memory = scratch(pairs, heads // kv_heads, d, splits_for(pairs, length), DEVICE)
    for _ in range(times):
        found = decode_attention(q, k, v, positions(at), memory, True)
        assert not memory[:pairs].any()  # its counters are ready for the next launch
    close(found, attention_reference(q, k, v, positions(at)))


@pytest.mark.parametrize(("batch", "heads", "kv_heads"), [(1, 4, 1), (2, 4, 2), (3, 2, 2)])
@pytest.mark.parametrize("at", [0, 64, 199])
def test_matches_reference(batch: int, heads: int, kv_heads: int, at: int, dtype: torch.dtype) -> None:
    check(batch, heads, kv_heads, 200, 32, at, dtype)


@pytest.mark.parametrize("d", [16, 64, 128])
def test_head_sizes(d: int) -> None:
    check(2, 4, 2, 150, d, 140, torch.float32)


def test_one_scratch_serves_many_launches() -> None:
    check(2, 4, 2, 300, 16, 290, torch.float32, times=3)


def test_parts() -> None:
    assert splits_for(16, 768) == 6
    assert splits_for(16, 8192) == 16
    assert splits_for(1, 100) == 1
    assert splits_for(1000, 8192) == 1


def test_refuses_what_does_not_fit() -> None:
    q, k = rand(2, 4, 2, 16), rand(2, 2, 8, 16)
    with pytest.raises(UsageError, match="use one query, whole caches"):
        decode_attention(q, k, k, positions(1), scratch(4, 2, 16, 1, DEVICE), True)


@pytest.mark.gpu
@pytest.mark.parametrize("batch", [1, 2, 8])
@pytest.mark.parametrize(("length", "at"), [(768, 640), (768, 767), (2048, 2000), (8192, 8191)])
def test_8b_shape(batch: int, length: int, at: int) -> None:
    check(batch, 32, 8, length, 128, at, torch.float16, times=20)
