"""The launches of a step, on traces made by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from profiler.capture.launches import (
    ATTENTION,
    BATCHED,
    PRODUCT,
    kind_of,
    log_entries,
    read_launches,
    write_log,
)
from tests.profiler.capture.steps import QKV, Trace, compiled_step, eager_step
from traces.attribution import launch_log
from traces.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def test_kernels_come_in_launch_order_with_op_and_module() -> None:
    launches = read_launches(eager_step().close(), "step")
    assert [(x.name, x.op, x.module) for x in launches[:4]] == [
        ("norm", "aten::rms_norm", "layers.0.attn_norm"),
        ("gemm", "aten::mm", "layers.0.attn.qkv"),
        ("rope", "aten::mul", "layers.0.attn"),
        ("sdpa", "aten::_cudnn_attention_forward", "layers.0.attn"),
    ]
    assert launches[-1].module == "sample"


def test_the_innermost_op_launched_it() -> None:
    trace = Trace()
    trace.host("cpu_op", "aten::linear", 90, 100)
    launches = read_launches(trace.op("aten::mm", ["gemm"], QKV[1]).close(), "step")
    assert [x.op for x in launches] == ["aten::mm"]


def test_what_runs_inside_a_call_is_part_of_it() -> None:
    trace = Trace().op("kernelgap::splitk_linear", ["splitk"], [[2, 64], [128, 64]])
    fill, product = read_launches(trace.inside("aten::fill_", "fill").close(), "step")
    assert (fill.op, product.op) == ("aten::fill_", "kernelgap::splitk_linear")
    assert fill.call == product.call
    assert fill.call is not None
    assert fill.call.kind == "kernelgap::splitk_linear"


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        ("aten::mm", PRODUCT),
        ("aten::addmm", PRODUCT),
        ("aten::bmm", BATCHED),
        ("aten::_flash_attention_forward", ATTENTION),
        ("aten::_efficient_attention_forward", ATTENTION),
        ("aten::_scaled_dot_product_cudnn_attention", ATTENTION),
        ("kernelgap::flash_attention", "kernelgap::flash_attention"),
        ("aten::add", None),
        ("triton_poi_fused_attention_0", None),
    ],
)
def test_calls_that_both_runs_make(op: str, kind: str | None) -> None:
    assert kind_of(op) == kind


def test_a_residual_in_front_does_not_change_a_product() -> None:
    plain = Trace().op("aten::mm", ["gemm"], QKV[1]).close()
    added = Trace().op("aten::addmm", ["gemm"], [[128], *QKV[1], [], [2, 128]]).close()
    calls = [read_launches(timeline, "step")[0].call for timeline in (plain, added)]
    assert calls[0] == calls[1]


def test_only_kernels_of_the_named_range_count() -> None:
    trace = Trace()
    trace.launch("before", 10)
    trace.launch("Memcpy DtoD", 60, cat="gpu_memcpy")
    assert [x.name for x in read_launches(trace.bare("inside").close(), "step")] == ["inside"]


def test_a_compiled_region_is_no_op() -> None:
    assert read_launches(compiled_step().close(), "step")[-1].op is None


@pytest.mark.parametrize(("name", "kernels"), [("other", ["gemm"]), ("step", [])])
def test_missing_range_or_kernels_are_refused(name: str, kernels: list[str]) -> None:
    with pytest.raises(InputError, match=f"no kernels inside '{name}'"):
        read_launches(Trace().op("aten::mm", kernels).close(), name)


def test_work_is_counted_once_a_call_and_the_log_reads_back(tmp_path: Path) -> None:
    entries = log_entries(read_launches(compiled_step().close(), "step"), 1, "prefill")
    assert [(e.graph, e.ordinal) for e in entries] == [(1, n) for n in range(9)]
    main, reduce = entries[5], entries[6]
    assert (main.name, main.flops, main.min_bytes) == (
        "nvjet_splitK",
        2 * 2 * 64 * 128,
        2 * (2 * 128 + 128 * 64 + 2 * 64),
    )
    assert (reduce.shape, reduce.flops, reduce.min_bytes) == (None, None, None)

    path = tmp_path / "run.launches.jsonl"
    write_log(entries, path)
    assert json.loads(path.read_text().splitlines()[1]) == {
        "graph": 1,
        "ordinal": 1,
        "name": "nvjet",
        "module": None,
        "op": "aten::mm",
        "shape": "M2 N128 K64 f16",
        "flops": 2 * 2 * 128 * 64,
        "min_bytes": 2 * (2 * 64 + 64 * 128 + 2 * 128),
        "phase": "prefill",
    }
    ((*lines,),) = launch_log.read(path)
    assert [(x.name, x.phase) for x in lines] == [(e.name, "prefill") for e in entries]
