"""What a timeline draws: the rows inside a window, lanes for rows that overlap, busy shares per bin."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from traces import ledger

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]


def inside(table: pa.Table, first: int, last: int) -> Int64s:
    """Indices of the usable rows that overlap the window [first, last) ns, by start; empty rows count too."""
    start, end = ledger.intervals(table)
    within = ledger.usable(table) & (start < last) & ((end > first) | (start == end) & (start >= first))
    rows = np.flatnonzero(within)
    return rows[np.argsort(start[rows], kind="stable")]


def lanes(start: Int64s, end: Int64s, queue: Sequence[object]) -> Int64s:
    """The lane (0 = first) of each row among those of its queue, so that no two in one lane overlap.

    Greedy first fit by start, the fewest lanes possible (interval partitioning, Kleinberg & Tardos 4.1).
    """
    out = np.zeros(len(start), np.int64)
    free: dict[object, list[int]] = {}  # lanes to reuse, lowest first
    busy: dict[object, list[tuple[int, int]]] = {}  # (end, lane)
    opened: dict[object, int] = {}
    for row in np.lexsort((end, start)):
        key = queue[row]
        idle, running = free.setdefault(key, []), busy.setdefault(key, [])
        while running and running[0][0] <= start[row]:
            heapq.heappush(idle, heapq.heappop(running)[1])
        if idle:
            lane = heapq.heappop(idle)
        else:
            lane = opened.get(key, 0)
            opened[key] = lane + 1
        out[row] = lane
        heapq.heappush(running, (int(end[row]), lane))
    return out


def busy_share(
    start: Int64s, end: Int64s, label: Sequence[str], window: tuple[int, int], bins: int
) -> dict[str, NDArray[np.float64]]:
    """Per label, the share (0..1) of each of `bins` equal bins of the window (ns) in which it ran.

    An instant with several rows running is split equally among them, so that the labels of a bin add up to
    its busy share. For one device's rows; shares are of bin width, last bin included.
    """
    first, last = window
    begin, finish = np.clip(start, first, last), np.clip(end, first, last)
    edges = np.unique(np.concatenate([begin, finish, [first, last]]))
    cuts = first + (last - first) * np.arange(bins + 1) / bins
    names = np.asarray(label, dtype=object)
    running = {
        name: _active(edges, begin[names == name], finish[names == name]) for name in dict.fromkeys(label)
    }
    total = np.maximum(sum(running.values(), np.zeros(len(edges) - 1, np.int64)), 1)
    width = (last - first) / bins
    out = {}
    for name, active in running.items():
        sofar = np.concatenate([[0.0], np.cumsum(np.diff(edges) * active / total)])
        out[name] = np.diff(np.interp(cuts, edges, sofar)) / width
    return out


def _active(edges: Int64s, begin: Int64s, finish: Int64s) -> Int64s:
    """How many of the rows run in each segment between two edges."""
    steps = np.bincount(np.searchsorted(edges, begin), minlength=len(edges)) - np.bincount(
        np.searchsorted(edges, finish), minlength=len(edges)
    )
    return np.cumsum(steps)[:-1]
