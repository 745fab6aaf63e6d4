"""Idle: why the device waits, for how long, and where, in A and in B."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import streamlit as st

from dashboard import charts, idle_figures
from dashboard.format import duration, markdown, percent
from dashboard.idle_figures import NAMES, Side
from dashboard.pair import SIDES
from dashboard.timeline.address import WHOLE
from traces.analysis import shares
from traces.analysis.breakdown import steps_of
from traces.analysis.delays import delays
from traces.analysis.idle import CAUSES, MEANING, by_cause, counted_windows, longest, pieces
from traces.analysis.overlap import overlaps
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dashboard.pair import Pair, SideName
    from traces.store import Run

    Int64s = NDArray[np.int64]

MOST: Final = 50  # gaps that are listed
_ROOM_NS: Final = 5_000  # a linked window shows so much beside a gap, at least
_NAME: Final = 300


def show(pair: Pair) -> None:
    """Draw the view."""
    sides = [side(pair, name) for name in SIDES]
    st.markdown(f"#### {markdown(headline(sides), 600)}")
    st.caption(markdown(" ".join(unprofiled(pair, sides)), 800))
    if any(s.cut.idle_ns for s in sides):
        charts.draw(idle_figures.causes(sides), "causes", _alt(sides))
    for s in sides:
        st.caption(markdown(ledger_line(s), 800))
    _meanings(sides)
    _histograms(sides)
    if any(len(s.overlaps) > 1 or any(o.exposed_ns + o.hidden_ns for o in s.overlaps) for s in sides):
        _communication(sides)
    _gaps(pair, sides)
    pair.cli("compare", "category")


def side(pair: Pair, name: SideName) -> Side:
    """One run's idle pieces, launch delays and overlap over the steps that means are taken over."""
    entry = pair.entries[name]
    return _side(str(entry.path), entry.stamp, name, pair.phase, pair.run(name))


@st.cache_resource(max_entries=16, show_spinner=False)
def _side(path: str, stamp: object, name: SideName, phase: str | None, _run: Run) -> Side:
    windows, steps = counted_windows(_run, phase)
    return Side(
        name, _run, phase, pieces(_run, windows), delays(_run, windows), overlaps(_run, windows), steps
    )


def headline(sides: Sequence[Side]) -> str:
    """`Idle per step: A 164.70 µs of 4.93 ms (3.3 %), 98.8 % of it host-bound; B …`."""
    told = []
    for s in sides:
        idle, span = s.cut.idle_ns / s.steps, s.cut.span_ns / s.steps
        text = f"{s.title} {duration(idle)} of {duration(span)}"
        if idle:
            first = by_cause(s.cut)[0]
            text += (
                f" ({percent(idle / span)}), {percent(first.ns / s.cut.idle_ns)} of it {NAMES[first.name]}"
            )
        told.append(text)
    whole = all(s.phase is None for s in sides)
    return f"Idle {'in the whole run' if whole else 'per step'}, under the profiler: {'; '.join(told)}."


def unprofiled(pair: Pair, sides: Sequence[Side]) -> list[str]:
    """What the same steps are without a profiler, which stretches the gaps; the causes are the trace's."""
    out = []
    for s in sides:
        found = shares.shares(s.run, pair.phase) if pair.phase is not None else None
        if found is None or found.basis != "unprofiled":
            out.append(f"{s.title} was not timed without a profiler, which stretches gaps.")
            continue
        share = found.parts[shares.IDLE]
        text = f"Without a profiler a step of {s.title} takes {duration(found.wall_ns)}"
        if share < 0:
            out.append(f"{text}, less than its kernels take under one: its gaps are the profiler's.")
        else:
            out.append(f"{text}, {duration(share * found.wall_ns)} ({percent(share)}) of it idle.")
    return out


def ledger_line(s: Side) -> str:
    """The sums in whole ns, as they add up."""
    parts = " + ".join(f"{NAMES[c.name]} {c.ns:,}" for c in by_cause(s.cut)) or "0"
    over = f" over {len(s.cut.devices)} devices" if len(s.cut.devices) > 1 else ""
    return (
        f"{s.title}, {s.counted}{over}: busy {s.cut.busy_ns:,} + idle {s.cut.idle_ns:,} = "
        f"span {s.cut.span_ns:,} ns; idle = {parts} ns in {len(s.cut.cause):,} gaps."
    )


def _meanings(sides: Sequence[Side]) -> None:
    found = dict.fromkeys(c.name for s in sides for c in by_cause(s.cut))
    if found:
        with st.expander("What the causes mean"):
            st.markdown("  \n".join(f"**{NAMES[c]}** (`{c}`): {markdown(MEANING[c], 200)}" for c in found))


def _histograms(sides: Sequence[Side]) -> None:
    left, right = st.columns(2)
    with left:
        st.markdown("**Idle time by length of the gap**")
        if any(len(s.cut.cause) for s in sides):
            charts.draw(idle_figures.lengths(sides), "lengths", _lengths_alt(sides))
            st.caption(_quartiles([(f"{s.title} gaps", s.cut.ns) for s in sides]))
        else:
            st.caption("No gap in either run.")
    with right:
        st.markdown("**From launch to start**")
        if any(len(s.delays.launches) + len(s.delays.graphs) for s in sides):
            charts.draw(idle_figures.launches(sides), "delays", _delays_alt(sides))
        st.caption(" ".join(delay_line(s) for s in sides))


def delay_line(s: Side) -> str:
    """What the histogram of launch delays counts and what it leaves out."""
    found = s.delays
    named = [(f"{s.title} launches", found.launches), (f"{s.title} graph replays", found.graphs)]
    text = _quartiles([(n, v) for n, v in named if len(v)])
    rest = [
        f"{n:,} {what}"
        for n, what in (
            (found.inside, "other kernels of replays wait for each other, not for a launch"),
            (found.unknown, "rows without a launch in the trace"),
            (found.negative, "rows that start before their launch (the clocks disagree)"),
        )
        if n
    ]
    if not text and not rest:
        return f"{s.title}: no rows."
    return f"{text}{f' Left out of {s.title}: ' + '; '.join(rest) + '.' if rest else ''}"


def _quartiles(series: Sequence[tuple[str, Int64s]]) -> str:
    told = []
    for name, values in series:
        if len(values):
            low, middle, high = (duration(float(np.percentile(values, q))) for q in (5, 50, 95))
            told.append(f"{name}: n = {len(values):,}, median {middle}, 5 to 95 %: {low} to {high}.")
    return " ".join(told)


def _communication(sides: Sequence[Side]) -> None:
    st.subheader("Devices and communication")
    charts.draw(idle_figures.devices(sides), "devices", _devices_alt(sides))
    st.caption(
        "Hidden: other work of the same device ran at the same time. Exposed: nothing else did. "
        "The parts of each bar add up to the step."
    )


def _gaps(pair: Pair, sides: Sequence[Side]) -> None:
    st.subheader("Longest gaps")
    chosen = st.segmented_control(
        "Run", ["A", "B"], default="B", required=True, key="idle_side", bind="query-params"
    )
    s = sides[0 if chosen == "A" else 1]
    if not len(s.cut.cause):
        st.info(f"{s.title} is never idle in these steps.")
        return
    rows = longest(s.cut, MOST)
    found = gaps(pair, s, rows)
    part = s.cut.ns[rows].sum() / s.cut.idle_ns
    st.caption(f"{len(rows):,} of {len(s.cut.cause):,} gaps, {percent(part)} of the idle time of {s.title}.")
    st.dataframe(
        found, hide_index=True, height=420, column_config=COLUMNS,
        alt=f"The longest gaps of {s.title}: when, how long, why, between which kernels",
    )  # fmt: skip
    st.markdown(f"[Longest gap of {s.title} in the timeline]({found['timeline'][0].as_py()})")


_US: Final = st.column_config.NumberColumn(format="%.2f")
COLUMNS: Final = {
    "step": st.column_config.NumberColumn(format="%d"),
    "at µs": st.column_config.NumberColumn(format="%.2f", help="Since the start of the step"),
    "idle µs": _US,
    "launched µs": st.column_config.NumberColumn(
        format="%+.2f", help="Begin of the next kernel's launch, since the device became idle: + is late"
    ),
    "kernel before": st.column_config.TextColumn(width="medium"),
    "kernel after": st.column_config.TextColumn(width="medium"),
    "timeline": st.column_config.LinkColumn(display_text="open", width="small"),
}  # fmt: skip


def gaps(pair: Pair, s: Side, rows: Int64s) -> pa.Table:
    """The gaps for the page: times in µs, names as plain text, a link to each in the timeline."""
    cut, table = s.cut, s.run.table
    before, after = cut.before[rows], cut.after[rows]
    starts, ends = cut.start_ns[rows].tolist(), cut.end_ns[rows].tolist()
    tiles = [_tile(s.run, pair.phase, at) for at in starts]
    launched = _picked(table, "launch_start_ns", after)

    def names(column: str, of: Int64s) -> pa.Array:
        return pa.array(
            [None if v is None else plain(v, _NAME) for v in _picked(table, column, of)], pa.string()
        )

    where = {}
    if len(cut.devices) > 1:
        told = [" ".join(str(v) for v in d if v is not None) for d in cut.devices]
        where["device"] = pa.array([told[d] for d in cut.device[rows]], pa.string())
    return pa.table(
        {
            "step": pa.array([t[0] for t in tiles], pa.int64()), **where,
            "at µs": pa.array([(a - t[1]) / 1e3 for a, t in zip(starts, tiles, strict=True)]),
            "idle µs": pa.array([(e - a) / 1e3 for a, e in zip(starts, ends, strict=True)]),
            "cause": pa.array([NAMES[CAUSES[c]] for c in cut.cause[rows]]),
            "launched µs": pa.array(
                [None if x is None else (x - a) / 1e3 for x, a in zip(launched, starts, strict=True)],
                pa.float64(),
            ),
            "kernel before": names("name", before), "kernel after": names("name", after),
            "module": names("module", after),
            "timeline": pa.array(
                [link(pair, t, a, e) for t, a, e in zip(tiles, starts, ends, strict=True)], pa.string()
            ),
        }
    )  # fmt: skip


def link(pair: Pair, tile: tuple[int | None, int], start: int, end: int) -> str:
    """The page's address with the timeline on this gap and as much beside it, ns since the step's start."""
    number, opens = tile
    room = max(end - start, _ROOM_NS)
    window = f"{max(start - opens - room, 0)}..{end - opens + room}"
    address = {"a": pair.entries["a"].label, "b": pair.entries["b"].label, "view": "Timeline"}
    address |= {} if pair.phase is None else {"phase": pair.phase}
    address["step"] = WHOLE if number is None else str(number)
    return "?" + urlencode(address | {"window": window})


def _tile(run: Run, phase: str | None, at: int) -> tuple[int | None, int]:
    """The step in whose tile an instant lies, and where that begins; without a phase, where the run does."""
    if phase is None:
        return None, counted_windows(run, None)[0][0][0]
    inside = [s for s in steps_of(run, phase) if s["start_ns"] <= at < s["end_ns"]]
    return inside[0]["step"], inside[0]["start_ns"]


def _picked(table: pa.Table, column: str, rows: Int64s) -> list[object]:
    """A column's values of rows, None for row -1."""
    index = pa.array(rows, mask=rows < 0)
    found: list[object] = table[column].take(index).to_pylist()
    return found


def _alt(sides: Sequence[Side]) -> str:
    told = [
        f"{s.title}: " + ", ".join(f"{NAMES[c.name]} {duration(c.ns / s.steps)}" for c in by_cause(s.cut))
        for s in sides
    ]
    return "Bars of idle time per step by cause. " + ". ".join(told)


def _lengths_alt(sides: Sequence[Side]) -> str:
    return "Idle time by length of the gap. " + _quartiles([(f"{s.title} gaps", s.cut.ns) for s in sides])


def _delays_alt(sides: Sequence[Side]) -> str:
    return "Number of launches by the time from launch to start. " + " ".join(delay_line(s) for s in sides)


def _devices_alt(sides: Sequence[Side]) -> str:
    told = [
        f"{idle_figures.where(s, o)}: exposed {duration(o.exposed_ns / s.steps)}, hidden "
        f"{duration(o.hidden_ns / s.steps)}, idle {duration(o.idle_ns / s.steps)}"
        for s in sides
        for o in s.overlaps
    ]
    return "Communication per device and step. " + "; ".join(told[:16])
