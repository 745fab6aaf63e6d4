from __future__ import annotations

import pytest
import torch

from profiler.ops.triton.fused.norm_gate_up import norm_gate_up_silu, norm_gate_up_silu_reference
from tests.profiler.ops.triton.checks import rand
from tests.profiler.ops.triton.fused.cases import EPS, close, stream, weight
from traces.errors import UsageError


@pytest.mark.parametrize("m", [1, 2, 3, 16, 17])
@pytest.mark.parametrize("bias", [False, True])
def test_matches_reference(m: int, bias: bool, dtype: torch.dtype) -> None:
    s, w = stream(m, 64, dtype), weight(2 * 40, 64, dtype)
    b = rand(2 * 40, dtype=dtype) if bias else None
    given = (s.scaled, s.squares, w, b, EPS)
    close(norm_gate_up_silu(*given, True), norm_gate_up_silu_reference(*given))


@pytest.mark.parametrize("parts", [1, 3, 32])
def test_any_number_of_parts(parts: int) -> None:
    s, w = stream(2, 96, torch.float32, parts), weight(64, 96, torch.float32)
    given = (s.scaled, s.squares, w, None, EPS)
    close(norm_gate_up_silu(*given, True), norm_gate_up_silu_reference(*given))


def test_refuses_what_does_not_fit() -> None:
    s = stream(2, 64, torch.float32)
    with pytest.raises(UsageError, match="F a multiple of 8"):
        norm_gate_up_silu(s.scaled, s.squares, weight(2 * 12, 64, torch.float32), None, EPS, True)


@pytest.mark.gpu
@pytest.mark.parametrize("m", [1, 2, 8, 16, 1024, 1000])
def test_8b_shape(m: int) -> None:
    s, w = stream(m, 4096, torch.float16, 128), weight(2 * 14336, 4096, torch.float16)
    given = (s.scaled, s.squares, w, rand(2 * 14336, dtype=torch.float16), EPS)
    close(norm_gate_up_silu(*given, True), norm_gate_up_silu_reference(*given))
