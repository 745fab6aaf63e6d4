"""Roofline: how near each op comes to what its GPU could do, A and B joined by shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import streamlit as st

from dashboard import charts
from dashboard.format import duration, markdown, percent
from dashboard.pair import SIDES
from dashboard.roofline_figure import MOST, figure, placed
from traces.analysis.breakdown import steps_of
from traces.analysis.pairing import join
from traces.analysis.points import points
from traces.analysis.roofline import find
from traces.analysis.roofs import roofs
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dashboard.pair import Pair, SideName
    from traces.analysis.pairing import Joined
    from traces.analysis.points import Point, Points
    from traces.analysis.roofs import Roof
    from traces.store import Run

AXES: Final = ("around the points", "whole roofline")
LAZY: Final = 1000
NAMED: Final = 5  # categories without known work that are named
SEEN: Final = 0.0005  # smaller shares print as 0.0 %
BY: Final = ("category", "op", "shape")


class Side(NamedTuple):
    """What one run brings to the view."""

    name: SideName
    run: Run
    found: Points
    roofs: list[Roof]
    steps: int


def show(pair: Pair) -> None:
    """Draw the view."""
    sides = [side(pair, name) for name in SIDES]
    a, b = sides
    if not any(s.found.points for s in sides):
        on_cpu = all(s.run.meta["device"].get("type") == "cpu" for s in sides)
        st.info(
            "Work is counted of GPU kernels, not of CPU operators: a CPU run has no roofline."
            if on_cpu
            else "No row of either run has known work (FLOPs or bytes). Profile with record_shapes=True, "
            "as our own captures do; docs/work.md says of which ops work is known."
        )
        pair.cli("compare", "category")
        return
    joined = join(a.found.points, b.found.points)
    st.markdown(f"#### {markdown(headline(sides), 600)}")
    if any(placed(s.found.points) for s in sides):
        chosen = st.segmented_control(
            "Axes", AXES, default=AXES[0], required=True, key="axes", bind="query-params"
        )
        drawn = figure(
            {s.name: s.found for s in sides}, joined, {s.name: s.roofs for s in sides},
            whole=chosen == AXES[1],
        )  # fmt: skip
        charts.draw(drawn, "roofline", _alt(sides))
        st.caption(
            "○ A, ◇ B; an arrow joins the same work in A and B; area by share of the busy time. The time of "
            "a call includes the kernels that help it (split-K reductions, memsets before it)."
        )
    else:
        st.info("No op has both FLOPs and bytes known, so none has a place on the chart: see the table.")
    for line in notes(sides, joined):
        st.caption(markdown(line, 800))
    st.dataframe(
        table(joined, a, b), hide_index=True, column_config=COLUMNS, lazy=len(joined) > LAZY,
        alt="Ops by shape in A and B: time per call, rates and share of the roofline",
    )  # fmt: skip
    st.caption("On the command line, kernels that help others are rows of their own.")
    for s in sides:
        pair.cli("show", *BY, sides=(s.name,))


def side(pair: Pair, name: SideName) -> Side:
    """One run's points, roofs and number of steps."""
    run = pair.run(name)
    entry = pair.entries[name]
    found = _points(str(entry.path), entry.stamp, pair.phase, run)
    steps = len(steps_of(run, pair.phase)) if pair.phase is not None else 1
    return Side(name, run, found, roofs(run, {p.dtype for p in found.points if p.flops}), steps)


@st.cache_resource(max_entries=16, show_spinner=False)
def _points(path: str, stamp: object, phase: str | None, _run: Run) -> Points:
    return points(_run, phase)


def reached(found: Points) -> float | None:
    """The least possible time over the time taken, of all points that have a roof (0..1)."""
    known = [p for p in found.points if p.floor_ns is not None]
    time = sum(p.work_ns for p in known)
    return sum(p.floor_ns or 0 for p in known) / time if time else None


def above_roof(p: Point | None, steps: int) -> float | None:
    """How much longer than the least possible time it takes, ns per step: what fixing it could win."""
    return (p.work_ns - p.floor_ns) / steps if p is not None and p.floor_ns is not None else None


def headline(sides: Sequence[Side]) -> str:
    """`A reaches 71.2 % of its roofline, B 75.0 %. Most to win in B: kernelgap::linear M2 N4096 …`."""
    shares = {s.name.upper(): reached(s.found) for s in sides}
    told = [f"{n} {'unknown (no peak rates)' if v is None else percent(v)}" for n, v in shares.items()]
    text = f"Of the roofline, kernels with known work reach: {', '.join(told)}."
    if all(v is None for v in shares.values()):
        return "No peak rates are known of these devices: rates only."
    b = sides[-1]
    most = max(b.found.points, key=lambda p: above_roof(p, b.steps) or 0, default=None)
    if most is not None and (left := above_roof(most, b.steps)) and left > 0:
        what = f"{plain(most.op or most.category, 60)} {plain(most.shape, 60)}"
        per = " per step" if b.steps > 1 or any(s.steps > 1 for s in sides) else ""
        text += f" Most to win in B: {what}, {duration(left)}{per} above the roof."
    return text


def notes(sides: Sequence[Side], joined: Sequence[Joined]) -> list[str]:
    """What the numbers rest on and what they leave out."""
    out = _whose_roofs(sides)
    out += [_coverage(s) for s in sides]
    unlike = sum(1 for j in joined if j.a and j.b and not j.same_work)
    if unlike:
        what = "1 op has" if unlike == 1 else f"{unlike} ops have"
        out.append(
            f"{what} the same shape in both runs, but work that differs by more than 5 % per call (attention "
            "over a whole masked cache, or over its used part): no arrow, the rates do not compare."
        )
    return out + _above(sides)


def _whose_roofs(sides: Sequence[Side]) -> list[str]:
    told = []
    for s in sides:
        name = s.run.meta["device"].get("name")
        known = find(name)
        if s.roofs:
            rates = ", ".join(r.said for r in s.roofs)
            told.append(f"{known.name if known else name}: {rates} ({s.roofs[0].source})")
        else:
            told.append(
                f"No peak rates are known of {name or 'a device without a name'}: no roof, rates only"
            )
    if told[0] == told[1]:
        return [f"Roofs, dense rates. {told[0]}."]
    return [f"Roofs of {s.name.upper()}, dense rates. {text}." for s, text in zip(sides, told, strict=True)]


def _coverage(s: Side) -> str:
    """How much of the busy time is in the chart, in the table alone, and nowhere."""
    found = s.found
    on = placed(found.points)
    off = [p for p in found.points if p not in on]
    kinds = f"{s.name.upper()}: {len(on[:MOST])} ops by shape on the chart"
    text = f"{kinds}, {percent(_share(found, on[:MOST]))} of the busy time"
    if rest := on[MOST:]:
        text += f"; {len(rest)} smaller ones, {percent(_share(found, rest))}, only in the table"
    if off:
        text += f"; {len(off)} of which only bytes or only FLOPs are known, {percent(_share(found, off))}"
        text += ", only in the table"
    if found.unknown:
        lost = percent(found.share(sum(found.unknown.values())))
        shown = [(k, ns) for k, ns in found.unknown.items() if found.share(ns) >= SEEN][:NAMED]
        named = [f"{'of no category' if k is None else k} {percent(found.share(ns))}" for k, ns in shown]
        more = f", {len(found.unknown) - len(shown)} more" if len(found.unknown) > len(shown) else ""
        text += f"; without known work {lost} ({', '.join(named)}{more})"
    return f"{text}."


def _share(found: Points, some: Sequence[Point]) -> float:
    return found.share(sum(p.exclusive_ns for p in some))


def _above(sides: Sequence[Side]) -> list[str]:
    """Why a rate can pass the roof, where one does."""
    over = [p for s in sides for p in s.found.points if (p.roofline or 0) > 1]
    if not over:
        return []
    what = "1 op is" if len(over) == 1 else f"{len(over)} ops are"
    return [
        f"{what} above 100 %: operands that the L2 cache still held, not device memory; of FLOPs, "
        "work that the kernel skipped, a faster dtype than its shape says, or a ceiling measured too low."
    ]


_US: Final = st.column_config.NumberColumn(format="%.2f")
_RATE: Final = st.column_config.NumberColumn(format="%.1f")
COLUMNS: Final = {
    "op": st.column_config.TextColumn(width="medium"),
    "FLOP/byte": st.column_config.NumberColumn(format="%.4g"),
    **{f"{s} n": st.column_config.NumberColumn(format="%d", help="Calls in the phase") for s in "AB"},
    "A µs": _US, "B µs": _US, "B − A µs": st.column_config.NumberColumn(format="%+.2f"),
    **{f"{s} {n}": _RATE for s in "AB" for n in ("GB/s", "TFLOP/s", "% of roof", "% busy")},
    **{
        f"{s} above roof": st.column_config.NumberColumn(
            format="%.1f", help="µs per step beyond the least possible time: what a perfect kernel would win"
        )
        for s in "AB"
    },
}  # fmt: skip


def table(joined: Sequence[Joined], a: Side, b: Side) -> pa.Table:
    """One row for each op and shape: µs per call, rates, shares in percent; null where not known."""

    def both(of: str) -> dict[str, pa.Array]:
        return {
            f"{s.name.upper()} {of}": pa.array(
                [_number(j[i], s, of) for j in joined], pa.int64() if of == "n" else pa.float64()
            )
            for i, s in enumerate((a, b))
        }

    delta = [(j.b.call_ns - j.a.call_ns) / 1e3 if j.a and j.b and j.same_work else None for j in joined]
    some = [j.a or j.b for j in joined]
    return pa.table(
        {
            "op": pa.array([_ops(j) for j in joined], pa.string()),
            "shape": pa.array([_text(p.shape if p else None) for p in some], pa.string()),
            "category": pa.array([_text(p.category if p else None) for p in some], pa.string()),
            "FLOP/byte": pa.array([p.intensity if p else None for p in some], pa.float64()),
            **both("n"), **both("µs"), "B − A µs": pa.array(delta, pa.float64()),
            **both("% of roof"), **both("above roof"), **both("TFLOP/s"), **both("GB/s"), **both("% busy"),
        }
    )  # fmt: skip


def _text(name: str | None) -> str | None:
    return plain(name, 200) if name else None


def _ops(j: Joined) -> str:
    names = dict.fromkeys(plain(p.op or "(no op)", 200) for p in j if p is not None)
    return " → ".join(names)


def _number(p: Point | None, s: Side, of: str) -> float | int | None:
    if p is None:
        return None
    above, reached_share = above_roof(p, s.steps), p.roofline
    return {
        "n": p.n, "µs": p.call_ns / 1e3, "TFLOP/s": p.tflops, "GB/s": p.gb_per_s,
        "% of roof": None if reached_share is None else 100 * reached_share,
        "above roof": None if above is None else above / 1e3,
        "% busy": 100 * s.found.share(p.exclusive_ns),
    }[of]  # fmt: skip


def _alt(sides: Sequence[Side]) -> str:
    told = []
    for s in sides:
        parts = [
            f"{plain(p.op, 40)} {plain(p.shape, 40)} {p.tflops:,.1f} TFLOP/s, {percent(p.roofline)} of roof"
            for p in placed(s.found.points)[:5]
        ]
        told.append(f"{s.name.upper()} {'; '.join(parts) or 'no points'}")
    return "Roofline, arithmetic intensity against TFLOP/s. " + ". ".join(told)
