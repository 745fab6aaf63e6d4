from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traces.columns import NONE
from traces.nesting import Nest

interval = st.tuples(st.integers(0, 50), st.integers(0, 20))


@given(st.lists(interval, min_size=1, max_size=20), st.integers(0, 75))
def test_finds_an_interval_exactly_when_one_encloses_the_moment(rows: list[tuple[int, int]], t: int) -> None:
    start, dur = (np.array(c, np.int64) for c in zip(*rows, strict=True))
    nest = Nest(start, dur, np.arange(len(rows)))
    around = [i for i, (s, d) in enumerate(rows) if s <= t <= s + d]
    for found in (nest.innermost(np.array([t]))[0], nest.outermost(np.array([t]))[0]):
        assert (found in around) if around else found == NONE


def test_innermost_and_outermost_of_nested_intervals() -> None:
    nest = Nest(np.array([0, 10, 12, 40]), np.array([100, 20, 5, 5]), np.array([7, 8, 9, 10]))
    moments = np.array([5, 13, 25, 41, 101])
    assert nest.innermost(moments).tolist() == [7, 9, 8, 10, NONE]
    assert nest.outermost(moments).tolist() == [7, 7, 7, 7, NONE]


def test_many_siblings_in_one_parent() -> None:
    inner = np.arange(1, 20001, 2)
    start = np.concatenate([[0], inner])
    nest = Nest(start, np.concatenate([[50_000], np.ones(len(inner), np.int64)]), np.arange(len(start)))
    assert nest.innermost(np.array([20_000, 30_000, 60_000])).tolist() == [10_000, 0, NONE]
    assert set(nest.parent[1:].tolist()) == {0}
