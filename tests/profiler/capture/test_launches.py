"""The launch log, on traces made by hand: times in us, one host thread."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from profiler.capture.launches import assign_modules, log_entries, read_launches, write_log
from traces.errors import InputError
from traces.readers import kineto

if TYPE_CHECKING:
    from traces.readers.timeline import Timeline

HALF = ["c10::Half", "c10::Half"]
QKV = ("aten::mm", [[2, 64], [64, 128]])
DOWN = ("aten::mm", [[2, 128], [128, 64]])


class Trace:
    """Builds a Chrome trace; each op lasts 10 us and its kernels run long after they were launched."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.now = 100.0
        self.correlation = 0

    def op(
        self, name: str, kernels: list[str], dims: list[list[int]] | None = None, module: str | None = None
    ) -> Trace:
        start, self.now = self.now, self.now + 20
        if module:
            self.host("user_annotation", f"## module {module}", start - 1, 15)
        args = {"Input Dims": dims, "Input type": HALF} if dims else {}
        self.host("cpu_op", name, start, 10, args)
        for i, kernel in enumerate(kernels):
            self.launch(kernel, start + 1 + i)
        return self

    def launch(self, kernel: str, at: float, cat: str = "kernel") -> None:
        self.correlation += 1
        args = {"correlation": self.correlation}
        self.host("cuda_runtime", "cudaLaunchKernel", at, 0.5, args)
        self.add(cat, kernel, 10_000 + at, 3, 7, args)

    def bare(self, kernel: str) -> Trace:
        self.launch(kernel, self.now)
        self.now += 20
        return self

    def host(self, cat: str, name: str, ts: float, dur: float, args: dict[str, Any] | None = None) -> None:
        self.add(cat, name, ts, dur, 1, args or {})

    def add(self, cat: str, name: str, ts: float, dur: float, tid: int, args: dict[str, Any]) -> None:
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": tid, "args": args}
        )

    def close(self, name: str = "step") -> Timeline:
        self.host("user_annotation", name, 50, self.now - 50)
        self.add("gpu_user_annotation", name, 10_000, 1, 7, {})
        trace = {"traceEvents": [*reversed(self.events), {"ph": "M", "name": "process_name"}]}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            path.write_text(json.dumps(trace))
            return kineto.read_file(path)


def eager_step() -> Timeline:
    return (
        Trace()
        .op("aten::rms_norm", ["norm"], module="layers.0.attn_norm")
        .op(*QKV[:1], ["gemm"], QKV[1], module="layers.0.attn.qkv")
        .op("aten::mul", ["rope"], module="layers.0.attn")
        .op("aten::_cudnn_attention_forward", ["sdpa"], module="layers.0.attn")
        .op(*DOWN[:1], ["gemm", "splitKreduce_kernel"], DOWN[1], module="layers.0.mlp.down")
        .op("aten::add", ["add"], module="layers.0")
        .op("aten::rms_norm", ["norm"], module="norm")
        .op("aten::argmax", ["argmax"])
        .close()
    )


def compiled_step(attention: str = "aten::_cudnn_attention_forward") -> Timeline:
    """Norms and rope fused; the products write into a given output."""
    trace = Trace()
    trace.host("cpu_op", "Torch-Compiled Region: 0/0", 60, 1000)
    return (
        trace.op("triton_red_fused_rms_norm_0", ["triton_red_fused_rms_norm_0"])
        .op(QKV[0], ["nvjet"], [*QKV[1], [2, 128]])
        .op("triton_poi_fused_mul_1", ["triton_poi_fused_mul_1"])
        .op(attention, ["cudnn_sdpa", "lean_reduction"], [[2, 4, 1, 16]])
        .op(DOWN[0], ["nvjet_splitK", "splitKreduce_kernel"], [*DOWN[1], [2, 64]])
        .op("triton_red_fused_add_rms_norm_2", ["triton_red_fused_add_rms_norm_2"])
        .bare("elementwise")
        .close()
    )


def test_kernels_come_in_launch_order_with_op_and_module() -> None:
    launches = read_launches(eager_step(), "step")
    assert [(x.name, x.op, x.module) for x in launches[:4]] == [
        ("norm", "aten::rms_norm", "layers.0.attn_norm"),
        ("gemm", "aten::mm", "layers.0.attn.qkv"),
        ("rope", "aten::mul", "layers.0.attn"),
        ("sdpa", "aten::_cudnn_attention_forward", "layers.0.attn"),
    ]
    assert launches[-1].module is None


def test_the_innermost_op_launched_it() -> None:
    trace = Trace()
    trace.host("cpu_op", "aten::linear", 90, 100)
    launches = read_launches(trace.op("aten::mm", ["gemm"], QKV[1]).close(), "step")
    assert [x.op for x in launches] == ["aten::mm"]


def test_only_kernels_of_the_named_range_count() -> None:
    trace = Trace()
    trace.launch("before", 10)
    trace.launch("Memcpy DtoD", 60, cat="gpu_memcpy")
    assert [x.name for x in read_launches(trace.bare("inside").close(), "step")] == ["inside"]


def test_a_compiled_region_is_no_op() -> None:
    assert read_launches(compiled_step(), "step")[-1].op is None


@pytest.mark.parametrize(("name", "kernels"), [("other", ["gemm"]), ("step", [])])
def test_missing_range_or_kernels_are_refused(name: str, kernels: list[str]) -> None:
    with pytest.raises(InputError, match=f"no kernels inside '{name}'"):
        read_launches(Trace().op("aten::mm", kernels).close(), name)


def test_compiled_kernels_get_the_modules_of_the_eager_run() -> None:
    compiled, eager = read_launches(compiled_step(), "step"), read_launches(eager_step(), "step")
    named = assign_modules(compiled, eager)
    assert named is not None
    assert [(x.name, x.module) for x in named] == [
        ("triton_red_fused_rms_norm_0", "layers.0.attn_norm"),
        ("nvjet", "layers.0.attn.qkv"),
        ("triton_poi_fused_mul_1", "layers.0.attn"),
        ("cudnn_sdpa", "layers.0.attn"),
        ("lean_reduction", "layers.0.attn"),
        ("nvjet_splitK", "layers.0.mlp.down"),
        ("splitKreduce_kernel", "layers.0.mlp.down"),
        ("triton_red_fused_add_rms_norm_2", "norm"),
        ("elementwise", "norm"),
    ]


def test_anchors_of_one_run_only_are_passed_over() -> None:
    """A custom op that the compiler replaced by a kernel of its own."""
    eager = (
        Trace()
        .op("kernelgap::embedding", ["embed"], module="embed")
        .op("kernelgap::linear", ["gemm"], module="layers.0.attn.qkv")
        .op("kernelgap::add", ["add"], module="layers.0")
        .close()
    )
    compiled = (
        Trace()
        .op("triton_poi_embedding", ["triton_poi_embedding"])
        .op("kernelgap::linear", ["gemm"])
        .op("triton_poi_add", ["triton_poi_add"])
        .close()
    )
    named = assign_modules(read_launches(compiled, "step"), read_launches(eager, "step"))
    assert named is not None
    assert [x.module for x in named] == ["embed", "layers.0.attn.qkv", "layers.0"]


def test_runs_that_call_different_ops_share_no_modules() -> None:
    eager = read_launches(eager_step(), "step")
    compiled = read_launches(compiled_step(), "step")
    assert assign_modules([x for x in compiled if x.name != "nvjet"], eager) is None
    reshaped = [replace(x, dims=[[2, 64], [64, 256]]) if x.name == "nvjet" else x for x in compiled]
    assert assign_modules(reshaped, eager) is None


def test_work_is_counted_once_a_call(tmp_path: Path) -> None:
    entries = log_entries(read_launches(compiled_step(), "step"))
    assert [e.ordinal for e in entries] == list(range(9))
    main, reduce = entries[5], entries[6]
    assert (main.name, main.flops, main.min_bytes) == (
        "nvjet_splitK",
        2 * 2 * 64 * 128,
        2 * (2 * 128 + 128 * 64 + 2 * 64),
    )
    assert (reduce.shape, reduce.flops, reduce.min_bytes) == (None, None, None)

    write_log(entries, tmp_path / "run.launches.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "run.launches.jsonl").read_text().splitlines()]
    assert lines[1] == {
        "graph": 0,
        "ordinal": 1,
        "name": "nvjet",
        "module": None,
        "op": "aten::mm",
        "shape": "M2 N128 K64 f16",
        "flops": 2 * 2 * 128 * 64,
        "min_bytes": 2 * (2 * 64 + 64 * 128 + 2 * 128),
    }
    assert len(lines) == 9
