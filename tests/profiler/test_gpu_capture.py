"""CUDA graphs on a real GPU: a replay computes what eager code does, and its launch log tells the truth."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest
import torch

from profiler.capture import health, modes
from profiler.capture.run import GPU_PREFILLS, GPU_STEPS, CapturedTrace, capture_variant
from profiler.capture.unprofiled import GPU_ROUNDS
from profiler.model.config import Workload, preset
from profiler.model.generate import random_prompt
from profiler.model.transformer import build
from profiler.ops import load
from traces.ingest import ingest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("default"),  # the compiler's own warnings differ between versions
]

CONFIG = replace(
    preset("tiny"), dim=256, heads=4, kv_heads=2, head_dim=64, intermediate=512, vocab=1024, layers=3
)
WORKLOAD = Workload(2, prompt=32, new_tokens=24)
VARIANTS = ("cuda", "triton-unfused", "triton-blog", "triton")
VENDOR = ("nvjet", "cutlass", "cublas", "cudnn", "at::native", "at_cuda_detail", "flash_fwd", "cub::")
TOLERANCE = 0.03  # of logits ~ N(0, 1), computed in fp16


def runner(variant: str) -> modes.Runner:
    model = build(CONFIG, load(variant, "cuda"), device="cuda", dtype=torch.float16, seed=0)
    model.allocate(WORKLOAD.batch, WORKLOAD.length)
    return modes.eager(model, random_prompt(CONFIG.vocab, WORKLOAD, device="cuda", seed=0))


def steps(run: modes.Runner, tokens: list[torch.Tensor] | None = None) -> list[tuple[Any, Any]]:
    """Token and logits after each decode step; `tokens` are fed instead of the run's own where given."""
    run.stand_at(WORKLOAD.prompt)
    found = []
    for i in range(WORKLOAD.new_tokens - 1):
        if tokens is not None:
            run.state.token.copy_(tokens[i])
        fed, logits = run.state.token.clone(), run.decode()
        found.append((fed, logits.float().clone()))
    return found


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_a_replay_is_the_eager_step(variant: str) -> None:
    eager = runner(variant)
    expected = steps(eager)
    tokens = [token for token, _ in expected]
    compiled = modes.compiled(eager)
    modes.warm_up(compiled)
    graph = modes.captured(compiled)
    for (_, logits), (_, reference) in zip(steps(graph, tokens), expected, strict=True):
        assert (logits - reference).abs().max() < TOLERANCE
        best = reference.topk(2).values
        clear = best[..., 0] - best[..., 1] > 2 * TOLERANCE  # else rounding may choose either
        assert torch.equal(logits.argmax(-1)[clear], reference.argmax(-1)[clear])
    assert graph.state.position.item() == WORKLOAD.length - 1
    if variant != "triton-blog":  # its atomic adds come in any order: a near-tie may fall either way
        free_running = [token.tolist() for token, _ in steps(graph)]
        assert free_running == [token.tolist() for token, _ in steps(compiled)]
    torch.compiler.reset()


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_a_replayed_prefill_is_the_compiled_one(variant: str) -> None:
    """Also in the middle of a generation, where the two graphs share a memory pool."""
    compiled = modes.compiled(runner(variant))
    modes.warm_up(compiled)
    compiled.prefill()
    expected = compiled.scratch.token.clone()
    graph = modes.captured(compiled)
    for replay in (graph.prefill, graph.decode, graph.prefill):
        graph.scratch.token.fill_(-1)
        logits = replay().clone()
        if replay is graph.prefill:
            assert torch.equal(graph.scratch.token, expected)
            assert torch.equal(logits.argmax(-1), expected)
    torch.compiler.reset()


@pytest.fixture(scope="module", params=VARIANTS)
def captured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> CapturedTrace:
    return capture_variant(
        CONFIG,
        request.param,
        "graph",
        WORKLOAD,
        "cuda",
        folder=tmp_path_factory.mktemp("capture"),
        progress=print,
    )


def log_of(captured: CapturedTrace, phase: str) -> list[dict[str, Any]]:
    assert captured.launches is not None
    lines = [json.loads(line) for line in captured.launches.read_text().splitlines()]
    return [line for line in lines if line["phase"] == phase]


def replays(captured: CapturedTrace) -> list[list[str]]:
    """Kernel names of each graph launch, in the order in which they started."""
    events = [e for e in json.loads(captured.trace.read_bytes())["traceEvents"] if e.get("ph") == "X"]
    launches = sorted((e for e in events if e["name"] == "cudaGraphLaunch"), key=lambda e: e["ts"])
    kernels = sorted((e for e in events if e.get("cat") == "kernel"), key=lambda e: e["ts"])
    by_correlation: dict[int, list[str]] = {}
    for kernel in kernels:
        by_correlation.setdefault(kernel["args"]["correlation"], []).append(kernel["name"])
    return [by_correlation.get(e["args"]["correlation"], []) for e in launches]


def test_every_replay_has_the_kernels_of_the_log(captured: CapturedTrace) -> None:
    logs = {phase: log_of(captured, phase) for phase in ("decode", "prefill")}
    for graph, log in enumerate(logs.values()):
        assert {line["graph"] for line in log} == {graph}
        assert [line["ordinal"] for line in log] == list(range(len(log)))
    assert captured.log.expected == {phase: len(log) for phase, log in logs.items()}
    names = {phase: [line["name"] for line in log] for phase, log in logs.items()}
    assert replays(captured) == [names["prefill"]] * GPU_PREFILLS + [names["decode"]] * GPU_STEPS


@pytest.mark.parametrize(("phase", "rows"), [("decode", 2), ("prefill", 64)])
def test_the_log_names_the_module_and_work_of_every_product(
    captured: CapturedTrace, phase: str, rows: int
) -> None:
    log = log_of(captured, phase)
    assert all(line["module"] for line in log)
    products = [e for e in log if e["flops"] and "attention" not in (e["op"] or "")]
    layer = ("attn.qkv", "attn.o", "mlp.gate_up", "mlp.down")
    expected = [f"layers.{i}.{name}" for i in range(CONFIG.layers) for name in layer]
    assert [e["module"] for e in products] == [*expected, "lm_head"]
    assert products[0]["shape"] == f"M{rows} N{CONFIG.qkv_dim} K{CONFIG.dim} f16"
    attention = {e["module"] for e in log if "attention" in (e["op"] or "")}
    assert attention == {f"layers.{i}.attn" for i in range(CONFIG.layers)}
    assert log[-1]["module"] == "sample"


def test_inductor_agrees_on_the_modules_of_its_kernels(captured: CapturedTrace) -> None:
    assert captured.log.notes == []
    if captured.metadata["variant"] == "triton":
        pytest.skip("fused by hand: nothing is compiled")
    counts = captured.log.provenance
    assert counts["agree"] > counts["differ"] + counts["missing"], counts


def check_ingested(captured: CapturedTrace) -> None:
    """Both phases complete, and every kernel, memset and memcpy of a step in a group and a module."""
    run = ingest(captured.trace, captured.launches)
    told = health.judged(run, captured)
    assert told["notes"] == []
    assert {p: (c["expected"], c["seen"]) for p, c in told["kernels_seen"].items()} == {
        phase: (count, [count]) for phase, count in captured.log.expected.items()
    }
    log = run.meta["health"]["launch_log"]
    assert (log["matched"], log["mismatched"]) == (len(run.meta["steps"]), 0)
    table = run.table.filter(pc.is_valid(run.table["phase"]))
    assert table["group"].null_count == table["module"].null_count == 0


def test_every_row_of_a_replayed_step_has_group_and_module(captured: CapturedTrace) -> None:
    check_ingested(captured)


def test_the_triton_variant_runs_no_vendor_kernel(captured: CapturedTrace) -> None:
    names = {entry["name"] for phase in ("decode", "prefill") for entry in log_of(captured, phase)}
    foreign = {name for name in names if any(word in name for word in VENDOR)}
    assert bool(foreign) == (captured.metadata["variant"] == "cuda"), foreign


def test_a_gpu_capture_states_its_machine_and_times(captured: CapturedTrace) -> None:
    metadata = captured.metadata
    assert metadata["device"]["type"] == "cuda"
    assert metadata["device"]["name"] == torch.cuda.get_device_name()
    assert metadata["versions"]["driver"]
    assert metadata["unprofiled"]["decode"]["n"] == GPU_ROUNDS * GPU_STEPS
    assert metadata["unprofiled"]["prefill"]["n"] == GPU_ROUNDS * GPU_PREFILLS


@pytest.mark.parametrize("mode", ["eager", "compile"])
def test_other_modes_have_ranges_and_kernels(mode: str, tmp_path: Path) -> None:
    captured = capture_variant(
        CONFIG, "cuda", mode, WORKLOAD, "cuda", folder=tmp_path, progress=print, steps=2
    )
    events = json.loads(captured.trace.read_bytes())["traceEvents"]
    names = [e["name"] for e in events if e.get("cat") == "user_annotation"]
    assert {"kernelgap.prefill#2", "kernelgap.decode#0", "kernelgap.decode#1"} <= set(names)
    assert any(e.get("cat") == "kernel" for e in events)
    assert ("## module layers.0.attn.qkv" in names) == (mode == "eager")
    assert (captured.launches is None) == (mode == "eager")
    if mode == "compile":
        check_ingested(captured)
