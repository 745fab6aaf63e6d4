"""The share of each group in a step: how much of it is GEMM, attention, small ops, and idle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from traces import ledger
from traces.analysis.breakdown import steps_of, windows_of
from traces.analysis.compare import counted
from traces.attribution.taxonomy import GROUPS

if TYPE_CHECKING:
    from traces.store import Run

OTHERS: Final = "other phases"
IDLE: Final = "idle"


class Shares(NamedTuple):
    """Of one mean step: its wall time, ns, whether that is `unprofiled` or `profiled`, and its parts.

    `parts` maps groups in the order of the taxonomy, `other phases`, and `idle` to shares of the wall time
    that sum to 1. Idle is negative where the kernels took longer under the profiler than the whole step does
    without one.
    """

    wall_ns: float
    basis: str
    parts: dict[str, float]


def shares(run: Run, phase: str) -> Shares | None:
    """The shares in one step of a phase, summed over devices; None if its steps took no time.

    Exclusive times are means over the complete steps, or over all where none is. The wall time is the one
    measured without a profiler where the run has it, because a profiler stretches the gaps between kernels.
    Raises UsageError for an unknown phase.
    """
    steps = counted(steps_of(run, phase))
    table = run.table
    mine = pc.and_(
        pc.equal(table["phase"], phase), pc.is_in(table["step"], pa.array([s["step"] for s in steps]))
    )
    mine = pc.fill_null(mine, False)
    summed = table.filter(mine).group_by("group", use_threads=False).aggregate([("exclusive_ns", "sum")])
    time = dict(zip(summed["group"].to_pylist(), summed["exclusive_ns_sum"].to_pylist(), strict=True))
    inside, totals = ledger.close_windows(table, windows_of(steps))
    foreign = pc.invert(pc.fill_null(pc.equal(table["phase"], phase), False)).to_numpy()
    devices = max(len(totals), 1)
    known = (run.meta["unprofiled"] or {}).get(phase)
    measured = known["median_ns"] if known else 0
    wall = measured or sum(s["end_ns"] - s["start_ns"] for s in steps) / len(steps)
    if wall <= 0:
        return None
    unit = wall * devices * len(steps)
    parts = {g: time[g] / unit for g in GROUPS if time.get(g)}
    if others := int(inside[foreign].sum()):
        parts[OTHERS] = others / unit
    parts[IDLE] = 1 - sum(parts.values())
    return Shares(wall, "unprofiled" if measured else "profiled", parts)


def main_phases(run: Run, most: int) -> list[str]:
    """The phases of a run that took longest, in the order in which they first ran."""
    spans: dict[str, int] = {}
    for step in run.meta["steps"]:
        spans[step["phase"]] = spans.get(step["phase"], 0) + step["end_ns"] - step["start_ns"]
    longest = sorted(spans, key=lambda p: -spans[p])[:most]
    return [p for p in spans if p in longest]
