"""Launch delay: the time from the beginning of a launch call to the start of what it launched.

Short delays mean that the device waits for the host; long ones, a queue of work that the device has still to
do. One CUDA-graph launch starts many kernels, which wait for each other, not for the host: only the first of
each replay has a delay, and it stands apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces import ledger
from traces.columns import combine, matching, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traces.store import Run

    Int64s = NDArray[np.int64]


class Delays(NamedTuple):
    """Delays in ns (int64), and the number of rows without one; together they are all usable rows."""

    launches: Int64s  # of kernels and copies launched one by one
    graphs: Int64s  # of the first kernel of each graph replay
    inside: int  # other kernels of replays
    unknown: int  # rows whose launch is not in the trace
    negative: int  # rows that start before their launch: the clocks disagree


def delays(run: Run, windows: Sequence[tuple[int, int]]) -> Delays:
    """The delays of the usable rows that start inside the windows (ns, disjoint, ascending)."""
    table = run.table
    start = pc.fill_null(table["start_ns"], 0).to_numpy()
    inside = _within(start, windows)
    usable = pa.array(ledger.usable(table))  # a replay can begin before the window
    part = table.select(["start_ns", "launch_start_ns", "launch_api", "link", "rank", "process"])
    part, inside = part.filter(usable), inside[usable.to_numpy(zero_copy_only=False)]
    known = pc.is_valid(part["launch_start_ns"]).to_numpy() & inside
    delay = part["start_ns"].to_numpy() - pc.fill_null(part["launch_start_ns"], 0).to_numpy()
    graph = pc.fill_null(pc.equal(part["link"], "graph"), False).to_numpy()
    graph = graph | matching(part["launch_api"], "GraphLaunch").to_numpy(zero_copy_only=False)
    first = _first_of_replay(part, graph) & known
    graph = graph & known
    counts = known & (~graph | first)
    ahead = counts & (delay < 0)
    return Delays(
        delay[counts & ~graph & ~ahead], delay[first & ~ahead], int((graph & ~first).sum()),
        int((inside & ~known).sum()), int(ahead.sum()),
    )  # fmt: skip


def log_bins(values: Int64s, per_decade: int = 4) -> list[tuple[int, int, int, int]]:
    """(from, to, n, sum of values) of equal bins of the logarithm, ns, from the smallest to the largest.

    A value v >= 0 lies in the bin with from <= v < to. Edges are whole ns and the same for any values; 0 and
    1 share the first bin. Empty bins between others are there, with n 0.
    """
    if not len(values):
        return []
    top = int(values.max())
    edges = [0]
    k = 0
    while edges[-1] <= top:
        k += 1
        edge = round(10 ** (k / per_decade))
        if edge > max(edges[-1], 1):
            edges.append(edge)
    place = np.searchsorted(np.array(edges), values, side="right") - 1
    out = []
    for i in range(int(place.min()), int(place.max()) + 1):
        mine = values[place == i]
        out.append((edges[i], edges[i + 1], len(mine), int(mine.sum())))
    return out


def _within(start: Int64s, windows: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    if not windows:
        return np.zeros(len(start), bool)
    opens, closes = (np.array([w[i] for w in windows]) for i in (0, 1))
    at = np.searchsorted(opens, start, "right") - 1
    found: NDArray[np.bool_] = (at >= 0) & (start < closes[at])
    return found


def _first_of_replay(rows: pa.Table, graph: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The first row by start of each graph launch, on whatever device: one launch, one delay."""
    first = np.zeros(rows.num_rows, bool)
    mine = np.flatnonzero(graph)
    if not len(mine):
        return first
    part = rows.take(pa.array(mine))
    replay, _, _ = combine(*(number(part[n]) for n in ("rank", "process", "launch_start_ns")))
    order = np.lexsort((part["start_ns"].to_numpy(), replay))
    head = np.concatenate([[True], replay[order][1:] != replay[order][:-1]])
    first[mine[order[head]]] = True
    return first
