"""The charts of idle time: bars per cause, delays and gap lengths by logarithmic bins, parts per device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dashboard import charts
from dashboard.format import duration, label, percent
from traces.analysis.delays import log_bins
from traces.analysis.idle import CAUSES, by_cause

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dashboard.pair import SideName
    from traces.analysis.delays import Delays
    from traces.analysis.idle import Pieces
    from traces.analysis.overlap import Overlap
    from traces.store import Run

    Int64s = NDArray[np.int64]

# A and B, told apart by their hatching too; none is the colour of a group.
PAINT: Final[dict[SideName, dict[str, Any]]] = {
    "a": {"color": "#8A94A0"},
    "b": {
        "color": "#7B61C9",
        "pattern": {"shape": "/", "fillmode": "overlay", "fgcolor": "rgba(255,255,255,0.45)", "size": 7},
    },
}
NAMES: Final = {
    "host": "host-bound", "launch": "kernel wait", "graph": "inside a graph replay", "sync": "after a sync",
    "memcpy": "after a copy", "step_end": "between steps", "tail": "nothing left to run",
    "unknown": "launch unknown",
}  # fmt: skip


class Side(NamedTuple):
    """What one run brings to the view; means are per counted step."""

    name: SideName
    run: Run
    phase: str | None
    cut: Pieces
    delays: Delays
    overlaps: list[Overlap]
    steps: int

    @property
    def title(self) -> str:
        """`A`."""
        return self.name.upper()

    @property
    def counted(self) -> str:
        """What the sums are over: `n = 7 complete steps`."""
        if self.phase is None:
            return "the whole run"
        mine = [x for x in self.run.meta["steps"] if x["phase"] == self.phase]
        kind = "complete" if any(x["complete"] for x in mine) else "incomplete"
        return f"n = {self.steps} {kind} step{'' if self.steps == 1 else 's'}"


def causes(sides: Sequence[Side]) -> go.Figure:
    """A bar per cause, A above B, ms per step."""
    found = {s.name: {c.name: c for c in by_cause(s.cut)} for s in sides}

    def time(s: Side, cause: str) -> float:
        return found[s.name][cause].ns / s.steps if cause in found[s.name] else 0.0

    order = [c for c in CAUSES if any(c in of for of in found.values())]
    order.sort(key=lambda c: max(time(s, c) for s in sides))
    out = go.Figure()
    for s in reversed(sides):  # the first trace is drawn lowest
        mine = found[s.name]
        shares = [mine[c].ns / s.cut.idle_ns if c in mine else 0.0 for c in order]
        told = [
            f"{s.title} {duration(time(s, c))}, {percent(share)}" if c in mine else ""
            for c, share in zip(order, shares, strict=True)
        ]
        out.add_bar(
            name=s.title, orientation="h", y=[NAMES[c] for c in order], x=[time(s, c) / 1e6 for c in order],
            marker=PAINT[s.name], textposition="outside", cliponaxis=False, text=told,
            customdata=[f"{mine[c].n:,} gaps, {s.counted}" if c in mine else "" for c in order],
            hovertemplate="%{y}: %{text}, %{customdata}<extra></extra>", showlegend=False,
        )  # fmt: skip
    most = max(time(s, c) for s in sides for c in order) / 1e6
    out.update_layout(
        height=110 + 58 * len(order), barmode="group", bargap=0.25, xaxis_title=_per(sides, "idle"),
        xaxis_range=[0, most * 1.3],
    )  # fmt: skip
    return out


def _per(sides: Sequence[Side], what: str) -> str:
    return f"{what}, ms" if all(s.phase is None for s in sides) else f"{what}, ms per step"


def lengths(sides: Sequence[Side]) -> go.Figure:
    """How much idle time is in gaps of which length: ms per step."""
    out = go.Figure()
    _bars(out, [(s, s.cut.ns) for s in sides], lambda n, total, s: total / 1e6 / s.steps, "gaps")
    out.update_layout(
        height=330, bargap=0.15, yaxis_title=_per(sides, "idle"), xaxis_title="length of the gap, from"
    )
    return out


def launches(sides: Sequence[Side]) -> go.Figure:
    """How long after its launch a kernel starts: number of launches; graph replays below."""
    kinds = (
        ("launched one by one", [(s, s.delays.launches) for s in sides]),
        ("graph replays", [(s, s.delays.graphs) for s in sides]),
    )
    rows = [(title, series) for title, series in kinds if any(len(values) for _, values in series)]
    out = make_subplots(rows=len(rows), cols=1, shared_xaxes=False, vertical_spacing=0.3)
    for row, (title, series) in enumerate(rows, 1):
        _bars(out, series, lambda n, total, s: n, "launches", row=row, col=1, first=row == 1)
        out.update_yaxes(title_text=f"launches, {title}" if len(rows) == 1 else title, row=row, col=1)
    out.update_xaxes(title_text="time from launch to start, from", row=len(rows), col=1)
    out.update_layout(height=330 if len(rows) == 1 else 420, bargap=0.15)
    return out


def _bars(
    out: go.Figure, series: Sequence[tuple[Side, Int64s]], height: Callable[[int, int, Side], float],
    what: str, *, first: bool = True, **place: int,
) -> None:  # fmt: skip
    """Grouped bars over the same logarithmic bins, named by where each begins; `height(n, sum, side)`."""
    together = log_bins(np.concatenate([values for _, values in series]))
    names = [_edge(low) for low, *_ in together]
    for s, values in series:
        bins = {low: (n, total) for low, _, n, total in log_bins(values)}
        mine = [(low, high, *bins.get(low, (0, 0))) for low, high, *_ in together]
        out.add_bar(
            name=s.title, legendgroup=s.title, showlegend=first, x=names,
            y=[height(n, total, s) for _, _, n, total in mine], marker=PAINT[s.name],
            customdata=[
                f"{s.title}: {n:,} {what} of {_edge(low)} to {_edge(high)}, {duration(total)} together"
                for low, high, n, total in mine
            ],
            hovertemplate="%{customdata}<extra></extra>", **place,
        )  # fmt: skip
    out.update_xaxes(type="category", categoryorder="array", categoryarray=names, **place)


def _edge(ns: int) -> str:
    """`3.2 µs`: an edge of a bin, which is a rounded power of ten."""
    for size, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "µs")):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns} ns"


_PARTS: Final = (
    ("exposed communication", "exposed_ns", {"color": charts.colour("communication")}),
    ("hidden communication", "hidden_ns", {
        "color": charts.colour("communication"),
        "pattern": {"shape": "x", "fillmode": "overlay", "fgcolor": "rgba(0,0,0,0.45)", "size": 6},
    }),
    ("other work", "other_ns", {"color": charts.TOTAL}),
    ("idle", "idle_ns", {"color": charts.colour("idle"), "pattern": charts.hatch("idle")}),
)  # fmt: skip


def devices(sides: Sequence[Side]) -> go.Figure:
    """Per device: communication exposed and hidden, other work, idle; ms per step, adding up to the step."""
    rows = [(s, o, where(s, o)) for s in sides for o in s.overlaps]
    out = go.Figure()
    for name, field, paint in _PARTS:
        times = [getattr(o, field) / s.steps for s, o, _ in rows]
        spans = [o.span_ns / s.steps for s, o, _ in rows]
        out.add_bar(
            name=name, orientation="h", y=[label(n) for *_, n in rows], x=[t / 1e6 for t in times],
            marker=paint,
            text=[duration(t) if w and t / w > 0.08 else "" for t, w in zip(times, spans, strict=True)],
            textposition="inside", insidetextanchor="middle", textangle=0,
            customdata=[
                f"{duration(t)}, {percent(t / w if w else None)}" for t, w in zip(times, spans, strict=True)
            ],
            hovertemplate="%{y}, %{fullData.name}: %{customdata}<extra></extra>",
        )  # fmt: skip
    out.update_layout(
        barmode="stack", height=130 + 34 * len(rows), xaxis_title=_per(sides, "time"), bargap=0.25
    )
    out.update_yaxes(autorange="reversed")
    return out


def where(s: Side, o: Overlap) -> str:
    """`A rank 0 device 1`."""
    named = [f"{n} {v}" for n, v in (("rank", o.rank), ("device", o.device)) if v is not None]
    return " ".join([s.title, *named])
