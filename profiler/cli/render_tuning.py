"""What `tune` found, as tables for people."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from profiler.cli.render import console, nanoseconds


def print_tuning(report: dict[str, Any]) -> None:
    """One row a shape, the products of a step together, then the whole step."""
    out = console()
    name = f"{report['model']} {report['dtype']}, batch {report['batch']}, prompt {report['prompt']}"
    table = Table(title=Text(f"{name} on {report['gpu']}"), title_justify="left")
    for column in ("shape", "status"):
        table.add_column(column, no_wrap=True)
    for column in ("untuned us", "tuned us", "speedup", "TB/s", "TFLOP/s", "A/A spread", "tried", "out"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("configuration", no_wrap=True)
    for row in report["shapes"]:
        numbers = (
            _number(row["untuned_us"], "{:.2f}"), _number(row["tuned_us"], "{:.2f}"),
            _number(row["speedup"], "{:.2f}x"), _number(row.get("tb_s"), "{:.2f}"),
            _number(row.get("tflop_s"), "{:.0f}"), _number(row["spread"], "{:.1%}"),
        )  # fmt: skip
        out_of_it = sum(row["failed"].values())
        table.add_row(
            row["shape"], row["status"], *numbers, str(row["tried"]), str(out_of_it), row["config"] or ""
        )
    out.print(table)
    for phase in ("decode", "prefill"):
        out.print(_step_line(phase, report["shapes"]))
    for line in _end_to_end(report["end_to_end"]):
        out.print(line)
    if report["other_kernel"]:
        out.print(f"{report['other_kernel']} cache entries of another kernel or Triton did not count")
    out.print(f"cache: {report['cache']}", soft_wrap=True)


def _step_line(phase: str, rows: list[dict[str, Any]]) -> str:
    """The sum of a step's products, where all are known."""
    mine = [r for r in rows if r["phase"] == phase]
    missing = sum(r["untuned_us"] is None or r["tuned_us"] is None for r in mine)
    if missing or not mine:
        return f"GEMMs of a {phase} step: {missing} of {len(mine)} shapes are not measured"
    untuned, tuned = (sum(r[k] * r["calls_per_step"] for r in mine) for k in ("untuned_us", "tuned_us"))
    times = f"{nanoseconds(untuned * 1e3)} untuned, {nanoseconds(tuned * 1e3)} tuned"
    head = "" if phase == "decode" else " (without lm_head)"
    return f"GEMMs of a {phase} step{head}: {times}: {untuned / tuned:.2f}x"


def _end_to_end(found: dict[str, Any]) -> list[str]:
    if "skipped" in found:
        return [f"end to end: not measured ({found['skipped']})"]
    lines = []
    for phase in ("decode", "prefill"):
        one = found[phase]
        sides = [
            f"{side} {nanoseconds(one[side]['median_ns'])} (IQR {nanoseconds(one[side]['iqr_ns'])})"
            for side in ("untuned", "tuned")
        ]
        lines.append(f"{phase} step, graph mode, unprofiled: {', '.join(sides)}: {one['speedup']:.2f}x")
    return lines


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)
