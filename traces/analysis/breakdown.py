"""Where the time of one run goes: exclusive time grouped by any columns, closed with the idle time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from traces import ledger
from traces.errors import UsageError
from traces.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traces.ledger import DeviceTotals
    from traces.schema import Step
    from traces.store import Run

BY: Final = ("group", "category", "backend", "name", "module", "layer", "op", "shape", "phase", "step")


@dataclass(frozen=True)
class Breakdown:
    """Rows sorted by exclusive time, ns; `idle_ns + sum(exclusive_ns) == span_ns`, to the ns."""

    run: Run
    by: tuple[str, ...]
    phase: str | None
    span_ns: int
    busy_ns: int
    idle_ns: int
    devices: list[DeviceTotals]
    rows: list[dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """The versioned shape of `show --json`."""
        meta = self.run.meta
        return {
            "schema_version": SCHEMA_VERSION,
            "run": {k: v for k, v in meta.items() if k != "health"},
            "phase": self.phase,
            "span_ns": self.span_ns,
            "busy_ns": self.busy_ns,
            "idle_ns": self.idle_ns,
            "devices": [asdict(d) for d in self.devices],
            "rows": self.rows,
            "health": meta["health"],
        }


def breakdown(run: Run, by: Sequence[str] = ("group",), phase: str | None = None) -> Breakdown:
    """Group a run's exclusive time by columns of `BY`, over the whole run or over one phase's tiles.

    With a phase, rows of other phases inside its tiles show as one row with phase None, so the ledger
    still closes. Raises UsageError for an unknown column or phase.
    """
    keys = checked(by)
    table = run.table
    if phase is None:
        exclusive, _, totals = ledger.close(table)
        rows = _grouped(table, pa.array(exclusive), keys)
    else:
        inside, totals = ledger.close_windows(table, windows_of(steps_of(run, phase)))
        mine = pc.fill_null(pc.equal(table["phase"], phase), False)
        shares = pa.array(inside)
        rows = _grouped(table.filter(mine), shares.filter(_flat(mine)), keys)
        rows = [{**row, "phase": phase} for row in rows]
        rows += _others(table, shares, mine, keys)
    span = sum(d.span_ns for d in totals)
    busy = sum(d.busy_ns for d in totals)
    for row in rows:
        row["share"] = row["exclusive_ns"] / span if span else 0.0
    rows.sort(key=lambda r: (-r["exclusive_ns"], -r["total_ns"], str([r[k] for k in keys])))
    return Breakdown(run, keys, phase, span, busy, span - busy, totals, rows)


def checked(by: Sequence[str]) -> tuple[str, ...]:
    """The columns to group by, without repeats. Raises UsageError for unknown ones or none."""
    unknown = [c for c in by if c not in BY]
    if unknown or not by:
        raise UsageError(
            f"--by: unknown column {', '.join(unknown) or '(none)'}; choose from {', '.join(BY)}"
        )
    return tuple(dict.fromkeys(by))


def steps_of(run: Run, phase: str) -> list[Step]:
    """The tiles of one phase. Raises UsageError naming the phases the run has."""
    steps = [s for s in run.meta["steps"] if s["phase"] == phase]
    if not steps:
        known = ", ".join(dict.fromkeys(s["phase"] for s in run.meta["steps"])) or "none"
        raise UsageError(f"--phase {phase}: not in this run ({run.path or run.title}); its phases: {known}")
    return steps


def windows_of(steps: Sequence[Step]) -> list[tuple[int, int]]:
    """The tiles as disjoint windows: incomplete ones can overlap where kernels do."""
    out: list[tuple[int, int]] = []
    for first, last in sorted((s["start_ns"], s["end_ns"]) for s in steps):
        if out and first < out[-1][1]:
            out[-1] = (out[-1][0], max(last, out[-1][1]))
        else:
            out.append((first, last))
    return out


def _grouped(table: pa.Table, exclusive: pa.Array, keys: tuple[str, ...]) -> list[dict[str, Any]]:
    slim = table.select([*keys, "used_ns"]).append_column("exclusive_ns", exclusive)
    groups = slim.group_by(list(keys), use_threads=False).aggregate(
        [("used_ns", "count"), ("used_ns", "sum"), ("exclusive_ns", "sum")]
    )
    groups = groups.rename_columns(
        {"used_ns_count": "count", "used_ns_sum": "total_ns", "exclusive_ns_sum": "exclusive_ns"}
    )
    rows: list[dict[str, Any]] = groups.select([*keys, "count", "total_ns", "exclusive_ns"]).to_pylist()
    return rows


def _others(
    table: pa.Table, exclusive: pa.Array, mine: pa.ChunkedArray, keys: tuple[str, ...]
) -> list[dict[str, Any]]:
    foreign = pc.and_(pc.invert(_flat(mine)), pc.greater(exclusive, 0))
    time = pc.sum(exclusive.filter(foreign)).as_py()
    if not time:
        return []
    total = pc.sum(table["used_ns"].filter(foreign)).as_py()
    count = pc.sum(foreign).as_py()
    return [
        {
            **dict.fromkeys(keys), "phase": None,
            "count": count, "total_ns": total, "exclusive_ns": time,
        }
    ]  # fmt: skip


def _flat(mask: pa.ChunkedArray) -> pa.Array:
    return mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask
