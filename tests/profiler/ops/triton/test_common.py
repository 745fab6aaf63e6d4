from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from profiler.ops.triton.common import DTYPES, cdiv, check_inputs, interpretable, next_power_of_2
from tests.profiler.ops.triton.checks import DEVICE, rand
from traces.errors import MissingToolError, UsageError

WITHOUT_INTERPRETER = """
import torch
from profiler.ops.triton.add import add
add(torch.ones(2), torch.ones(2))
"""


def test_fresh_memory_is_poisoned() -> None:
    """What the other tests rely on to see an element that no kernel wrote."""
    assert torch.empty_like(rand(1000)).isnan().all()
    assert rand(1).new_empty(1000).isnan().all()


def test_sizes() -> None:
    assert [cdiv(a, 4) for a in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert [next_power_of_2(n) for n in (0, 1, 2, 3, 4, 5)] == [1, 1, 2, 4, 4, 8]


def test_every_supported_dtype_passes() -> None:
    for dtype in DTYPES:
        check_inputs("op", rand(2, dtype=dtype))


def test_refuses_inputs_on_several_devices() -> None:
    with pytest.raises(UsageError, match=r"op: inputs are on .*, meta; move them to one device"):
        check_inputs("op", rand(2), rand(2).to("meta"))


@pytest.mark.skipif(DEVICE != "cpu", reason="the interpreter is not used on a GPU")
def test_bf16_is_widened_for_the_interpreter() -> None:
    half, brain = interpretable(rand(2, dtype=torch.float16), rand(2, dtype=torch.bfloat16))
    assert (half.dtype, brain.dtype) == (torch.float16, torch.float32)


def test_cpu_without_the_interpreter_says_what_to_do() -> None:
    environment = os.environ | {"TRITON_INTERPRET": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_INTERPRETER],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert MissingToolError.__name__ in done.stderr
    assert "add: Triton on the CPU needs its interpreter; set TRITON_INTERPRET=1" in done.stderr
