"""A breakdown for people: shares of a step, rows with the rates that they reached, idle, the ledger line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.table import Table
from rich.text import Text

from profiler.cli.render import cell, console, nanoseconds, other_phases, print_header, print_health
from traces.analysis import shares
from traces.analysis.achieved import ceilings
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traces.analysis.breakdown import Breakdown
    from traces.store import Run

_PHASES: Final = 3
_ORDERED: Final = {"layer", "step", "phase"}  # rows of these alone come in their own order
_SEEN: Final = 0.0005  # smaller shares print as 0.0%
_WHOLE: Final = 0.995  # known work of so much of the time needs no mention
_RATES: Final = ("tflops", "gb_per_s", "roofline")
_HEADS: Final = {"tflops": "TFLOP/s", "gb_per_s": "GB/s", "roofline": "roofline"}


def print_breakdown(result: Breakdown, top: int) -> None:
    """Rows, idle, and the closing ledger line."""
    out = console()
    print_header(out, result.run)
    phases = [result.phase] if result.phase else shares.main_phases(result.run, _PHASES)
    for phase in phases:
        if line := share_line(result.run, phase):
            out.print(Text(f"  {line}"))
    out.print(_table(result, top))
    for note in _notes(result):
        out.print(Text(plain(note, 500)))
    out.print(
        f"ledger: busy {result.busy_ns:,} + idle {result.idle_ns:,} = span {result.span_ns:,} ns "
        f"over {len(result.devices)} device(s)"
    )
    print_health(out, result.run)


def share_line(run: Run, phase: str) -> str | None:
    """`decode step: gemm 80.0%, attention 5.1%, small ops 9.3%, idle 5.6% of 5.010 ms unprofiled`."""
    found = shares.shares(run, phase)
    if found is None:
        return None
    named = {g.replace("_op", " ops"): s for g, s in found.parts.items() if g == shares.IDLE or s >= _SEEN}
    parts = ", ".join(f"{group} {share:.1%}" for group, share in named.items())
    short = ""
    if found.parts[shares.IDLE] < 0:
        why = "took longer under the profiler" if found.basis == "unprofiled" else "run beyond their steps"
        short = f" (kernels {why})"
    what = plain(phase) if phase.lower().endswith("step") else f"{plain(phase)} step"
    return f"{what}: {parts} of {nanoseconds(found.wall_ns)} {found.basis}{short}"


def _table(result: Breakdown, top: int) -> Table:
    rows = _sorted(result)
    shown, hidden = rows[:top], rows[top:]
    extra = _extra_columns(shown)
    table = Table(
        title=Text(_title(result)),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for name in result.by:
        if name == "name":
            table.add_column(name, overflow="ellipsis", max_width=72, no_wrap=True)
        else:
            table.add_column(name, overflow="fold")
    for name in ("count", "mean", "exclusive", "share", *(_HEADS.get(n, n) for n in extra)):
        table.add_column(name, justify="right", no_wrap=True)
    for row in shown:
        others = result.phase is not None and row["phase"] is None
        cells = other_phases(result.by) if others else [cell(row, name) for name in result.by]
        table.add_row(
            *cells, f"{row['count']:,}", _mean(row),
            nanoseconds(row["exclusive_ns"]), f"{row['share']:.1%}", *(_rate(row, n) for n in extra),
        )  # fmt: skip
    if hidden:
        rest = sum(r["exclusive_ns"] for r in hidden)
        _closing_row(table, result, f"{len(hidden)} more rows (--top)", rest)
    _closing_row(table, result, "idle", result.idle_ns)
    return table


def _title(result: Breakdown) -> str:
    if result.phase is None:
        return f"whole run: {nanoseconds(result.span_ns)}"
    steps = sum(s["phase"] == result.phase for s in result.run.meta["steps"])
    return f"phase {plain(result.phase)}, {steps} step(s): {nanoseconds(result.span_ns)}"


def _sorted(result: Breakdown) -> list[dict[str, Any]]:
    if not set(result.by) <= _ORDERED:
        return result.rows
    return sorted(
        result.rows,
        key=lambda r: [(r[k] is None, str(r[k]) if k == "phase" else r[k] or 0) for k in result.by],
    )


def _extra_columns(rows: list[dict[str, Any]]) -> list[str]:
    """The rates that some row has; `known` where one's are of a part of its time."""
    found = [n for n in _RATES if any(r[n] is not None for r in rows)]
    partial = any(0 < r["with_work"] < _WHOLE for r in rows)
    return [*found, *(["known"] if partial else [])]


def _mean(row: dict[str, Any]) -> str:
    """Mean duration of a row's kernels, to four digits: `237.4 us`."""
    number, unit = nanoseconds(row["total_ns"] / row["count"]).split()
    whole, point, _ = number.partition(".")
    return f"{float(number):.{max(4 - len(whole), 0)}f} {unit}" if point else f"{number} {unit}"


def _rate(row: dict[str, Any], name: str) -> str:
    if name == "known":
        return f"{row['with_work']:.0%}" if row["with_work"] else "-"
    value = row[name]
    if value is None:
        return "-"
    if name == "roofline":
        return f"{value:.1%}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _notes(result: Breakdown) -> Iterator[str]:
    """What the columns mean where a reader could take them for more."""
    if any("*" in (r.get("module") or "") for r in result.rows) and "layer" not in result.by:
        yield "layers are added up; --by layer,module,category keeps them apart, --json has every row"
    if not any(r["with_work"] for r in result.rows):
        return
    time = sum(r["with_work"] * r["exclusive_ns"] for r in result.rows)
    known = time / result.busy_ns if result.busy_ns else 0.0
    yield f"work: known of {known:.1%} of the busy time; TFLOP/s and GB/s are those of that time"
    roof = ceilings(result.run)
    if roof is None:
        device = result.run.meta["device"].get("name") or "this device"
        yield f"roofline: no peak rates known for {device}"
    elif roof.bytes_per_s:
        yield (
            f"roofline: least possible time over time taken, at {roof.bytes_per_s / 1e12:.2f} TB/s and dense "
            f"FLOP/s ({roof.source})"
        )
        if any((r["roofline"] or 0) > 1 for r in result.rows):
            yield "roofline above 100%: operands that the L2 cache still held, not device memory"


def _closing_row(table: Table, result: Breakdown, label: str, ns: int) -> None:
    share = f"{ns / result.span_ns:.1%}" if result.span_ns else "-"
    table.add_row(label, *[""] * (len(result.by) - 1), "", "", nanoseconds(ns), share, style="dim")
