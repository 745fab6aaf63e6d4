from __future__ import annotations

import pytest
import torch

from profiler.ops.triton.argmax import advance, advance_reference, argmax, argmax_reference
from tests.profiler.ops.triton.checks import DEVICE, rand
from traces.errors import UsageError


@pytest.mark.parametrize("shape", [(1, 1), (2, 1, 100), (3, 4096), (2, 1, 9000)])
def test_matches_reference(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    logits = rand(*shape, dtype=torch.float32)
    logits = logits.argsort(-1).to(dtype) if dtype == torch.float32 else logits.to(dtype)
    assert torch.equal(logits.gather(-1, argmax(logits)[..., None])[..., 0], logits.amax(-1))
    if dtype == torch.float32:  # no ties
        assert torch.equal(argmax(logits), argmax_reference(logits))


@pytest.mark.parametrize("ties", [[5, 7], [0, 4096], [4095, 8999], [8998, 8999]])
def test_first_of_equals(ties: list[int]) -> None:
    logits = rand(1, 9000).clamp(max=5)
    logits[0, ties] = 9.0
    assert argmax(logits).tolist() == [ties[0]]


def test_all_minus_infinity_stays_in_range() -> None:
    assert argmax(rand(2, 5000) * 0 + float("-inf")).tolist() == [0, 0]


def test_opcheck() -> None:
    torch.library.opcheck(argmax, (rand(2, 1, 50),))


def test_refuses_bad_input() -> None:
    with pytest.raises(UsageError, match="argmax: the last dimension is empty"):
        argmax(rand(2, 0))


@pytest.mark.parametrize("batch", [1, 3, 8])
def test_advance(batch: int) -> None:
    token, position, chosen = (torch.randint(99, s, device=DEVICE) for s in ((batch, 1), (1,), (batch, 1)))
    expected = token.clone(), position.clone()
    advance(token, position, chosen)
    advance_reference(*expected, chosen)
    assert torch.equal(token, expected[0])
    assert torch.equal(position, expected[1])


def test_advance_opcheck_and_errors() -> None:
    token, position = torch.tensor([[3]], device=DEVICE), torch.tensor([7], device=DEVICE)
    torch.library.opcheck(advance, (token, position, token.clone() + 1))
    with pytest.raises(UsageError, match=r"advance: .* must be contiguous torch\.int64"):
        advance(token, position, token.int())


@pytest.mark.gpu
def test_llama3_8b() -> None:
    logits = torch.stack([torch.randperm(128256, device=DEVICE) for _ in range(2)])[:, None].float()
    assert torch.equal(argmax(logits), argmax_reference(logits))
