"""One kernel's row in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dashboard.format import duration
from traces.analysis.kinds import NAME_LEAST
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable

MOST: Final = 2_000  # characters of a text
_WHOLE: Final = 20_000


def lines(row: dict[str, Any]) -> list[tuple[str, str]]:
    """(what, value) of all that the run knows of a kernel beyond its name, module, start and duration."""
    out = [("Idle before", _gap(row)), ("Where", _where(row))]
    out += [(what, text) for what, make in _OPTIONAL.items() if (text := make(row))]
    return out


def _gap(row: dict[str, Any]) -> str:
    if row["gap_ns"] is None:
        return "unknown"
    cause = f", cause {plain(row['gap_cause'])}" if row["gap_cause"] else ""
    return f"{_exact(row['gap_ns'])} on its device{cause}"


def _where(row: dict[str, Any]) -> str:
    parts = [f"{n} {row[n]}" for n in ("rank", "device", "stream") if row[n] is not None]
    return ", ".join(parts) or "unknown"


def _exact(ns: int) -> str:
    return duration(ns) if abs(ns) < 1_000 else f"{duration(ns)} ({ns:,} ns)"


def _three(row: dict[str, Any], name: str) -> str:
    values = [row[f"{name}_{axis}"] for axis in "xyz"]
    return " × ".join(str(1 if v is None else v) for v in values) if values[0] is not None else ""


def _launch(row: dict[str, Any]) -> str:
    if row["grid_x"] is None and row["block_x"] is None:
        return ""
    more = [
        f"{row[n]} {what}"
        for n, what in (("registers", "registers"), ("shared_bytes", "B shared"))
        if row[n] is not None
    ]
    return "; ".join([f"grid {_three(row, 'grid') or '?'}", f"block {_three(row, 'block') or '?'}", *more])


def _step(row: dict[str, Any]) -> str:
    return (
        plain(f"{row['phase']} {row['step'] if row['step'] is not None else ''}".strip())
        if row["phase"]
        else ""
    )


def _recorded(row: dict[str, Any]) -> str:
    differs = row["dur_ns"] is not None and row["dur_ns"] != row["used_ns"]
    return f"{_exact(row['dur_ns'])} by the tool" if differs else ""


def _rate(row: dict[str, Any]) -> str:
    """Work over time: units of 1 per ns are 1e9 per second."""
    parts = []
    if row["used_ns"]:
        if row["flops"]:
            parts.append(f"{row['flops'] / row['used_ns'] / 1e3:,.1f} TFLOP/s")
        moved = row["min_bytes"] or row["bytes"]
        if moved:
            parts.append(f"{moved / row['used_ns']:,.0f} GB/s")
    return ", ".join(parts)


def _late(row: dict[str, Any]) -> str:
    if row["launch_start_ns"] is None:
        return ""
    api = f" by {plain(row['launch_api'])}" if row["launch_api"] else ""
    return f"{_exact(row['start_ns'] - row['launch_start_ns'])} before its start{api}"


def _long_name(row: dict[str, Any]) -> str:
    """Where the picture may have cut it."""
    return plain(row["name"], _WHOLE) if row["name"] and len(row["name"]) > NAME_LEAST else ""


def _text(name: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: plain(row[name], MOST) if row[name] else ""


_OPTIONAL: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "Full name": _long_name, "Grid, block": _launch, "Step": _step, "Op": _text("op"),
    "Shape": _text("shape"), "Rate": _rate,
    "Backend": _text("backend"), "Launched": _late, "Recorded": _recorded, "Doubtful": _text("flag"),
}  # fmt: skip
