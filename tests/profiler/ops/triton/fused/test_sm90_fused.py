"""The code that Triton makes of the fused kernels for Hopper, checked without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.profiler.ops.triton.sm90 import Kernels, check_resources, probed


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return probed(Path(__file__).with_name("sm90_probe_fused.py"), tmp_path_factory.mktemp("triton"))


def test_nothing_spills_and_shared_memory_fits(kernels: Kernels) -> None:
    check_resources(kernels)


def test_decode_products_stream_weights_past_tensor_cores(kernels: Kernels) -> None:
    """Asynchronous 16-byte copies in flight, mma.sync of 16 x 8 tiles, or wgmma where a tile allows it."""
    products = {n: k for n, k in kernels.items() if n.startswith("decode") and n.split()[-1] in
                ("qkv", "o", "gate_up", "down", "lm_head")}  # fmt: skip
    assert len(products) == 5 * 5
    assert all(k["cp_async"] and (k["mma"] or k["wgmma"]) for k in products.values())


def test_prefill_products_are_tma_and_wgmma(kernels: Kernels) -> None:
    products = {n: k for n, k in kernels.items() if n.startswith("prefill")}
    assert len(products) == 2 * 4
    assert all(k["tma"] and k["wgmma"] for k in products.values())


def test_overlapping_kernels_wait_before_they_write_or_let_others_start(kernels: Kernels) -> None:
    """The rule of programmatic dependent launch: `profiler/ops/triton/fused/stream.py`."""
    decode = {n: k for n, k in kernels.items() if n.startswith("decode")}
    assert all(k["waits"] and k["wait_first"] for k in decode.values()), decode
    assert all(k["prefetch"] for n, k in decode.items() if n.split()[-1] in ("o", "down"))
