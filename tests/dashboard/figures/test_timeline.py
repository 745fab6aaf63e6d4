"""The bars and strips of a timeline without a server, against the rows of one step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dashboard.figures import timeline
from tests.dashboard.builders import baseline, candidate, made
from tests.traces.builders import run, step

if TYPE_CHECKING:
    import plotly.graph_objects as go


def step_of(number: int) -> go.Figure:
    """A step of both small runs."""
    runs = {"a": baseline(), "b": candidate()}
    windows = {side: timeline.window(run, "decode", number) for side, run in runs.items()}
    axis = (0, max(w[1] - w[0] for w in windows.values() if w))
    return timeline.figure([timeline.panel(runs[s], s, w, axis) for s, w in windows.items() if w])


def test_every_kernel_of_the_step_is_a_bar_on_the_step_s_own_clock() -> None:
    bars = [t for t in step_of(1).data if t.orientation == "h"]
    spans = {(t.name, b, w) for t in bars for b, w in zip(t.base, t.x, strict=True)}
    assert spans == {
        ("gemm", 0, 6), ("small_op", 6, 1), ("attention", 7, 2),
        ("gemm", 0, 8), ("small_op", 8, 0.5), ("attention", 8.5, 2.5),
    }  # fmt: skip


def test_the_legend_names_each_group_once() -> None:
    assert [t.name for t in step_of(1).data if t.showlegend] == ["gemm", "attention", "small_op"]


def test_overlapping_kernels_have_rows_of_their_own() -> None:
    rows = [{"start_ns": 0, "dur_ns": 10}, {"start_ns": 5, "dur_ns": 15}, {"start_ns": 12, "dur_ns": 3}]
    both = run([r | {"phase": "decode", "step": 0} for r in rows], steps=[step("decode", 0, 0, 30)])
    shown = timeline.panel(both, "a", (0, 30), (0, 30))
    figure = timeline.figure([shown])
    assert list(figure.layout.yaxis.ticktext) == ["stream 7", "stream 7 +1"]
    assert [len(t.y) for t in figure.data] == [3]


def test_too_many_kernels_are_shown_as_busy_shares() -> None:
    many = made("cuda", [("mm", "gemm", 10), ("ln", "norm", 10)] * 1_000, 40_000)
    shown = timeline.panel(many, "a", (0, 40_000), (0, 40_000))
    assert not shown.single
    figure = timeline.figure([shown])
    assert [t.name for t in figure.data] == ["gemm", "small_op"]
    drawn = sum(sum(t.y) for t in figure.data) / timeline.BINS / 100
    assert drawn == pytest.approx(0.5)
    assert sum(len(t.x) for t in figure.data) <= timeline.BARS


def test_strips_never_draw_more_than_the_budget() -> None:
    assert timeline.BINS * 7 <= timeline.BARS
    assert 2 * timeline.BARS <= 3_000


def test_kernels_narrower_than_a_pixel_do_not_cover_each_other() -> None:
    some = made("cuda", [("mm", "gemm", 20), ("ln", "norm", 10)] * 100, 4_000)
    assert timeline.panel(some, "a", (0, 4_000), (0, 4_000)).single
    squeezed = timeline.panel(some, "a", (0, 4_000), (0, 400_000))  # beside a much longer step
    assert not squeezed.single
    figure = timeline.figure([squeezed])
    assert sum(sum(t.y) for t in figure.data) / 100 * (400_000 / timeline.BINS) == pytest.approx(3_000)


def test_the_step_before_and_after_are_not_shown() -> None:
    shown = timeline.panel(baseline(), "a", (10_000, 20_000), (0, 15_000))
    assert (shown.table["start_ns"].to_pylist(), shown.shown_ns) == ([0, 6_000, 7_000], 10_000)
    assert timeline.panel(baseline(), "a", (10_000, 20_000), (11_000, 15_000)).shown_ns == 0


def test_a_run_without_the_step_has_no_window() -> None:
    assert timeline.window(baseline(), "decode", 99) is None
    assert timeline.window(baseline(), "decode", 1) == (10_000, 20_000)
    assert timeline.window(baseline(), None, None) == (0, 29_000)
