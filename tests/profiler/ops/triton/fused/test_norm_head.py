from __future__ import annotations

import pytest
import torch

from profiler.ops.triton.fused.norm_head import norm_lm_head, norm_lm_head_reference
from tests.profiler.ops.triton.fused.cases import EPS, close, stream, weight
from traces.errors import UsageError


@pytest.mark.parametrize("m", [1, 2, 5])
@pytest.mark.parametrize("vocabulary", [16, 129])
def test_matches_reference(m: int, vocabulary: int, dtype: torch.dtype) -> None:
    s, w = stream(m, 64, dtype), weight(vocabulary, 64, dtype)
    close(
        norm_lm_head(s.scaled, s.squares, w, EPS, True), norm_lm_head_reference(s.scaled, s.squares, w, EPS)
    )


def test_last_positions_of_a_batch_are_views() -> None:
    s, w = stream(2 * 5, 64, torch.float32), weight(40, 64, torch.float32)
    x, squares = s.scaled.view(2, 5, -1)[:, -1], s.squares.view(-1, 2, 5)[:, :, -1]
    expected = norm_lm_head_reference(x.contiguous(), squares.contiguous(), w, EPS)
    close(norm_lm_head(x, squares, w, EPS, True), expected)


def test_refuses_what_does_not_fit() -> None:
    s = stream(2, 64, torch.float32)
    with pytest.raises(UsageError, match=r"norm_lm_head: x \[2, 64\] and weight \[40, 32\] do not fit"):
        norm_lm_head(s.scaled, s.squares, weight(40, 32, torch.float32), EPS, True)


@pytest.mark.gpu
@pytest.mark.parametrize("m", [1, 2, 8])
@pytest.mark.parametrize("vocabulary", [128256, 49152])
def test_8b_shapes(m: int, vocabulary: int) -> None:
    s, w = stream(m, 4096, torch.float16, 128), weight(vocabulary, 4096, torch.float16)
    close(
        norm_lm_head(s.scaled, s.squares, w, EPS, True), norm_lm_head_reference(s.scaled, s.squares, w, EPS)
    )
