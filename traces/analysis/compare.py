"""Where the difference between two runs comes from: rows plus idle sum exactly to the total, in ns per step.

The wall time of a step comes from `unprofiled` whenever both runs have it, because a profiler stretches
wall time but hardly the kernels; else it is the mean profiled tile. Idle is what is left of it after the
rows, so the sum is exact by construction; a negative idle is possible then and is flagged.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from traces import ledger
from traces.analysis import achieved, sentence
from traces.analysis.align import Alignment, align
from traces.analysis.breakdown import checked, steps_of, windows_of
from traces.analysis.comparable import obstacles
from traces.analysis.noise import Gate, Noise, gate, noise_of, spread_of
from traces.errors import UsageError
from traces.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traces.schema import Step
    from traces.store import Run

Key = tuple[Any, ...]
_ALIGNING: Final = ("start_ns", "rank", "device", "step", "layer", "module", "category")


@dataclass(frozen=True)
class Side:
    """One run's part of a comparison, ns per step."""

    run: Run
    table: pa.Table  # the rows that count
    steps: int  # how many steps they are of
    others: int  # rows of other phases inside the tiles
    tiles: list[int]  # wall time of each counted step, summed over devices
    devices: int
    unprofiled: int | None  # likewise
    incomplete: bool = False  # no step is complete
    rows: dict[Key, int] = field(default_factory=dict)
    work: dict[Key, dict[str, Any]] = field(default_factory=dict)  # sums over all its steps, of `achieved`

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
    aligned_by: str
    aligned_share: float
    not_comparable: list[str]

    @cached_property
    def unaligned(self) -> dict[str, int]:
        """Time in rows that only one run has, ns per step; it counts in the sums all the same."""
        return {
            side: sum(r[side] for r in self.rows if r["status"] == f"only_{side}" and not of_other_phases(r))
            for side in ("a", "b")
        }

    @cached_property
    def spread(self) -> dict[str, dict[str, Any]]:
        """Median and interquartile range of the step's wall time, ns, on the basis of the total."""
        return {"a": _spread(self.a, self.phase, self.basis), "b": _spread(self.b, self.phase, self.basis)}

    @cached_property
    def noise(self) -> Noise:
        """What the difference is held against."""
        return noise_of(self.spread["a"], self.spread["b"], (self.a.devices, self.b.devices))

    @cached_property
    def sentence(self) -> str:
        """The difference and its largest parts as a person would say them; one line of plain text."""
        return sentence.say(self)

    def to_json(self) -> dict[str, Any]:
        """The versioned shape of `compare --json`."""
        return {
            "schema_version": SCHEMA_VERSION,
            "sentence": self.sentence,
            "a": _identity(self.a.run),
            "b": _identity(self.b.run),
            "by": list(self.by),
            "phase": self.phase,
            "basis": self.basis,
            "total": self.total,
            "rows": self.rows,
            "idle": self.idle,
            "aligned_by": self.aligned_by,
            "aligned_share": self.aligned_share,
            "unaligned": self.unaligned,
            "profiler_overhead": {"a": _overhead(self.a), "b": _overhead(self.b)},
            "spread": self.spread,
            "noise": {"iqr_ns": self.noise.ns, "hides_delta": self.noise.hides(self.total["delta"])},
            "not_comparable": self.not_comparable,
        }


def compare(a: Run, b: Run, by: Sequence[str] | None = None, phase: str | None = None) -> Comparison:
    """Compare two runs per step of one phase.

    `by` defaults to module and category if both runs have modules, else category; `phase` to decode if
    both have it, else to the longest phase they share, else to the whole of both runs (None).
    Raises UsageError for unknown columns, a phase that a run lacks, or a run in which nothing took time.
    """
    for run in (a, b):
        if run.table.num_rows == 0:
            raise UsageError(f"{run.path or run.title}: an empty run cannot be compared")
    keys = checked(by) if by else _default_by(a, b)
    phase = phase or _default_phase(a, b)
    sides = [_side(run, keys, phase) for run in (a, b)]
    aligned = align(sides[0].table, sides[1].table, keys)
    left, right = (_summed(s, t, keys) for s, t in zip(sides, (aligned.a, aligned.b), strict=True))
    walls = (left.unprofiled, right.unprofiled)
    basis = "unprofiled" if None not in walls else "profiled"
    pair = walls if basis == "unprofiled" else (left.profiled, right.profiled)
    total = _delta(int(pair[0] or 0), int(pair[1] or 0))
    rows = _rows(left, right, keys, aligned)
    idle: dict[str, Any] = {side: total[side] - sum(r[side] for r in rows) for side in ("a", "b", "delta")}
    if negative := [side for side in ("a", "b") if idle[side] < 0]:
        idle["negative"] = negative
    matched = sum(r["a"] + r["b"] for r in rows if r["status"] == "matched" and not of_other_phases(r))
    everything = sum(r["a"] + r["b"] for r in rows if not of_other_phases(r))
    return Comparison(
        left, right, keys, phase, basis, total, rows, idle, aligned.basis,
        matched / everything if everything else 0.0, obstacles(left, right, phase, keys),
    )  # fmt: skip


def regressed(result: Comparison, percent: float) -> Gate:
    """Whether B's step is slower than A's by more than `percent` and more than the noise, and why."""
    return gate(result.total, result.noise, percent)


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
    if phase is None:
        exclusive, _, totals = ledger.close(run.table)
        table = _countable(run, pa.array(exclusive), keys)
        side = Side(run, table, 1, 0, [sum(d.span_ns for d in totals)], max(len(totals), 1), None)
    else:
        side = _of_phase(run, keys, phase)
    if not pc.sum(side.table["exclusive_ns"]).as_py():
        where = f"no kernel of phase {phase} took time" if phase else "no kernel took time"
        raise UsageError(f"{run.path or run.title}: {where}; an empty run cannot be compared")
    return side


def _of_phase(run: Run, keys: tuple[str, ...], phase: str) -> Side:
    table = run.table
    steps = counted(steps_of(run, phase))
    numbers = pa.array([s["step"] for s in steps], pa.int32())
    mine = pc.and_(pc.equal(table["phase"], phase), pc.is_in(table["step"], numbers))
    rows = _countable(run, table["exclusive_ns"].combine_chunks(), keys).filter(pc.fill_null(mine, False))
    inside, totals = ledger.close_windows(table, windows_of(steps))
    foreign = pc.invert(pc.fill_null(pc.equal(table["phase"], phase), False)).to_numpy()
    others = _per(int(inside[foreign].sum()), len(steps))
    devices = max(len(totals), 1)
    tiles = [(s["end_ns"] - s["start_ns"]) * devices for s in steps]
    known = (run.meta["unprofiled"] or {}).get(phase)
    wall = known["median_ns"] * devices if known and known["median_ns"] > 0 else None
    return Side(run, rows, len(steps), others, tiles, devices, wall, not any(s["complete"] for s in steps))


def _countable(run: Run, exclusive: pa.Array, keys: tuple[str, ...]) -> pa.Table:
    """The columns to align and group by, `exclusive_ns`, and the work to add up."""
    table = run.table.select(list(dict.fromkeys((*_ALIGNING, *keys)))).append_column(
        "exclusive_ns", exclusive
    )
    for name, values in achieved.columns(run, exclusive).items():
        table = table.append_column(f"_{name}", values)
    return table


def counted(steps: list[Step]) -> list[Step]:
    """The steps that means are taken over: the complete ones, or all where none is."""
    return [s for s in steps if s["complete"]] or steps


def _summed(side: Side, table: pa.Table, keys: tuple[str, ...]) -> Side:
    """The side with its rows and their work added up by key."""
    names = {"exclusive_ns": "exclusive_ns", **{f"_{n}": n for n in achieved.SUMMED}}
    groups = table.group_by(list(keys), use_threads=False).aggregate([(c, "sum") for c in names])
    rows, work = {}, {}
    for group in groups.to_pylist():
        key = tuple(group[k] for k in keys)
        work[key] = {name: group[f"{column}_sum"] for column, name in names.items()}
        rows[key] = _per(group["exclusive_ns_sum"], side.steps)
    return replace(side, table=table, rows=rows, work=work)


def _rows(a: Side, b: Side, keys: tuple[str, ...], aligned: Alignment) -> list[dict[str, Any]]:
    rows = []
    for key in dict.fromkeys([*a.rows, *b.rows]):
        named = dict(zip(keys, key, strict=True))
        row = {"key": named, **_delta(a.rows.get(key, 0), b.rows.get(key, 0))}
        row["status"] = aligned.status(named, key in a.rows, key in b.rows)
        if spelled := aligned.spelled.get(named.get("module") or ""):
            row["modules"] = spelled
        rows.append(row)
    if a.others or b.others:
        status = "matched" if a.others and b.others else "only_a" if a.others else "only_b"
        values = _delta(a.others, b.others)
        rows.append({"key": dict.fromkeys(keys), "phase": None, **values, "status": status})
    return sorted(rows, key=lambda r: (-abs(r["delta"]), -max(r["a"], r["b"]), str(r["key"])))


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


def _spread(side: Side, phase: str | None, basis: str) -> dict[str, Any]:
    if basis == "unprofiled":
        return {"basis": basis, **(side.run.meta["unprofiled"] or {})[phase or ""]}
    return spread_of(side.tiles)


def _delta(a: int, b: int) -> dict[str, int]:
    return {"a": a, "b": b, "delta": b - a}


def _per(total: int, n: int) -> int:
    """Rounded to whole ns, halves to even, without going through a float."""
    quotient, rest = divmod(total, n)
    return quotient + (rest * 2 > n or (rest * 2 == n and quotient % 2 == 1))
