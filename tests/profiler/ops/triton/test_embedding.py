from __future__ import annotations

import pytest
import torch

from profiler.ops.triton.embedding import embedding, embedding_reference
from tests.profiler.ops.triton.checks import DEVICE, rand
from traces.errors import UsageError


@pytest.mark.parametrize(("shape", "width"), [((1,), 1), ((2, 5), 100), ((3, 1), 1500), ((0,), 8)])
def test_matches_reference(shape: tuple[int, ...], width: int, dtype: torch.dtype) -> None:
    tokens, table = torch.randint(11, shape, device=DEVICE), rand(11, width, dtype=dtype)
    assert torch.equal(embedding(tokens, table), embedding_reference(tokens, table))


def test_opcheck() -> None:
    torch.library.opcheck(embedding, (torch.tensor([[1, 0]], device=DEVICE), rand(3, 8)))


def test_refuses_bad_input() -> None:
    with pytest.raises(UsageError, match=r"embedding: tokens are torch\.int32; use torch\.int64"):
        embedding(torch.ones(2, dtype=torch.int32, device=DEVICE), rand(3, 8))


@pytest.mark.gpu
def test_llama3_8b() -> None:
    tokens, table = torch.randint(128256, (2, 512), device=DEVICE), rand(128256, 4096, dtype=torch.float16)
    assert torch.equal(embedding(tokens, table), embedding_reference(tokens, table))
