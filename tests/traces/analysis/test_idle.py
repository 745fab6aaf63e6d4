"""Idle pieces: one case per cause, and that they are the ledger's idle time to the ns."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.builders import run, step
from traces import ledger
from traces.analysis.breakdown import breakdown
from traces.analysis.idle import (
    CAUSES,
    MEANING,
    Cause,
    Pieces,
    by_cause,
    counted_windows,
    longest,
    pieces,
)
from traces.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa


def kernel(start: int, dur: int, cause: str | None = None, **known: Any) -> dict[str, Any]:
    return {"start_ns": start, "dur_ns": dur, "gap_cause": cause, **known}


def found(*rows: dict[str, Any], windows: list[tuple[int, int]] | None = None) -> Pieces:
    some = run(list(rows))
    return pieces(some, windows or counted_windows(some, None)[0])


def causes(some: Pieces) -> list[str]:
    return [CAUSES[c] for c in some.cause]


def test_a_gap_has_its_cause_and_its_neighbours() -> None:
    some = found(kernel(0, 10), kernel(25, 5, "host"), kernel(30, 5), kernel(37, 3, "launch"))
    assert by_cause(some) == [Cause("host", 1, 15), Cause("launch", 1, 2)]
    assert (some.start_ns.tolist(), some.end_ns.tolist()) == ([10, 35], [25, 37])
    assert (some.before.tolist(), some.after.tolist()) == ([0, 2], [1, 3])
    assert (some.span_ns, some.busy_ns, some.idle_ns) == (40, 23, 17)


def test_the_kernel_before_a_gap_is_the_one_that_ran_last() -> None:
    some = found(kernel(0, 50), kernel(10, 5), kernel(60, 5, "host"))
    assert (some.before.tolist(), some.after.tolist()) == ([0], [2])


def test_gaps_are_cut_at_the_tiles() -> None:
    some = found(kernel(0, 10), kernel(50, 10, "step_end"), windows=[(0, 20), (20, 30), (45, 60)])
    assert some.ns.tolist() == [10, 10, 5]
    assert by_cause(some) == [Cause("step_end", 3, 25)]


def test_a_device_that_has_nothing_more_to_run_is_a_tail() -> None:
    some = found(kernel(0, 10), kernel(0, 40, device=1), kernel(0, 9, device=2, flag="too_long"))
    assert by_cause(some) == [Cause("tail", 2, 70)]  # device 2 has no usable row at all
    assert some.devices == [(None, 0), (None, 1), (None, 2)]
    assert (some.before.tolist(), some.after.tolist()) == ([0, -1], [-1, -1])


def test_a_gap_whose_launch_is_not_in_the_trace_is_unknown() -> None:
    assert causes(found(kernel(0, 10), kernel(15, 5))) == ["unknown"]
    assert causes(found(kernel(0, 10), kernel(15, 5, "some later cause"))) == ["unknown"]


def test_gaps_inside_a_graph_replay_stand_apart() -> None:
    graph = {"link": "graph", "launch_start_ns": -5, "process": 1}
    some = found(
        kernel(0, 10, **graph), kernel(12, 10, "launch", **graph),
        kernel(25, 5, "launch", **(graph | {"launch_start_ns": 2})),  # the next replay
        kernel(40, 5, "host", **(graph | {"launch_start_ns": 2})),
    )  # fmt: skip
    assert causes(some) == ["graph", "launch", "host"]


def test_means_are_over_complete_steps() -> None:
    tiles = [step("d", 0, 0, 20), step("d", 1, 20, 40), step("d", 2, 40, 45, complete=False)]
    some = run([kernel(0, 5), kernel(20, 5, "step_end"), kernel(40, 5, "step_end")], steps=tiles)
    windows, steps = counted_windows(some, "d")
    assert (windows, steps) == ([(0, 20), (20, 40)], 2)
    assert pieces(some, windows).idle_ns == 30
    assert counted_windows(some, None) == ([(0, 45)], 1)
    with pytest.raises(UsageError, match="not in this run"):
        counted_windows(some, "x")


def test_an_empty_run_is_never_idle() -> None:
    some = run([])
    assert counted_windows(some, None) == ([], 1)
    assert pieces(some, []).idle_ns == 0
    assert by_cause(pieces(some, [])) == []
    assert pieces(some, [(0, 10)]).idle_ns == 0  # no device


def test_the_longest_come_first() -> None:
    some = found(kernel(0, 1), kernel(4, 1, "host"), kernel(9, 1, "host"), kernel(13, 1, "host"))
    assert longest(some, 2).tolist() == [1, 0]


def test_every_cause_is_explained() -> None:
    assert set(MEANING) == set(CAUSES)


row = st.fixed_dictionaries(
    {
        "start_ns": st.integers(0, 90), "dur_ns": st.integers(0, 15), "device": st.integers(0, 2),
        "gap_cause": st.sampled_from([*CAUSES[:5], None]),
        "flag": st.sampled_from([None, None, None, "too_long", "overlap_clipped"]),
        "link": st.sampled_from(["graph", "launch", None]),
        "launch_start_ns": st.one_of(st.none(), st.integers(-9, 0)),
    }
)  # fmt: skip
borders = st.lists(st.integers(-10, 130), min_size=2, max_size=8, unique=True).map(sorted)


@given(st.lists(row, min_size=1, max_size=20), borders)
def test_pieces_are_the_idle_time_of_any_tiles(made: list[dict[str, Any]], edges: list[int]) -> None:
    some = run(made)
    windows = list(zip(edges[::2], edges[1::2], strict=False))
    cut = pieces(some, windows)
    totals = ledger.close_windows(some.table, windows)[1]
    for place, total in enumerate(totals):
        mine = cut.device == place
        assert (total.rank, total.device) == cut.devices[place]
        assert cut.ns[mine].sum() == total.idle_ns
        spans = sorted(zip(cut.start_ns[mine], cut.end_ns[mine], strict=True))
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))  # none is counted twice
    assert cut.idle_ns == cut.span_ns - cut.busy_ns == sum(c.ns for c in by_cause(cut))
    assert all(c.n and c.ns for c in by_cause(cut))
    check_neighbours(some.table, cut)


@given(st.lists(row, min_size=1, max_size=20))
def test_the_whole_run_has_the_idle_time_that_show_prints(made: list[dict[str, Any]]) -> None:
    some = run(made)
    cut = pieces(some, counted_windows(some, None)[0])
    told = breakdown(some)
    assert (cut.idle_ns, cut.busy_ns) == (told.idle_ns, told.busy_ns)


def check_neighbours(table: pa.Table, cut: Pieces) -> None:
    start, end = ledger.intervals(table)
    for begin, finish, before, after in zip(cut.start_ns, cut.end_ns, cut.before, cut.after, strict=True):
        assert before < 0 or end[before] <= begin
        assert after < 0 or start[after] >= finish
