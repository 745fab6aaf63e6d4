from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.ops.triton.attention import attention, attention_reference, decode_splits
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
@pytest.mark.parametrize("d", [16, 32, 64, 128])
def test_head_sizes(d: int, t: int, dtype: torch.dtype) -> None:
    args = inputs(2, 2, 1, t, 70, d, 40, dtype)
    close(attention(*args), attention_reference(*args))


@pytest.mark.parametrize("group", [1, 2, 4, 18])
@pytest.mark.parametrize("t", [1, 7])
def test_grouped_query_heads(group: int, t: int) -> None:
    args = inputs(2, 2 * group, 2, t, 40, 16, 20)
    close(attention(*args), attention_reference(*args))


@pytest.mark.parametrize(("batch", "start"), [(1, 0), (3, 1), (2, 63), (8, 64), (1, 198), (2, 199)])
def test_decode_position(batch: int, start: int) -> None:
    """Short and long prefixes: empty splits, one key, a full cache."""
    args = inputs(batch, 2, 1, 1, 200, 16, start)
    close(attention(*args), attention_reference(*args))


@pytest.mark.parametrize(("t", "start", "length"), [(130, 0, 130), (64, 0, 64), (33, 17, 90), (2, 88, 90)])
def test_prefill_position(t: int, start: int, length: int) -> None:
    args = inputs(1, 2, 1, t, length, 32, start)
    close(attention(*args), attention_reference(*args))


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_positions_in_any_order(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 80))
    chosen = data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=6))
    q, k, v, _ = inputs(1, 2, 1, len(chosen), length, 16, length)
    args = q, k, v, torch.tensor(chosen, device=DEVICE)
    close(attention(*args), attention_reference(*args))


def test_large_scores_do_not_overflow() -> None:
    q, k, v, positions = inputs(1, 2, 2, 3, 40, 16, 10)
    close(attention(q * 300, k, v, positions), attention_reference(q * 300, k, v, positions))


def test_strided_keys_of_a_fused_projection() -> None:
    qkv = rand(2, 9, 4 * 16)
    q, k, v = (x.unflatten(-1, (-1, 16)).transpose(1, 2) for x in qkv.split([32, 16, 16], -1))
    args = q, k, v, torch.arange(9, device=DEVICE)
    close(attention(*args), attention_reference(*args))


def test_output_is_a_view_for_the_projection() -> None:
    out = attention(*inputs(2, 4, 2, 3, 9, 16, 2))
    assert out.shape == (2, 4, 3, 16)
    assert out.transpose(1, 2).is_contiguous()


def test_opcheck() -> None:
    torch.library.opcheck(attention, inputs(1, 2, 1, 1, 16, 16, 9))
    torch.library.opcheck(attention, inputs(1, 2, 1, 3, 16, 16, 9))


def test_refuses_bad_input() -> None:
    q, k, v, positions = inputs(1, 3, 3, 2, 8, 16, 0)
    with pytest.raises(UsageError, match="attention: head size 24 is not one of 16, 32, 64, 128"):
        attention(rand(1, 1, 2, 24), rand(1, 1, 8, 24), rand(1, 1, 8, 24), positions)
    with pytest.raises(UsageError, match="attention: 3 query heads cannot share 2 KV heads"):
        attention(q, k[:, :2], v[:, :2], positions)
    with pytest.raises(UsageError, match=r"use torch\.int64\[2\]"):
        attention(q, k, v, positions.int())
    with pytest.raises(UsageError, match="do not fit"):
        attention(q, k, v[:, :, :4], positions)


def test_decode_splits() -> None:
    assert decode_splits(programs=16, blocks=12) == 16  # Llama3-8B, batch 2, 768 slots
    assert decode_splits(programs=1, blocks=1000) == 32
    assert decode_splits(programs=512, blocks=100) == 1


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("t", "length", "start"), [(1, 768, 512), (1, 8192, 8000), (512, 512, 0), (512, 768, 100)]
)
def test_llama3_8b(t: int, length: int, start: int) -> None:
    args = inputs(2, 32, 8, t, length, 128, start, torch.float16)
    close(attention(*args), attention_reference(*args))
