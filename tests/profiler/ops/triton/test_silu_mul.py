from __future__ import annotations

import pytest
import torch

from profiler.ops.triton.silu_mul import silu_mul, silu_mul_reference
from tests.profiler.ops.triton.checks import close, rand
from traces.errors import UsageError


@pytest.mark.parametrize("shape", [(1, 2), (3, 100), (2, 3, 64), (8, 1, 258), (2, 2600), (0, 8), (2, 0)])
def test_matches_reference(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    gate_up = rand(*shape, dtype=dtype) * 3
    close(silu_mul(gate_up), silu_mul_reference(gate_up))


def test_gate_is_the_first_half() -> None:
    gate_up = torch.cat((rand(1, 4).abs() * 0 + 100, rand(1, 4) * 0 + 2), -1)
    close(silu_mul(gate_up), gate_up[:, :4] * 2)


def test_strided_input() -> None:
    gate_up = rand(2, 5, 64)[:, ::2]
    close(silu_mul(gate_up), silu_mul_reference(gate_up))


def test_opcheck() -> None:
    torch.library.opcheck(silu_mul, (rand(2, 3, 32),))


def test_refuses_bad_input() -> None:
    with pytest.raises(UsageError, match="silu_mul: last dimension 7 is odd"):
        silu_mul(rand(2, 7))
    with pytest.raises(UsageError, match=r"silu_mul: inputs are torch\.int64"):
        silu_mul(torch.ones(2, 4, dtype=torch.int64))


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [2, 1024])
def test_llama3_8b(rows: int) -> None:
    gate_up = rand(rows, 28672, dtype=torch.float16)
    close(silu_mul(gate_up), silu_mul_reference(gate_up))
