"""Where the time of one run goes: exclusive time grouped by any columns, closed with the idle time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from traces import ledger
from traces.analysis import achieved
from traces.analysis.roofline import DTYPES
from traces.analysis.units import over_layers
from traces.columns import decode, encode
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
    """Rows sorted by exclusive time, ns; `idle_ns + sum(exclusive_ns) == span_ns`, to the ns.

    A row has the columns of `by`, `count`, `total_ns`, `exclusive_ns`, `share` (of the span), and what
    `achieved.rates` says of its work.
    """

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
            "ceilings": self.ceilings,
            "rows": self.rows,
            "health": meta["health"],
        }

    @property
    def ceilings(self) -> dict[str, Any] | None:
        """What `roofline` is a share of: bytes/s, FLOP/s by dtype, and whose numbers; None if not known."""
        memory = achieved.ceilings(self.run)
        if memory is None:
            return None
        found = {d: achieved.ceilings(self.run, d) for d in DTYPES}
        rates = {d: p.flops_per_s for d, p in found.items() if p and p.flops_per_s}
        return {"bytes_per_s": memory.bytes_per_s, "flops_per_s": rates, "source": memory.source}


def breakdown(
    run: Run, by: Sequence[str] = ("group",), phase: str | None = None, *, layers_together: bool = False
) -> Breakdown:
    """Group a run's exclusive time by columns of `BY`, over the whole run or over one phase's tiles.

    With a phase, rows of other phases inside its tiles show as one row with phase None, so the ledger
    still closes. `layers_together`: modules that differ only in numbers are one, `layers.*.mlp.down`.
    Raises UsageError for an unknown column or phase.
    """
    keys = checked(by)
    if phase is None:
        closed, _, totals = ledger.close(run.table)
        table = _summable(run, pa.array(closed), keys, layers_together)
        rows = _grouped(table, keys)
    else:
        inside, totals = ledger.close_windows(run.table, windows_of(steps_of(run, phase)))
        table = _summable(run, pa.array(inside), keys, layers_together)
        mine = pc.fill_null(pc.equal(run.table["phase"], phase), False)
        rows = [{**row, "phase": phase} for row in _grouped(table.filter(mine), keys)]
        others = table.filter(pc.and_(pc.invert(mine), pc.greater(table["exclusive_ns"], 0)))
        rows += [{**dict.fromkeys(keys), "phase": None, **row} for row in _grouped(others, ())]
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


def _summable(run: Run, exclusive: pa.Array, keys: tuple[str, ...], layers_together: bool) -> pa.Table:
    """The columns to group by and the columns to add up."""
    table = run.table.select([*keys, "used_ns"]).append_column("exclusive_ns", exclusive)
    if layers_together and "module" in keys:
        codes, names = encode(table["module"])
        modules = decode(codes, [over_layers(n) for n in names]).cast(pa.string())
        table = table.set_column(table.schema.get_field_index("module"), "module", modules)
    for name, values in achieved.columns(run, exclusive).items():
        table = table.append_column(f"_{name}", values)
    return table


def _grouped(table: pa.Table, keys: tuple[str, ...]) -> list[dict[str, Any]]:
    """One row for each combination of keys that occurs."""
    sums = ["used_ns", "exclusive_ns", *(f"_{n}" for n in achieved.SUMMED)]
    groups = table.group_by(list(keys), use_threads=False).aggregate(
        [("used_ns", "count"), *((n, "sum") for n in sums)]
    )
    rows = []
    for row in groups.to_pylist():
        if not row["used_ns_count"]:  # no rows at all still make one sum
            continue
        work = {n: row[f"_{n}_sum"] for n in achieved.SUMMED}
        exclusive = row["exclusive_ns_sum"]
        rows.append(
            {
                **{k: row[k] for k in keys},
                "count": row["used_ns_count"],
                "total_ns": row["used_ns_sum"],
                "exclusive_ns": exclusive,
                "share": 0.0,
                **achieved.rates({**work, "exclusive_ns": exclusive}),
            }
        )
    return rows
