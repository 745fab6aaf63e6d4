"""Wall time of the steps without a profiler, which stretches it."""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from profiler.capture.modes import Runner
    from traces.schema import Unprofiled

GPU_ROUNDS: Final = 6
CPU_ROUNDS: Final = 2
_PREFILLS: Final = 3  # a round


def measure(runner: Runner, *, start: int, steps: int, device: str) -> dict[str, Unprofiled]:
    """Time prefill, and the `steps` decode steps from position `start`, in interleaved rounds.

    On a GPU a sample is the time between events recorded after successive back-to-back steps, so it holds
    the gaps between steps but no host synchronisation; on the CPU it is the call's own time. Integer ns.
    """
    decode: list[int] = []
    prefill: list[int] = []
    for _ in range(GPU_ROUNDS if device == "cuda" else CPU_ROUNDS):
        runner.stand_at(start)
        decode += times(runner.decode, steps, device)
        prefill += times(runner.prefill, _PREFILLS if device == "cuda" else 1, device)
    return {"prefill": summary(prefill), "decode": summary(decode)}


def summary(samples: Sequence[int]) -> Unprofiled:
    """Count, median and interquartile range, rounded to ns."""
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return {
        "n": len(samples),
        "median_ns": round(statistics.median(samples)),
        "iqr_ns": round(high - low),
    }


def times(step: Callable[[], object], count: int, device: str) -> list[int]:
    """`count` samples of one step's wall time, ns."""
    return gpu_times(step, count) if device == "cuda" else _cpu_times(step, count)


def _cpu_times(step: Callable[[], object], count: int) -> list[int]:
    times = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        step()
        times.append(time.perf_counter_ns() - begin)
    return times


def gpu_times(step: Callable[[], object], count: int) -> list[int]:
    """`count` intervals; each round's first step only fills the queue, so that no sample starts from idle."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    for event in events:
        step()
        event.record()
    torch.cuda.synchronize()
    return [round(before.elapsed_time(after) * 1e6) for before, after in pairwise(events)]  # ms -> ns
