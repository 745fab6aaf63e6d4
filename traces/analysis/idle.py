"""Idle time of a device, piece by piece: how long, why, and between which kernels.

A piece is what a gap leaves inside a tile: gaps that cross the border of two tiles are cut there. With the
time before a device's first kernel and after its last they are all the time that it is not busy, so

    sum(ns) == idle_ns of the ledger over the same tiles

holds to the nanosecond. Times are those of the trace: a profiler stretches gaps more than kernels.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from traces import ledger
from traces.analysis.breakdown import steps_of, windows_of
from traces.analysis.compare import counted
from traces.columns import NONE, combine, encode, number
from traces.schema import GAP_CAUSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traces.store import Run

    Int64s = NDArray[np.int64]

UNKNOWN: Final = "unknown"  # the launch of the kernel behind the gap is not in the trace
REPLAY: Final = "graph"  # a `launch` gap between two kernels of one CUDA-graph replay
TAIL: Final = "tail"  # no kernel behind it: the device has run its last one, or none at all
CAUSES: Final = (*GAP_CAUSES, REPLAY, TAIL, UNKNOWN)
MEANING: Final = {
    "host": "host-bound: the next kernel was launched after the device had become idle",
    "launch": "kernel wait: the next kernel was launched in time, but started late (launch, stream)",
    REPLAY: "kernel wait inside a CUDA-graph replay: from one of its kernels to the next",
    "sync": "the host waited for the device (a synchronising call), then launched",
    "memcpy": "the device had just finished a copy that the host may have waited for",
    "step_end": "between two steps",
    TAIL: "the device had nothing more to run in the tile",
    UNKNOWN: "the trace does not hold the launch of the next kernel",
}


@dataclass(frozen=True)
class Pieces:
    """Idle pieces by device and time, one array element each.

    `start_ns` and `end_ns` (int64, run time); `cause` (index into `CAUSES`); `before` and `after`, the rows
    of the table that ran before and after it, -1 where none did; `device`, index into `devices`.
    """

    start_ns: Int64s
    end_ns: Int64s
    cause: Int64s
    before: Int64s
    after: Int64s
    device: Int64s
    devices: list[tuple[int | None, int | None]]  # (rank, device)
    span_ns: int
    busy_ns: int

    @property
    def ns(self) -> Int64s:
        """The length of each piece."""
        return self.end_ns - self.start_ns

    @property
    def idle_ns(self) -> int:
        """All of them together."""
        return int(self.ns.sum())


class Cause(NamedTuple):
    """One cause: how many pieces it has and how long they are together."""

    name: str
    n: int
    ns: int


def counted_windows(run: Run, phase: str | None) -> tuple[list[tuple[int, int]], int]:
    """The tiles that means are taken over, ns, and how many steps they are; the whole run without a phase.

    Raises UsageError for an unknown phase.
    """
    if phase is None:
        return _whole(run), 1
    steps = counted(steps_of(run, phase))
    return windows_of(steps), len(steps)


def pieces(run: Run, windows: Sequence[tuple[int, int]]) -> Pieces:
    """The idle pieces of every device inside disjoint windows (ns, ascending)."""
    table = run.table
    _, gap, _ = ledger.close(table)
    start, end = ledger.intervals(table)
    good = ledger.usable(table)
    _, totals = ledger.close_windows(table, windows)
    causes, replays = _cause_codes(run), _replays(run)
    found: defaultdict[str, list[Int64s]] = defaultdict(list)
    devices = []
    for place, (rank, device, rows) in enumerate(ledger.devices(table)):
        devices.append((rank, device))
        order = rows[good[rows]]
        order = order[np.argsort(start[order], kind="stable")]
        parts = _of_device(start[order], end[order], gap[order], order, windows)
        for name, values in parts.items():
            found[name].append(values)
        after = parts["after"]
        cause = np.where(after == NONE, CAUSES.index(TAIL), causes[after])
        inside = (cause == CAUSES.index("launch")) & _one_replay(parts["before"], after, replays)
        found["cause"].append(np.where(inside, CAUSES.index(REPLAY), cause))
        found["device"].append(np.full(len(after), place, np.int64))
    joined = {n: np.concatenate(found[n]) if found else np.zeros(0, np.int64) for n in _ARRAYS}
    return Pieces(
        **joined, devices=devices, span_ns=sum(d.span_ns for d in totals),
        busy_ns=sum(d.busy_ns for d in totals),
    )  # fmt: skip


def by_cause(found: Pieces) -> list[Cause]:
    """The causes that occur, longest first; their times add up to `idle_ns`."""
    number = np.bincount(found.cause, minlength=len(CAUSES))
    time = np.zeros(len(CAUSES), np.int64)
    np.add.at(time, found.cause, found.ns)
    parts = [Cause(name, int(number[i]), int(time[i])) for i, name in enumerate(CAUSES) if number[i]]
    return sorted(parts, key=lambda c: -c.ns)


def longest(found: Pieces, most: int) -> Int64s:
    """Indices of the longest pieces, longest first; of equal ones the earlier."""
    order: Int64s = np.lexsort((found.start_ns, -found.ns))
    return order[:most]


_ARRAYS: Final = ("start_ns", "end_ns", "cause", "before", "after", "device")


def _of_device(
    start: Int64s, end: Int64s, gap: Int64s, rows: Int64s, windows: Sequence[tuple[int, int]]
) -> dict[str, Int64s]:
    """Idle pieces of one device, whose usable rows come sorted by start."""
    reach = np.maximum.accumulate(end) if len(end) else end
    # The row that holds the device busy longest so far: the one that ran before the next gap.
    holder = np.maximum.accumulate(np.where(end == reach, np.arange(len(end)), 0)) if len(end) else rows
    at = np.flatnonzero(gap > 0)
    first, last = start[at] - gap[at], start[at]
    found: defaultdict[str, list[Int64s]] = defaultdict(list)

    def add(begin: Int64s, finish: Int64s, before: Int64s, after: Int64s) -> None:
        real = finish > begin
        for name, values in (
            ("start_ns", begin), ("end_ns", finish), ("before", before), ("after", after),
        ):  # fmt: skip
            found[name].append(values[real])

    previous = np.where(at > 0, rows[holder[np.maximum(at - 1, 0)]], NONE) if len(at) else at
    for opens, closes in windows:
        near = slice(np.searchsorted(last, opens, "right"), np.searchsorted(first, closes, "left"))
        add(np.maximum(first[near], opens), np.minimum(last[near], closes), previous[near], rows[at[near]])
        for begin, finish, before in _without_rows(start, end, gap, rows, holder, (opens, closes)):
            none = np.array([NONE])
            add(np.array([begin]), np.array([finish]), np.array([before]), none)
    return {n: np.concatenate(v) if v else np.zeros(0, np.int64) for n, v in found.items()} or dict.fromkeys(
        ("start_ns", "end_ns", "before", "after"), np.zeros(0, np.int64)
    )


def _without_rows(
    start: Int64s, end: Int64s, gap: Int64s, rows: Int64s, holder: Int64s, window: tuple[int, int]
) -> list[tuple[int, int, int]]:
    """(begin, end, row before) of what a window has before the run begins and after the device's last row."""
    opens, closes = window
    if not len(start):
        return [(opens, closes, NONE)]
    begins, ends = int(start[0] - gap[0]), int(end.max())
    return [
        (opens, min(begins, closes), NONE),
        (max(ends, opens), closes, int(rows[holder[-1]])),
    ]


def _cause_codes(run: Run) -> Int64s:
    """Each row's `gap_cause` as an index into `CAUSES`."""
    codes, texts = encode(run.table["gap_cause"])
    lookup = [CAUSES.index(t) if t in GAP_CAUSES else CAUSES.index(UNKNOWN) for t in texts]
    return np.array([*lookup, CAUSES.index(UNKNOWN)], np.int64)[codes]  # [-1] is null


def _replays(run: Run) -> Int64s:
    """The number of the graph launch that each row came from; NONE for rows of no replay."""
    graph = pc.fill_null(pc.equal(run.table["link"], "graph"), False).to_numpy(zero_copy_only=False)
    launch, _, _ = combine(*(number(run.table[n]) for n in ("rank", "process", "launch_start_ns")))
    return np.where(graph & pc.is_valid(run.table["launch_start_ns"]).to_numpy(), launch, NONE)


def _one_replay(before: Int64s, after: Int64s, replays: Int64s) -> NDArray[np.bool_]:
    """True where both rows are of the same replay."""
    both = (before != NONE) & (after != NONE) & (replays[after] != NONE)
    same: NDArray[np.bool_] = both & (replays[before] == replays[after])
    return same


def _whole(run: Run) -> list[tuple[int, int]]:
    start, end = ledger.intervals(run.table)
    good = ledger.usable(run.table)
    return [(int(start[good].min()), int(end[good].max()))] if good.any() else []
