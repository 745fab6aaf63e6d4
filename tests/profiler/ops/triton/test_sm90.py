"""The code that Triton makes for Hopper, checked without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.profiler.ops.triton.sm90 import Kernels, check_resources, probed


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return probed(Path(__file__).with_name("sm90_probe.py"), tmp_path_factory.mktemp("triton"))


def test_nothing_spills_and_shared_memory_fits(kernels: Kernels) -> None:
    check_resources(kernels)


def test_global_loads_are_128_bits(kernels: Kernels) -> None:
    assert {name for name, k in kernels.items() if not k["wide_loads"]} == set()


def test_products_use_tensor_cores(kernels: Kernels) -> None:
    """wgmma where a tile is 64 rows or more, mma.sync below."""
    wgmma = {name for name, k in kernels.items() if k["wgmma"]}
    mma = {name for name, k in kernels.items() if k["mma"]}
    tiled = {"prefill_1024x6144", "prefill_1024x4096", "prefill_64x4096"}
    assert wgmma == tiled | {"decode_28672x4096", "decode_128256x4096", "attention_prefill"}
    assert mma == {"decode_6144x4096", "decode_4096x14336", "attention_decode"}


def test_products_are_pipelined(kernels: Kernels) -> None:
    """Asynchronous copies of 16 bytes: tiles are in flight while others are multiplied."""
    products = {name for name, k in kernels.items() if k["wgmma"] or k["mma"]}
    assert {name for name, k in kernels.items() if k["cp_async"]} == products


def test_two_decode_programs_fit_on_an_sm(kernels: Kernels) -> None:
    """228 KiB an SM, 1 KiB of it reserved per block: enough bytes in flight need more than one program."""
    decode = {name: k["shared"] for name, k in kernels.items() if name.startswith("decode")}
    assert all(2 * (shared + 1024) <= 228 * 1024 for shared in decode.values()), decode
