"""Kineto traces built event by event; times in microseconds, as Kineto writes them."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

BASE = 1_735_689_600_000_000_000


def kernel(name: str, ts: float, dur: float, correlation: int = 0, **args: Any) -> dict[str, Any]:
    known = {"device": 0, "stream": 7, "correlation": correlation, "grid": [2, 3, 1], "block": [128, 1, 1]}
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": 0,
        "tid": 7,
        "ts": ts,
        "dur": dur,
        "args": known | args,
    }


def host(
    name: str, ts: float, dur: float, correlation: int, tid: int = 100, pid: int = 100
) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": name,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": {"correlation": correlation},
    }


def op(name: str, ts: float, dur: float, external: int = 1, tid: int = 100, **args: Any) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "cpu_op",
        "name": name,
        "pid": 100,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": {"External id": external} | args,
    }


def user_range(name: str, ts: float, dur: float, tid: int = 100) -> dict[str, Any]:
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": 100, "tid": tid, "ts": ts, "dur": dur}


def trace(*events: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return {"schemaVersion": 1, "baseTimeNanoseconds": BASE, **meta, "traceEvents": list(events)}


def write(path: Path, content: dict[str, Any] | list[Any] | bytes) -> Path:
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def two_steps() -> dict[str, Any]:
    """Prefill and two decode steps of an eager program: a GEMM and an elementwise kernel each."""
    events, correlation = [], 0
    for step, name in enumerate(("kernelgap.prefill#0", "kernelgap.decode#0", "kernelgap.decode#1")):
        at = 100.0 * step
        events.append(user_range(name, at, 60))
        for k, (op_name, kernel_name) in enumerate(
            (
                ("aten::mm", "nvjet_tst_64x8_64x16_4x1_v_bz_TNN"),
                ("aten::silu", "void at::native::vectorized_elementwise_kernel<4>"),
            )
        ):
            correlation += 1
            launched = at + 5 + 20 * k
            events += [
                op(op_name, launched, 10, correlation),
                host("cudaLaunchKernel", launched + 2, 3, correlation),
                kernel(kernel_name, launched + 8, 10.5 - k, correlation),
            ]
    return trace(*events, deviceProperties=[{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}])
