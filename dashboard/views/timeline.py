"""Timeline: a step of A above the same step of B, streams by time: single kernels, or busy shares if many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow.compute as pc
import streamlit as st
from plotly.subplots import make_subplots

from dashboard import charts
from dashboard.format import duration, label, markdown
from dashboard.pair import SIDES
from traces import ledger
from traces.analysis import timeline

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import pyarrow as pa

    from dashboard.pair import Pair, SideName
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


def show(pair: Pair) -> None:
    """Draw the view."""
    first, second = st.columns([1, 3], vertical_alignment="bottom")
    number = _step(pair, first)
    low, high = second.slider(
        "Part of the longer step shown, %", 0, 100, (0, 100), key="part", bind="query-params",
        help="Kernels are drawn one by one where they are few and wide enough, else as busy shares.",
    )  # fmt: skip
    windows = {side: window(pair.run(side), pair.phase, number) for side in SIDES}
    longest = max((w[1] - w[0] for w in windows.values() if w), default=0)
    axis = (longest * low // 100, longest * max(high, low + 1) // 100)
    panels = [panel(pair.run(side), side, w, axis) for side, w in windows.items() if w]
    for side in (s for s, w in windows.items() if not w):
        st.info(f"{side.upper()} has no step {number}.")
    if not panels:
        return
    charts.draw(figure(panels), "timeline", _alt(panels, number))
    for p in panels:
        st.caption(_caption(p))
    pair.cli("compare")


def _step(pair: Pair, cell: Any) -> int | None:
    """The step that the person picks: of those that both runs have, complete ones first."""
    if pair.phase is None:
        cell.caption("These runs share no steps: each is shown whole.")
        return None
    sides = [[s for s in pair.run(x).meta["steps"] if s["phase"] == pair.phase] for x in SIDES]
    both = sorted({s["step"] for s in sides[0]} & {s["step"] for s in sides[1]})
    numbers = both or sorted({s["step"] for side in sides for s in side})
    whole = [n for n in numbers if all(s["complete"] for side in sides for s in side if s["step"] == n)]
    at = numbers.index(whole[0]) if whole else 0
    chosen: int | None = cell.selectbox(
        f"Step of {markdown(pair.phase)}", numbers, index=at, key="step", bind="query-params"
    )
    return numbers[at] if chosen is None else chosen


def window(run: Run, phase: str | None, number: int | None) -> tuple[int, int] | None:
    """Start and end of a step, ns; of the whole run without a phase; None when the run lacks the step."""
    if phase is not None:
        steps = [s for s in run.meta["steps"] if (s["phase"], s["step"]) == (phase, number)]
        return (steps[0]["start_ns"], steps[0]["end_ns"]) if steps else None
    start, end = ledger.intervals(run.table)
    good = ledger.usable(run.table)
    return (int(start[good].min()), int(end[good].max())) if good.any() else None


def panel(run: Run, side: SideName, step: tuple[int, int], axis: tuple[int, int]) -> Panel:
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


def _caption(p: Panel) -> str:
    what = f"{p.name.upper()}: {_said(p)}"
    if p.single:
        return f"{what}, drawn one by one; those that overlap on a stream have rows of their own (+1, +2 …)."
    return (
        f"{what}, too many or too narrow to be drawn one by one: shown as busy shares of {BINS} bins. "
        "Show a smaller part of the step to see each kernel."
    )


def _alt(panels: list[Panel], number: int | None) -> str:
    what = "the runs" if number is None else f"step {number}"
    return f"Timeline of {what}, streams by time: " + "; ".join(
        f"{p.name.upper()} {_said(p)}" for p in panels
    )


def _said(p: Panel) -> str:
    return f"{p.table.num_rows:,} kernels in {duration(p.shown_ns)}"
