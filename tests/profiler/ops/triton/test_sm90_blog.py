"""The code that Triton makes of `triton-blog`'s kernels for Hopper, checked without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

Kernels = dict[str, dict[str, int]]
SHARED_LIMIT = 232448  # bytes a block can use on sm_90 (CUDA programming guide, compute capability 9.0)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    environment = os.environ | {
        "TRITON_INTERPRET": "0",
        "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton")),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[4]), *sys.path]),
    }
    probe = Path(__file__).with_name("sm90_probe_blog.py")
    done = subprocess.run(
        [sys.executable, probe], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: Kernels = json.loads(done.stdout)
    return found


def test_nothing_spills_and_shared_memory_fits(kernels: Kernels) -> None:
    assert {name: k["stack"] for name, k in kernels.items() if k["stack"]} == {}
    assert {name: k["shared"] for name, k in kernels.items() if k["shared"] > SHARED_LIMIT} == {}


def test_products_are_pipelined_on_tensor_cores(kernels: Kernels) -> None:
    """wgmma where a tile is 64 rows or more, mma.sync below; loads are asynchronous copies of 16 bytes."""
    wgmma = {name for name, k in kernels.items() if k["wgmma"]}
    mma = {name for name, k in kernels.items() if k["mma"]}
    assert wgmma == {"splitk_prefill", "flash_prefill"}
    assert mma == {"splitk_decode", "splitk_decode_bf16", "flash_decode"}
    assert {name for name, k in kernels.items() if k["cp_async"]} == wgmma | mma


def test_two_decode_programs_fit_on_an_sm(kernels: Kernels) -> None:
    """228 KiB an SM, 1 KiB of it reserved per block."""
    assert 2 * (kernels["splitk_decode"]["shared"] + 1024) <= 228 * 1024
