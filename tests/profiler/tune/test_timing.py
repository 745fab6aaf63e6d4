from __future__ import annotations

import math

import pytest
import torch

from profiler.ops.triton.splitk import Shape, default_config
from profiler.tune.search import CannotRun
from profiler.tune.timing import GpuBench, calls_of, copies_of, tolerance

MIB = 1 << 20


@pytest.mark.parametrize("weight", [1 * MIB, 33 * MIB, 60 * MIB, 1000 * MIB])
def test_weights_walked_outgrow_the_l2_twice(weight: int) -> None:
    copies = copies_of(weight, 60 * MIB)
    assert copies >= 2
    assert copies * weight > 2 * 60 * MIB


def test_a_graph_holds_whole_walks_and_is_long_enough() -> None:
    for shape, copies in (
        (Shape(2, 4096, 4096), 4),
        (Shape(2, 128256, 4096), 2),
        (Shape(1024, 28672, 4096), 2),
    ):
        calls = calls_of(shape, 2, copies)
        assert calls % copies == 0
        assert 400 / 8 <= calls * max(shape.n * shape.k * 2 / 4e6, 1) <= 4000
    assert calls_of(Shape(1024, 28672, 4096), 2, 2) == 2


def test_tolerance_grows_with_the_splits() -> None:
    one, eight = (tolerance(torch.float16, s, 4096) for s in (1, 8))
    assert 2**-10 < one < eight < 0.02
    assert tolerance(torch.float32, 1, 4096) < 1e-4
    assert math.isclose(tolerance(torch.bfloat16, 1, 1), 3 * 2**-7, rel_tol=1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [Shape(2, 4096, 4096), Shape(1024, 4096, 4096)])
def test_times_are_plausible_on_a_gpu(shape: Shape) -> None:
    """No faster than 6 TB/s and 1.2 PFLOP/s, which no such GPU reaches; no slower than a hundredth of it."""
    bench = GpuBench(shape, torch.float16)
    config = default_config(shape.m, 2)
    sample = bench.sampler(config)
    floor = max(shape.n * shape.k * 2 / 6e6, 2 * shape.m * shape.n * shape.k / 1.2e9)
    assert floor < sample() < 100 * floor
    assert bench.right(config)


@pytest.mark.gpu
def test_what_does_not_fit_is_refused() -> None:
    from dataclasses import replace

    bench = GpuBench(Shape(1024, 512, 1024), torch.float16)
    with pytest.raises(CannotRun):
        bench.sampler(replace(default_config(1024, 2), block_n=256, block_k=128, num_stages=6))
