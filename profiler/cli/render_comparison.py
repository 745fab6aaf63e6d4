"""A comparison for people: its sentence, its rows with the layers added up, and its ledger line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from profiler.cli.render import cell, console, nanoseconds, other_phases, print_header
from traces.analysis.align import known_share
from traces.analysis.compare import of_other_phases
from traces.analysis.fold import folded
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traces.analysis.compare import Comparison

_LONG = 2000


def print_comparison(result: Comparison, top: int) -> None:
    """Rows sorted by their part in the difference; they sum with idle to the total."""
    out = console()
    out.print(Text(plain(result.sentence, _LONG)))
    for side, label in ((result.a, "A"), (result.b, "B")):
        print_header(out, side.run, label)
    out.print(_table(result, folded(result.rows), top))
    for line in closing(result):
        out.print(Text(plain(line, _LONG)))


def closing(result: Comparison) -> Iterator[str]:
    """What holds the rows together, and everything that is not as it should be, one line each."""
    yield (
        f"ledger: rows + idle = total, to the ns; {result.aligned_share:.2%} of the time is in matched rows, "
        f"aligned by {result.aligned_by}"
    )
    lost = result.unaligned
    if any(lost.values()):
        yield (
            f"note: only in A {nanoseconds(lost['a'])}, only in B {nanoseconds(lost['b'])} of a step: "
            "counted, but without a partner"
        )
    for side in result.idle.get("negative", ()):
        yield f"note: idle of {side.upper()} is negative: its kernels took longer than the step itself"
    yield from (f"note: {line}" for line in result.not_comparable)
    if any(r["count"] > 1 for r in folded(result.rows)):
        yield "note: layers are added up; --by layer,module,category keeps them apart, --json has every row"
    tables = result.a.table, result.b.table
    if result.by == ("category",) and min(known_share(t, "layer") for t in tables) > 0:
        yield "note: both runs know layers: --by module,category pairs their kernels by module or by order"


def _table(result: Comparison, rows: list[dict[str, Any]], top: int) -> Table:
    what = f"{plain(result.phase)} step" if result.phase else "whole run"
    table = Table(title=Text(f"one {what}, {result.basis} wall time"), title_justify="left")
    for name in result.by:
        table.add_column(name, overflow="ellipsis", max_width=60, no_wrap=True)
    for name in ("A", "B", "B - A", "status"):
        table.add_column(name, justify="right", no_wrap=True)
    blank = [""] * (len(result.by) - 1)
    for row in rows[:top]:
        cells = other_phases(result.by) if of_other_phases(row) else [cell(row["key"], n) for n in result.by]
        table.add_row(*cells, *numbers(row), row["status"])
    if hidden := rows[top:]:
        rest = {k: sum(r[k] for r in hidden) for k in ("a", "b", "delta")}
        table.add_row(f"{len(hidden)} more rows (--top)", *blank, *numbers(rest), "")
    table.add_row("idle", *blank, *numbers(result.idle), "", style="dim")
    table.add_section()
    table.add_row("total", *blank, *numbers(result.total), "", style="bold")
    return table


def numbers(row: dict[str, Any]) -> tuple[str, str, str]:
    """A, B and the signed difference of a row, in units that a person would use."""
    sign = "+" if row["delta"] > 0 else ""
    return nanoseconds(row["a"]), nanoseconds(row["b"]), f"{sign}{nanoseconds(row['delta'])}"
