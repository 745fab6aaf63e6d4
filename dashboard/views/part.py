"""The kernels behind one bar of the waterfall, in A and in B: chosen by a click or by name."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.format import NONE, duration, markdown
from dashboard.rows import OTHERS
from traces.analysis.parts import kernels_of
from traces.text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dashboard.pair import Pair
    from dashboard.rows import Row

KEY: Final = "part"
_COLUMNS: Final = (
    ("n", "per_step", 1, "%.1f", "Kernels per step"),
    ("µs each", "mean_ns", 1e-3, "%.2f", "Exclusive time of one kernel, mean"),
    ("µs", "ns", 1e-3, "%.2f", "Exclusive time per step; adds up to the bar"),
    ("GB/s", "gb_per_s", 1, "%.0f", "10^9 bytes per second, where the bytes it must move are known"),
    ("TFLOP/s", "tflops", 1, "%.1f", "10^12 operations per second, where the work is known"),
)
CONFIG: Final = {
    "kernel": st.column_config.TextColumn(width="large"),
    "B − A µs": st.column_config.NumberColumn(
        format="%+.2f", help="Per step, where both runs have the kernel"
    ),
    **{
        f"{side} {name}": st.column_config.NumberColumn(format=form, help=told)
        for name, _, _, form, told in _COLUMNS
        for side in "AB"
    },
}


def pick(shown: Sequence[Row], chart: str) -> None:
    """Take the clicked bar of the chart as the part; a click that lets it go clears it."""
    points = st.session_state[chart]["selection"]["points"]
    at = round(points[0]["y"]) - 1 if points else -1  # bar 0 is A's total, the last is B's
    st.session_state[KEY] = names(shown)[at] if 0 <= at < len(shown) else None


def names(rows: Sequence[Row]) -> list[str]:
    """A name for each row to choose it by and to put into links: short, plain and distinct."""
    seen: Counter[str] = Counter()
    out = []
    for row in rows:
        name = plain(row.name, 120)
        seen[name] += 1
        out.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return out


def show(pair: Pair, by: tuple[str, ...], shown: Sequence[Row], rows: Sequence[Row]) -> None:
    """Let the person choose a part and list its kernels. `shown` are the bars, `rows` every row."""
    parts = dict(zip(names(rows), rows, strict=True))
    for name, row in zip(names(shown), shown, strict=True):  # the bar that holds the smallest ones
        parts.setdefault(name, row)
    if st.session_state.get(KEY) not in (None, *parts):  # chosen in another split
        st.session_state[KEY] = None
    chosen = st.selectbox(
        "Part", list(parts), index=None, key=KEY, bind="query-params",
        placeholder="Click a bar or choose one here to see its kernels",
    )  # fmt: skip
    if chosen is None:
        return
    row = parts[chosen]
    if row.group == "idle":
        st.info("Idle has no kernels. The view Idle says what the device waited for.")
    elif row.name == OTHERS:
        st.info("These are kernels of other phases that run inside this one. Choose their phase above.")
    else:
        _kernels(pair, by, row)


def _kernels(pair: Pair, by: tuple[str, ...], row: Row) -> None:
    finer = pair.comparison(*dict.fromkeys((*by, "category", "name")))
    found = kernels_of(finer, row.keys, len(by))
    times = {side: pc.sum(found[f"{side}_ns"]).as_py() or 0 for side in "ab"}
    st.caption(
        f"{found.num_rows:,} kernels of {markdown(row.name)}, {'per step' if pair.phase else 'whole run'}: "
        f"A {duration(times['a'])}, B {duration(times['b'])}"
    )
    st.dataframe(
        readable(found), hide_index=True, height="content" if found.num_rows < 12 else 420,
        column_config=CONFIG, lazy=found.num_rows > 1000, placeholder=NONE,
        alt="Kernels of the chosen part in A and B, per step",
    )  # fmt: skip


def readable(found: pa.Table) -> pa.Table:
    """The kernels of `kernels_of` in µs, names as plain text; columns that say nothing are left out."""
    out: dict[str, Any] = {
        "kernel": pa.array([plain(n, 2000) for n in found["name"].to_pylist()], pa.string()),
        "category": pa.array([plain(c or NONE) for c in found["category"].to_pylist()], pa.string()),
    }
    for name, column, scale, _, _ in _COLUMNS:
        for side in "ab":
            values = found[f"{side}_{column}"]
            if name in ("GB/s", "TFLOP/s") and values.null_count == len(values):
                continue
            out[f"{side.upper()} {name}"] = pc.multiply(values, float(scale))
        if name == "µs":
            out["B − A µs"] = pc.multiply(pc.subtract(found["b_ns"], found["a_ns"]), 1e-3)
    return pa.table(out)
