"""Capture one variant of one model in one mode: build, warm up, time, log launches, profile."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch

from profiler.capture import facts, launches, modes, unprofiled
from profiler.capture.log import Log, log_fused, log_steps
from profiler.capture.torch_profiler import module_ranges, phase_range, record
from profiler.model.checkpoint import load as load_weights
from profiler.model.checkpoint import open_checkpoint
from profiler.model.config import check_fits
from profiler.model.generate import random_prompt
from profiler.model.transformer import build
from profiler.ops import load
from traces.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from profiler.model.checkpoint import Checkpoint
    from profiler.model.config import Config, Workload
    from profiler.ops import Ops

    Progress = Callable[[str], None]

GPU_STEPS: Final = 8
GPU_PREFILLS: Final = 3


@dataclass(frozen=True)
class CapturedTrace:
    """A finished capture: where its files are, and what ingestion cannot read from them."""

    trace: Path
    metadata: dict[str, Any]  # what `traces.schema.Captured` names
    launches: Path | None = None  # the launch log, except in eager mode
    log: Log = field(default_factory=Log)  # what it says, and how far its sources agree


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
    weights: Path | None = None,
) -> CapturedTrace:
    """Run `config` on the operators of `variant` and record it with torch.profiler.

    Writes `<model>_<variant>_<mode>.json`, and except in eager mode `….launches.jsonl`, into `folder`.
    `device` is "cuda" or "cpu" (None: cuda where there is one), `mode` one of `modes.MODES` (None: graph on a
    GPU, eager on the CPU). `weights` is the folder of a Hugging Face checkpoint (None: random weights from
    `seed`). `progress` is told in plain words what is going on. Afterwards the device's memory is free for
    the next variant.

    Raises UsageError for an unknown variant, mode or device and for a workload that does not fit the model,
    MissingToolError for a GPU that is missing, too old or has too little memory, InputError for weights that
    do not fit.
    """
    device = facts.choose_device(device)
    mode = modes.choose_mode(mode, device)
    check_fits(config, workload)
    steps_plan = plan(workload, device, steps)
    ops = load(variant, device)
    modes.check_compiles(ops, variant, mode)
    facts.check_gpu(variant, mode, device)
    facts.check_memory(config, workload, device)
    checkpoint = open_checkpoint(weights, config) if weights else None
    metadata = {
        "model": config.name,
        "variant": variant,
        "mode": mode,
        "tool": "torch",
        "workload": asdict(workload),
        "weights": checkpoint.facts() if checkpoint else {"source": "random", "seed": seed},
        "device": facts.device_facts(device),
        "versions": facts.versions(),
    }
    stem = folder / f"{config.name}_{variant}_{mode}"
    try:
        return _capture(config, ops, workload, steps_plan, metadata, stem, progress, seed, checkpoint)
    except torch.OutOfMemoryError as error:
        raise facts.out_of_memory(config, workload) from error
    finally:
        _release(device)


def _capture(
    config: Config, ops: Ops, workload: Workload, todo: Plan, metadata: dict[str, Any], stem: Path,
    progress: Progress, seed: int, checkpoint: Checkpoint | None,
) -> CapturedTrace:  # fmt: skip
    """The capture itself: what it puts on the device dies with it, before the memory is given back."""
    mode, device = metadata["mode"], metadata["device"]["type"]
    metadata = metadata | {"choices": ops.prepare(config, workload, device=device) or None}
    progress(f"building {config.name} ({config.parameters / 1e9:.2f} B parameters) on {device}")
    model = build(config, ops, device=device, dtype=getattr(torch, workload.dtype), seed=seed)
    if checkpoint is not None:
        progress(checkpoint.told())
        load_weights(model, checkpoint)
    model.allocate(workload.batch, workload.length)
    eager = modes.eager(model, random_prompt(config.vocab, workload, device=device, seed=seed))
    runner, log = _prepare(eager, mode, device, stem, progress)
    progress("timing the steps without a profiler")
    times = unprofiled.measure(runner, start=todo.start, steps=todo.steps, device=device)
    metadata = metadata | {"unprofiled": times}
    progress(f"profiling {todo.prefills} prefill and {todo.steps} decode steps")
    trace = _profile(runner, todo, mode, device, stem.with_suffix(".json"), metadata)
    if log is None:
        return CapturedTrace(trace, metadata)
    path = stem.with_suffix(".launches.jsonl")
    launches.write_log(log.entries, path)
    return CapturedTrace(trace, metadata, path, log)


def _prepare(
    eager: modes.Runner, mode: str, device: str, stem: Path, progress: Progress
) -> tuple[modes.Runner, Log | None]:
    """The warm runner of `mode`; except in eager mode also the launch log."""
    fused = eager.model.ops.fused
    warm = mode == "eager" or fused
    progress("warming up" if warm else "compiling prefill and decode step (minutes for a big model)")
    runner = eager if mode == "eager" else modes.compiled(eager)
    modes.warm_up(runner, times=3 if device == "cuda" else 1)
    if mode == "eager":
        return runner, None
    progress("logging the launches of one prefill and one decode step")
    path = stem.with_suffix(".log.json")
    if fused:
        log = log_fused(runner, device=device, path=path)
    else:
        modes.warm_up(eager)
        log = log_steps(eager, runner, device=device, path=path)
    for note in (*log.notes, *log.said):
        progress(note)
    if mode == "graph":
        counts = " and ".join(f"{n} kernels of {phase}" for phase, n in log.expected.items())
        progress(f"capturing {counts}, each in a CUDA graph")
        runner = modes.captured(runner)
        modes.warm_up(runner)
    return runner, log


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
