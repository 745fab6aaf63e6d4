"""Capture one variant of one model in one mode: build, warm up, time, log launches, profile."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch

from profiler.capture import facts, launches, modes, unprofiled
from profiler.capture.torch_profiler import module_ranges, phase_range, record
from profiler.model.config import check_fits
from profiler.model.generate import random_prompt
from profiler.model.transformer import build
from profiler.ops import load
from traces.errors import UsageError
from traces.readers import kineto

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from profiler.model.config import Config, Workload

    Progress = Callable[[str], None]

GPU_STEPS: Final = 8
GPU_PREFILLS: Final = 3


@dataclass(frozen=True)
class CapturedTrace:
    """A finished capture: where its files are, and what ingestion cannot read from them."""

    trace: Path
    metadata: dict[str, Any]  # model, variant, mode, tool, workload, device, versions, unprofiled
    launches: Path | None = None  # the launch log, in graph mode
    expected: dict[str, int] = field(default_factory=dict)  # kernels that the trace must hold


@dataclass(frozen=True)
class Plan:
    """Which steps are profiled: `prefills` prompts, and `steps` decode steps from position `start`."""

    prefills: int
    steps: int
    start: int


def plan(workload: Workload, device: str, steps: int | None = None) -> Plan:
    """The steps to profile: on the CPU the whole generation, on a GPU `steps` from its middle (default 8).

    Raises UsageError for more steps than the workload has.
    """
    # on a GPU one more step runs before each timed round
    most = workload.new_tokens - (1 if device == "cuda" else 0)
    if steps is not None and not 1 <= steps <= most:
        raise UsageError(
            f"{steps} decode steps asked for, {workload.new_tokens} new tokens allow 1 to {most}"
        )
    if device == "cpu":
        return Plan(1, steps or most, workload.prompt)
    steps = steps or min(GPU_STEPS, most)
    start = min(workload.prompt + workload.new_tokens // 2, workload.length - 1 - steps)
    return Plan(GPU_PREFILLS, steps, start)


@torch.no_grad()
def capture_variant(
    config: Config,
    variant: str,
    mode: str | None,
    workload: Workload,
    device: str | None,
    *,
    folder: Path,
    progress: Callable[[str], None],
    steps: int | None = None,
    seed: int = 0,
) -> CapturedTrace:
    """Run `config` on the operators of `variant` and record it with torch.profiler.

    Writes `<model>_<variant>_<mode>.json`, and in graph mode `….launches.jsonl`, into `folder`. `device` is
    "cuda" or "cpu" (None: cuda where there is one), `mode` one of `modes.MODES` (None: graph on a GPU, eager
    on the CPU). `progress` is told in plain words what is going on.

    Raises UsageError for an unknown variant, mode or device and for a workload that does not fit the model,
    MissingToolError for a GPU that is missing or has too little memory.
    """
    device = facts.choose_device(device)
    mode = modes.choose_mode(mode, device)
    check_fits(config, workload)
    steps_plan = plan(workload, device, steps)
    ops = load(variant, device)
    facts.check_memory(config, workload, device)
    try:
        progress(f"building {config.name} ({config.parameters / 1e9:.2f} B parameters) on {device}")
        model = build(config, ops, device=device, dtype=getattr(torch, workload.dtype), seed=seed)
        model.allocate(workload.batch, workload.length)
        eager = modes.eager(model, random_prompt(config.vocab, workload, device=device, seed=seed))
        stem = folder / f"{config.name}_{variant}_{mode}"
        runner, log, expected = _prepare(eager, mode, device, stem, progress)
        progress("timing the steps without a profiler")
        times = unprofiled.measure(runner, start=steps_plan.start, steps=steps_plan.steps, device=device)
        metadata = {
            "model": config.name,
            "variant": variant,
            "mode": mode,
            "tool": "torch",
            "workload": asdict(workload),
            "device": facts.device_facts(device),
            "versions": facts.versions(),
            "unprofiled": times,
        }
        progress(f"profiling {steps_plan.prefills} prefill and {steps_plan.steps} decode steps")
        trace = _profile(runner, steps_plan, mode, device, stem.with_suffix(".json"), metadata)
        return CapturedTrace(trace, metadata, log, expected)
    finally:
        _release(device)


def _prepare(
    eager: modes.Runner, mode: str, device: str, stem: Path, progress: Progress
) -> tuple[modes.Runner, Path | None, dict[str, int]]:
    """The warm runner of `mode`; in graph mode also the launch log and the kernels it promises per step."""
    progress(
        "warming up" if mode == "eager" else "compiling prefill and decode step (minutes for a big model)"
    )
    runner = eager if mode == "eager" else modes.compiled(eager)
    modes.warm_up(runner, times=3 if device == "cuda" else 1)
    if mode != "graph":
        return runner, None, {}
    progress("logging the launches of one decode step")
    modes.warm_up(eager)
    entries = _launch_log(eager, runner, device, stem.with_suffix(".log.json"), progress)
    log = stem.with_suffix(".launches.jsonl")
    launches.write_log(entries, log)
    progress(f"capturing the decode step, {len(entries)} kernels, in a CUDA graph")
    runner = modes.captured(runner)
    modes.warm_up(runner)
    return runner, log, {"decode_kernels_per_step": len(entries)}


def _launch_log(
    eager: modes.Runner, compiled: modes.Runner, device: str, path: Path, progress: Progress
) -> list[launches.Entry]:
    """Profile one eager and one compiled decode step together, and log the compiled one."""

    def steps() -> None:
        with module_ranges(eager.model), phase_range("eager", 0):
            eager.decode()
        with phase_range("compiled", 0):
            compiled.decode()

    start = compiled.state.prompt.shape[1]

    def warm_up() -> None:
        compiled.stand_at(start)
        with module_ranges(eager.model):
            eager.decode()
        compiled.stand_at(start)

    record(path, device=device, warm_up=warm_up, steps=steps)
    timeline = kineto.read_file(path)
    path.unlink()
    mine = launches.read_launches(timeline, "compiled")
    named = launches.assign_modules(mine, launches.read_launches(timeline, "eager"))
    if named is None:
        progress("eager and compiled step call different ops: the launch log has no modules")
    return launches.log_entries(named or mine)


def _profile(
    runner: modes.Runner, todo: Plan, mode: str, device: str, path: Path, metadata: dict[str, Any]
) -> Path:
    state = runner.state

    def warm_up() -> None:
        runner.prefill()
        token, position = state.token.clone(), state.position.clone()
        runner.decode()
        state.token.copy_(token)
        state.position.copy_(position)

    def steps() -> None:
        for n in range(todo.prefills):
            with phase_range("prefill", n):
                runner.prefill()
        for n in range(todo.steps):
            with phase_range("decode", n):
                runner.decode()

    runner.stand_at(todo.start)
    with module_ranges(runner.model) if mode == "eager" else nullcontext():
        record(path, device=device, warm_up=warm_up, steps=steps, metadata=metadata)
    return path


def _release(device: str) -> None:
    """Give the memory back, so that the next variant fits, and forget what was compiled."""
    torch.compiler.reset()
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
