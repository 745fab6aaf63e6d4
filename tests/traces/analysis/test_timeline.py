"""Windows, lanes and busy shares against hand-made rows and simple, slow definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.builders import run
from traces import ledger
from traces.analysis import timeline

one = st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(0, 2))
intervals = st.lists(one, min_size=1, max_size=25)  # start, length, queue


def test_rows_are_inside_when_any_part_of_them_is() -> None:
    rows = [{"start_ns": s, "dur_ns": d} for s, d in ((0, 10), (10, 5), (15, 0), (18, 10), (20, 5), (30, 1))]
    assert timeline.inside(run(rows).table, 10, 20).tolist() == [1, 2, 3]


def test_rows_that_the_ledger_leaves_out_are_not_drawn() -> None:
    rows: list[dict[str, Any]] = [
        {"start_ns": 0, "dur_ns": 5, "flag": "too_long", "used_ns": 0},
        {"start_ns": 1, "dur_ns": 5},
    ]
    assert timeline.inside(run(rows).table, 0, 20).tolist() == [1]


def test_overlapping_rows_get_lanes_of_their_own_per_queue() -> None:
    start, end = np.array([0, 5, 10, 0]), np.array([10, 12, 20, 30])
    assert timeline.lanes(start, end, [7, 7, 7, 8]).tolist() == [0, 1, 0, 0]


@given(intervals)
def test_no_two_rows_of_a_lane_overlap_and_lanes_are_few(rows: list[tuple[int, int, int]]) -> None:
    start = np.array([s for s, _, _ in rows])
    end = start + np.array([d for _, d, _ in rows])
    queue = [q for _, _, q in rows]
    lane = timeline.lanes(start, end, queue)
    for i in range(len(rows)):
        for j in range(i):
            if queue[i] == queue[j] and lane[i] == lane[j]:
                assert end[i] <= start[j] or end[j] <= start[i]
    for q in set(queue):
        mine = [i for i in range(len(rows)) if queue[i] == q]
        deepest = max(sum(start[i] <= t < max(end[i], start[i] + 1) for i in mine) for t in range(90))
        assert lane[mine].max() + 1 <= deepest


def test_busy_shares_split_overlap_equally() -> None:
    shares = timeline.busy_share(np.array([0, 5]), np.array([10, 10]), ["gemm", "other"], (0, 20), 2)
    assert shares["gemm"].tolist() == pytest.approx([0.75, 0])
    assert shares["other"].tolist() == pytest.approx([0.25, 0])


@given(intervals, st.integers(1, 9))
def test_busy_shares_add_up_to_the_busy_time(rows: list[tuple[int, int, int]], bins: int) -> None:
    start = np.array([s for s, _, _ in rows])
    end = start + np.array([d for _, d, _ in rows])
    shares = timeline.busy_share(start, end, [f"g{q}" for _, _, q in rows], (0, 90), bins)
    drawn = sum(s.sum() for s in shares.values()) * 90 / bins
    assert drawn == pytest.approx(ledger.split(start, end, (0, 90)).busy)
    assert all(s.min() > -1e-9 for s in shares.values())
    assert np.sum(list(shares.values()), axis=0).max() < 1 + 1e-9
