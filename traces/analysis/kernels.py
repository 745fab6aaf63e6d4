"""Statistics per kernel name: how often it ran, how long, and how much that varies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.analysis.breakdown import breakdown, steps_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traces.store import Run

KEYS: Final = ("name", "group", "category", "backend")
SCHEMA: Final = pa.schema(
    [
        *((key, pa.string()) for key in KEYS),
        ("count", pa.int64()),
        ("per_step", pa.float64()),
        ("total_ns", pa.int64()),
        ("exclusive_ns", pa.int64()),
        ("mean_ns", pa.float64()),
        ("p50_ns", pa.int64()),
        ("p99_ns", pa.int64()),
        ("share", pa.float64()),
    ]
)


def by_name(run: Run, phase: str | None = None) -> pa.Table:
    """One row per (name, group, category, backend), most exclusive time first; columns of `SCHEMA`.

    Counts and times are those of `breakdown(run, KEYS, phase)`: `total_ns` sums `used_ns`, `share` is
    exclusive time over the span. `per_step` is the count per step of the phase (null without one). The
    quantiles are by nearest rank (Hyndman & Fan 1996, type 1), so each is a duration that occurred. The
    time of other phases inside this one's tiles is one row without a name or quantiles. Raises UsageError
    for an unknown phase.
    """
    found = breakdown(run, KEYS, phase)
    steps = len(steps_of(run, phase)) if phase is not None else None
    known = _quantiles(run.table, phase)
    rows = []
    for row in found.rows:
        foreign = phase is not None and row["phase"] is None
        p50, p99 = (None, None) if foreign else known[tuple(row[k] for k in KEYS)]
        per_step = row["count"] / steps if steps else None
        mean = row["total_ns"] / row["count"]
        rows.append({**row, "per_step": per_step, "mean_ns": mean, "p50_ns": p50, "p99_ns": p99})
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def nearest_rank(ordered: NDArray[np.int64], share: float) -> int:
    """The smallest of `ordered` (ascending, not empty) that at least `share` (0..1) of them do not exceed."""
    return int(ordered[max(int(np.ceil(share * len(ordered))), 1) - 1])


def search(table: pa.Table, words: str) -> pa.Table:
    """The rows whose name contains every word, whatever the case."""
    for word in words.split():
        hit = pc.match_substring(table["name"], word, ignore_case=True)
        table = table.filter(pc.fill_null(hit, False))
    return table


def _quantiles(table: pa.Table, phase: str | None) -> dict[tuple[Any, ...], tuple[int, int]]:
    if phase is not None:
        table = table.filter(pc.equal(table["phase"], phase))
    slim = table.select([*KEYS, "used_ns"])
    groups = slim.group_by(list(KEYS), use_threads=False).aggregate([("used_ns", "list")])
    keys = zip(*(groups[k].to_pylist() for k in KEYS), strict=True)
    out = {}
    for at, key in enumerate(keys):
        ordered = np.sort(groups["used_ns_list"][at].values.to_numpy())
        out[key] = nearest_rank(ordered, 0.5), nearest_rank(ordered, 0.99)
    return out
