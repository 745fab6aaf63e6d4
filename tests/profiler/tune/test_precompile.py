"""Workers that compile for a GPU which this machine need not have."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from profiler.ops.triton.splitk import Config, Shape, default_config
from profiler.tune.precompile import Builder, Job, Target, same_binary

if TYPE_CHECKING:
    from pathlib import Path

SMALL = Config(16, 16, 64, 1, num_warps=4, num_stages=3, group_m=1)


def test_workers_fill_the_cache_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    with Builder(Target("cuda", 90, 32), workers=1) as builder:
        good = Job("float16", Shape(2, 64, 128), SMALL)
        builder.ask(good)
        builder.ask(Job("float16", Shape(2, 4096, 256), SMALL))  # the same binary
        assert builder.count == 1
        assert builder.wait(good, 120) is None
        bad = Job("float16", Shape(2, 64, 128), Config(16, 24, 64, 1, 4, 3, 1))  # 24: no power of 2
        assert builder.wait(bad, 120) == "CompilationError"
        assert not builder.broken
    (made,) = tmp_path.glob("*/splitk_gemm_kernel.json")
    assert json.loads(made.read_text())["target"]["arch"] == 90
    assert list(tmp_path.glob("*/splitk_gemm_kernel.cubin"))


def test_what_shares_a_binary() -> None:
    a = Job("float16", Shape(2, 6144, 4096), default_config(2, 2))
    assert same_binary(a) == same_binary(Job("float16", Shape(2, 4096, 14336), default_config(2, 2)))
    others = [
        Job("bfloat16", *a[1:]),
        a._replace(shape=Shape(1, 6144, 4096)),
        a._replace(shape=Shape(16, 6144, 4096)),
        a._replace(shape=Shape(2, 6145, 4096)),
        a._replace(shape=Shape(2, 6144, 4097)),
        a._replace(config=SMALL),
    ]
    assert same_binary(a) not in {same_binary(o) for o in others}


@pytest.mark.gpu
def test_a_binary_from_a_worker_is_the_one_that_a_launch_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch
    import triton

    from profiler.ops.triton import splitk

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    target = triton.runtime.driver.active.get_current_target()
    shape = Shape(3, 80, 192)
    with Builder(Target(target.backend, target.arch, target.warp_size), workers=1) as builder:
        assert builder.wait(Job("float16", shape, SMALL), 120) is None
    before = set(tmp_path.glob("*/splitk_gemm_kernel.cubin"))
    x, weight = (torch.randn(n, shape.k, device="cuda", dtype=torch.float16) for n in (shape.m, shape.n))
    splitk.splitk_gemm(x, weight, SMALL)
    assert len(before) == 1
    assert set(tmp_path.glob("*/splitk_gemm_kernel.cubin")) == before
