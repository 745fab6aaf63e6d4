"""Exact interval arithmetic: busy time, overlap, exclusive time, gaps and tails, in integer ns.

Per (rank, device): busy is the length of the union of the used intervals. Every overlapped instant is
split equally among the rows that run then, remainders to the earliest row, so that

    sum(exclusive) == busy      and      sum(exclusive) + sum(gap) + sum(tail) == span

hold to the nanosecond. Rows whose `used` is null or that are flagged unusable take no part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.flags import DISQUALIFYING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class DeviceTotals:
    """The closed ledger of one (rank, device), ns: `busy + idle == span`, the tail is part of idle."""

    rank: int | None
    device: int | None
    span_ns: int
    busy_ns: int
    idle_ns: int
    tail_ns: int


class Split(NamedTuple):
    """Per row, in the order given: its share of busy time and the idle time directly before it, ns."""

    exclusive: Int64s
    gap: Int64s
    busy: int
    tail: int


def split(start: Int64s, end: Int64s, window: tuple[int, int]) -> Split:
    """Close the ledger of one device over `window` (ns).

    `start` and `end` (ns, `end >= start`, inside the window) may come in any order; of rows that start
    together the first one given counts as the earlier.
    """
    first, last = window
    if not len(start):
        return Split(np.zeros(0, np.int64), np.zeros(0, np.int64), 0, last - first)
    order = np.argsort(start, kind="stable")
    begin, finish = start[order], end[order]
    reach = np.maximum.accumulate(finish)  # end of everything up to and including this row

    before = np.maximum(np.concatenate([[first], reach[:-1]]), first)
    gap = np.maximum(begin - before, 0)
    exclusive, busy = _shares(begin, finish, reach)
    out = Split(np.empty_like(exclusive), np.empty_like(gap), busy, int(last - reach[-1]))
    out.exclusive[order], out.gap[order] = exclusive, gap
    return out


def _shares(begin: Int64s, finish: Int64s, reach: Int64s) -> tuple[Int64s, int]:
    """Exclusive time of rows sorted by start, and busy time; `reach` is the running maximum of `finish`."""
    if (begin[1:] >= reach[:-1]).all():  # nothing overlaps
        return finish - begin, int((finish - begin).sum())
    edges = np.sort(np.concatenate([begin, finish]))
    edges = edges[np.concatenate([[True], edges[1:] != edges[:-1]])]  # np.unique hashes, which is slower
    at_begin, at_finish = np.searchsorted(edges, begin), np.searchsorted(edges, finish)
    active = np.cumsum(
        np.bincount(at_begin, minlength=len(edges)) - np.bincount(at_finish, minlength=len(edges))
    )[:-1]
    length = np.diff(edges)
    running = active > 0
    share = np.where(running, length // np.maximum(active, 1), 0)
    rest = np.where(running, length - share * active, 0)

    total = np.concatenate([[0], np.cumsum(share)])
    exclusive = total[at_finish] - total[at_begin]
    uneven = np.flatnonzero(rest)
    # The earliest row running at an edge is the first one whose reach goes beyond it.
    np.add.at(exclusive, np.searchsorted(reach, edges[uneven], side="right"), rest[uneven])
    return exclusive, int(length[running].sum())


def devices(table: pa.Table) -> Iterator[tuple[int | None, int | None, Int64s]]:
    """Yield (rank, device, row indices) for each device in the table, in order; unknown is None."""
    keys = table.select(["rank", "device"]).append_column("row", pa.array(np.arange(table.num_rows)))
    groups = keys.group_by(["rank", "device"], use_threads=False).aggregate([("row", "list")])
    found = sorted(
        zip(groups["rank"].to_pylist(), groups["device"].to_pylist(), range(groups.num_rows), strict=True),
        key=lambda k: tuple((v is not None, v or 0) for v in k[:2]),
    )
    for rank, device, at in found:
        yield rank, device, np.asarray(groups["row_list"][at].values, dtype=np.int64)


def usable(table: pa.Table) -> NDArray[np.bool_]:
    """True for rows that take part in the ledger: a known used time and no disqualifying flag."""
    texts = pc.unique(table["flag"]).drop_null().to_pylist()
    bad = [t for t in texts if not DISQUALIFYING.isdisjoint(t.split(","))]
    flagged = pc.is_in(table["flag"], pa.array(bad, pa.string()))
    good = pc.and_(pc.is_valid(table["start_ns"]), pc.and_(pc.is_valid(table["used_ns"]), pc.invert(flagged)))
    return np.asarray(good.to_numpy(zero_copy_only=False), dtype=bool)


def close(table: pa.Table) -> tuple[Int64s, Int64s, list[DeviceTotals]]:
    """Close the ledger over the run's window: (exclusive_ns, gap_ns, totals per device).

    `table` needs `rank, device, start_ns, used_ns, flag`. Unusable rows get zeros.
    """
    exclusive, gap = np.zeros(table.num_rows, np.int64), np.zeros(table.num_rows, np.int64)
    good = usable(table)
    start, end = intervals(table)
    if not good.any():
        return exclusive, gap, []
    window = int(start[good].min()), int(end[good].max())
    totals = []
    for rank, device, rows in devices(table):
        mine = rows[good[rows]]
        part = split(start[mine], end[mine], window)
        exclusive[mine], gap[mine] = part.exclusive, part.gap
        span = window[1] - window[0]
        totals.append(DeviceTotals(rank, device, span, part.busy, span - part.busy, part.tail))
    return exclusive, gap, totals


def close_windows(table: pa.Table, windows: Sequence[tuple[int, int]]) -> tuple[Int64s, list[DeviceTotals]]:
    """Close the ledger over several disjoint windows (ns): (exclusive_ns inside them, totals per device).

    Rows are cut at the window edges; a row outside every window gets zero.
    """
    exclusive = np.zeros(table.num_rows, np.int64)
    good = usable(table)
    start, end = intervals(table)
    totals = []
    for rank, device, rows in devices(table):
        mine = rows[good[rows]]
        mine = mine[np.argsort(start[mine], kind="stable")]
        begin, reach = start[mine], np.maximum.accumulate(end[mine])
        span = busy = tail = 0
        for first, last in windows:
            # Rows before `reach` passes `first`, and rows that start at `last` or later, lie outside.
            near = mine[np.searchsorted(reach, first, "right") : np.searchsorted(begin, last, "left")]
            inside = near[end[near] > first]
            part = split(np.maximum(start[inside], first), np.minimum(end[inside], last), (first, last))
            exclusive[inside] += part.exclusive
            span, busy, tail = span + last - first, busy + part.busy, tail + part.tail
        totals.append(DeviceTotals(rank, device, span, busy, span - busy, tail))
    return exclusive, totals


def intervals(table: pa.Table) -> tuple[Int64s, Int64s]:
    """`start_ns` and `start_ns + used_ns` as arrays; null counts as 0 (mask with `usable`)."""
    start = pc.fill_null(table["start_ns"], 0).to_numpy()
    return start, start + pc.fill_null(table["used_ns"], 0).to_numpy()
