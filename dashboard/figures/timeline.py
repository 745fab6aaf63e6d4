"""A step of A above the same step of B, streams by time, in at most 3,000 bars: for pages without a server.

Single kernels where they are few and wide enough, else busy shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow.compute as pc
from plotly.subplots import make_subplots

from dashboard import charts
from dashboard.format import duration, label
from traces import ledger
from traces.analysis import timeline

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import pyarrow as pa

    from traces.store import Run

BARS: Final = 1500  # per run: two runs stay below the 3,000 that a browser draws at once
BINS: Final = 200  # times at most seven groups, below BARS
# A bar takes at least a pixel, so where most time is in narrower ones, they cover each other and the picture
# lies. A handful of bars cannot.
FEW: Final = 150
PIXELS: Final = 1000  # a usual width of the chart
NARROW: Final = 1 / 3


@dataclass(frozen=True)
class Panel:
    """What one run shows: its rows inside the axis, both in ns since the start of the step."""

    name: str
    table: pa.Table
    axis: tuple[int, int]  # the same for both runs
    shown_ns: int  # how much of the axis the step fills
    devices: int

    @property
    def single(self) -> bool:
        """Whether the kernels are few and wide enough to be drawn one by one."""
        number = self.table.num_rows
        if number <= FEW or number > BARS:
            return bool(number <= FEW)
        pixel = (self.axis[1] - self.axis[0]) / PIXELS
        used = self.table["used_ns"].to_numpy()
        return bool(used[used < pixel].sum() <= NARROW * used.sum())


def window(run: Run, phase: str | None, number: int | None) -> tuple[int, int] | None:
    """Start and end of a step, ns; of the whole run without a phase; None when the run lacks the step."""
    if phase is not None:
        steps = [s for s in run.meta["steps"] if (s["phase"], s["step"]) == (phase, number)]
        return (steps[0]["start_ns"], steps[0]["end_ns"]) if steps else None
    start, end = ledger.intervals(run.table)
    good = ledger.usable(run.table)
    return (int(start[good].min()), int(end[good].max())) if good.any() else None


def panel(run: Run, side: str, step: tuple[int, int], axis: tuple[int, int]) -> Panel:
    """The rows of a step (ns of the run) that lie inside the axis (ns since the step's start)."""
    first, last = step
    low, high = first + axis[0], min(first + axis[1], last)
    table = run.table.take(timeline.inside(run.table, low, high))
    table = table.set_column(0, "start_ns", pc.subtract(table["start_ns"], first))
    return Panel(side, table, axis, max(high - low, 0), sum(1 for _ in ledger.devices(run.table)))


def figure(panels: list[Panel]) -> go.Figure:
    """A above B on one time axis, µs since the start of the step."""
    out = make_subplots(rows=len(panels), shared_xaxes=True, vertical_spacing=0.06)
    seen: set[str] = set()
    for row, p in enumerate(panels, 1):
        (_bars if p.single else _strip)(out, p, row, seen)
    out.update_xaxes(range=[edge / 1e3 for edge in panels[0].axis], showgrid=True)
    out.update_xaxes(title_text="µs since the start of the step", row=len(panels))
    out.update_layout(barmode="overlay", height=140 + 190 * len(panels), legend_groupclick="togglegroup")
    return out


def _bars(out: go.Figure, p: Panel, row: int, seen: set[str]) -> None:
    """Every kernel as a bar: one row per stream, and one more per level of overlap on it."""
    start, end = ledger.intervals(p.table)
    queue = list(zip(*(p.table[c].to_pylist() for c in ("rank", "device", "stream")), strict=True))
    lane = timeline.lanes(start, end, queue)
    places = sorted(set(zip(queue, lane.tolist(), strict=True)), key=lambda q: (str(q[0]), q[1]))
    y = np.array([places.index(q) for q in zip(queue, lane.tolist(), strict=True)])
    groups = _groups(p)
    hover = _hover(p)
    for group in (g for g in charts.ORDER if g in set(groups)):
        mine = np.flatnonzero(groups == group)
        out.add_bar(
            orientation="h", y=y[mine], base=start[mine] / 1e3, x=(end - start)[mine] / 1e3, width=0.82,
            marker={"color": charts.colour(group), "line_width": 0}, customdata=[hover[i] for i in mine],
            hovertemplate="%{customdata}<extra></extra>", **_legend(group, seen), row=row, col=1,
        )  # fmt: skip
    names = [_stream(p, q, level) for q, level in places]
    out.update_yaxes(
        tickvals=list(range(len(places))), ticktext=names, range=[len(places) - 0.4, -0.6], showgrid=False,
        title_text=p.name.upper(), row=row,
    )  # fmt: skip


def _strip(out: go.Figure, p: Panel, row: int, seen: set[str]) -> None:
    """Too many kernels for bars: how busy the devices are with each group, per bin, stacked."""
    start, end = ledger.intervals(p.table)
    groups = _groups(p)
    shares: dict[str, Any] = {}
    for _, _, rows in ledger.devices(p.table):
        part = timeline.busy_share(start[rows], end[rows], groups[rows].tolist(), p.axis, BINS)
        for group, share in part.items():
            shares[group] = shares.get(group, 0) + share / p.devices
    edges = np.linspace(*p.axis, BINS + 1) / 1e3
    below = np.zeros(BINS)
    for group in (g for g in charts.ORDER if g in shares):
        height = 100 * shares[group]
        out.add_bar(
            x=edges[:-1], offset=0, width=edges[1] - edges[0], y=height, base=below.copy(),
            marker={"color": charts.colour(group), "line_width": 0}, customdata=height,
            hovertemplate=f"{group} %{{customdata:.1f}} % busy<extra></extra>",
            **_legend(group, seen), row=row, col=1,
        )  # fmt: skip
        below += height
    out.update_yaxes(range=[0, 100], ticksuffix=" %", title_text=f"{p.name.upper()} busy", row=row)


def _groups(p: Panel) -> Any:
    return np.array([g if g in charts.ORDER else "other" for g in p.table["group"].to_pylist()], dtype=object)


def _legend(group: str, seen: set[str]) -> dict[str, Any]:
    """One legend entry per group, which switches it in both runs."""
    first = group not in seen
    seen.add(group)
    return {"name": group, "legendgroup": group, "showlegend": first}


def _hover(p: Panel) -> list[str]:
    names = ("name", "category", "module", "start_ns", "used_ns", "gap_ns")
    columns = zip(*(p.table[c].to_pylist() for c in names), strict=True)
    return [
        f"{label(name)}<br>{duration(used)} at {duration(start)}, {duration(gap or 0)} idle before"
        f"<br>{label(category or 'unknown')}{' · ' + label(module, 60) if module else ''}"
        for name, category, module, start, used, gap in columns
    ]


def _stream(p: Panel, queue: tuple[Any, ...], level: int) -> str:
    rank, device, stream = queue
    where = f"rank {rank} device {device} " if p.devices > 1 else ""
    name = f"{where}stream {stream}" if stream is not None else f"{where}no stream"
    return f"{name} +{level}" if level else name
