"""How fast and how lean `kernelgap ingest` is, beside `json.load` of the same file in the same run.

    python -m benchmarks.ingest [--mb 50 500] [--gz] [--python-share 0.8] [-n 3] [--hta PYTHON] [--json FILE]

Each case is measured n times, the contenders taking turns, in fresh processes, interpreter start included.
Traces are synthetic (`benchmarks.synthetic`, seed 7), written to a temporary folder and removed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import synthetic
from benchmarks.processes import measure

if TYPE_CHECKING:
    from benchmarks.processes import Cost

_JSON_LOAD = """
import gzip, json, sys
with (gzip.open if sys.argv[1].endswith(".gz") else open)(sys.argv[1], "rb") as file:
    json.load(file)
"""
_HTA = """
import sys, tempfile, shutil, pathlib
from hta.trace_analysis import TraceAnalysis
folder = tempfile.mkdtemp()
pathlib.Path(folder, "t.json").symlink_to(sys.argv[1])
TraceAnalysis(trace_files={0: folder + "/t.json"}, trace_dir=folder).get_gpu_kernel_breakdown(visualize=False)
shutil.rmtree(folder)
"""


def contenders(path: Path, out: Path, *, alone: bool, hta: str | None) -> dict[str, list[str]]:
    """Commands by name; `alone` leaves json.load out (it takes six times the size of the file in memory)."""
    ours = [sys.executable, "-m", "profiler"]
    found = {} if alone else {"json.load": [sys.executable, "-c", _JSON_LOAD, str(path)]}
    found |= {
        "kernelgap ingest": [*ours, "ingest", str(path), "-o", str(out), "--force"],
        "kernelgap show": [*ours, "show", str(out)],
    }
    return found | ({"HTA breakdown": [hta, "-c", _HTA, str(path)]} if hta else {})


def case(megabytes: float, asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure one size; returns its facts and every single cost by contender."""
    path = folder / f"t.json{'.gz' if asked.gz else ''}"
    synthetic.write(path, megabytes, steps=asked.steps, python_share=asked.python_share)
    costs: dict[str, list[Cost]] = {}
    for _ in range(asked.n):
        for name, command in contenders(path, folder / "t.parquet", alone=asked.alone, hta=asked.hta).items():
            costs.setdefault(name, []).append(measure(command))
            print(f"  {megabytes:g} MB {name}: {costs[name][-1].wall_s:.2f} s", file=sys.stderr)
    facts = {"mb": megabytes, "file_mb": path.stat().st_size / 1e6, "load_average": os.getloadavg()[0]}
    path.unlink()
    return facts | {"costs": {name: [asdict(c) for c in all_] for name, all_ in costs.items()}}


def table(cases: list[dict[str, Any]]) -> str:
    """A Markdown table: medians, and the spread (least to most) of the wall time."""
    lines = [
        "| trace | what | n | wall s (min–max) | MB/s | CPU s | peak RSS, tree, MB |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for found in cases:
        for name, costs in found["costs"].items():
            walls = [c["wall_s"] for c in costs]
            wall = statistics.median(walls)
            cpu, peak = (statistics.median(c[k] for c in costs) for k in ("cpu_s", "peak_mb"))
            speed = "" if name.endswith("show") else f"{found['mb'] / wall:.0f}"
            spread = f"{wall:.2f} ({min(walls):.2f}–{max(walls):.2f})"
            cells = (f"{found['mb']:g} MB", name, len(walls), spread, speed, f"{cpu:.1f}", f"{peak:.0f}")
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "?")
    cores = len(os.sched_getaffinity(0))
    return {"cpu": model, "cores": cores, "python": platform.python_version(), "system": platform.platform()}


def main() -> None:
    """Measure and print a table; `--json` keeps every single number."""
    parser = argparse.ArgumentParser(description="benchmark `kernelgap ingest`")
    parser.add_argument("--mb", type=float, nargs="+", default=[50, 500])
    parser.add_argument("-n", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--python-share", type=float, default=0.0)
    parser.add_argument("--gz", action="store_true")
    parser.add_argument("--alone", action="store_true", help="without json.load")
    parser.add_argument("--hta", metavar="PYTHON", help="an interpreter with HolisticTraceAnalysis")
    parser.add_argument("--dir", type=Path, help="where the traces are written")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.dir) as folder:
        cases = [case(megabytes, asked, Path(folder)) for megabytes in asked.mb]
    found = {"schema_version": 1, "machine": machine(), "cases": cases}
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{found['machine']}\n\n{table(cases)}")


if __name__ == "__main__":
    main()
