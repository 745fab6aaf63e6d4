"""What `bench` found, as tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from profiler.bench.table import step_sums
from profiler.cli.render import CPU_NOTICE, console
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_METHOD = (
    "us: median of a call, replays of a CUDA graph in turns, inputs and outputs cold in L2; ratio above 1: "
    "Triton is faster; rates and shares of the roof count what one call must do, so fused kernels' extra work is free"
)
_CPU_METHOD = "us: single calls through Triton's interpreter"


def print_bench(report: Mapping[str, Any]) -> None:
    """A table a benchmark, what each kernel does beside, and who had no time."""
    out = console()
    cpu = report["device"]["type"] == "cpu"
    out.print(Text(_title(report), style="bold"))
    if cpu:
        out.print(CPU_NOTICE, style="yellow")
    for name, found in report["benchmarks"].items():
        out.print(_table(name, found["rows"]))
        for line in _notes(name, found):
            out.print(line, soft_wrap=True)
        out.print()
    out.print(_CPU_METHOD if cpu else _METHOD, soft_wrap=True)
    if cpu:
        out.print(CPU_NOTICE, style="yellow")
    elif roof := report["roof"]:
        out.print(f"roof: {_roof(roof)} ({plain(roof['source'], 300)})", soft_wrap=True)
    else:
        out.print("roof: not known for this GPU; --bandwidth GB/S gives the memory one", soft_wrap=True)


def _title(report: Mapping[str, Any]) -> str:
    what = f"{report['model']} {report['dtype']}, batch {report['batch']}, prompt {report['prompt']}"
    return f"{what} on {plain(report['device']['name'])}"


def _roof(roof: Mapping[str, Any]) -> str:
    parts = []
    if roof["gb_per_s"]:
        parts.append(f"{roof['gb_per_s']:,.0f} GB/s")
    if roof["tflop_per_s"]:
        parts.append(f"{roof['tflop_per_s']:,.0f} TFLOP/s")
    return ", ".join(parts)


def _table(name: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title=Text(name), title_justify="left")
    table.add_column("op")
    table.add_column("shape")
    for side in ("CUDA", "Triton"):
        table.add_column(side)
        table.add_column("us", justify="right", no_wrap=True)
    for column in ("ratio", "Triton's rate", "roof CUDA", "roof Triton", "n", "IQR us"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        cuda, triton = row["cuda"], row["triton"]
        table.add_row(
            row["op"], row["shape"], *_side(cuda), *_side(triton),
            _number(row["ratio"], "{:.3f}"), _rate(row, triton), *(_share(s) for s in (cuda, triton)),
            "/".join(dict.fromkeys(str(s["n"]) for s in (cuda, triton) if s)),
            " / ".join(f"{s['iqr_us']:.2f}" for s in (cuda, triton) if s),
        )  # fmt: skip
    return table


def _notes(name: str, found: Mapping[str, Any]) -> Iterator[str]:
    extra: dict[str, dict[str, None]] = {}
    for row in found["rows"]:
        side = row["triton"]
        if side and side["does"]:
            extra.setdefault(f"{side['name']} also does: {side['does']}", {})[row["op"]] = None
    for text, ops in extra.items():
        yield f"{text} ({', '.join(ops)})"
    for entry in found["out"]:
        yield f"no time: {entry['name']} for {entry['op']}, {entry['shape']}: {plain(entry['why'], 200)}"
    if name == "ops" and (sums := step_sums(found["rows"])):
        cuda, triton = (us / 1000 for us in sums)
        yield (
            f"all layers, each kernel's fastest: CUDA {cuda:.3f} ms, Triton {triton:.3f} ms, ratio "
            f"{cuda / triton:.3f}; the CUDA side still lacks its norms, RoPE, SiLU, sums and cache writes"
        )


def _side(side: Mapping[str, Any] | None) -> tuple[str, str]:
    return (plain(side["name"]), f"{side['us']:.2f}") if side else ("-", "-")


def _rate(row: Mapping[str, Any], side: Mapping[str, Any] | None) -> str:
    if side is None:
        return "-"
    if row["bound"] == "compute":
        return f"{side['tflop_per_s']:.1f} TFLOP/s"
    return f"{side['gb_per_s']:,.0f} GB/s"


def _share(side: Mapping[str, Any] | None) -> str:
    return "-" if side is None else _number(side["of_roof"], "{:.1%}")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
