"""The code that Triton makes of `triton-blog`'s kernels for Hopper, checked without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.profiler.ops.triton.sm90 import Kernels, check_resources, probed


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return probed(Path(__file__).with_name("sm90_probe_blog.py"), tmp_path_factory.mktemp("triton"))


def test_nothing_spills_and_shared_memory_fits(kernels: Kernels) -> None:
    check_resources(kernels)


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
