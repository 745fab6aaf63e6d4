"""Breakdown: what a step's wall time is made of in A and in B, idle included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go
import streamlit as st

from dashboard import charts
from dashboard.format import duration, label, percent
from dashboard.rows import rows_of, table
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dashboard.pair import Pair
    from dashboard.rows import Row

NUMBERS = {
    **{n: st.column_config.NumberColumn(format="%.4f") for n in ("A ms", "B ms")},
    "B − A ms": st.column_config.NumberColumn(format="%+.4f"),
    **{n: st.column_config.NumberColumn(format="%.1f") for n in ("A %", "B %")},
}


def show(pair: Pair) -> None:
    """Draw it as a part of the overview."""
    groups = pair.comparison("group")
    parts = rows_of(groups)
    charts.draw(stacked(parts), "breakdown", _alt(parts, groups.total))
    result = pair.comparison("category")
    st.dataframe(
        table(rows_of(result), result.total), hide_index=True, height="content", column_config=NUMBERS,
        alt="Time of each category in A and B, ms per step",
    )  # fmt: skip
    st.caption(
        "Times are exclusive: kernels that overlap share the time equally, so rows and idle make the total."
    )


def stacked(parts: Sequence[Row]) -> go.Figure:
    """Two bars, A above B, ms per step, one colour per group in the fixed order, idle hatched."""
    figure = go.Figure()
    totals = [sum(p.b for p in parts), sum(p.a for p in parts)]
    for part in sorted(parts, key=lambda p: _place(p.group)):
        values = [part.b, part.a]
        shares = [v / t if t else 0.0 for v, t in zip(values, totals, strict=True)]
        figure.add_bar(
            name=label(part.group), orientation="h", y=["B", "A"], x=[v / 1e6 for v in values],
            marker={"color": charts.colour(part.group), "pattern": charts.hatch(part.group)},
            text=[duration(v) if s > 0.07 else "" for v, s in zip(values, shares, strict=True)],
            textposition="inside", insidetextanchor="middle", textangle=0,
            customdata=[f"{duration(v)}, {percent(s)}" for v, s in zip(values, shares, strict=True)],
            hovertemplate="%{fullData.name}: %{customdata}<extra>%{y}</extra>",
        )  # fmt: skip
    figure.update_layout(barmode="relative", height=250, xaxis_title="ms per step", bargap=0.25)
    return figure


def _place(group: str) -> int:
    return charts.ORDER.index(group) if group in charts.ORDER else len(charts.ORDER) - 1


def _alt(parts: Sequence[Row], total: dict[str, int]) -> str:
    said = [
        f"{name}, {duration(total[side])}: "
        + ", ".join(f"{plain(p.group)} {duration(getattr(p, side))}" for p in parts if getattr(p, side))
        for name, side in (("A", "a"), ("B", "b"))
    ]
    return "Stacked bars of a step's time by group. " + ". ".join(said)
