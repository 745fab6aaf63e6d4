from __future__ import annotations

import subprocess
import sys

import pytest

from profiler.model.config import WORKLOADS, Workload, check_fits, preset
from traces.errors import UsageError


def test_llama_preset_is_llama_3_1_8b() -> None:
    config = preset("llama3-8b")
    assert (config.layers, config.dim, config.heads, config.kv_heads) == (32, 4096, 32, 8)
    assert config.qkv_dim == 6144
    assert config.rope_scaling is not None


def test_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(
        UsageError, match=r"unknown model 'llama9': choose one of llama3-8b, granite-8b, tiny"
    ):
        preset("llama9")


def test_tiny_carries_its_own_workload() -> None:
    assert (WORKLOADS["tiny"].batch, WORKLOADS["tiny"].prompt, WORKLOADS["tiny"].new_tokens) == (1, 16, 4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, 2), "batch and prompt"),
        ((1, 0, 2), "batch and prompt"),
        ((1, 1, 1), "new tokens"),
        ((1, 1, 2, "int8"), "unknown dtype 'int8': choose one of float16"),
    ],
)
def test_impossible_workloads_are_refused(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Workload(*arguments)


def test_a_workload_longer_than_the_context_is_refused() -> None:
    with pytest.raises(UsageError, match="exceed the 256 positions of tiny"):
        check_fits(preset("tiny"), Workload(1, 255, 2))


def test_config_imports_no_torch() -> None:
    code = "import sys, profiler.model.config, profiler.ops; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
