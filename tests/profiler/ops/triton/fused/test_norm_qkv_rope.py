from __future__ import annotations

import pytest
import torch

from profiler.ops.triton.fused.norm_qkv_rope import norm_qkv_rope, norm_qkv_rope_reference
from tests.profiler.ops.triton.checks import DEVICE, rand
from tests.profiler.ops.triton.fused.cases import EPS, close, positions, stream, weight
from traces.errors import UsageError


def check(
    batch: int, at: torch.Tensor, dtype: torch.dtype, *, heads: int = 4, kv_heads: int = 2, d: int = 32,
    width: int = 64, length: int = 40, bias: bool = True,
) -> None:  # fmt: skip
    s = stream(batch * len(at), width, dtype)
    rows = (heads + 2 * kv_heads) * d
    w, b = weight(rows, width, dtype), rand(rows, dtype=dtype) if bias else None
    rope = rand(length, d, dtype=dtype)
    caches = [rand(batch, kv_heads, length, d, dtype=dtype) for _ in range(2)]
    ours, theirs = [c.clone() for c in caches], [c.clone() for c in caches]
    q = norm_qkv_rope(s.scaled, s.squares, w, b, rope, at, *ours, heads, EPS, True)
    expected = norm_qkv_rope_reference(s.scaled, s.squares, w, b, rope, at, *theirs, heads, EPS)
    close(q, expected)
    for mine, other, before in zip(ours, theirs, caches, strict=True):
        close(mine, other)
        untouched = torch.ones(length, dtype=torch.bool, device=DEVICE)
        untouched[at] = False
        assert torch.equal(mine[:, :, untouched], before[:, :, untouched])


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("bias", [False, True])
def test_one_position_matches_reference(batch: int, bias: bool, dtype: torch.dtype) -> None:
    check(batch, positions(21), dtype, bias=bias)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("tokens", [2, 19])
def test_a_prompt_matches_reference(batch: int, tokens: int, dtype: torch.dtype) -> None:
    check(batch, torch.arange(tokens, device=DEVICE), dtype)


@pytest.mark.parametrize("d", [16, 64, 128])
def test_head_sizes(d: int) -> None:
    check(2, positions(0), torch.float32, d=d, heads=2, kv_heads=1)
    check(2, positions(0, 1, 2), torch.float32, d=d, heads=2, kv_heads=1)


def test_refuses_what_does_not_fit() -> None:
    s = stream(2, 64, torch.float32)
    cache = rand(2, 2, 8, 32)
    with pytest.raises(UsageError, match=r"norm_qkv_rope: x \[2, 64\], weight \[100, 64\].* 4 query heads"):
        norm_qkv_rope(
            s.scaled, s.squares, weight(100, 64, torch.float32), None, rand(8, 32), positions(1), cache,
            cache.clone(), 4, EPS, True,
        )  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize(("batch", "tokens"), [(1, 1), (2, 1), (8, 1), (2, 512), (1, 37), (3, 333)])
def test_8b_shape(batch: int, tokens: int) -> None:
    at = positions(640) if tokens == 1 else torch.arange(tokens, device=DEVICE)
    check(batch, at, torch.float16, heads=32, kv_heads=8, d=128, width=4096, length=768)
