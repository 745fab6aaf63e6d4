"""The numbers of the overview, made from one comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.format import NONE, count, duration, percent, signed
from traces.analysis.breakdown import steps_of
from traces.analysis.compare import counted
from traces.analysis.noise import spread_of

if TYPE_CHECKING:
    from dashboard.pair import SideName
    from traces.analysis.compare import Comparison
    from traces.store import Run


_ENOUGH: Final = 2  # steps that have a spread


@dataclass(frozen=True)
class Figures:
    """One run's step: times in ns, per device where there are several.

    `n` and `iqr_ns` are of the wall, `busy_n` and `busy_iqr_ns` of the busy time of the profiled steps.
    """

    wall_ns: float
    busy_ns: float
    idle_ns: float
    kernels: float
    tokens: int | None  # made by one step; None where the workload is unknown
    n: int
    iqr_ns: int
    busy_n: int
    busy_iqr_ns: int
    basis: str

    @property
    def tokens_per_s(self) -> float | None:
        """Throughput of the step."""
        return self.tokens * 1e9 / self.wall_ns if self.tokens and self.wall_ns else None


@dataclass(frozen=True)
class Card:
    """One key figure as text: B, what it differs from A by, A, and what that is held against.

    `worse` is positive where B is worse than A, negative where better, 0 where equal or within the noise.
    """

    name: str
    value: str
    delta: str
    base: str
    noise: str
    worse: float
    help: str = ""


def figures(result: Comparison, side: SideName) -> Figures:
    """The key figures of one side of a comparison."""
    part = getattr(result, side)
    spread, busy = result.spread[side], busy_spread(part.table, part.devices)
    devices = part.devices
    wall, idle = result.total[side] / devices, result.idle[side] / devices
    return Figures(
        wall, wall - idle, idle, launches(part.run, result.phase), tokens(part.run, result.phase),
        spread["n"], spread["iqr_ns"], busy["n"], busy["iqr_ns"], result.basis,
    )  # fmt: skip


def busy_spread(table: pa.Table, devices: int) -> dict[str, Any]:
    """Spread (`traces.analysis.noise`) over steps of the kernels' exclusive time per device, ns.

    `table` has the counted rows with `step` and `exclusive_ns`.
    """
    sums = table.group_by("step", use_threads=False).aggregate([("exclusive_ns", "sum")])
    return spread_of([t // devices for t in sums["exclusive_ns_sum"].to_pylist()] or [0])


def cards(result: Comparison) -> list[Card]:
    """The key figures of a comparison, the wall first."""
    where = device(result)
    a, b = figures(result, "a"), figures(result, "b")
    per = {"decode": "token", None: "run"}.get(result.phase, "step")
    wall = _wall_noise(result)
    ranks = min(a.busy_n, b.busy_n) >= _ENOUGH
    busy = max(a.busy_iqr_ns, b.busy_iqr_ns) if ranks and result.phase else None
    n = f"n {a.busy_n} and {b.busy_n}"
    token = "One decode step makes one token for each sequence of the batch." if per == "token" else ""
    wide = None if wall is None or busy is None else wall + busy  # idle is wall less busy
    return [
        _time(f"Wall per {per}", (a.wall_ns, b.wall_ns), wall, f"n {a.n} and {b.n}", help_text=token),
        _rate(a, b, wall),
        _time(f"{where} busy", (a.busy_ns, b.busy_ns), busy, n, of=(a.wall_ns, b.wall_ns)),
        _time(f"{where} idle", (a.idle_ns, b.idle_ns), wide, n, of=(a.wall_ns, b.wall_ns)),
        _kernels(f"{'Kernels' if where != 'CPU' else 'Ops'} per {per}", a.kernels, b.kernels),
    ]


def device(result: Comparison) -> str:
    """What is kept busy: the GPU, the CPU, or either where the runs differ."""
    kinds = {str(side.run.meta["device"].get("type")) for side in (result.a, result.b)}
    if "cpu" not in kinds:
        return "GPU"
    return "CPU" if kinds == {"cpu"} else "Device"


def _wall_noise(result: Comparison) -> float | None:
    """The wider IQR of the wall, ns per device."""
    return None if result.noise.ns is None else result.noise.ns / max(result.a.devices, result.b.devices)


def _time(
    name: str, ab: tuple[float, float], limit: float | None, n: str, *,
    of: tuple[float, float] | None = None, help_text: str = "",
) -> Card:  # fmt: skip
    a, b = ab
    shares = [f" ({percent(x / w)})" if of and w else "" for x, w in zip(ab, of or (0, 0), strict=True)]
    hidden = limit is not None and abs(b - a) <= limit
    told = f"{'within noise' if hidden else 'noise'} {'unknown' if limit is None else duration(limit)}, {n}"
    worse = 0.0 if hidden else b - a
    return Card(
        name, duration(b) + shares[1], signed(b - a), f"A {duration(a)}{shares[0]}", told, worse, help_text
    )


def _rate(a: Figures, b: Figures, limit: float | None) -> Card:
    x, y = a.tokens_per_s, b.tokens_per_s
    if x is None or y is None:
        return Card("Tokens/s", NONE, "", "", "", 0, "Unknown: a run does not say its batch.")
    hidden = limit is not None and abs(b.wall_ns - a.wall_ns) <= limit
    word = "within noise" if hidden else "noise"
    noise = f"{word} {'unknown' if limit is None else f'{x * limit / a.wall_ns:,.1f}'}, n {a.n} and {b.n}"
    more = ("+" if y > x else "−" if y < x else "±") + f"{abs(y - x):,.1f}"
    load = "all sequences of the batch together"
    return Card("Tokens/s", f"{y:,.1f}", more, f"A {x:,.1f}", noise, 0 if hidden else x - y, load)


def _kernels(name: str, a: float, b: float) -> Card:
    more = ("+" if b > a else "−" if b < a else "±") + count(abs(b - a))
    return Card(name, count(b), more, f"A {count(a)}", "counted", b - a)


def launches(run: Run, phase: str | None) -> float:
    """GPU activities per counted step of the phase, over all devices; of the whole run without a phase."""
    if phase is None:
        return float(run.table.num_rows)
    steps = counted(steps_of(run, phase))
    numbers = pa.array([s["step"] for s in steps], pa.int32())
    mine = pc.and_(pc.equal(run.table["phase"], phase), pc.is_in(run.table["step"], numbers))
    return (pc.sum(mine).as_py() or 0) / len(steps)


def tokens(run: Run, phase: str | None) -> int | None:
    """Tokens that one step makes (decode) or takes in (prefill): one per sequence, or the whole prompt."""
    load = run.meta["workload"]
    if load is None or phase not in ("decode", "prefill"):
        return None
    return load["batch"] * (load["prompt"] if phase == "prefill" else 1)


def basis(a: Figures, b: Figures) -> str:
    """Where the wall comes from, with n and IQR of both runs."""
    source = {
        "unprofiled": "Wall is the median without a profiler; busy is the kernels' time under one.",
        "profiled": "A run was not timed without a profiler, so the wall is under one, which stretches it.",
    }[a.basis]
    spread = "; ".join(f"{name}: n = {x.n}, IQR {duration(x.iqr_ns)}" for name, x in (("A", a), ("B", b)))
    return f"{source} {spread}."


def noise(result: Comparison) -> str:
    """Whether the difference is larger than the spread of either run."""
    hidden = result.noise.hides(result.total["delta"])
    if hidden is None:
        return "A run has only one step: no spread to hold the difference against."
    word = "within" if hidden else "larger than"
    delta = signed(result.total["delta"])
    return f"The difference of {delta} is {word} the wider IQR of the two, {duration(result.noise.ns)}."
