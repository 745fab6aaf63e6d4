"""Kernel table: every kernel by name in A and in B, its spread and its rates, to search and take away."""

from __future__ import annotations

import io
import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import streamlit as st

from dashboard.format import NONE, count, duration
from dashboard.pair import SIDES
from traces.analysis.kernels import KEYS, chosen, paired, search
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from dashboard.pair import Pair, SideName

SHOWN: Final = ("A and B", "A", "B")
MANY: Final = 15  # rows the page shows whole
LAZY: Final = 1000  # rows beyond which the browser fetches them as it scrolls
FILTERS: Final = ("group", "category")
OTHER_PHASES: Final = "(other phases)"
# Column of the statistics -> (its name on the page, what it is multiplied by, format, what it means).
_NUMBERS: Final[dict[str, tuple[str, float, str, str]]] = {
    "count": ("n", 1, "%d", "How often it ran in the phase"),
    "per_step": ("n/step", 1, "%.1f", "How often it ran per step of the phase"),
    "total_ns": ("total ms", 1e-6, "%.3f", "Sum of its durations, overlapping ones in full"),
    "exclusive_ns": (
        "exclusive ms",
        1e-6,
        "%.3f",
        "Its share of wall time: overlapping kernels split it equally",
    ),
    "step_ns": ("µs/step", 1e-3, "%.2f", "Exclusive time per step, mean over the complete steps"),
    "mean_ns": ("mean µs", 1e-3, "%.2f", "Total over n"),
    "min_ns": ("min µs", 1e-3, "%.2f", "Shortest"),
    "p50_ns": ("p50 µs", 1e-3, "%.2f", "Median duration, by nearest rank: one that occurred"),
    "p99_ns": ("p99 µs", 1e-3, "%.2f", "99th percentile, by nearest rank; the longest one below 100 kernels"),
    "max_ns": ("max µs", 1e-3, "%.2f", "Longest"),
    "share": ("share %", 100, "%.2f", "Exclusive time over the span of the phase"),
    "gb_per_s": (
        "GB/s",
        1,
        "%.0f",
        "10^9 bytes/s, from the bytes its shapes must move; empty where not known",
    ),
    "tflops": ("TFLOP/s", 1, "%.1f", "10^12 operations/s, from its shapes; empty where not known"),
    "roofline": ("roof %", 100, "%.1f", "Least time of its work on this device over its own time"),
}
CONFIG: Final = {
    "kernel": st.column_config.TextColumn(width="large", help="Full name, hostile characters by their code"),
    "category": st.column_config.TextColumn(help="What it does; the same name can do several things"),
    "backend": st.column_config.TextColumn(help="Whose kernel it is"),
    "in": st.column_config.TextColumn(help="Paired by name, group, category and backend"),
    "Δ µs/step": st.column_config.NumberColumn(
        format="%+.2f", help="B − A, exclusive time per step, where both runs have it"
    ),
    **{
        f"{side}{name}": st.column_config.NumberColumn(format=form, help=told)
        for name, _, form, told in _NUMBERS.values()
        for side in ("", "A ", "B ")
    },
}


def show(pair: Pair) -> None:
    """Draw the view."""
    run, words = _controls()
    single: SideName | None = None if run == SHOWN[0] else "b" if run == "B" else "a"
    whole = pair.kernels(single) if single else _paired(pair.key, pair.phase, pair)
    found = search(_filtered(whole), words)
    st.caption(_summary(found, whole, single, "per step" if pair.phase else "in the whole run"))
    if not found.num_rows:
        st.info("No kernel has all of these words and filters. Clear them to see every kernel.")
        return
    st.dataframe(
        readable(found), hide_index=True, height=560 if found.num_rows > MANY else "content",
        column_config=CONFIG, lazy=found.num_rows > LAZY, placeholder=NONE,
        alt=f"Kernels of {f'run {single.upper()}' if single else 'A and B'} by name, most time first",
    )  # fmt: skip
    names = [plain(pair.entries[side].label, 80) for side in ([single] if single else SIDES)]
    downloads(found, "_".join([*names, "kernels"]))
    pair.cli("show" if single else "compare", *KEYS, sides=(single,) if single else SIDES)


# Arguments with an underscore are not hashed.
@st.cache_resource(max_entries=16, show_spinner=False)
def _paired(key: object, phase: str | None, _pair: Pair) -> pa.Table:
    return paired(_pair.kernels("a"), _pair.kernels("b"), _pair.comparison(*KEYS))


def _controls() -> tuple[str, str]:
    """Which runs, and the words to search for."""
    left, right = st.columns([1, 3], vertical_alignment="bottom")
    run = left.segmented_control(
        "Run", SHOWN, default=SHOWN[0], required=True, key="side", bind="query-params"
    )
    words = right.text_input(
        "Find",
        key="q",
        bind="query-params",
        max_chars=200,
        placeholder="words of its name, category or backend: gemm cublas",
    )
    return run or SHOWN[0], words or ""


def _filtered(whole: pa.Table) -> pa.Table:
    """Only the groups and categories that the person chose."""
    found = whole
    for cell, column in zip(st.columns(len(FILTERS)), FILTERS, strict=True):
        options = sorted(v for v in pc.unique(whole[column]).to_pylist() if v is not None)
        values = cell.multiselect(
            column.capitalize(), options, key=f"k_{column}", bind="query-params", placeholder="all"
        )
        found = chosen(found, column, values)
    return found


def _summary(found: pa.Table, whole: pa.Table, single: SideName | None, unit: str) -> str:
    """How many kernels are shown and how much time they took."""
    text = f"{found.num_rows:,} of {whole.num_rows:,} names"
    if single:
        number, time = (pc.sum(found[c]).as_py() or 0 for c in ("count", "exclusive_ns"))
        return f"{text}, {number:,} kernels, {duration(time)} exclusive"
    for side in SIDES:
        number, time = (pc.sum(found[f"{side}_{c}"]).as_py() or 0 for c in ("per_step", "step_ns"))
        kernels = f"{count(round(number, 1))} kernels, " if number else ""
        text += f"; {side.upper()}: {kernels}{duration(time)} {unit}"
    both = pc.sum(pc.equal(found["in"], "A and B")).as_py() or 0
    return f"{text}; {both:,} in both"


def downloads(found: pa.Table, name: str) -> None:
    """What the table shows, to take away; made only when asked for."""
    with st.container(horizontal=True):
        for kind, write in WRITERS.items():
            st.download_button(
                f"Download {kind}", partial(write, found), f"{name}.{kind.lower()}", on_click="ignore"
            )


def readable(stats: pa.Table) -> pa.Table:
    """The statistics in units for people (ms, µs, percent), names as plain text.

    Takes results of `by_name` and of `paired`. Columns that say nothing in any row are left out.
    """

    def text(column: str, missing: str = NONE) -> pa.Array:
        return pa.array(
            [missing if t is None else plain(t, 2000) for t in stats[column].to_pylist()], pa.string()
        )

    out: dict[str, Any] = {
        "kernel": text("name", OTHER_PHASES), "category": text("category"), "backend": text("backend"),
    }  # fmt: skip
    for column, (name, scale, _, _) in _NUMBERS.items():
        for prefix in ("", "a_", "b_"):
            if f"{prefix}{column}" in stats.column_names:
                values = stats[f"{prefix}{column}"]
                if values.null_count < len(values):
                    out[f"{prefix[:1].upper()} {name}".strip()] = _scaled(values, scale)
        if column == "step_ns" and "delta_ns" in stats.column_names:
            out["Δ µs/step"] = _scaled(stats["delta_ns"], scale)
    if "in" in stats.column_names:
        out["in"] = stats["in"]
    return pa.table(out)


def _scaled(values: pa.ChunkedArray, scale: float) -> pa.ChunkedArray:
    return values if scale == 1 else pc.multiply(pc.cast(values, pa.float64()), scale)


def as_csv(stats: pa.Table) -> bytes:
    """The statistics as CSV, ns, names as the trace has them."""
    out = io.BytesIO()
    pyarrow.csv.write_csv(stats, out)
    return out.getvalue()


def as_parquet(stats: pa.Table) -> bytes:
    """The statistics as Parquet, ns."""
    out = io.BytesIO()
    pq.write_table(stats, out, compression="zstd")
    return out.getvalue()


def as_json(stats: pa.Table) -> bytes:
    """The statistics as a JSON list with one object a kernel, ns."""
    return json.dumps(stats.to_pylist()).encode()


WRITERS: Final[dict[str, Callable[[pa.Table], bytes]]] = {
    "CSV": as_csv, "Parquet": as_parquet, "JSON": as_json,
}  # fmt: skip
