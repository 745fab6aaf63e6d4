"""Kernel table: every kernel of one run by name, with its spread, to search, sort and take away."""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import streamlit as st

from dashboard.format import NONE, duration
from traces.analysis.kernels import search
from traces.text import plain

if TYPE_CHECKING:
    from dashboard.pair import Pair, SideName

MANY: Final = 15  # rows the page shows whole
LAZY: Final = 1000  # rows beyond which the browser fetches them as it scrolls
_US: Final = st.column_config.NumberColumn(format="%.2f")
COLUMNS: Final = {
    "kernel": st.column_config.TextColumn(width="large"),
    "n": st.column_config.NumberColumn(format="%d"),
    "per step": st.column_config.NumberColumn(format="%.1f"),
    "total ms": st.column_config.NumberColumn(format="%.3f"),
    "exclusive ms": st.column_config.NumberColumn(format="%.3f"),
    "mean µs": _US, "p50 µs": _US, "p99 µs": _US,
    "share %": st.column_config.NumberColumn(format="%.2f", help="Exclusive time over the span of the phase"),
}  # fmt: skip


def show(pair: Pair) -> None:
    """Draw the view."""
    left, right = st.columns([1, 3], vertical_alignment="bottom")
    chosen = left.segmented_control(
        "Run", ["A", "B"], default="A", required=True, key="side", bind="query-params"
    )
    words = right.text_input(
        "Search", key="q", bind="query-params", max_chars=200, placeholder="words of its name: gemm f16"
    )
    side: SideName = "b" if chosen == "B" else "a"
    stats = pair.kernels(side)
    found = search(stats, words or "")
    time = pc.sum(found["exclusive_ns"]).as_py() or 0
    number = pc.sum(found["count"]).as_py() or 0
    names = f"{found.num_rows:,} of {stats.num_rows:,} names"
    st.caption(f"{names}, {number:,} kernels, {duration(time)} exclusive")
    if not found.num_rows:
        st.info("No kernel's name has all of these words. Clear the search to see every kernel.")
        return
    st.dataframe(
        readable(found), hide_index=True, height=560 if found.num_rows > MANY else "content",
        column_config=COLUMNS, lazy=found.num_rows > LAZY,
        alt=f"Kernels of run {side.upper()} by name, most time first",
    )  # fmt: skip
    downloads(found, f"{plain(pair.entries[side].label, 80)}_kernels")
    pair.cli("show", "name", sides=(side,))


def downloads(found: pa.Table, name: str) -> None:
    """What the table shows, to take away; made only when asked for."""
    cells = st.columns([1, 1, 4])
    for cell, kind, write in ((cells[0], "CSV", as_csv), (cells[1], "Parquet", as_parquet)):
        cell.download_button(
            f"Download {kind}", partial(write, found), f"{name}.{kind.lower()}", on_click="ignore",
            width="stretch",
        )  # fmt: skip


def readable(stats: pa.Table) -> pa.Table:
    """The statistics in units for people (ms, µs, percent), names as plain text."""

    def scaled(column: str, by: float) -> pa.ChunkedArray:
        return pc.divide(pc.cast(stats[column], pa.float64()), by)

    def text(column: str, missing: str = NONE) -> pa.Array:
        return pa.array(
            [missing if t is None else plain(t, 2000) for t in stats[column].to_pylist()], pa.string()
        )

    return pa.table(
        {
            "kernel": text("name", "(other phases)"),
            "category": text("category"), "backend": text("backend"),
            "n": stats["count"], "per step": stats["per_step"],
            "total ms": scaled("total_ns", 1e6), "exclusive ms": scaled("exclusive_ns", 1e6),
            "mean µs": scaled("mean_ns", 1e3), "p50 µs": scaled("p50_ns", 1e3),
            "p99 µs": scaled("p99_ns", 1e3),
            "share %": scaled("share", 0.01),
        }
    )  # fmt: skip


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
