"""Overview: how long a step takes in A and B, where it goes, what the runs are, and how far to trust them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

import streamlit as st

from dashboard import facts, health, summary
from dashboard.format import command, markdown
from dashboard.pair import SIDES
from dashboard.views import breakdown
from traces import store
from traces.analysis import sentence
from traces.export import chrome
from traces.text import plain

if TYPE_CHECKING:
    from dashboard.pair import Pair, SideName
    from dashboard.summary import Card


def show(pair: Pair) -> None:
    """Draw the view."""
    result = pair.comparison("category")
    st.markdown(f"#### {markdown(sentence.headline(result), 1000)}")
    for doubt in sentence.doubts(result):
        st.warning(markdown(doubt, 1000))
    with st.grid(5, min_column_width=220):
        for card in summary.cards(result):
            _card(card)
    st.caption(summary.basis(*(summary.figures(result, side) for side in SIDES)))
    st.caption(markdown(summary.noise(result), 400))
    _health(pair)
    st.subheader("Where the time goes")
    breakdown.show(pair)
    _runs(pair)
    st.subheader("Take it away")
    _downloads(pair)
    pair.cli("compare", "category")


def _card(card: Card) -> None:
    """B's value, its difference to A (orange when worse, blue when better, besides the sign), A's value."""
    colour: Literal["orange", "blue", "gray"] = "gray"
    if card.worse:
        colour = "orange" if card.worse > 0 else "blue"
    arrows: dict[str, Literal["up", "down"]] = {"+": "up", "−": "down"}
    with st.container(border=True, height="stretch", gap=None):
        st.metric(
            card.name, card.value, card.delta or None, delta_color=colour,
            delta_arrow=arrows.get(card.delta[:1], "off"), delta_description=card.base or None,
            help=card.help or None,
        )  # fmt: skip
        st.caption(card.noise)


def _health(pair: Pair) -> None:
    """One line that is always there for each run, and everything behind it."""
    lines = {side: health.line(pair.run(side)) for side in SIDES}
    for side, (fine, told) in lines.items():
        st.markdown(f"{'✓' if fine else '⚠'} Trace health of **{side.upper()}**: {markdown(told, 700)}")
    with st.expander("Trace health in full", key="health", on_change="rerun", bind="query-params"):
        for side, column in zip(SIDES, st.columns(2), strict=True):
            run = pair.run(side)
            said = [f"{'✓' if fine else '⚠'} {markdown(text, 400)}" for fine, text in health.lines(run)]
            column.markdown(f"**{side.upper()}** {markdown(run.title)}")
            column.markdown("  \n".join(said))


def _runs(pair: Pair) -> None:
    known = facts.facts(*(pair.run(side) for side in SIDES))
    apart = [r["fact"] for r in known.to_pylist() if r["differs"]]
    st.subheader("Runs")
    st.caption(markdown(f"They differ in {', '.join(apart)}." if apart else "They differ in nothing.", 600))
    st.dataframe(
        known, hide_index=True, height="content", alt="Facts of both runs, side by side",
        column_config={"differs": st.column_config.TextColumn(width="small")},
    )  # fmt: skip


def _downloads(pair: Pair) -> None:
    """Files for elsewhere; each is made only when it is asked for."""
    cells = st.columns(3)
    for cell, side in zip(cells, SIDES, strict=False):
        entry = pair.entries[side]
        cell.download_button(
            f"{side.upper()} for Perfetto", partial(_perfetto, pair, side),
            f"{store.slug(entry.path.stem)}.json", "application/json", on_click="ignore", width="stretch",
            help="Chrome JSON with every ns kept: open it in ui.perfetto.dev, which reads it in your browser",
        )  # fmt: skip
    cells[2].download_button(
        "This comparison as HTML",
        partial(_page, pair),
        "comparison.html",
        "text/html",
        on_click="ignore",
        width="stretch",
        help="One file of about 5 MB that needs no server and no network",
    )
    paths = [pair.entries[side].path for side in SIDES]
    lines = [command("export", [path], None, to="perfetto") for path in paths]
    lines.append(command("export", paths, pair.phase, to="html"))
    st.code("\n".join(plain(line, 2000) for line in lines), language="bash", wrap_lines=True)


def _perfetto(pair: Pair, side: SideName) -> bytes:
    return b"".join(chrome.export(pair.run(side)).text)


def _page(pair: Pair) -> bytes:
    from dashboard.report.content import build  # reads plotly.js, 5 MB

    return build(pair.run("a"), pair.run("b"), pair.phase).encode()
