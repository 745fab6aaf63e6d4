"""Bins against the simple definition: how long the rows ran in each."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traces.analysis import pyramid

one = st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(0, 2))  # start, length, series


@given(st.lists(one, max_size=25), st.integers(1, 90), st.integers(1, 30))
def test_every_ns_is_in_exactly_one_bin(rows: list[tuple[int, int, int]], last: int, most: int) -> None:
    start, length, series = (np.array([r[i] for r in rows], np.int64) for i in range(3))
    made = pyramid.bins(start, start + length, series, (0, last), most)
    assert made.busy_ns.shape[1] <= most
    for s in range(len(made.busy_ns)):
        for b, busy in enumerate(made.busy_ns[s].tolist()):
            cells = range(made.width * b, min(made.width * (b + 1), last))
            assert busy == sum(r[0] <= t < r[0] + r[1] for t in cells for r in rows if r[2] == s)


def test_sums_of_times_beyond_int64_do_not_spoil_the_bins() -> None:
    n, day = 200_000, 86_400_000_000_000
    start = np.sort(np.random.default_rng(1).integers(0, 100 * day, n))
    made = pyramid.bins(start, start + 1_000, np.zeros(n, np.int64), (0, 101 * day), 1_000)
    assert int(made.busy_ns.sum()) == 1_000 * n
    assert int(made.busy_ns.min()) >= 0
