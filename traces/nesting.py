"""Which interval encloses a moment on a thread: nested host ranges, looked up in bulk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.columns import NONE, combine, number
from traces.readers.timeline import UNCLOSED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]


class Nest:
    """Intervals `[start, start + dur]` (ns) of one thread, or of all threads taken together."""

    def __init__(self, start: Int64s, dur: Int64s, rows: Int64s) -> None:
        end = start + dur
        order = np.lexsort((-end, start))
        self.start, self.end, self.rows = start[order], end[order], rows[order]
        self.parent = self._parents()

    def _parents(self) -> Int64s:
        """For each interval the nearest earlier one still open when it starts."""
        parent = np.arange(len(self.start)) - 1
        if len(self.end):  # nothing before it is open: an outermost one
            parent[1:][np.maximum.accumulate(self.end)[:-1] < self.start[1:]] = NONE
        # Whatever a closed candidate itself looked past is closed as well, so jump to its candidate.
        closed = np.flatnonzero(parent != NONE)
        while len(closed := closed[self.end[parent[closed]] < self.start[closed]]):
            parent[closed] = parent[parent[closed]]
            closed = closed[parent[closed] != NONE]
        return parent

    def innermost(self, moments: Int64s) -> Int64s:
        """The row of the innermost interval around each moment, or NONE."""
        at = self._find(moments)
        return np.where(at == NONE, NONE, self.rows[at] if len(self.rows) else NONE)

    def outermost(self, moments: Int64s) -> Int64s:
        """The row of the outermost interval around each moment, or NONE."""
        at = self._find(moments)
        best = at.copy()
        while (going := at != NONE).any():
            at = np.where(going, self.parent[at], NONE)
            holds = (at != NONE) & (self.end[at] >= moments)
            best = np.where(holds, at, best)
        return np.where(best == NONE, NONE, self.rows[best] if len(self.rows) else NONE)

    def _find(self, moments: Int64s) -> Int64s:
        at = np.searchsorted(self.start, moments, side="right") - 1
        while (missed := (at != NONE) & (self.end[at] < moments if len(self.end) else False)).any():
            at = np.where(missed, self.parent[at], at)
        return at


def thread_keys(*tables: pa.Table) -> list[Int64s]:
    """Number the (process, thread) pairs of several tables alike; unknown ones count as one more thread."""
    parts = [
        pa.chunked_array([c for t in tables for c in t[n].chunks], pa.int64()) for n in ("process", "thread")
    ]
    keys, _, _ = combine(*(number(p) for p in parts))
    return np.split(keys, np.cumsum([t.num_rows for t in tables])[:-1])


def enclosing(
    table: pa.Table, keys: Int64s, moments: Int64s, at_keys: Int64s, *, outermost: bool = False
) -> Int64s:
    """Row of `table` (columns start, dur) around each moment on the same thread key, or NONE."""
    found = np.full(len(moments), NONE, np.int64)
    if not table.num_rows:
        return found
    start, dur = table["start"].to_numpy(), table["dur"].to_numpy()
    for key in np.unique(at_keys):
        mine = np.flatnonzero(keys == key)
        if not len(mine):
            continue
        nest = Nest(start[mine], dur[mine], mine)
        asked = at_keys == key
        found[asked] = (nest.outermost if outermost else nest.innermost)(moments[asked])
    return found


def moments(rows: pa.Table) -> tuple[Int64s, NDArray[np.bool_]]:
    """When each row was launched (ns, the tool's clock; 0 where unknown), and whether that is known."""
    known = pc.is_valid(rows["launch_start"]).to_numpy(zero_copy_only=False)
    return pc.fill_null(rows["launch_start"], 0).to_numpy(), known


def never_closed(ranges: pa.Table) -> NDArray[np.bool_]:
    """Ranges whose end is only the last known time, where the tool can tell."""
    if UNCLOSED.name not in ranges.column_names:
        return np.zeros(ranges.num_rows, dtype=bool)
    return pc.fill_null(ranges[UNCLOSED.name], False).to_numpy().copy()  # type: ignore[no-any-return]
