"""Communication overlap: how long collectives ran beside other work (hidden) and alone (exposed)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from traces import ledger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traces.store import Run


@dataclass(frozen=True)
class Overlap:
    """One device, ns: `exposed + hidden + other + idle == span`, `exposed + hidden` is communication.

    Hidden: while any other row of the device ran. `other` is the time with no communication running.
    """

    rank: int | None
    device: int | None
    span_ns: int
    exposed_ns: int
    hidden_ns: int
    other_ns: int
    idle_ns: int


def overlaps(run: Run, windows: Sequence[tuple[int, int]]) -> list[Overlap]:
    """The overlap of each device inside disjoint windows (ns, ascending)."""
    table = run.table
    mine = pc.fill_null(pc.equal(table["group"], "communication"), False)
    communication, other = (_busy(table.filter(m), windows) for m in (mine, pc.invert(mine)))
    out = []
    for total in ledger.close_windows(table, windows)[1]:
        key = (total.rank, total.device)
        comm, work = communication.get(key, 0), other.get(key, 0)
        hidden = comm + work - total.busy_ns  # inclusion and exclusion
        out.append(Overlap(*key, total.span_ns, comm - hidden, hidden, total.busy_ns - comm, total.idle_ns))
    return out


def _busy(table: pa.Table, windows: Sequence[tuple[int, int]]) -> dict[tuple[int | None, int | None], int]:
    return {(d.rank, d.device): d.busy_ns for d in ledger.close_windows(table, windows)[1]}
