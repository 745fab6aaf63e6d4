from __future__ import annotations

import pytest
import torch

from profiler.ops.triton.rope import rope, rope_reference
from tests.profiler.ops.triton.checks import close, rand
from traces.errors import UsageError

Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def inputs(b: int, h: int, kv: int, t: int, d: int, dtype: torch.dtype = torch.float32) -> Inputs:
    """Views of one fused projection, as the model has them."""
    qkv = rand(b, t, h + 2 * kv, d, dtype=dtype).transpose(1, 2)
    angle = rand(t, d // 2)
    return qkv[:, :h], qkv[:, h : h + kv], angle.cos().to(dtype), angle.sin().to(dtype)


@pytest.mark.parametrize("shape", [(1, 1, 1, 1, 2), (2, 6, 3, 5, 16), (3, 4, 1, 1, 24), (1, 32, 8, 2, 128)])
def test_matches_reference(shape: tuple[int, int, int, int, int], dtype: torch.dtype) -> None:
    args = inputs(*shape, dtype=dtype)
    for actual, expected in zip(rope(*args), rope_reference(*args), strict=True):
        close(actual, expected)


def test_angles_of_another_dtype() -> None:
    q, k, cos, sin = inputs(1, 2, 1, 3, 16, torch.float16)
    args = q, k, cos.float(), sin.float()
    for actual, expected in zip(rope(*args), rope_reference(*args), strict=True):
        close(actual, expected)


def test_rotation_keeps_the_length() -> None:
    q, k, cos, sin = inputs(2, 2, 1, 3, 32)
    close(rope(q, k, cos, sin)[0].norm(dim=-1), q.norm(dim=-1))


def test_opcheck() -> None:
    torch.library.opcheck(rope, inputs(1, 2, 1, 3, 16))


def test_refuses_bad_input() -> None:
    q, k, cos, sin = inputs(1, 2, 1, 3, 16)
    with pytest.raises(UsageError, match=r"rope: cos \[2, 8\], sin \[3, 8\] must be float \[3, 8\]"):
        rope(q, k, cos[:2], sin)
    with pytest.raises(UsageError, match="with an even D"):
        rope(q, k[:, :, :2], cos, sin)


@pytest.mark.gpu
@pytest.mark.parametrize("t", [1, 512])
def test_llama3_8b(t: int) -> None:
    args = inputs(2, 32, 8, t, 128, torch.float16)
    for actual, expected in zip(rope(*args), rope_reference(*args), strict=True):
        close(actual, expected)
