"""Where the difference between two runs comes from: rows plus idle sum exactly to the total, in ns per step.

The wall time of a step comes from `unprofiled` whenever both runs have it, because a profiler stretches
wall time but hardly the kernels; else it is the mean profiled tile. Idle is what is left of it after the
rows, so the sum is exact by construction; a negative idle is possible then and is flagged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces import ledger
from traces.analysis.breakdown import checked, steps_of, windows_of
from traces.errors import UsageError
from traces.schema import SCHEMA_VERSION, Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traces.schema import Step
    from traces.store import Run

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Side:
    """One run's part of a comparison, ns per step."""

    run: Run
    rows: dict[Key, int]
    others: int  # rows of other phases inside the tiles
    tiles: list[int]  # wall time of each counted step, summed over devices
    devices: int
    unprofiled: int | None  # likewise

    @property
    def profiled(self) -> int:
        """Mean profiled tile."""
        return _per(sum(self.tiles), len(self.tiles))


@dataclass(frozen=True)
class Comparison:
    """`sum(rows) + idle == total` on both sides and in the delta, ns per step."""

    a: Side
    b: Side
    by: tuple[str, ...]
    phase: str | None
    basis: str
    total: dict[str, int]
    rows: list[dict[str, Any]]
    idle: dict[str, Any]
    aligned_share: float
    not_comparable: list[str]

    def to_json(self) -> dict[str, Any]:
        """The versioned shape of `compare --json`."""
        return {
            "schema_version": SCHEMA_VERSION,
            "a": _identity(self.a.run),
            "b": _identity(self.b.run),
            "by": list(self.by),
            "phase": self.phase,
            "basis": self.basis,
            "total": self.total,
            "rows": self.rows,
            "idle": self.idle,
            "aligned_share": self.aligned_share,
            "profiler_overhead": {"a": _overhead(self.a), "b": _overhead(self.b)},
            "spread": {"a": _spread(self.a, self.phase), "b": _spread(self.b, self.phase)},
            "not_comparable": self.not_comparable,
        }


def compare(a: Run, b: Run, by: Sequence[str] | None = None, phase: str | None = None) -> Comparison:
    """Compare two runs per step of one phase.

    `by` defaults to module and category if both runs have modules, else category; `phase` to decode if
    both have it, else to the longest phase they share, else to the whole of both runs (None).
    Raises UsageError for unknown columns, or a phase that a run lacks.
    """
    for run in (a, b):
        if run.table.num_rows == 0:
            raise UsageError(f"{run.path or run.title}: an empty run cannot be compared")
    keys = checked(by) if by else _default_by(a, b)
    phase = phase or _default_phase(a, b)
    left, right = _side(a, keys, phase), _side(b, keys, phase)
    walls = (left.unprofiled, right.unprofiled)
    basis = "unprofiled" if None not in walls else "profiled"
    pair = walls if basis == "unprofiled" else (left.profiled, right.profiled)
    total = _delta(int(pair[0] or 0), int(pair[1] or 0))
    rows = _rows(left, right, keys)
    idle: dict[str, Any] = {side: total[side] - sum(r[side] for r in rows) for side in ("a", "b", "delta")}
    if negative := [side for side in ("a", "b") if idle[side] < 0]:
        idle["negative"] = negative
    matched = sum(r["a"] + r["b"] for r in rows if r["status"] == "matched" and not of_other_phases(r))
    everything = sum(r["a"] + r["b"] for r in rows if not of_other_phases(r))
    return Comparison(
        left, right, keys, phase, basis, total, rows, idle,
        matched / everything if everything else 0.0, _differences(left, right, phase),
    )  # fmt: skip


def regressed(result: Comparison, percent: float) -> bool:
    """True when B's step is slower than A's by more than `percent` and by more than either one's IQR."""
    noise = max(_spread(s, result.phase)["iqr_ns"] or 0 for s in (result.a, result.b))
    limit = result.total["a"] * percent / 100
    return result.total["delta"] > limit and result.total["delta"] > noise


def of_other_phases(row: dict[str, Any]) -> bool:
    """True for the one row that holds what else ran inside the tiles; it has the key `phase`: None."""
    return "phase" in row


def _default_by(a: Run, b: Run) -> tuple[str, ...]:
    modules = all(r.table["module"].null_count < r.table.num_rows for r in (a, b))
    return ("module", "category") if modules else ("category",)


def _default_phase(a: Run, b: Run) -> str | None:
    spans: dict[str, int] = {}
    theirs = {s["phase"] for s in b.meta["steps"]}
    for s in a.meta["steps"]:
        if s["phase"] in theirs:
            spans[s["phase"]] = spans.get(s["phase"], 0) + s["end_ns"] - s["start_ns"]
    if "decode" in spans:
        return "decode"
    return max(spans, key=lambda p: spans[p]) if spans else None


def _side(run: Run, keys: tuple[str, ...], phase: str | None) -> Side:
    table = run.table
    if phase is None:
        exclusive, _, totals = ledger.close(table)
        span = sum(d.span_ns for d in totals)
        return Side(run, _sums(table, pa.array(exclusive), keys, 1), 0, [span], max(len(totals), 1), None)
    steps = counted(steps_of(run, phase))
    numbers = pa.array([s["step"] for s in steps], pa.int32())
    mine = pc.and_(pc.equal(table["phase"], phase), pc.is_in(table["step"], numbers))
    mine = pc.fill_null(mine, False)
    rows = _sums(table.filter(mine), table["exclusive_ns"].filter(mine), keys, len(steps))
    inside, totals = ledger.close_windows(table, windows_of(steps))
    foreign = pc.invert(pc.fill_null(pc.equal(table["phase"], phase), False)).to_numpy()
    others = _per(int(inside[foreign].sum()), len(steps))
    devices = max(len(totals), 1)
    tiles = [(s["end_ns"] - s["start_ns"]) * devices for s in steps]
    known = (run.meta.get("unprofiled") or {}).get(phase)
    return Side(run, rows, others, tiles, devices, known["median_ns"] * devices if known else None)


def counted(steps: list[Step]) -> list[Step]:
    """The steps that means are taken over: the complete ones, or all where none is."""
    return [s for s in steps if s["complete"]] or steps


def _sums(table: pa.Table, exclusive: pa.Array, keys: tuple[str, ...], steps: int) -> dict[Key, int]:
    slim = table.select(keys).append_column("exclusive_ns", exclusive)
    groups = slim.group_by(list(keys), use_threads=False).aggregate([("exclusive_ns", "sum")])
    columns = [groups[k].to_pylist() for k in keys]
    return {
        tuple(key): _per(total, steps)
        for *key, total in zip(*columns, groups["exclusive_ns_sum"].to_pylist(), strict=True)
    }


def _rows(a: Side, b: Side, keys: tuple[str, ...]) -> list[dict[str, Any]]:
    rows = []
    for key in dict.fromkeys([*a.rows, *b.rows]):
        status = "matched" if key in a.rows and key in b.rows else "only_a" if key in a.rows else "only_b"
        values = _delta(a.rows.get(key, 0), b.rows.get(key, 0))
        rows.append({"key": dict(zip(keys, key, strict=True)), **values, "status": status})
    if a.others or b.others:
        status = "matched" if a.others and b.others else "only_a" if a.others else "only_b"
        values = _delta(a.others, b.others)
        rows.append({"key": dict.fromkeys(keys), "phase": None, **values, "status": status})
    return sorted(rows, key=lambda r: (-abs(r["delta"]), -max(r["a"], r["b"]), str(r["key"])))


def _differences(a: Side, b: Side, phase: str | None) -> list[str]:
    """In plain words, what stands in the way of a fair comparison."""
    out = []
    for name, x in _facts(a.run).items():
        y = _facts(b.run)[name]
        if x != y:
            out.append(f"{name} differs: {_known(x)} against {_known(y)}")
    if a.devices != b.devices:
        out.append(f"number of devices differs: {a.devices} against {b.devices}")
    if phase is None:
        out.append("no phase is in both runs: the whole runs are compared, not steps")
    phases = [{s["phase"] for s in side.run.meta["steps"]} for side in (a, b)]
    out += [f"phase {p} is only in A" for p in sorted(phases[0] - phases[1])]
    out += [f"phase {p} is only in B" for p in sorted(phases[1] - phases[0])]
    return out


def _facts(run: Run) -> dict[str, Any]:
    """What two runs should have in common."""
    work: dict[str, Any] = dict(run.meta["workload"] or {})
    workload = {name.replace("_", " "): work.get(name) for name in Workload.__annotations__}
    return {"model": run.meta["model"], **workload, "device": run.meta["device"].get("name")}


def _known(value: object) -> object:
    return "unknown" if value is None else value


def _identity(run: Run) -> dict[str, Any]:
    meta = run.meta
    names = ("run_id", "model", "variant", "mode", "tool", "workload", "device")
    return {
        "title": run.title,
        "file": run.path.name if run.path else None,
        **{n: meta.get(n) for n in names},
    }


def _overhead(side: Side) -> float | None:
    """Profiled over unprofiled wall time of a step; None where unprofiled is unknown."""
    return side.profiled / side.unprofiled if side.unprofiled else None


def _spread(side: Side, phase: str | None) -> dict[str, Any]:
    """Median and interquartile range of the step's wall time, ns: unprofiled if known, else the tiles."""
    known = (side.run.meta.get("unprofiled") or {}).get(phase or "")
    if known and side.unprofiled is not None:
        return {"basis": "unprofiled", **known}
    low, mid, high = (round(float(q)) for q in np.percentile(side.tiles, [25, 50, 75]))
    return {"basis": "profiled", "n": len(side.tiles), "median_ns": mid, "iqr_ns": high - low}


def _delta(a: int, b: int) -> dict[str, int]:
    return {"a": a, "b": b, "delta": b - a}


def _per(total: int, n: int) -> int:
    """Rounded to whole ns, halves to even, without going through a float."""
    quotient, rest = divmod(total, n)
    return quotient + (rest * 2 > n or (rest * 2 == n and quotient % 2 == 1))
