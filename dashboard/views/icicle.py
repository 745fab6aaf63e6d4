"""Icicle: what a step's wall time is made of, from the phase down to the kernel, in A and in B."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import plotly.graph_objects as go
import pyarrow as pa
import streamlit as st

from dashboard import charts, drill
from dashboard.format import NONE, duration, label, markdown, percent
from dashboard.pair import SIDES
from dashboard.rows import NUMBERS, rows_of, table
from traces.analysis import sentence
from traces.analysis import tree as analysis
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dashboard.pair import Pair, SideName
    from traces.analysis.compare import Comparison
    from traces.analysis.tree import Node, Tree

MOST: Final = 3_000  # nodes on the page
SHOWN: Final = ("A and B", "A", "B")
SHAPES: Final = {"Icicle": go.Icicle, "Treemap": go.Treemap}
ROOT: Final = analysis.identity(())
AT: Final = "at"  # the part looked into, in the page's address
NEUTRAL: Final = "#A9B2BC"  # levels above the categories have no colour of their own
CONFIG: Final = {
    **{
        f"{s} µs": st.column_config.NumberColumn(format="%.2f", help=f"Exclusive time per step of {s}")
        for s in "AB"
    },
    "B − A µs": st.column_config.NumberColumn(format="%+.2f", help="How much longer B takes per step"),
    **{
        f"{s} %": st.column_config.NumberColumn(format="%.1f", help=f"Share of {s}'s step wall time")
        for s in "AB"
    },
}


def show(pair: Pair) -> None:
    """Draw the view."""
    sides, shape, fold, words = _controls()
    result = pair.comparison(*analysis.BY)
    trees = {side: _tree(pair.key, pair.phase, side, fold, result) for side in SIDES}
    at = _where(trees)
    _crumbs(trees, at)
    drawn: list[str] = []
    for side, cell in zip(sides, st.columns(len(sides)), strict=True):
        with cell:
            unit = "per step" if pair.phase else "in the whole run"
            st.markdown(said(side, trees[side], words, unit))
            made = _figure(
                (pair.key, pair.phase, fold), side, shape, at, words, MOST // len(sides), trees[side]
            )
            drawn.append(_chart(side, shape, *made))
    drill.listen(drawn, _go, "drill")
    for doubt in sentence.doubts(result):
        st.warning(markdown(doubt, 1000))
    inside = children(trees, at)
    if inside.num_rows:
        st.dataframe(
            inside, hide_index=True, height="content" if inside.num_rows < 12 else 420, column_config=CONFIG,
            lazy=inside.num_rows > 1000, alt="What the chosen part is made of in A and B, per step",
        )  # fmt: skip
    st.caption(
        "Times are exclusive: kernels that overlap share the time equally, so parts and idle make the step. "
        "Click a part to look into it, click it again to go back."
    )
    st.subheader("By category")
    flat = pair.comparison("category")
    st.dataframe(
        table(rows_of(flat), flat.total), hide_index=True, height="content", column_config=NUMBERS,
        alt="Time of each category in A and B, ms per step",
    )  # fmt: skip
    pair.cli("compare", *analysis.BY)


# Arguments with an underscore are not hashed.
@st.cache_resource(max_entries=32, show_spinner=False)
def _tree(key: object, phase: str | None, side: SideName, fold: bool, _result: Comparison) -> Tree:
    return analysis.tree(_result, side, fold_layers=fold)


@st.cache_resource(max_entries=32, show_spinner=False)
def _figure(
    key: object, side: SideName, shape: str, at: str, words: str, most: int, _whole: Tree
) -> tuple[go.Figure, Tree]:
    """The chart of one run and the tree in it: making it takes longer than drawing it."""
    cut = analysis.pruned(_whole, most)
    found = _whole.matched(words)[0] if words.strip() else None
    level = at if any(n.id == at for n in cut.nodes) else ROOT
    width = 60 if most == MOST else 22  # two charts share the page's width
    return figure(cut, shape, level, found, width), cut


def _controls() -> tuple[list[SideName], str, bool, str]:
    """Which runs, which shape, whether layers are folded, and the words to find."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        run = st.segmented_control(
            "Run", SHOWN, default=SHOWN[0], required=True, key="side", bind="query-params"
        )
        shape = st.segmented_control(
            "Shape", list(SHAPES), default="Icicle", required=True, key="shape", bind="query-params"
        )
        fold = st.toggle(
            "Fold layers", value=True, key="fold", bind="query-params",
            help="Layers with the same modules and categories are added up in one part.",
        )  # fmt: skip
        words = st.text_input(
            "Find", key="q", bind="query-params", max_chars=200, placeholder="attention, splitK, layers.7"
        )
    sides: list[SideName] = ["a", "b"] if run in (SHOWN[0], None) else ["b" if run == "B" else "a"]
    return sides, shape or "Icicle", fold, words or ""


def _where(trees: dict[SideName, Tree]) -> str:
    """The id of the part looked into: that of the address, if either tree has it."""
    asked = st.query_params.get(AT, ROOT)
    if any(node.id == asked for tree in trees.values() for node in tree.nodes):
        return asked
    st.query_params.pop(AT, None)
    st.caption("The part that the link looks into is not here, so the whole step is shown.")
    return ROOT


def _go(part: str) -> None:
    """Look into a part; the root leaves the address."""
    if part in ("", ROOT):
        st.query_params.pop(AT, None)
    else:
        st.query_params[AT] = part


def _crumbs(trees: dict[SideName, Tree], at: str) -> None:
    """The way from the step to the part looked into, and a choice of what to look into next."""
    nodes = {node.path: node for tree in trees.values() for node in tree.nodes}
    here = next(node for node in nodes.values() if node.id == at)
    below = {
        f"{_name(n)} · {duration(max(_ns(trees, n.path)))}": n.id
        for n in sorted(nodes.values(), key=lambda n: -max(_ns(trees, n.path)))
        if n.path[:-1] == here.path and n.kind not in ("idle", "others")
    }
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for depth in range(1, len(here.path) + 1):
            node = nodes[here.path[:depth]]
            st.button(
                markdown(_name(node), 60), key=f"crumb{depth}", type="tertiary",
                on_click=partial(_go, node.id),
                icon=":material/chevron_right:" if depth > 1 else ":material/home:",
                disabled=depth == len(here.path) and depth > 1,
            )  # fmt: skip
        if below:
            st.selectbox(
                "Look into", list(below), index=None, key=f"into_{at}", placeholder="Look into a part",
                label_visibility="collapsed", width=320, on_change=_into, args=(f"into_{at}", below),
            )  # fmt: skip


def _into(key: str, below: dict[str, str]) -> None:
    chosen = st.session_state[key]
    if chosen in below:
        _go(below[chosen])


def said(side: SideName, tree: Tree, words: str, unit: str) -> str:
    """The run's time and what the search found of it, as Markdown."""
    text = f"**{side.upper()}** {duration(tree.total_ns)} {unit}"
    if words.strip():
        ns = tree.matched(words)[1]
        text += f", {percent(ns / tree.root.ns if tree.root.ns else 0.0)} matched ({duration(ns)})"
    return text


def _chart(side: SideName, shape: str, drawing: go.Figure, tree: Tree) -> str:
    """Put one run's chart on the page; its key."""
    top = [n for n in tree.nodes if len(n.path) == 2][:8]
    charts.draw(
        drawing, f"icicle_{side}",
        f"{shape} of run {side.upper()}'s step, {duration(tree.total_ns)}: "
        + ", ".join(f"{_name(n)} {duration(n.ns)}" for n in top),
    )  # fmt: skip
    if folded := sum(n.folded for n in tree.nodes):
        st.caption(f"{folded:,} of the smallest parts are drawn as “n more”; the table has them all.")
    return f"icicle_{side}"


def figure(
    tree: Tree, shape: str, level: str, found: set[tuple[str, ...]] | None, width: int = 60
) -> go.Figure:
    """The tree, ns per step, labels of at most `width` characters; what a search did not find is faded."""
    nodes = tree.nodes
    strong = _strengths(nodes, found)
    colours = [
        _rgba(charts.colour(n.group) if n.group else NEUTRAL, alpha)
        for n, alpha in zip(nodes, strong, strict=True)
    ]
    # A border as wide as the part itself would hide it.
    whole = next((n.ns for n in nodes if n.id == level), tree.root.ns)
    borders = [1.0 if n.ns > 0.006 * whole else 0.0 for n in nodes]
    ink = [_ink(n, alpha < 1) for n, alpha in zip(nodes, strong, strict=True)]
    trace = SHAPES[shape](
        ids=[n.id for n in nodes], parents=["", *(analysis.identity(n.path[1:-1]) for n in nodes[1:])],
        labels=[label(n.label, width) or NONE for n in nodes], values=[n.ns for n in nodes],
        branchvalues="total", level=level, sort=False, pathbar={"visible": False},
        marker={
            "colors": colours, "line": {"width": borders},
            "pattern": {**charts.hatch("idle"), "shape": ["/" if n.kind == "idle" else "" for n in nodes]},
        },
        textfont={"color": ink},
        text=[duration(n.ns) for n in nodes], textinfo="label+text+percent root",
        customdata=[f"{label(n.label, 160)}<br>{n.kind}, {duration(n.ns)} per step" for n in nodes],
        hovertemplate="%{customdata}<br>%{percentRoot:.2%} of the step<extra></extra>",
    )  # fmt: skip
    if shape == "Icicle":
        trace.leaf.opacity = 1  # else kernels look paler than their category
    out = go.Figure(trace)
    out.update_layout(height=560, uniformtext={"minsize": 10, "mode": "hide"})
    return out


def children(trees: dict[SideName, Tree], at: str) -> pa.Table:
    """What the part is made of in A and in B: µs and share of the step, largest first."""
    nodes = {n.path: n for tree in trees.values() for n in tree.nodes}
    here = next(n.path for n in nodes.values() if n.id == at)
    times = {path: _ns(trees, path) for path in nodes if path[:-1] == here and path != here}
    order = sorted(times, key=lambda p: (nodes[p].kind == "idle", -max(times[p]), p))
    out = {"part": pa.array([plain(p[-1], 2000) for p in order], pa.string())}
    for i, side in enumerate(SIDES):
        out[f"{side.upper()} µs"] = pa.array([times[p][i] / 1e3 for p in order], pa.float64())
    out["B − A µs"] = pa.array([(times[p][1] - times[p][0]) / 1e3 for p in order], pa.float64())
    for i, side in enumerate(SIDES):
        whole = trees[side].root.ns
        shares = [100 * times[p][i] / whole if whole else None for p in order]
        out[f"{side.upper()} %"] = pa.array(shares, pa.float64())
    return pa.table(out)


def _ns(trees: dict[SideName, Tree], path: tuple[str, ...]) -> tuple[int, int]:
    """A part's time in A and in B; 0 where the run lacks it."""
    return trees["a"].sizes.get(path, 0), trees["b"].sizes.get(path, 0)


def _name(node: Node) -> str:
    """A node's label as plain text; never empty, which Plotly would take for the root."""
    return plain(node.label, 90) or NONE


def _strengths(nodes: Sequence[Node], found: set[tuple[str, ...]] | None) -> list[float]:
    """How opaque nodes are drawn: what a search found fully, the way to it half, the rest hardly."""
    if found is None:
        return [1.0] * len(nodes)
    ways = {path[:depth] for path in found for depth in range(1, len(path))}
    return [
        1.0 if n.path in found or (n.kind == "more" and n.path[:-1] in found)
        else 0.4 if n.path in ways else 0.15
        for n in nodes
    ]  # fmt: skip


def _ink(node: Node, faded: bool) -> str:
    """Black or white, whichever stands out more from the node's colour (WCAG 2.2); grey where faded."""
    if faded:
        return "#808890"
    colour = charts.colour(node.group) if node.group else NEUTRAL
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    light = sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return "#000000" if (light + 0.05) ** 2 > 1.05 * 0.05 else "#FFFFFF"


def _rgba(colour: str, alpha: float) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return colour if alpha == 1 else f"rgba({red},{green},{blue},{alpha})"
