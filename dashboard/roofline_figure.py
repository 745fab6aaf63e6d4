"""The roofline chart: roofs of both devices, points of A and B, arrows from A to B."""

from __future__ import annotations

from math import log10, sqrt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import plotly.graph_objects as go

from dashboard import charts
from dashboard.format import NONE, label, percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dashboard.pair import SideName
    from traces.analysis.pairing import Joined
    from traces.analysis.points import Point, Points
    from traces.analysis.roofs import Roof

MOST: Final = 300  # points of each run, those with most time: more would cover each other
SYMBOLS: Final[dict[SideName, str]] = {"a": "circle-open", "b": "diamond"}
_ROOM: Final = (1.9, 1.3)  # the axes go so many times beyond the outermost points, x and y
_LEAST_PX: Final = 7
_MOST_PX: Final = 30
_HEIGHT: Final = 520
_LABELS: Final = 7  # the ops with most time are named on the chart
_LINE_PX: Final = 17
_ARROWS: Final = 40
_FINE: Final = 300  # axes that span less have ticks at 2 and 5 too


class Axes(NamedTuple):
    """The part of the plane that is shown: FLOP/byte and TFLOP/s, from and to."""

    x: tuple[float, float]
    y: tuple[float, float]


def placed(points: Iterable[Point]) -> list[Point]:
    """The points that have a place: FLOPs and bytes both known and not zero."""
    return [p for p in points if p.intensity and p.tflops]


def figure(
    found: dict[SideName, Points], joined: Sequence[Joined], roofs: dict[SideName, list[Roof]], *, whole: bool
) -> go.Figure:
    """Log-log, arithmetic intensity against rate; `whole` shows the roofs' ridges too, else just the points.

    Without any point to place there is nothing to draw: call it only if `placed` has one.
    """
    shown = {side: placed(found[side].points)[:MOST] for side in SYMBOLS}
    axes = extent([p for ps in shown.values() for p in ps], [r for rs in roofs.values() for r in rs], whole)
    out = go.Figure()
    highest = max((r.rate for rs in roofs.values() for r in rs if r.dtype is None), default=0.0)
    for who, lines in _distinct(roofs).items():
        _roofs(out, who, lines, axes, highest)
    for side, points in shown.items():
        for group in (g for g in charts.ORDER if any(_group(p) == g for p in points)):
            _markers(out, side, group, [p for p in points if _group(p) == group], found[side])
    _arrows(out, joined)
    _labels(out, joined, axes)
    for name, edges in (("x", axes.x), ("y", axes.y)):
        axis = {"type": "log", "range": [log10(e) for e in edges], "showgrid": True,
                "dtick": "D2" if edges[1] < _FINE * edges[0] else 1}  # fmt: skip
        out.update_layout({f"{name}axis": axis})
    out.update_layout(
        height=_HEIGHT,
        xaxis_title="arithmetic intensity, FLOP/byte",
        yaxis_title="TFLOP/s",
        hovermode="closest",
    )
    return out


def extent(points: Sequence[Point], roofs: Sequence[Roof], whole: bool) -> Axes:
    """The axes: around the points, and with `whole` up to the roofs and beyond their ridges."""
    x = [float(p.intensity or 1) for p in points]
    y = [float(p.tflops or 1) for p in points]
    memory = [r.rate for r in roofs if r.dtype is None]
    compute = [r.rate for r in roofs if r.dtype is not None]
    if whole and memory and compute:
        x.append(max(compute) / min(memory) * 2)
        y.append(max(compute) / 1e12)
    elif memory:  # the roof above the points is part of the picture
        y.append(min(max(memory) * max(x), max(compute, default=float("inf"))) / 1e12)
    across, up = _ROOM
    return Axes((min(x) / across, max(x) * across), (min(y) / up, max(y) * up))


def hover(p: Point, side: SideName, found: Points) -> str:
    """What a point says when it is pointed at."""
    bound = "" if p.roofline is None else f" · {percent(p.roofline)} of its roof"
    helpers = f", with {p.helpers:,} helping kernels" if p.helpers else ""
    gb, rate = (NONE if v is None else f"{v:,.1f}" for v in (p.gb_per_s, p.tflops))
    lines = [
        f"<b>{side.upper()} {label(p.op or p.category, 60)}</b>", label(p.shape, 80),
        f"{p.call_ns / 1e3:,.2f} µs per call, n = {p.n:,}{helpers}",
        f"{rate} TFLOP/s · {gb} GB/s{bound}",
        f"{percent(found.share(p.exclusive_ns))} of the busy time · {p.intensity or 0:,.4g} FLOP/byte",
    ]  # fmt: skip
    return "<br>".join(lines)


def _group(p: Point) -> str:
    return p.group if p.group in charts.ORDER else "other"


def _distinct(roofs: dict[SideName, list[Roof]]) -> dict[str, list[Roof]]:
    """Equal roofs of both devices are drawn once, with no name."""
    both = set(roofs["a"]) & set(roofs["b"])
    return {
        "": [r for r in roofs["a"] if r in both],
        "A ": [r for r in roofs["a"] if r not in both],
        "B ": [r for r in roofs["b"] if r not in both],
    }


def _roofs(out: go.Figure, who: str, roofs: Sequence[Roof], axes: Axes, highest: float) -> None:
    """The lines of one device's roofs; `highest` is the largest bandwidth of all, whose name stands above."""
    top = max((r.rate for r in roofs if r.dtype is not None), default=float("inf"))
    slope = max((r.rate for r in roofs if r.dtype is None), default=float("inf"))
    for roof in roofs:
        rate = roof.rate / 1e12
        if roof.dtype is None:
            x = [axes.x[0], min(axes.x[1], top / roof.rate)]
            y = [rate * e for e in x]
            tag = _tag(x[0], min(axes.y[1] / rate, x[1]))
            at, above = (tag, rate * tag), roof.rate == highest
            anchor = "right" if above else "left"
        else:
            x = [max(axes.x[0], roof.rate / slope), axes.x[1]]
            y = [rate, rate]
            at, above, anchor = (axes.x[1], rate), not roof.measured, "right"
        if x[0] >= x[1] or not axes.y[0] < at[1] < axes.y[1]:
            continue
        out.add_scatter(
            x=x, y=y, mode="lines", showlegend=False, hoverinfo="skip",
            line={"color": charts.TOTAL, "width": 2, "dash": "dash" if roof.measured else "solid"},
        )  # fmt: skip
        out.add_annotation(
            x=log10(at[0]), y=log10(at[1]), text=label(f"{who}{roof.said}"), showarrow=False,
            yshift=11 if above else -11, xanchor=anchor, font={"size": 12},
        )  # fmt: skip


def _tag(low: float, high: float, share: float = 0.3) -> float:
    """A place between two on a log axis."""
    return float(low * (high / low) ** share) if high > low else low


def _markers(out: go.Figure, side: SideName, group: str, points: Sequence[Point], found: Points) -> None:
    out.add_scatter(
        name=f"{side.upper()} {group}", mode="markers", x=[p.intensity for p in points],
        y=[p.tflops for p in points], customdata=[hover(p, side, found) for p in points],
        hovertemplate="%{customdata}<extra></extra>",
        marker={
            "symbol": SYMBOLS[side], "color": charts.colour(group), "opacity": 0.9,
            "size": [_LEAST_PX + _MOST_PX * sqrt(found.share(p.exclusive_ns)) for p in points],
            "line": {"width": 2.5 if side == "a" else 0},
        },
    )  # fmt: skip


def _labels(out: go.Figure, joined: Sequence[Joined], axes: Axes) -> None:
    """Shape and share of the roof of the ops with most time, beside their points, none over another."""
    low, high = (log10(e) for e in axes.y)
    border = log10(_tag(*axes.x, 0.6))  # text to the right of points beyond it would leave the chart
    named = [j for j in joined if placed(p for p in j if p)][:_LABELS]
    spots = [(_spot(j), _told(j)) for j in named]
    for left in (False, True):
        mine = sorted((s for s in spots if (s[0][0] > border) == left), key=lambda s: -s[0][1])
        free = float("inf")  # downwards: above the points are the roofs
        for (x, y), text in mine:
            at = (y - low) / (high - low) * _HEIGHT
            free = min(at, free - _LINE_PX)
            out.add_annotation(
                x=x, y=y, ax=-45 if left else 45, ay=at - free, text=text,
                xanchor="right" if left else "left",
                arrowhead=0, arrowwidth=0.8, arrowcolor=charts.TOTAL, standoff=4, font={"size": 12},
            )  # fmt: skip


def _spot(j: Joined) -> tuple[float, float]:
    """B's place in the chart, or A's where B has none, as logarithms."""
    p = placed(p for p in (j.b, j.a) if p)[0]
    return log10(p.intensity or 1), log10(p.tflops or 1)


def _told(j: Joined) -> str:
    """`M2 N4096 K4096 50 → 62 %`: A's share of the roof, then B's; `A 14, B 7 %` if not of the same work."""
    text = label(next(p.shape or p.op or "" for p in j if p), 34)
    named = zip("AB", j, strict=True)
    shares = {n: f"{100 * p.roofline:.0f}" for n, p in named if p is not None and p.roofline is not None}
    if not shares:
        return text
    if j.same_work and len(shares) == 2:
        return f"{text} <b>{' → '.join(shares.values())} %</b>"
    return f"{text} <b>{', '.join(f'{n} {v}' for n, v in shares.items())} %</b>"


def _arrows(out: go.Figure, joined: Sequence[Joined]) -> None:
    """From A to B, where both did the same work."""
    drawn: list[dict[str, Any]] = []
    for pair in joined:
        a, b = pair
        if a is None or b is None or not pair.same_work or len(placed([a, b])) < 2:
            continue
        drawn.append(
            {
                "x": log10(b.intensity or 1), "y": log10(b.tflops or 1), "ax": log10(a.intensity or 1),
                "ay": log10(a.tflops or 1), "axref": "x", "ayref": "y", "xref": "x", "yref": "y", "text": "",
                "showarrow": True, "arrowhead": 2, "arrowsize": 1.1, "arrowwidth": 1.6,
                "arrowcolor": charts.TOTAL,
            }
        )  # fmt: skip
    out.update_layout(annotations=[*out.layout.annotations, *drawn[:_ARROWS]])
