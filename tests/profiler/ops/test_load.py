from __future__ import annotations

import os
import subprocess
import sys

import pytest

from profiler.ops import load
from traces.errors import UsageError


def test_unknown_variant_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"unknown variant 'rocm': choose one of cuda, triton"):
        load("rocm")


def test_triton_runs_on_the_cpu_after_the_cuda_variant() -> None:
    pytest.importorskip("triton")
    pytest.importorskip("profiler.ops.triton.variant")
    code = (
        "from profiler.ops import load; load('cuda', 'cpu'); import torch, torch._dynamo; "
        "x = torch.ones(2, 64); y = load('triton', 'cpu').rms_norm(x, x[0], 0.0); assert torch.equal(x, y)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_a_broken_variant_shows_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("profiler.ops").ops.VARIANTS, "broken", "no_such_module:Ops")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        load("broken")
