"""What a timeline draws: the rows inside a window, lanes for rows that overlap, busy shares per bin."""

from __future__ import annotations

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


def lanes(start: Int64s, end: Int64s, queue: Sequence[object], most: int | None = None) -> Int64s:
    """The lane (0 = first) of each row among those of its queue, so that no two in one lane overlap.

    Greedy first fit by start, the fewest lanes possible (interval partitioning, Kleinberg & Tardos 4.1).
    With `most`, rows that would need more lanes than that all get lane `most`, where they may overlap.
    """
    code = _codes(queue)
    order = np.argsort(code, kind="stable") if _ordered(start, end) else np.lexsort((end, start, code))
    out = np.zeros(len(start), np.int64)
    for mine in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
        out[mine] = _levels(start[mine], end[mine], most)
    return out


def _codes(queue: Sequence[object]) -> Int64s:
    """The queues as small whole numbers."""
    if isinstance(queue, np.ndarray) and queue.dtype.kind in "iu":
        return queue
    number: dict[object, int] = {}
    return np.array([number.setdefault(key, len(number)) for key in queue], np.int64)


def _ordered(start: Int64s, end: Int64s) -> bool:
    """Whether the rows come by start and, where they start together, by end."""
    steps = np.diff(start)
    return bool(((steps > 0) | ((steps == 0) & (np.diff(end) >= 0))).all())


def _levels(start: Int64s, end: Int64s, most: int | None) -> Int64s:
    """Lanes of one queue's rows, in order. First fit gives each lane the earliest row that fits after its
    last one, among the rows that the lanes before it left, so that lanes can be filled one after another."""
    out = np.zeros(len(start), np.int64)
    left, level = _crowded(start, end), 0
    while left.size:
        begin, finish = start[left], end[left]
        if level == most or (begin[1:] >= finish[:-1]).all():
            out[left] = level
            break
        taken = np.zeros(len(left), bool)
        taken[_chain(begin, finish)] = True
        out[left[taken]] = level
        left, level = left[~taken], level + 1
    return out


def _crowded(start: Int64s, end: Int64s) -> Int64s:
    """The rows that overlap another: the others find every lane free, and leave it so."""
    apart = np.ones(len(start) + 1, bool)
    apart[1:-1] = start[1:] >= np.maximum.accumulate(end)[:-1]
    return np.flatnonzero(~(apart[:-1] & apart[1:]))


def _chain(start: Int64s, end: Int64s) -> list[int]:
    """The first row, the first that starts when that one has ended, and so on."""
    after = np.maximum(np.searchsorted(start, end), np.arange(1, len(start) + 1)).tolist()
    taken, row = [], 0
    while row < len(after):
        taken.append(row)
        row = after[row]
    return taken


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
