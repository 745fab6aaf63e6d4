"""A comparison as Markdown for a pull-request comment. Names come from traces: nothing in them is markup."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from profiler.cli.render_comparison import closing, numbers
from traces.analysis.compare import of_other_phases
from traces.analysis.fold import folded
from traces.text import plain

if TYPE_CHECKING:
    from traces.analysis.compare import Comparison
    from traces.store import Run

# Every ASCII mark that can start markup; `-`, `+`, `.` and `:` only do so where this text never puts them.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~$!&])")
_MENTION = re.compile(r"@(?=\w)|(?<=www)(?=\\?\.)|(?<=://)", re.IGNORECASE)
_BACKTICKS = re.compile(r"`+")
_JOINER = "\u2060"  # invisible; keeps apart what would become a mention or a link


def comparison(result: Comparison, top: int) -> str:
    """The sentence, the runs, the total, the largest rows with layers added up, and what to know of them."""
    phase = f"{result.phase} step" if result.phase else "whole run"
    rows = folded(result.rows)
    lines = [
        f"**{text(result.sentence)}**", "",
        f"A {_run(result.a.run)}, B {_run(result.b.run)}; one {text(phase)}, {result.basis} wall time", "",
        "| part | A | B | B - A | in |", "|:--|--:|--:|--:|:--|",
        _row("**total**", result.total, ""),
        *(_row(_part(row), row, _IN[row["status"]]) for row in rows[:top]),
    ]  # fmt: skip
    if hidden := rows[top:]:
        rest = {k: sum(r[k] for r in hidden) for k in ("a", "b", "delta")}
        lines.append(_row(f"{len(hidden)} more rows", rest, ""))
    lines += [_row("idle", result.idle, ""), ""]
    lines += [f"- {text(line)}" for line in closing(result)]
    return "\n".join(lines) + "\n"


_IN = {"matched": "A and B", "only_a": "A only", "only_b": "B only", "partly": "partly both"}


def text(value: object) -> str:
    """Text outside code, shown as it is."""
    return _MENTION.sub(lambda m: m[0] + _JOINER, _MARKUP.sub(r"\\\1", plain(value, 2000)))


def code(value: object) -> str:
    """A name as a code span that a table cell can hold: fenced by more backticks than are in it."""
    inside = plain(value, 120).replace("|", "\\|")
    fence = "`" * (max(map(len, _BACKTICKS.findall(inside)), default=0) + 1)
    space = " " if inside.startswith("`") or inside.endswith("`") or not inside.strip() else ""
    return f"{fence}{space}{inside}{space}{fence}"


def _part(row: dict[str, Any]) -> str:
    if of_other_phases(row):
        return "other phases"
    known = [code(v) for v in row["key"].values() if v is not None]
    return " ".join(known) or "(not known)"


def _row(part: str, values: dict[str, Any], where: str) -> str:
    return f"| {part} | {' | '.join(numbers(values))} | {where} |"


def _run(run: Run) -> str:
    device = run.meta["device"].get("name") or "unknown device"
    return f"{code(run.title)} ({text(plain(device))}, run {code(run.meta['run_id'])})"
