"""The numbers of the overview, made from one comparison, and the state of a trace in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.format import duration, percent, signed
from traces.analysis.breakdown import steps_of
from traces.analysis.compare import counted

if TYPE_CHECKING:
    from dashboard.pair import SideName
    from traces.analysis.compare import Comparison
    from traces.store import Run


NEGATIVE_IDLE: Final = "Idle is negative: under the profiler the kernels outlast the whole step without."


_TOLD: Final = (  # parts of `health` that get a sentence of their own
    "events", "rows", "dropped", "repaired", "flagged", "orphans", "unknown", "kernels", "kernels_seen",
    "launch_log", "notes",
)  # fmt: skip


@dataclass(frozen=True)
class Figures:
    """One run's step: times in ns, per device where there are several; `n` and `iqr_ns` are of the wall."""

    wall_ns: float
    busy_ns: float
    idle_ns: float
    kernels: float
    tokens: int | None  # made by one step; None where the workload is unknown
    n: int
    iqr_ns: int
    basis: str

    @property
    def tokens_per_s(self) -> float | None:
        """Throughput of the step."""
        return self.tokens * 1e9 / self.wall_ns if self.tokens and self.wall_ns else None


def figures(result: Comparison, side: SideName) -> Figures:
    """The key figures of one side of a comparison."""
    part = getattr(result, side)
    spread = result.spread[side]
    devices = part.devices
    wall, idle = result.total[side] / devices, result.idle[side] / devices
    return Figures(
        wall, wall - idle, idle, launches(part.run, result.phase), tokens(part.run, result.phase),
        spread["n"], spread["iqr_ns"], result.basis,
    )  # fmt: skip


def launches(run: Run, phase: str | None) -> float:
    """GPU activities per counted step of the phase, over all devices; of the whole run without a phase."""
    if phase is None:
        return float(run.table.num_rows)
    steps = counted(steps_of(run, phase))
    numbers = pa.array([s["step"] for s in steps], pa.int32())
    mine = pc.and_(pc.equal(run.table["phase"], phase), pc.is_in(run.table["step"], numbers))
    return (pc.sum(mine).as_py() or 0) / len(steps)


def tokens(run: Run, phase: str | None) -> int | None:
    """Tokens that one step makes (decode) or takes in (prefill): one per sequence, or the whole prompt."""
    load = run.meta["workload"]
    if load is None or phase not in ("decode", "prefill"):
        return None
    return load["batch"] * (load["prompt"] if phase == "prefill" else 1)


def noise(result: Comparison) -> str:
    """Whether the difference is larger than the spread of either run."""
    hidden = result.noise.hides(result.total["delta"])
    if hidden is None:
        return "A run has only one step: no spread to hold the difference against."
    word = "within" if hidden else "larger than"
    delta = signed(result.total["delta"])
    return f"The difference of {delta} is {word} the wider IQR of the two, {duration(result.noise.ns)}."


def health(run: Run) -> list[tuple[bool, str]]:
    """The state of a trace in plain words: (fine, sentence)."""
    notes = run.meta["health"]
    table = run.table
    kinds = _counts(table["kind"])
    rows = ", ".join(f"{n:,} {kind or 'of unknown kind'}" for kind, n in kinds.most_common())
    out = [(True, f"{_number(notes.get('events')):,} events read; rows: {rows or 'none'}.")]
    for key, done in (("dropped", "dropped"), ("repaired", "repaired")):
        found = notes.get(key) or {}
        out.append((not found, _listed(found, done) if found else f"Nothing was {done}."))
    orphans = pc.sum(pc.equal(table["link"], "orphan")).as_py() or 0
    out.append((not orphans, f"{orphans:,} rows have no launch in the trace (orphans)." if orphans
                else "Every row that could be linked has its launch."))  # fmt: skip
    flags: Counter[str] = Counter()
    for reasons, n in _counts(table["flag"]).items():
        flags.update(dict.fromkeys((reasons or "").split(",") if reasons else (), n))
    flagged = table.num_rows - table["flag"].null_count
    listed = ", ".join(f"{flag} {n:,}" for flag, n in flags.most_common())
    out.append((not flagged, f"{flagged:,} rows are doubtful (flagged): {listed}." if flagged
                else "No row is doubtful (flagged)."))  # fmt: skip
    share = unknown_share(run)
    out.append((not share, f"{percent(share)} of the busy time has no known category."))
    return out + _capture(notes)


def _capture(notes: dict[str, Any]) -> list[tuple[bool, str]]:
    """What capture itself checked, and anything else the run records of its health."""
    out = []
    if isinstance(kernels := notes.get("kernels"), dict):
        promised, seen = kernels.get("expected_per_decode_step"), kernels.get("seen")
        out.append((seen == [promised], f"Kernels per decode step: {promised} expected, {seen} seen."))
    if isinstance(phases := notes.get("kernels_seen"), dict):
        for phase, found in phases.items():
            promised, seen = (found.get(n) if isinstance(found, dict) else None for n in ("expected", "seen"))
            if promised is not None:
                counts = f"Kernels per {phase} step: {promised} expected, {seen} seen."
                out.append((seen == [promised], counts))
    if isinstance(log := notes.get("launch_log"), dict):
        of = f"{log['replays']} CUDA-graph replays" if log.get("replays") else f"{log.get('steps')} steps"
        matched = f"{log.get('matched')} of {of} match the launch log."
        out.append((not log.get("mismatched"), matched))
    if isinstance(told := notes.get("notes"), list):
        out += [(False, str(note)) for note in told]
    return out + [(True, f"{key}: {value}") for key, value in sorted(notes.items()) if key not in _TOLD]


def unknown_share(run: Run) -> float:
    """Share of the run's busy time (0..1) whose category is unknown or missing."""
    time = run.table["exclusive_ns"]
    busy = pc.sum(time).as_py() or 0
    lost = pc.fill_null(pc.equal(run.table["category"], "unknown"), True)
    return (pc.sum(time.filter(lost)).as_py() or 0) / busy if busy else 0.0


def _counts(column: pa.ChunkedArray) -> Counter[str | None]:
    return Counter({e["values"]: e["counts"] for e in pc.value_counts(column).to_pylist()})


def _listed(found: Any, done: str) -> str:
    """`3 events were dropped: truncated 2 (first at byte 120), metadata 1.`"""
    if not isinstance(found, dict):
        return f"{done}: {found}"
    parts, total = [], 0
    for reason, entry in found.items():
        number = _number(entry.get("count") if isinstance(entry, dict) else entry)
        where = f" (first at byte {entry['first_offset']:,})" if _has_offset(entry) else ""
        total += number
        parts.append(f"{reason} {number:,}{where}")
    return f"{total:,} events were {done}: {', '.join(parts)}."


def _has_offset(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("first_offset"), int)


def _number(value: Any) -> int:
    """A count from metadata that anyone may have written."""
    return value if isinstance(value, int) else 0
