"""Kernels compiled for sm_90 by a probe in a process of its own, and what all of them must hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

Kernels = dict[str, dict[str, int]]
ROOT = Path(__file__).parents[4]
SHARED_LIMIT = 232448  # bytes a block can use on sm_90 (CUDA programming guide, compute capability 9.0)


def probed(probe: Path, cache: Path) -> Kernels:
    """Facts of each kernel that the script `probe` prints as JSON; Triton's binaries go into `cache`."""
    environment = os.environ | {
        "TRITON_INTERPRET": "0",
        "TRITON_CACHE_DIR": str(cache),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
    }
    done = subprocess.run(
        [sys.executable, probe], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: Kernels = json.loads(done.stdout)
    return found


def check_resources(kernels: Kernels) -> None:
    """No register is spilled to the stack, and shared memory fits."""
    assert {name: k["stack"] for name, k in kernels.items() if k["stack"]} == {}
    assert {name: k["shared"] for name, k in kernels.items() if k["shared"] > SHARED_LIMIT} == {}
