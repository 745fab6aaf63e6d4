"""Layer: one transformer block as its operations, in the order they run, A beside B."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import streamlit as st
from plotly.subplots import make_subplots

from dashboard import charts
from dashboard.format import NONE, duration, label, markdown, percent, signed
from dashboard.pair import SIDES
from traces.analysis import layer as analysis
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    import plotly.graph_objects as go

    from dashboard.pair import Pair, SideName
    from traces.analysis.compare import Comparison
    from traces.analysis.layer import Block, Cell, Layer, Op

MEDIAN: Final = "median layer"
_NUMBER: Final[dict[str, Any]] = {
    "n": {"format": "%.1f", "help": "Kernels per step"},
    "µs": {"format": "%.2f", "help": "Exclusive time per step, mean over the complete steps"},
    "%": {"format": "%.1f", "help": "Share of the layer"},
    "GB/s": {"format": "%.0f", "help": "10^9 bytes per second, from the bytes that its shapes must move"},
    "TFLOP/s": {"format": "%.1f", "help": "10^12 operations per second, from its shapes"},
    "roof %": {
        "format": "%.1f",
        "help": "Share of the device's roofline: for decode GEMMs, of its bandwidth",
    },
    "IQR µs": {"format": "%.2f", "help": "Interquartile range of this operation over all layers"},
}
CONFIG: Final = {
    **{f"{s} {n}": st.column_config.NumberColumn(**how) for n, how in _NUMBER.items() for s in "AB"},
    "B − A µs": st.column_config.NumberColumn(format="%+.2f", help="How much longer B takes per step"),
    "B / A": st.column_config.NumberColumn(format="%.2f", help="Below 1: B is faster"),
    "A kernels": st.column_config.TextColumn(help="Most time first"),
    "B kernels": st.column_config.TextColumn(help="Most time first"),
}


def show(pair: Pair) -> None:
    """Draw the view."""
    result = pair.comparison(*analysis.BY)
    known = analysis.numbers(result)
    if not known:
        st.info(
            "No layer of this phase is known in either run: no ranges name layers, and no repetition of a "
            "block was found. The view Icicle shows the kernels by category; runs that `capture` makes have "
            "layers."
        )
        pair.cli("compare", "category")
        return
    options = [MEDIAN, *(str(n) for n in known)]
    chosen = st.selectbox(
        "Layer", options, key="layer", bind="query-params", width=240,
        help="The median layer is a real one: of each run, the layer whose time is the median of all.",
    )  # fmt: skip
    found = _layer(pair.key, pair.phase, None if chosen in (MEDIAN, None) else int(chosen), result)
    st.markdown(f"#### {markdown(headline(found), 1000)}")
    for line in facts(result, found):
        st.caption(markdown(line, 600))
    charts.draw(bars(found), "layer_chart", _alt(found))
    st.dataframe(
        table(found), hide_index=True, height="content", column_config=CONFIG, placeholder=NONE,
        alt="Operations of the layer in the order they run, A and B, per step",
    )  # fmt: skip
    st.caption(
        f"Operations are parts of the layer, paired by {markdown(result.aligned_by)}; a reduction or memset "
        "counts with the GEMM that it serves. Times are exclusive, so operations add up to the layer."
    )
    pair.cli("compare", "layer", "module", "group")


# Arguments with an underscore are not hashed.
@st.cache_resource(max_entries=64, show_spinner=False)
def _layer(key: object, phase: str | None, number: int | None, _result: Comparison) -> Layer:
    return analysis.layer(_result, number)


def headline(found: Layer) -> str:
    """Which layer is how much slower, and the operations that say most of it."""
    a, b = found.a, found.b
    if a is None or b is None:
        only = a or b
        side = "A" if a else "B"
        return f"Layer {only.number}: only {side} has it, {duration(only.ns)}." if only else "No layer."
    delta = b.ns - a.ns
    which = f"Layer {a.number}" if a.number == b.number else f"Median layer (A {a.number}, B {b.number})"
    word = "slower" if delta > 0 else "faster" if delta < 0 else "as fast"
    said = f"{abs(delta) / 1e3:.2f} µs {word} than A" if delta else "as fast as A"
    part = f" ({delta / a.ns:+.1%})".replace("-", "−") if a.ns and delta else ""
    most = sorted(found.ops, key=lambda op: -abs(_delta(op)))[:3]
    parts = ", ".join(f"{signed(_delta(op))} {op.name}" for op in most if _delta(op))
    return f"{which}: A {duration(a.ns)}, B {duration(b.ns)}: B is {said}{part}" + (
        f": {parts}" if parts else ""
    )


def facts(result: Comparison, found: Layer) -> list[str]:
    """How typical the layer is, what its gaps are, and how much of the step all layers make."""
    lines = []
    for name, side, block in (("A", "a", found.a), ("B", "b", found.b)):
        if block is None:
            continue
        step = result.total[side]
        every = block.all_ns / block.steps
        lines.append(
            f"{name}: mean of {block.steps} step{'s' if block.steps > 1 else ''}; "
            f"over {block.spread.n} layers median "
            f"{duration(block.spread.median)}, "
            f"IQR {duration(block.spread.q1)} to {duration(block.spread.q3)}; "
            f"all layers {duration(every)}, {percent(every / step if step else None)} of the step's "
            f"{duration(step)}; idle before this layer's kernels {duration(block.gap_ns)} under the profiler."
        )
    devices = [part.devices for part in (result.a, result.b)]
    if max(devices) > 1:
        lines.append(f"Times are summed over devices: A {devices[0]}, B {devices[1]}.")
    return lines


def bars(found: Layer) -> go.Figure:
    """One chart per side, the first operation on top, µs per step on the same scale."""
    titles = [
        f"{s.upper()}: {duration(block.ns)}" if (block := getattr(found, s)) else f"{s.upper()}: none"
        for s in SIDES
    ]
    figure = make_subplots(1, 2, shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.03)
    names = [label(plain(op.name, 34)) for op in found.ops]
    most = max((c.ns for op in found.ops for c in (op.a, op.b) if c), default=0) / 1e3
    for at, side in enumerate(SIDES, start=1):
        cells = [getattr(op, side) for op in found.ops]
        figure.add_bar(
            row=1, col=at, orientation="h", name=side.upper(), showlegend=False,
            y=list(range(len(names))), x=[c.ns / 1e3 if c else 0 for c in cells],
            marker={"color": [charts.colour(op.group) for op in found.ops]},
            text=[_said(c) for c in cells], textposition="outside", cliponaxis=False, textangle=0,
            customdata=[_hover(op, c) for op, c in zip(found.ops, cells, strict=True)],
            hovertemplate="%{customdata}<extra></extra>",
        )  # fmt: skip
        figure.update_xaxes(title_text="µs per step", range=[0, most * 1.5 or 1], row=1, col=at)
    figure.update_yaxes(
        autorange="reversed", tickvals=list(range(len(names))), ticktext=names, showgrid=False
    )
    figure.update_layout(height=90 + 34 * max(len(names), 2), bargap=0.25)
    return figure


def table(found: Layer) -> pa.Table:
    """The operations and their sum; columns that say nothing of either run are left out."""
    read: dict[str, Callable[[Cell], float | None]] = {
        "n": lambda c: c.per_step,
        "µs": lambda c: c.ns / 1e3,
        "%": lambda c: c.share * 100,
        "GB/s": lambda c: c.gb_per_s,
        "TFLOP/s": lambda c: c.tflops,
        "roof %": lambda c: None if c.roofline is None else c.roofline * 100,
        "IQR µs": lambda c: (c.spread.q3 - c.spread.q1) / 1e3,
    }
    out: dict[str, Any] = {
        "operation": pa.array([*(plain(op.name, 200) for op in found.ops), "layer"], pa.string()),
        "group": pa.array([*(op.group for op in found.ops), ""], pa.string()),
    }
    for name, get in read.items():
        for side in SIDES:
            values = [get(c) if (c := getattr(op, side)) else None for op in found.ops]
            if all(v is None for v in values) and name != "µs":
                continue
            out[f"{side.upper()} {name}"] = pa.array([*values, _sum(found, side, name)], pa.float64())
        if name == "µs":
            pairs = [(op.a.ns if op.a else None, op.b.ns if op.b else None) for op in found.ops]
            pairs.append((found.a.ns if found.a else None, found.b.ns if found.b else None))
            both = [(a, b) if a is not None and b is not None else None for a, b in pairs]
            out["B − A µs"] = pa.array([p and (p[1] - p[0]) / 1e3 for p in both], pa.float64())
            out["B / A"] = pa.array([p and (p[1] / p[0] if p[0] else None) for p in both], pa.float64())
    for side in SIDES:
        lists = [", ".join(plain(k, 200) for k in c.kernels) if (c := getattr(op, side)) else NONE
                 for op in found.ops]  # fmt: skip
        out[f"{side.upper()} kernels"] = pa.array([*(plain(text, 2000) for text in lists), ""], pa.string())
    return pa.table(out)


def _sum(found: Layer, side: SideName, name: str) -> float | None:
    """What the table's last row says: only what may be added up."""
    block: Block | None = getattr(found, side)
    if block is None:
        return None
    if name == "n":
        cells: list[Cell | None] = [getattr(op, side) for op in found.ops]
        return sum(c.per_step for c in cells if c)
    spread = (block.spread.q3 - block.spread.q1) / 1e3
    sums: dict[str, float] = {"µs": block.ns / 1e3, "%": 100.0, "IQR µs": spread}
    return sums.get(name)


def _delta(op: Op) -> float:
    return (op.b.ns if op.b else 0.0) - (op.a.ns if op.a else 0.0)


def _said(cell: Cell | None) -> str:
    if cell is None:
        return NONE
    roof = f" · {cell.roofline:.0%} roof" if cell.roofline is not None else ""
    return f"{cell.ns / 1e3:.2f} µs{roof}"


def _hover(op: Op, cell: Cell | None) -> str:
    if cell is None:
        return f"{label(op.name)}: no kernel"
    rates = [
        f"{cell.gb_per_s:,.0f} GB/s" if cell.gb_per_s is not None else "",
        f"{cell.tflops:,.1f} TFLOP/s" if cell.tflops is not None else "",
    ]
    names = "<br>".join(label(k, 80) for k in cell.kernels[:4])
    more = f"<br>{len(cell.kernels) - 4} more" if len(cell.kernels) > 4 else ""
    known = ", ".join(filter(None, rates))
    return (
        f"<b>{label(op.name)}</b><br>{duration(cell.ns)}, {percent(cell.share)} of the layer, "
        f"{cell.per_step:g} kernel(s) per step{f'<br>{known}' if known else ''}<br>{names}{more}"
    )


def _alt(found: Layer) -> str:
    said = []
    for side in SIDES:
        times = [
            f"{plain(op.name)} {duration(c.ns)}" for op in found.ops if (c := getattr(op, side)) is not None
        ]
        said.append(f"{side.upper()}: " + ", ".join(times))
    return "Bars of one layer's operations in order. " + ". ".join(said)
