"""Traces of eager and compiled steps made by hand: times in us, one host thread."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traces.readers import kineto

if TYPE_CHECKING:
    from traces.readers.timeline import Timeline

HALF = ["c10::Half", "c10::Half", "c10::Half"]
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

    def inside(self, name: str, kernel: str) -> Trace:
        """One more op and kernel, in front of what the latest op launched."""
        self.host("cpu_op", name, self.now - 19.9, 0.8)
        self.launch(kernel, self.now - 19.5)
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

    def phase(self, name: str, since: float) -> Trace:
        self.host("user_annotation", name, since, self.now - since)
        self.add("gpu_user_annotation", name, 10_000, 1, 7, {})
        return self

    def close(self, name: str = "step") -> Timeline:
        return self.phase(name, 50).read()

    def read(self) -> Timeline:
        trace = {"traceEvents": [*reversed(self.events), {"ph": "M", "name": "process_name"}]}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            path.write_text(json.dumps(trace))
            return kineto.read_file(path)


def eager_step(trace: Trace | None = None) -> Trace:
    return (
        (trace or Trace())
        .op("aten::rms_norm", ["norm"], module="layers.0.attn_norm")
        .op(*QKV[:1], ["gemm"], QKV[1], module="layers.0.attn.qkv")
        .op("aten::mul", ["rope"], module="layers.0.attn")
        .op("aten::_cudnn_attention_forward", ["sdpa"], module="layers.0.attn")
        .op(*DOWN[:1], ["gemm", "splitKreduce_kernel"], DOWN[1], module="layers.0.mlp.down")
        .op("aten::add", ["add"], module="layers.0")
        .op("aten::rms_norm", ["norm"], module="norm")
        .op("aten::argmax", ["argmax"], module="sample")
    )


def compiled_step(trace: Trace | None = None, attention: str = "aten::_cudnn_attention_forward") -> Trace:
    """Norms and rope fused; the products write into a given output."""
    trace = trace or Trace()
    trace.host("cpu_op", "Torch-Compiled Region: 0/0", trace.now - 5, 150)
    return (
        trace.op("triton_red_fused_rms_norm_0", ["triton_red_fused_rms_norm_0"])
        .op(QKV[0], ["nvjet"], [*QKV[1], [2, 128]])
        .op("triton_poi_fused_mul_1", ["triton_poi_fused_mul_1"])
        .op(attention, ["cudnn_sdpa", "lean_reduction"], [[2, 4, 1, 16]])
        .op(DOWN[0], ["nvjet_splitK", "splitKreduce_kernel"], [*DOWN[1], [2, 64]])
        .op("triton_red_fused_add_rms_norm_2", ["triton_red_fused_add_rms_norm_2"])
        .bare("elementwise")
    )
