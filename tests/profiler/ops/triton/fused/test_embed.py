from __future__ import annotations

import pytest
import torch

from profiler.ops.triton.fused.embed import embed, embed_reference
from tests.profiler.ops.triton.checks import DEVICE, rand
from tests.profiler.ops.triton.fused.cases import near
from traces.errors import UsageError


@pytest.mark.parametrize("width", [16, 100, 4096])
def test_matches_reference(width: int, dtype: torch.dtype) -> None:
    tokens = torch.tensor([3, 0, 10, 3], device=DEVICE)
    table, gamma = rand(11, width, dtype=dtype), rand(width, dtype=dtype)
    near(embed(tokens, table, gamma, True), embed_reference(tokens, table, gamma), dtype)


def test_refuses_what_does_not_fit() -> None:
    tokens = torch.zeros(2, 1, dtype=torch.int64, device=DEVICE)
    with pytest.raises(UsageError, match=r"embed: tokens torch.int64\[2, 1\]"):
        embed(tokens, rand(4, 16), rand(16), True)
