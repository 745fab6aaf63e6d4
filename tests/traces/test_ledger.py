from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.builders import run
from traces import ledger

intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=25)


def oracle(rows: list[tuple[int, int]], window: tuple[int, int]) -> tuple[list[int], int]:
    """Instant by instant: count what runs in each segment between two edges."""
    edges = sorted({e for s, d in rows for e in (s, s + d)})
    exclusive, busy = [0] * len(rows), 0
    for left, right in pairwise(edges):
        running = [i for i, (s, d) in enumerate(rows) if s <= left and s + d >= right and d]
        if running:
            busy += right - left
            for i in running:
                exclusive[i] += (right - left) // len(running)
            earliest = min(running, key=lambda i: (rows[i][0], i))
            exclusive[earliest] += (right - left) % len(running)
    return exclusive, busy


@given(intervals)
def test_split_closes_and_equals_the_instant_by_instant_count(rows: list[tuple[int, int]]) -> None:
    window = (min((s for s, _ in rows), default=0), max((s + d for s, d in rows), default=5))
    start = np.array([s for s, _ in rows], np.int64)
    end = start + np.array([d for _, d in rows], np.int64)
    got = ledger.split(start, end, window)
    exclusive, busy = oracle(rows, window)
    assert got.exclusive.tolist() == exclusive
    assert got.busy == busy == got.exclusive.sum()
    assert got.exclusive.sum() + got.gap.sum() + got.tail == window[1] - window[0]


def test_three_overlapping_rows_share_each_instant_remainder_to_the_earliest() -> None:
    start, end = np.array([0, 0, 5], np.int64), np.array([10, 10, 10], np.int64)
    assert ledger.split(start, end, (0, 10)).exclusive.tolist() == [5 // 2 + 1 + 5 // 3 + 2, 2 + 1, 1]


def test_devices_share_one_window_and_each_has_its_tail() -> None:
    made = run(
        [
            {"start_ns": 0, "dur_ns": 10, "device": 0},
            {"start_ns": 4, "dur_ns": 16, "device": 1},
        ]
    )
    exclusive, gap, totals = ledger.close(made.table)
    assert exclusive.tolist() == [10, 16]
    assert gap.tolist() == [0, 4]
    assert [(t.device, t.span_ns, t.busy_ns, t.idle_ns, t.tail_ns) for t in totals] == [
        (0, 20, 10, 10, 10),
        (1, 20, 16, 4, 0),
    ]


def test_flagged_rows_lie_outside_the_span() -> None:
    made = run(
        [
            {"start_ns": -(10**15), "dur_ns": 0, "flag": "zero_time"},
            {"start_ns": 0, "dur_ns": 3},
        ]
    )
    exclusive, gap, totals = ledger.close(made.table)
    assert (exclusive.tolist(), gap.tolist()) == ([0, 3], [0, 0])
    assert totals[0].span_ns == totals[0].busy_ns == 3


def test_a_run_of_flagged_rows_only_has_no_devices() -> None:
    made = run([{"start_ns": 0, "dur_ns": 0, "flag": "zero_time"}])
    assert ledger.close(made.table)[2] == []


@given(intervals.filter(bool), st.integers(0, 60), st.integers(1, 40))
def test_windows_close_too(rows: list[tuple[int, int]], first: int, length: int) -> None:
    made = run([{"start_ns": s, "dur_ns": d} for s, d in rows])
    exclusive, totals = ledger.close_windows(
        made.table, [(first, first + length), (first + 100, first + 107)]
    )
    assert exclusive.sum() == totals[0].busy_ns
    assert totals[0].span_ns == length + 7 == totals[0].busy_ns + totals[0].idle_ns


def test_unknown_rank_and_device_are_one_device() -> None:
    made = run([{"start_ns": 0, "dur_ns": 2, "device": None}, {"start_ns": 2, "dur_ns": 2, "device": None}])
    (total,) = ledger.close(made.table)[2]
    assert (total.rank, total.device, total.busy_ns) == (None, None, 4)
    assert pc.sum(made.table["exclusive_ns"]).as_py() == 4
