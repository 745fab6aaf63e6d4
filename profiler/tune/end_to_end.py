"""What tuning buys a whole step: `triton-blog` in graph mode, default configurations against tuned ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from profiler.capture import facts, modes, unprofiled
from profiler.capture.run import plan
from profiler.model.generate import random_prompt
from profiler.model.transformer import build
from profiler.ops import load
from profiler.ops.triton import splitk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from profiler.capture.modes import Runner
    from profiler.model.config import Config as Model
    from profiler.model.config import Workload
    from profiler.ops.triton.splitk import Config, Shape

    Table = Mapping[Shape, Config]

ROUNDS: Final = 6
NEEDS_SECONDS: Final = 150.0  # to build, compile, capture twice and time an 8B model
_PREFILLS: Final = 3  # a round


@torch.no_grad()
def measure(
    model: Model,
    workload: Workload,
    tuned: Table,
    *,
    out_of_time: Callable[[], bool],
    say: Callable[[str], None],
    seed: int = 0,
) -> dict[str, Any]:
    """Per phase and side (`untuned`, `tuned`) n, median and IQR of a step in ns, and untuned over tuned.

    The model is compiled once: which configuration a GEMM runs with is decided when a graph is captured. The
    sides take turns; the rounds end early when time is out, and `rounds` says how many there were.
    Raises MissingToolError if the model does not fit the GPU.
    """
    facts.check_memory(model, workload, "cuda")
    tables: dict[str, Table] = {"untuned": {}, "tuned": tuned}
    say(f"end to end: building and compiling {model.name}")
    ops = load("triton-blog", "cuda")
    decoder = build(model, ops, device="cuda", dtype=getattr(torch, workload.dtype), seed=seed)
    decoder.allocate(workload.batch, workload.length)
    compiled = modes.compiled(
        modes.eager(decoder, random_prompt(model.vocab, workload, device="cuda", seed=seed))
    )
    runners = {}
    try:
        for side, table in tables.items():
            splitk.select(table)
            modes.warm_up(compiled)
            runners[side] = modes.captured(compiled)
        say("end to end: timing both sides in turns")
        start, steps = plan(workload, "cuda").start, plan(workload, "cuda").steps
        return alternate(runners, tables, start=start, steps=steps, out_of_time=out_of_time)
    finally:
        splitk.select({})
        torch.compiler.reset()


def alternate(
    runners: Mapping[str, Runner],
    tables: Mapping[str, Table],
    *,
    start: int,
    steps: int,
    out_of_time: Callable[[], bool],
    times: Callable[[Callable[[], object], int], list[int]] = unprofiled.gpu_times,
) -> dict[str, Any]:
    """Time the sides' steps in turns, at least one round; see `measure`."""
    samples: dict[str, dict[str, list[int]]] = {p: {s: [] for s in runners} for p in ("decode", "prefill")}
    rounds = 0
    while rounds < ROUNDS and not (rounds and out_of_time()):
        for side in sorted(runners, reverse=bool(rounds % 2)):
            runner = runners[side]
            splitk.select(tables[side])  # for what is not in a graph
            runner.stand_at(start)
            samples["decode"][side] += times(runner.decode, steps)
            samples["prefill"][side] += times(runner.prefill, _PREFILLS)
        rounds += 1
    found: dict[str, Any] = {"rounds": rounds}
    for phase, sides in samples.items():
        summaries = {side: unprofiled.summary(values) for side, values in sides.items()}
        ratio = summaries["untuned"]["median_ns"] / summaries["tuned"]["median_ns"]
        found[phase] = {**summaries, "speedup": ratio}
    return found
