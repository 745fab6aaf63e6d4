"""Capture on the CPU, for real."""

from __future__ import annotations

import gc
import json
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from profiler.capture import facts, run
from profiler.capture.run import CapturedTrace, Plan, capture_variant, plan
from profiler.capture.unprofiled import CPU_ROUNDS
from profiler.model.config import WORKLOADS, Workload, preset
from profiler.model.transformer import build
from traces.errors import MissingToolError, UsageError
from traces.ingest import ingest

if TYPE_CHECKING:
    from pathlib import Path

TINY, WORKLOAD = preset("tiny"), WORKLOADS["tiny"]


def capture(folder: Path, **changes: Any) -> CapturedTrace:
    arguments: dict[str, Any] = {
        "config": TINY,
        "variant": "cuda",
        "mode": None,
        "workload": WORKLOAD,
        "device": "cpu",
        "folder": folder,
        "progress": lambda _: None,
    }
    return capture_variant(**(arguments | changes))


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> CapturedTrace:
    return capture(tmp_path_factory.mktemp("capture"))


@pytest.fixture(scope="module")
def trace(captured: CapturedTrace) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(captured.trace.read_bytes())
    return loaded


def rows(trace: dict[str, Any], cat: str) -> list[dict[str, Any]]:
    return sorted((e for e in trace["traceEvents"] if e.get("cat") == cat), key=lambda e: e["ts"])


def outermost(ops: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found, end = [], -1.0
    for op in ops:
        if op["ts"] >= end:
            found.append(op)
            end = op["ts"] + op["dur"]
    return found


def test_every_phase_has_its_ranges(trace: dict[str, Any]) -> None:
    names = [e["name"] for e in rows(trace, "user_annotation") if e["name"].startswith("kernelgap.")]
    assert names == ["kernelgap.prefill#0", *(f"kernelgap.decode#{n}" for n in range(WORKLOAD.new_tokens))]


def test_modules_are_ranges_around_their_ops(trace: dict[str, Any]) -> None:
    modules = [e for e in rows(trace, "user_annotation") if e["name"] == "## module layers.1.mlp.down"]
    assert len(modules) == 1 + WORKLOAD.new_tokens
    for module in modules:
        inside = [
            op["name"]
            for op in rows(trace, "cpu_op")
            if module["ts"] <= op["ts"] <= module["ts"] + module["dur"]
        ]
        assert "aten::linear" in inside


def test_nothing_but_the_steps_is_recorded(trace: dict[str, Any]) -> None:
    steps = [e for e in rows(trace, "user_annotation") if e["name"].startswith("kernelgap.")]
    for op in rows(trace, "cpu_op"):
        assert any(s["ts"] <= op["ts"] <= s["ts"] + s["dur"] for s in steps), op["name"]


def test_shapes_are_recorded(trace: dict[str, Any]) -> None:
    products = [e for e in rows(trace, "cpu_op") if e["name"] == "aten::linear"]
    assert products[0]["args"]["Input Dims"][:2] == [[1, 16, 64], [128, 64]]


def test_the_trace_carries_its_own_metadata(captured: CapturedTrace, trace: dict[str, Any]) -> None:
    metadata = trace["kernelgap"]
    assert metadata == captured.metadata
    assert {k: metadata[k] for k in ("model", "variant", "mode", "tool", "workload")} == {
        "model": "tiny",
        "variant": "cuda",
        "mode": "eager",
        "tool": "torch",
        "workload": {"batch": 1, "prompt": 16, "new_tokens": 4, "dtype": "float32"},
    }
    assert metadata["device"]["type"] == "cpu"
    assert metadata["versions"]["torch"] == torch.__version__
    assert metadata["versions"]["kernelgap"]


def test_unprofiled_times_are_whole_ns(captured: CapturedTrace) -> None:
    times = captured.metadata["unprofiled"]
    assert times["decode"]["n"] == CPU_ROUNDS * WORKLOAD.new_tokens
    for phase in ("prefill", "decode"):
        assert times[phase]["median_ns"] > 0
        assert all(isinstance(value, int) for value in times[phase].values())


def test_eager_has_no_launch_log(captured: CapturedTrace) -> None:
    assert captured.launches is None
    assert captured.log.entries == []


def test_what_a_variant_chose_goes_into_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def prepare(self: object, *arguments: object, device: str) -> dict[str, Any]:
        asked.append((*arguments, device))
        return {"attention": {"decode": "flash"}}

    monkeypatch.setattr("profiler.ops.cuda.CudaOps.prepare", prepare)
    captured = capture(tmp_path, steps=1)
    assert asked == [(TINY, WORKLOAD, "cpu")]
    assert captured.metadata["choices"] == {"attention": {"decode": "flash"}}
    assert ingest(captured.trace).meta["choices"] == captured.metadata["choices"]


def test_nothing_to_choose_is_null(captured: CapturedTrace) -> None:
    assert captured.metadata["choices"] is None


def test_the_model_is_gone_before_memory_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[weakref.ref[nn.Module]] = []
    alive: list[bool] = []

    def build_and_tell(*arguments: Any, **options: Any) -> nn.Module:
        model = build(*arguments, **options)
        built.append(weakref.ref(model))
        return model

    def release(_: str) -> None:
        gc.collect()
        alive.append(built[0]() is not None)

    monkeypatch.setattr(run, "build", build_and_tell)
    monkeypatch.setattr(run, "_release", release)
    capture(tmp_path, steps=1)
    assert alive == [False]


def test_a_triton_kernel_is_one_outermost_op(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    captured = capture(tmp_path, variant="triton", workload=Workload(1, 4, 2, "float32"), steps=1)
    trace = json.loads(captured.trace.read_bytes())
    names = [op["name"] for op in outermost(rows(trace, "cpu_op"))]
    for op in ("norm_qkv_rope", "norm_gate_up_silu"):
        assert names.count(f"kernelgap::{op}") == 2 * TINY.layers
    assert names.count("kernelgap::linear_add") == 2 * 2 * TINY.layers
    assert names.count("kernelgap::attention") == TINY.layers  # of the prompt
    assert names.count("kernelgap::decode_attention") == TINY.layers
    assert "aten::mm" not in names


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mode": "graph"}, "mode 'graph' needs a GPU"),
        ({"mode": "compile"}, "on the CPU only eager exists"),
        ({"mode": "fast"}, "unknown mode 'fast': choose one of eager, compile, graph"),
        ({"variant": "rocm"}, "unknown variant 'rocm'"),
        ({"device": "tpu"}, "unknown device 'tpu': choose one of cuda, cpu"),
        ({"steps": 5}, "5 decode steps asked for, 4 new tokens allow 1 to 4"),
        ({"steps": 0}, "0 decode steps asked for"),
        ({"workload": Workload(1, 300, 4)}, "exceed the 256 positions of tiny"),
    ],
)
def test_bad_requests_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        capture(tmp_path, **changes)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_a_missing_gpu_is_said(tmp_path: Path) -> None:
    with pytest.raises(MissingToolError, match="no CUDA GPU is usable"):
        capture(tmp_path, device="cuda")


def test_too_little_gpu_memory_is_said_before_allocating(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (8 * facts.GIB, 80 * facts.GIB))
    with pytest.raises(MissingToolError, match=r"needs 18\.\d GiB of GPU memory, 8\.0 GiB are free"):
        facts.check_memory(preset("llama3-8b"), WORKLOADS["llama3-8b"], "cuda")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (80 * facts.GIB, 80 * facts.GIB))
    facts.check_memory(preset("llama3-8b"), WORKLOADS["llama3-8b"], "cuda")


def test_gpu_steps_are_from_the_middle_and_fit() -> None:
    assert plan(WORKLOADS["llama3-8b"], "cuda") == Plan(prefills=3, steps=8, start=512 + 128)
    for new_tokens in range(2, 40):
        workload = Workload(1, 10, new_tokens)
        chosen = plan(workload, "cuda")
        assert chosen.start >= workload.prompt
        assert chosen.start + chosen.steps + 1 <= workload.length
