"""What every report for people is made of: the header of a run, its health, cells and units."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from traces.attribution.taxonomy import COLOURS, GROUP_OF
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traces.store import Run

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
        of = f"{log['replays']} replays" if log["replays"] else f"{log.get('steps', 0)} steps"
        yield f"launch log: {log['mismatched']} of {of} differ from it"
    if (unknown := health.get("unknown") or {}).get("rows"):
        yield f"unknown: {unknown['rows']:,} rows ({nanoseconds(unknown['exclusive_ns'])}) without a category"
    if disagreed := health.get("disagreed"):
        yield f"attribution: {disagreed:,} rows whose op and kernel name disagree (their rule ends with !)"
    if rules := health.get("rules"):
        yield f"rules: {rules['file']} (sha256 {rules['sha256']}) decided before the shipped rules"
    yield from health.get("notes", [])


def print_header(out: Console, run: Run, label: str = "") -> None:
    """What a run is, its unprofiled step times, and whether its times are a CPU's."""
    meta = run.meta
    facts = [
        plain(run.title),
        plain(meta["device"].get("name") or "unknown device"),
        f"run {plain(meta['run_id'])}",
    ]
    if work := meta["workload"]:
        facts.insert(
            2,
            f"batch {work['batch']}, prompt {work['prompt']}, {work['new_tokens']} tokens, "
            f"{plain(work['dtype'])}",
        )
    out.print(Text(" | ".join(([label] if label else []) + facts), style="bold"))
    for phase, timing in (meta["unprofiled"] or {}).items():
        out.print(
            f"  {plain(phase)}: {nanoseconds(timing['median_ns'])} a step unprofiled "
            f"(n {timing['n']}, IQR {nanoseconds(timing['iqr_ns'])})"
        )
    if meta["device"].get("type") == "cpu":
        out.print(f"  {CPU_NOTICE}", style="yellow")


def print_health(out: Console, run: Run) -> None:
    """How many events were read, and everything that is lost or in doubt."""
    lines = list(health_lines(run.meta["health"]))
    out.print(
        f"health: {run.meta['health'].get('events', 0):,} events read"
        + ("" if lines else ", nothing lost or doubtful")
    )
    for line in lines:
        out.print(f"  {plain(line, 500)}")


def cell(row: dict[str, Any], name: str) -> Text:
    """The value of one `--by` column, in the colour of its group."""
    value = row[name]
    group = value if name == "group" else GROUP_OF.get(str(value)) if name == "category" else None
    return Text("-" if value is None else plain(value, 500), style=COLOURS.get(group or "", ""))


def other_phases(by: tuple[str, ...]) -> list[Text]:
    """The cells of the row that holds what other phases ran inside the tiles."""
    return [Text("(other phases)"), *[Text("")] * (len(by) - 1)]
