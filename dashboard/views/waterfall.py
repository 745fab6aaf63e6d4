"""Gap waterfall: which parts make B's step longer or shorter than A's, adding up exactly."""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import plotly.graph_objects as go
import streamlit as st

from dashboard import charts
from dashboard.format import duration, label, markdown, signed
from dashboard.rows import NUMBERS, largest, rows_of, table
from dashboard.summary import noise
from dashboard.views import part
from traces.analysis import sentence
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dashboard.pair import Pair
    from dashboard.rows import Row

CHOICES: Final = {
    "module": ("module", "category"), "category": ("category",), "group": ("group",), "backend": ("backend",),
    "op": ("op",), "kernel name": ("name",),
}  # fmt: skip
BARS: Final = 14


def show(pair: Pair) -> None:
    """Draw the view."""
    options = [c for c in CHOICES if c != "module" or pair.has_modules]
    chosen = st.segmented_control(
        "Split by", options, default="category", required=True, key="by", bind="query-params",
        help="Modules of all layers are added up; kernel names differ between builds, so few match.",
    )  # fmt: skip
    by = CHOICES[chosen or "category"]
    result = pair.comparison(*by)
    rows = rows_of(result)
    says = sentence.headline(result)
    st.markdown(f"#### {markdown(says, 1000)}")
    for doubt in sentence.doubts(result):
        st.warning(markdown(doubt, 1000))
    st.caption(markdown(noise(result), 400))
    shown = largest(rows, BARS)
    charts.draw(
        bridge(shown, result.total), "waterfall", f"Waterfall from A to B. {plain(says, 1000)}",
        partial(part.pick, shown, "waterfall"),
    )  # fmt: skip
    rest = result.total["delta"] - sum(r.delta for r in rows)
    st.caption(
        f"A {duration(result.total['a'])} and all parts {signed(sum(r.delta for r in rows))} give "
        f"B {duration(result.total['b'])}; {rest} ns are left over. "
        f"{result.aligned_share * 100:.1f} % of the kernel time is in parts that both runs have, "
        f"aligned by {result.aligned_by}."
    )
    part.show(pair, by, shown, rows)
    st.subheader("Every part")
    st.dataframe(
        table(rows, result.total), hide_index=True, column_config=NUMBERS, lazy=len(rows) > 1000,
        alt="Every part of the difference, ms per step",
    )  # fmt: skip
    pair.cli("compare", *by)


def bridge(rows: Sequence[Row], total: dict[str, int]) -> go.Figure:
    """A on top, a step right (▲ slower) or left (▼ faster) per row, then B; ms per step.

    It lies on its side so that names and numbers stay readable on a narrow page.
    """
    levels = [total["a"], *accumulate((r.delta for r in rows), initial=total["a"])][1:]
    names = ["A", *(label(plain(r.name, 34), 200) for r in rows), "B"]
    figure = go.Figure()
    figure.add_bar(
        name="total", y=[0, len(rows) + 1], x=[total["a"] / 1e6, total["b"] / 1e6], marker_color=charts.TOTAL,
        text=[duration(total["a"]), duration(total["b"])], hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip
    for name, colour, mark, sign in (
        ("▲ slower in B", charts.SLOWER, "▲", 1), ("▼ faster in B", charts.FASTER, "▼", -1)
    ):  # fmt: skip
        mine = [(i, r) for i, r in enumerate(rows) if r.delta * sign > 0]
        figure.add_bar(
            name=name, y=[i + 1 for i, _ in mine], x=[r.delta / 1e6 for _, r in mine],
            base=[levels[i] / 1e6 for i, _ in mine], marker_color=colour,
            text=[f"{mark} {signed(r.delta)}" for _, r in mine],
            customdata=[[label(r.name), duration(r.a), duration(r.b)] for _, r in mine],
            hovertemplate="%{customdata[0]}<br>A %{customdata[1]}, B %{customdata[2]}<extra>%{text}</extra>",
        )  # fmt: skip
    axis = _range([*levels, total["a"], total["b"]])
    font = {"color": charts.TOTAL}  # a click chooses a bar; the others fade, but stay readable
    figure.update_traces(
        orientation="h", textposition="outside", textfont_size=12, constraintext="none", cliponaxis=False,
        width=0.7, textangle=0, selected={"marker": {"opacity": 1}, "textfont": font},
        unselected={"marker": {"opacity": 0.5}, "textfont": font},
    )  # fmt: skip
    figure.update_layout(height=110 + 26 * len(names), barmode="overlay")
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=names, range=[len(names) - 0.4, -0.6], showgrid=False
    )
    unit = "ms per step, not from zero" if axis[0] > 0 else "ms per step"
    figure.update_xaxes(range=axis, zeroline=False, title_text=unit)
    return figure


def _range(levels: Sequence[int]) -> list[float]:
    """An axis from zero, unless the steps would be too small to see: then it is cut below them."""
    low, high = min(levels) / 1e6, max(levels) / 1e6
    room = (high - low) * 0.3 or high * 0.1 or 1
    start = 0.0 if high - low > 0.25 * high else low - 2 * room
    return [min(start, low - room if low < 0 else start), high + room]
