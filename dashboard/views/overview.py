"""Overview: how long a step takes in A and B, what the runs are, and how far their traces can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import streamlit as st

from dashboard import summary
from dashboard.format import NONE, count, duration, markdown, percent, signed
from dashboard.pair import SIDES
from traces.analysis import sentence
from traces.text import plain

if TYPE_CHECKING:
    from dashboard.pair import Pair
    from dashboard.summary import Figures
    from traces.store import Run


def show(pair: Pair) -> None:
    """Draw the view."""
    result = pair.comparison("category")
    a, b = summary.figures(result, "a"), summary.figures(result, "b")
    st.markdown(f"#### {markdown(sentence.headline(result), 1000)}")
    for doubt in sentence.doubts(result):
        st.warning(markdown(doubt, 1000))
    _kpis(a, b, device(pair))
    for line in _basis(a, b):
        st.caption(line)
    st.caption(markdown(summary.noise(result), 400))
    st.subheader("Runs")
    known = facts(pair.run("a"), pair.run("b"))
    st.dataframe(known, hide_index=True, height="content", alt="Facts of both runs")
    st.subheader("Trace health")
    for side, column in zip(SIDES, st.columns(2), strict=True):
        with column:
            _health(side.upper(), pair.run(side))
    pair.cli("compare", "category")


def device(pair: Pair) -> str:
    """What is kept busy: the GPU, the CPU, or either where the runs differ."""
    kinds = {str(pair.run(side).meta["device"].get("type")) for side in SIDES}
    if "cpu" not in kinds:
        return "GPU"
    return "CPU" if kinds == {"cpu"} else "Device"


def _kpis(a: Figures, b: Figures, what: str) -> None:
    wall = "Step wall, per token" if a.tokens == b.tokens == 1 else "Step wall"
    cards = st.columns(5)
    _time(cards[0], wall, a.wall_ns, b.wall_ns)
    _rate(cards[1], a, b)
    _time(cards[2], f"{what} busy", a.busy_ns, b.busy_ns, of=(a.wall_ns, b.wall_ns))
    _time(cards[3], f"{what} idle", a.idle_ns, b.idle_ns, of=(a.wall_ns, b.wall_ns))
    more = b.kernels - a.kernels
    with cards[4]:
        _card("Kernels per step", count(b.kernels), f"{more:+.0f}", more, f"A {count(a.kernels)}")


def _time(cell: Any, name: str, a: float, b: float, of: tuple[float, float] | None = None) -> None:
    shares = [f" ({percent(x / w)})" if of and w else "" for x, w in zip((a, b), of or (0, 0), strict=True)]
    with cell:
        _card(name, duration(b) + shares[1], signed(b - a), b - a, f"A {duration(a)}{shares[0]}")


def _rate(cell: Any, a: Figures, b: Figures) -> None:
    with cell:
        if a.tokens_per_s is None or b.tokens_per_s is None:
            st.metric(
                "Tokens/s", NONE, help="Unknown: a run does not say its batch.", border=True, height="stretch"
            )
            return
        more = b.tokens_per_s - a.tokens_per_s
        _card("Tokens/s", f"{b.tokens_per_s:,.1f}", f"{more:+,.1f}", -more, f"A {a.tokens_per_s:,.1f}")


def _card(name: str, value: str, delta: str, worse: float, base: str) -> None:
    """B's value, its difference to A (orange when worse, blue when better, besides the sign), A's value."""
    colour: Literal["orange", "blue", "gray"] = "orange" if worse > 0 else "blue" if worse < 0 else "gray"
    arrow: Literal["off", "up", "down"] = "off" if not worse else "up" if delta.startswith("+") else "down"
    st.metric(
        name, value, delta.replace("-", "−"), delta_color=colour, delta_arrow=arrow, delta_description=base,
        border=True, height="stretch",
    )  # fmt: skip


def _basis(a: Figures, b: Figures) -> list[str]:
    source = {
        "unprofiled": "Step wall is the median without a profiler; busy is the kernels' time under one.",
        "profiled": "A run was not timed without a profiler, so step wall is under one, which stretches it.",
    }[a.basis]
    spread = "; ".join(f"{name}: n = {x.n}, IQR {duration(x.iqr_ns)}" for name, x in (("A", a), ("B", b)))
    return [f"{source} {spread}."]


def facts(a: Run, b: Run) -> pa.Table:
    """What the two runs are, side by side, as text."""
    left, right = _facts(a), _facts(b)
    names = list(dict.fromkeys([*left, *right]))
    columns = {
        "fact": names,
        "A (baseline)": [left.get(n, NONE) for n in names],
        "B": [right.get(n, NONE) for n in names],
    }
    return pa.table({k: pa.array(v, pa.string()) for k, v in columns.items()})


def _facts(run: Run) -> dict[str, str]:
    meta = run.meta
    load = meta["workload"]
    work = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in (load or {}).items())
    steps = [s["phase"] for s in meta["steps"]]
    found = {
        "file": run.path.name if run.path else None,
        "model": meta["model"], "variant": meta["variant"], "mode": meta["mode"], "tool": meta["tool"],
        "workload": work,
        "steps": ", ".join(f"{p} {steps.count(p)}" for p in dict.fromkeys(steps)),
        "source": meta["source"].get("file"),
        **{f"device {k}": v for k, v in meta["device"].items()},
        **{f"version {k}": v for k, v in meta["versions"].items()},
    }  # fmt: skip
    return {plain(k): plain(v, 200) for k, v in found.items() if v not in (None, "")}


def _health(name: str, run: Run) -> None:
    st.markdown(f"**{name}** {markdown(run.title)}")
    lines = [f"{'✓' if fine else '⚠'} {markdown(text, 400)}" for fine, text in summary.health(run)]
    st.markdown("  \n".join(lines))
