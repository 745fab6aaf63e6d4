"""The state of a trace in plain words, from its rows and from what was counted when it was made."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc

from dashboard.format import percent
from traces.text import plain

if TYPE_CHECKING:
    import pyarrow as pa

    from traces.store import Run

_LISTED: Final = 3  # doubts that the line names
_TOLD: Final = (  # parts of `health` that get a sentence of their own
    "events", "rows", "dropped", "repaired", "flagged", "orphans", "unknown", "kernels", "kernels_seen",
    "launch_log", "notes", "disagreed", "rules",
)  # fmt: skip


def line(run: Run) -> tuple[bool, str]:
    """The state of a trace in one line: (fine, sentence)."""
    doubts = [text for fine, text in lines(run) if not fine]
    if not doubts:
        return True, "nothing lost, repaired, doubtful or unknown."
    return False, " ".join(plain(d, 160) for d in doubts[:_LISTED]) + (
        f" And {len(doubts) - _LISTED} more." * (len(doubts) > _LISTED)
    )


def lines(run: Run) -> list[tuple[bool, str]]:
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
    out.append((not share, f"{percent(share)} of the busy time has no known category." if share
                else "The category of all busy time is known."))  # fmt: skip
    if apart := _number(notes.get("disagreed")):
        out.append((False, f"The op and the name of {apart:,} rows disagree on what they are."))
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
    if isinstance(rules := notes.get("rules"), dict):
        out.append((True, f"Rules of {rules.get('file')} decided before the shipped ones."))
    if isinstance(told := notes.get("notes"), list):
        out += [(False, _sentence(str(note))) for note in told]
    rest = ((k, v) for k, v in sorted(notes.items()) if k not in _TOLD and v not in (None, {}, []))
    return out + [(True, f"{key}: {_spelled(value)}") for key, value in rest]


def _sentence(note: str) -> str:
    return note if note.endswith((".", "!", "?")) else f"{note}."


def _spelled(value: Any) -> str:
    """`agree 261, differ 0` for a table of counts."""
    if isinstance(value, dict):
        return ", ".join(f"{k} {_spelled(v)}" for k, v in value.items())
    return str(value)


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
