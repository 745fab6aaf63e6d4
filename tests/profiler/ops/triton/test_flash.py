from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.ops.triton.flash import flash_attention, flash_attention_reference
from tests.profiler.ops.triton.checks import DEVICE, close, rand
from traces.errors import UsageError

Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def inputs(
    b: int, h: int, kv: int, t: int, length: int, d: int, start: int, dtype: torch.dtype = torch.float32
) -> Inputs:
    """Queries at start.., strided as the model has them; the cache beyond them is NaN."""
    q = rand(b, t, h, d, dtype=dtype).transpose(1, 2)
    k, v = rand(b, kv, length, d, dtype=dtype), rand(b, kv, length, d, dtype=dtype)
    k[:, :, start + t :] = v[:, :, start + t :] = float("nan")
    return q, k, v, torch.arange(start, start + t, device=DEVICE)


@pytest.mark.parametrize("t", [1, 5])
@pytest.mark.parametrize(("d", "group"), [(16, 1), (32, 4), (128, 3)])
def test_heads(d: int, group: int, t: int, dtype: torch.dtype) -> None:
    args = inputs(2, 2 * group, 2, t, 70, d, 40, dtype)
    close(flash_attention(*args), flash_attention_reference(*args))


@pytest.mark.parametrize("start", [0, 1, 30, 31, 32, 33, 63, 64, 198, 199])
def test_decode_position(start: int) -> None:
    """Around the ends of tiles, where the unmasked ones stop, and a full cache."""
    args = inputs(2, 2, 1, 1, 200, 16, start)
    close(flash_attention(*args), flash_attention_reference(*args))


@pytest.mark.parametrize(
    ("t", "start", "length"), [(130, 0, 130), (64, 0, 64), (33, 17, 90), (2, 88, 90), (40, 31, 100)]
)
def test_prefill_position(t: int, start: int, length: int) -> None:
    args = inputs(1, 2, 1, t, length, 32, start)
    close(flash_attention(*args), flash_attention_reference(*args))


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_positions_in_any_order(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 80))
    chosen = data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=6))
    q, k, v, _ = inputs(1, 2, 1, len(chosen), length, 16, length)
    args = q, k, v, torch.tensor(chosen, device=DEVICE)
    close(flash_attention(*args), flash_attention_reference(*args))


def test_output_is_a_view_for_the_projection() -> None:
    out = flash_attention(*inputs(2, 4, 2, 3, 9, 16, 2))
    assert out.shape == (2, 4, 3, 16)
    assert out.transpose(1, 2).is_contiguous()


def test_opcheck() -> None:
    torch.library.opcheck(flash_attention, inputs(1, 2, 1, 3, 8, 16, 2))
    torch.library.opcheck(flash_attention, inputs(1, 2, 1, 1, 8, 16, 2))


def test_refuses_bad_input() -> None:
    q, k, v, positions = inputs(1, 3, 2, 1, 8, 16, 2)
    with pytest.raises(UsageError, match="3 query heads cannot share 2 KV heads"):
        flash_attention(q, k, v, positions)


@pytest.mark.gpu
@pytest.mark.parametrize(("t", "start"), [(512, 0), (1, 640), (100, 17)])
def test_llama3_8b(t: int, start: int) -> None:
    args = inputs(2, 32, 8, t, 768, 128, start, torch.float16)
    close(flash_attention(*args), flash_attention_reference(*args))
