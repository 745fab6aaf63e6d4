"""Statistics per kernel name: how often it ran, how long, and how much that varies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.analysis.breakdown import breakdown, steps_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traces.analysis.compare import Comparison
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
        ("min_ns", pa.int64()),
        ("p50_ns", pa.int64()),
        ("p99_ns", pa.int64()),
        ("max_ns", pa.int64()),
        ("share", pa.float64()),
        ("tflops", pa.float64()),
        ("gb_per_s", pa.float64()),
        ("roofline", pa.float64()),
    ]
)
_PAIRED: Final = (
    "count",
    "per_step",
    "step_ns",
    "mean_ns",
    "p50_ns",
    "p99_ns",
    "share",
    "tflops",
    "gb_per_s",
)
PAIRS: Final = pa.schema(
    [
        *((key, pa.string()) for key in KEYS),
        *(
            (f"{side}_{name}", pa.int64() if name == "step_ns" else SCHEMA.field(name).type)
            for name in _PAIRED
            for side in "ab"
        ),
        ("delta_ns", pa.int64()),
        ("in", pa.string()),
    ]
)


def by_name(run: Run, phase: str | None = None) -> pa.Table:
    """One row per (name, group, category, backend), most exclusive time first; columns of `SCHEMA`.

    Counts and times are those of `breakdown(run, KEYS, phase)`: `total_ns` sums `used_ns`, `share` is
    exclusive time over the span, and the rates are those of `achieved.rates` (null where no work is known).
    `per_step` is the count per step of the phase (null without one). The quantiles are by nearest rank
    (Hyndman & Fan 1996, type 1), so each is a duration that occurred, and so are least and largest. The time
    of other phases inside this one's tiles is one row without a name or quantiles. Raises UsageError for an
    unknown phase.
    """
    found = breakdown(run, KEYS, phase)
    steps = len(steps_of(run, phase)) if phase is not None else None
    known = _quantiles(run.table, phase)
    rows = []
    for row in found.rows:
        foreign = phase is not None and row["phase"] is None
        ranks = {} if foreign else known[tuple(row[k] for k in KEYS)]
        per_step = row["count"] / steps if steps else None
        mean = row["total_ns"] / row["count"]
        rows.append({**row, "per_step": per_step, "mean_ns": mean, **ranks})
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def paired(a: pa.Table, b: pa.Table, result: Comparison) -> pa.Table:
    """Two results of `by_name` side by side, paired by all of `KEYS`; columns of `PAIRS`, most time first.

    `result` is the comparison of the two runs by `KEYS`: `a_step_ns`, `b_step_ns` and `delta_ns` (null where
    a run lacks the kernel) are its rows, so of complete steps, while the other statistics are of every kernel
    of the phase. `in` says where the kernel is: `A and B`, `A`, `B`.
    """
    sides = [{tuple(row[k] for k in KEYS): row for row in table.to_pylist()} for table in (a, b)]
    others = (None,) * len(KEYS)
    times = [
        {**part.rows, others: part.others} if part.others else part.rows for part in (result.a, result.b)
    ]
    rows = []
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        found = [side.get(key) for side in sides]
        row: dict[str, Any] = dict(zip(KEYS, key, strict=True))
        for name, values, time in zip("ab", found, times, strict=True):
            if values:
                stats = {**values, "step_ns": time.get(key, 0)}
                row |= {f"{name}_{column}": stats[column] for column in _PAIRED}
        if found[0] and found[1]:
            row["delta_ns"] = row["b_step_ns"] - row["a_step_ns"]
        row["in"] = " and ".join(name for name, values in zip("AB", found, strict=True) if values)
        rows.append(row)
    rows.sort(key=lambda r: (-max(r.get("a_step_ns", 0), r.get("b_step_ns", 0)), str(r["name"])))
    return pa.Table.from_pylist(rows, schema=PAIRS)


def nearest_rank(ordered: NDArray[np.int64], share: float) -> int:
    """The smallest of `ordered` (ascending, not empty) that at least `share` (0..1) of them do not exceed."""
    return int(ordered[max(int(np.ceil(share * len(ordered))), 1) - 1])


def search(table: pa.Table, words: str) -> pa.Table:
    """The rows that have every word in their name, category or backend, whatever the case."""
    for word in words.split():
        hits = [
            pc.fill_null(pc.match_substring(table[c], word, ignore_case=True), False)
            for c in ("name", "category", "backend")
        ]
        table = table.filter(pc.or_(hits[0], pc.or_(hits[1], hits[2])))
    return table


def chosen(table: pa.Table, column: str, values: Sequence[str]) -> pa.Table:
    """The rows whose column is one of the values; all rows without values."""
    return table.filter(pc.is_in(table[column], pa.array(values, pa.string()))) if values else table


def _quantiles(table: pa.Table, phase: str | None) -> dict[tuple[Any, ...], dict[str, int]]:
    if phase is not None:
        table = table.filter(pc.equal(table["phase"], phase))
    slim = table.select([*KEYS, "used_ns"])
    groups = slim.group_by(list(KEYS), use_threads=False).aggregate([("used_ns", "list")])
    keys = zip(*(groups[k].to_pylist() for k in KEYS), strict=True)
    out = {}
    for at, key in enumerate(keys):
        ordered = np.sort(groups["used_ns_list"][at].values.to_numpy())
        out[key] = {
            "min_ns": int(ordered[0]), "max_ns": int(ordered[-1]),
            "p50_ns": nearest_rank(ordered, 0.5), "p99_ns": nearest_rank(ordered, 0.99),
        }  # fmt: skip
    return out
