"""What `bench` found, as tables for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from profiler.bench.table import step_sums
from profiler.cli.render import CPU_NOTICE, console
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_METHOD = (
    "us: median of a call in a CUDA graph, contenders in turns, inputs and outputs cold in L2; ratio above "
    "1: Triton is faster; rates and shares of the roof count what the operation must do, nothing that a "
    "fused kernel does beside"
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
    table = Table(title=Text(name), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("op", overflow="fold")
    table.add_column("shape", overflow="fold")
    for side in ("CUDA", "Triton"):
        table.add_column(side, overflow="fold")
        table.add_column("us", justify="right", no_wrap=True)
        table.add_column("of roof", justify="right", no_wrap=True)
    for column in ("ratio", "Triton's rate", "n", "IQR us"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        sides = [s for s in (row["cuda"], row["triton"]) if s]
        table.add_row(
            row["op"], row["shape"], *_side(row["cuda"]), *_side(row["triton"]),
            _number(row["ratio"], "{:.3f}"), _rate(row, row["triton"]),
            "/".join(dict.fromkeys(str(s["n"]) for s in sides)),
            " / ".join(f"{s['iqr_us']:.2f}" for s in sides),
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
    absent: dict[tuple[str, str], list[str]] = {}
    for entry in found["out"]:
        absent.setdefault((entry["name"], entry["why"]), []).append(f"{entry['op']} {entry['shape']}")
    for (who, why), where in absent.items():
        yield f"no time: {plain(who)}: {plain(why, 200)} ({'; '.join(where)})"
    if name == "ops" and (sums := step_sums(found["rows"])):
        cuda, triton = (us / 1000 for us in sums)
        yield (
            f"all layers, the fastest kernel of each row: CUDA {cuda:.3f} ms, Triton {triton:.3f} ms, ratio "
            f"{cuda / triton:.3f}; CUDA still lacks its norms, RoPE, SiLU, sums and cache writes"
        )


def _side(side: Mapping[str, Any] | None) -> tuple[str, str, str]:
    if side is None:
        return "-", "-", "-"
    return plain(side["name"]), f"{side['us']:.2f}", _number(side["of_roof"], "{:.1%}")


def _rate(row: Mapping[str, Any], side: Mapping[str, Any] | None) -> str:
    if side is None:
        return "-"
    if row["bound"] == "compute":
        return f"{side['tflop_per_s']:.1f} TFLOP/s"
    return f"{side['gb_per_s']:,.0f} GB/s"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
