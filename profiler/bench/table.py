"""Times become rows: who is faster, at what rate, at what share of the roofline. Plain Python, no torch."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traces.analysis.roofline import Peaks

# Below so many FLOPs a byte every GPU of the last ten years waits for its memory.
_INTENSE: Final = 64


@dataclass(frozen=True)
class Work:
    """What one call must do at least: FLOPs (None where they do not matter) and bytes read and written."""

    bytes: int
    flops: int | None = None


@dataclass(frozen=True)
class Timed:
    """Samples of one contender in microseconds a call, or why there are none."""

    name: str
    triton: bool  # else it is what PyTorch runs: cuBLAS, SDPA, ATen
    samples: tuple[float, ...] = ()
    out: str | None = None
    does: str = ""  # beyond the operation that is measured


@dataclass(frozen=True)
class Measured:
    """One operation at one shape, with all that ran it."""

    op: str
    shape: str
    work: Work
    contenders: Sequence[Timed]
    every: bool = False  # a row for every vendor contender, not for the fastest alone
    calls: int = 1  # in one decode step of the model


def rows(measured: Measured, peaks: Peaks | None) -> list[dict[str, Any]]:
    """One row for each Triton contender against the fastest other one, or against each of them.

    Keys: `op`, `shape`, `flops`, `bytes`, `calls_per_step`, `bound` (`memory` or `compute`), `cuda` and
    `triton` (see `_side`), and `ratio`: the time of `cuda` over that of `triton`, above 1 where Triton is
    faster. A side that nobody could run is None.
    """
    ran = [t for t in measured.contenders if t.samples]
    vendors = sorted((t for t in ran if not t.triton), key=lambda t: statistics.median(t.samples))
    ours = [t for t in ran if t.triton]
    return [
        _row(measured, vendor, triton, peaks)
        for triton in _or_none(ours)
        for vendor in _or_none(vendors if measured.every else vendors[:1])
        if vendor or triton
    ]


def _or_none(found: Sequence[Timed]) -> Sequence[Timed | None]:
    return found or (None,)


def out(measured: Measured) -> list[dict[str, str]]:
    """The contenders without a time, and why."""
    return [
        {"op": measured.op, "shape": measured.shape, "name": t.name, "why": t.out}
        for t in measured.contenders
        if t.out is not None
    ]


def _row(
    measured: Measured, vendor: Timed | None, triton: Timed | None, peaks: Peaks | None
) -> dict[str, Any]:
    sides = {"cuda": _side(vendor, measured.work, peaks), "triton": _side(triton, measured.work, peaks)}
    times = [s and s["us"] for s in sides.values()]
    return {
        "op": measured.op,
        "shape": measured.shape,
        "bytes": measured.work.bytes,
        "flops": measured.work.flops,
        "calls_per_step": measured.calls,
        "bound": bound(measured.work, peaks),
        **sides,
        "ratio": round(times[0] / times[1], 4) if times[0] and times[1] else None,
    }


def _side(timed: Timed | None, work: Work, peaks: Peaks | None) -> dict[str, Any] | None:
    """`name`, median `us` and `iqr_us` of `n` samples, `gb_per_s`, `tflop_per_s`, `of_roof` (0..1)."""
    if timed is None:
        return None
    middle = statistics.median(timed.samples)
    floor = peaks.floor_ns(work.flops, work.bytes) if peaks else None
    return {
        "name": timed.name,
        "us": round(middle, 4),
        "iqr_us": round(iqr(timed.samples), 4),
        "n": len(timed.samples),
        "gb_per_s": round(work.bytes / middle / 1e3, 2),
        "tflop_per_s": None if work.flops is None else round(work.flops / middle / 1e6, 4),
        "of_roof": None if floor is None else round(floor / 1e3 / middle, 4),
        "does": timed.does,
    }


def iqr(samples: Sequence[float]) -> float:
    """The interquartile range; 0 of a single sample."""
    if len(samples) < 2:
        return 0.0
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return high - low


def bound(work: Work, peaks: Peaks | None) -> str:
    """Which roof the work meets first: `memory` or `compute`; without a roofline by its intensity."""
    if work.flops is None:
        return "memory"
    if peaks and peaks.flops_per_s and peaks.bytes_per_s:
        compute = work.flops / peaks.flops_per_s > work.bytes / peaks.bytes_per_s
    else:
        compute = work.flops > _INTENSE * work.bytes
    return "compute" if compute else "memory"


def step_sums(found: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    """Microseconds of all rows' calls in one decode step, vendor and Triton; None where a side is missing.

    Of the rows of one operation the fastest Triton contender counts.
    """
    best: dict[tuple[str, str], Mapping[str, Any]] = {}
    for row in found:
        if not row["cuda"] or not row["triton"]:
            return None
        key = row["op"], row["shape"]
        if key not in best or row["triton"]["us"] < best[key]["triton"]["us"]:
            best[key] = row
    if not best:
        return None
    vendor, triton = (
        sum(row[side]["us"] * row["calls_per_step"] for row in best.values()) for side in ("cuda", "triton")
    )
    return vendor, triton
