"""Tables for people: breakdowns and comparisons, each closing with its ledger line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from traces.analysis.compare import of_other_phases
from traces.attribution.taxonomy import COLOURS, GROUP_OF
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traces.analysis.breakdown import Breakdown
    from traces.analysis.compare import Comparison
    from traces.store import Run

_NEGATIVE = {
    "unprofiled": "its kernels took longer under the profiler than the whole step without",
    "profiled": "kernels of its steps run beyond the steps' tiles",
}
CPU_NOTICE = "CPU, not a GPU latency: these times only show that the pipeline works here"


class _Output(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to `main` (rich would exit with 1)."""
        raise BrokenPipeError


def console() -> Console:
    """Standard output; wide enough not to cut names when it is not a terminal. Names are never markup."""
    width = None if sys.stdout.isatty() else 160
    return _Output(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def nanoseconds(ns: float) -> str:
    """A duration in the unit a person would use."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(ns) >= size:
            return f"{ns / size:.3f} {unit}"
    return f"{ns:.0f} ns"


def print_breakdown(result: Breakdown, top: int) -> None:
    """Rows, idle, and the closing ledger line."""
    out = console()
    _print_header(out, result.run)
    what = f"phase {plain(result.phase)}" if result.phase else "whole run"
    table = Table(title=Text(f"{what}: {nanoseconds(result.span_ns)}"), title_justify="left")
    for name in result.by:
        table.add_column(name, overflow="ellipsis", max_width=72, no_wrap=True)
    for name in ("count", "total", "exclusive", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in result.rows[:top]:
        others = result.phase is not None and row["phase"] is None
        cells = _other_phases(result.by) if others else [_cell(row, name) for name in result.by]
        table.add_row(
            *cells, f"{row['count']:,}", nanoseconds(row["total_ns"]), nanoseconds(row["exclusive_ns"]),
            f"{row['share']:.1%}",
        )  # fmt: skip
    if hidden := result.rows[top:]:
        rest = sum(r["exclusive_ns"] for r in hidden)
        _closing_row(table, result, f"{len(hidden)} more rows (--top)", rest)
    _closing_row(table, result, "idle", result.idle_ns)
    out.print(table)
    out.print(
        f"ledger: busy {result.busy_ns:,} + idle {result.idle_ns:,} = span {result.span_ns:,} ns "
        f"over {len(result.devices)} device(s)"
    )
    _print_health(out, result.run)


def print_comparison(result: Comparison, top: int) -> None:
    """Rows sorted by their part in the difference; they sum with idle to the total."""
    out = console()
    for side, label in ((result.a, "A"), (result.b, "B")):
        _print_header(out, side.run, label)
    what = f"{plain(result.phase)} step" if result.phase else "whole run"
    table = Table(title=Text(f"one {what}, {result.basis} wall time"), title_justify="left")
    for name in result.by:
        table.add_column(name, overflow="ellipsis", max_width=60, no_wrap=True)
    for name in ("A", "B", "B - A", "status"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in result.rows[:top]:
        others = of_other_phases(row)
        cells = _other_phases(result.by) if others else [_cell(row["key"], n) for n in result.by]
        table.add_row(*cells, *_numbers(row), row["status"])
    if hidden := result.rows[top:]:
        rest = {k: sum(r[k] for r in hidden) for k in ("a", "b", "delta")}
        table.add_row(f"{len(hidden)} more rows (--top)", *[""] * (len(result.by) - 1), *_numbers(rest), "")
    table.add_row("idle", *[""] * (len(result.by) - 1), *_numbers(result.idle), "", style="dim")
    table.add_section()
    table.add_row("total", *[""] * (len(result.by) - 1), *_numbers(result.total), "", style="bold")
    out.print(table)
    out.print(
        f"ledger: rows + idle = total, to the ns; {result.aligned_share:.1%} of the time is in matched rows"
    )
    for side in result.idle.get("negative", ()):
        out.print(
            f"note: idle of {side.upper()} is negative: its kernels took longer than the unprofiled step"
        )
    for line in result.not_comparable:
        out.print(f"note: {plain(line, 500)}")


def health_lines(health: dict[str, Any]) -> Iterator[str]:
    """In plain words, everything that was lost, mended or is in doubt; nothing when all is well."""
    for what in ("dropped", "repaired"):
        for reason, entry in health.get(what, {}).items():
            yield f"{what}: {entry['count']:,} x {reason} (first at byte {entry['first_offset']:,})"
    for reason, count in health.get("flagged", {}).items():
        yield f"flagged: {count:,} rows {reason}"
    if orphans := health.get("orphans"):
        yield f"orphans: {orphans:,} rows whose launch is not in the trace"
    if (log := health.get("launch_log") or {}).get("mismatched"):
        yield f"launch log: {log['mismatched']} of {log['replays']} replays differ from it"
    if (unknown := health.get("unknown") or {}).get("rows"):
        yield f"unknown: {unknown['rows']:,} rows ({nanoseconds(unknown['exclusive_ns'])}) without a category"
    yield from health.get("notes", [])


def _print_header(out: Console, run: Run, label: str = "") -> None:
    meta = run.meta
    facts = [
        plain(run.title),
        plain(meta["device"].get("name") or "unknown device"),
        f"run {plain(meta['run_id'])}",
    ]
    if work := meta["workload"]:
        facts.insert(
            2, f"batch {work['batch']}, prompt {work['prompt']}, {work['new_tokens']} tokens, {work['dtype']}"
        )
    out.print(Text(" | ".join(([label] if label else []) + facts), style="bold"))
    for phase, timing in (meta["unprofiled"] or {}).items():
        out.print(
            f"  {plain(phase)}: {nanoseconds(timing['median_ns'])} a step unprofiled "
            f"(n {timing['n']}, IQR {nanoseconds(timing['iqr_ns'])})"
        )
    if meta["device"].get("type") == "cpu":
        out.print(f"  {CPU_NOTICE}", style="yellow")


def _print_health(out: Console, run: Run) -> None:
    lines = list(health_lines(run.meta["health"]))
    out.print(
        f"health: {run.meta['health'].get('events', 0):,} events read"
        + ("" if lines else ", nothing lost or doubtful")
    )
    for line in lines:
        out.print(f"  {plain(line, 500)}")


def _cell(row: dict[str, Any], name: str) -> Text:
    value = row[name]
    group = value if name == "group" else GROUP_OF.get(str(value)) if name == "category" else None
    return Text("-" if value is None else plain(value, 500), style=COLOURS.get(group or "", ""))


def _other_phases(by: tuple[str, ...]) -> list[Text]:
    return [Text("(other phases)"), *[Text("")] * (len(by) - 1)]


def _closing_row(table: Table, result: Breakdown, label: str, ns: int) -> None:
    share = f"{ns / result.span_ns:.1%}" if result.span_ns else "-"
    table.add_row(label, *[""] * (len(result.by) - 1), "", "", nanoseconds(ns), share, style="dim")


def _numbers(row: dict[str, Any]) -> tuple[str, str, str]:
    sign = "+" if row["delta"] > 0 else ""
    return nanoseconds(row["a"]), nanoseconds(row["b"]), f"{sign}{nanoseconds(row['delta'])}"
