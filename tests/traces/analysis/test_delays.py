from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.builders import run
from traces import ledger
from traces.analysis.delays import delays, log_bins

WHOLE = [(-100, 1000)]


def kernel(start: int, launch: int | None, **known: Any) -> dict[str, Any]:
    return {"start_ns": start, "dur_ns": 5, "launch_start_ns": launch, "link": "launch", **known}


def test_a_delay_runs_from_the_launch_to_the_start() -> None:
    found = delays(run([kernel(0, -7), kernel(20, 1), kernel(40, None), kernel(60, 61)]), WHOLE)
    assert found.launches.tolist() == [7, 19]
    assert (found.graphs.tolist(), found.inside, found.unknown, found.negative) == ([], 0, 1, 1)


def test_only_the_first_kernel_of_a_replay_has_a_delay() -> None:
    one, two = ({"link": "graph", "process": 1}, {"link": "graph", "process": 2})
    rows = [
        kernel(10, 0, **one), kernel(20, 0, **one), kernel(12, 0, **two),
        kernel(30, 25, **one), kernel(40, 25, kind="graph", launch_api="cudaGraphLaunch"),
    ]  # fmt: skip
    found = delays(run(rows), WHOLE)
    assert sorted(found.graphs.tolist()) == [5, 10, 12, 15]
    assert (found.launches.tolist(), found.inside) == ([], 1)


def test_a_replay_that_began_before_the_window_has_no_delay_in_it() -> None:
    rows = [kernel(10, 0, link="graph"), kernel(20, 0, link="graph")]
    found = delays(run(rows), [(15, 30)])
    assert (found.graphs.tolist(), found.inside) == ([], 1)
    assert delays(run(rows), []).inside == 0


row = st.builds(
    kernel,
    st.integers(0, 99),
    st.one_of(st.none(), st.integers(-20, 99)),
    link=st.sampled_from(["launch", "graph", "orphan", None]),
    launch_api=st.sampled_from(["cudaGraphLaunch", "cudaLaunchKernel", None]),
    flag=st.sampled_from([None, None, "too_long"]),
)


@given(st.lists(row, max_size=20), st.integers(0, 60), st.integers(1, 60))
def test_every_row_is_counted_once(made: list[dict[str, Any]], first: int, length: int) -> None:
    some = run(made)
    found = delays(some, [(first, first + length)])
    start = some.table["start_ns"].to_numpy()
    inside = ledger.usable(some.table) & (start >= first) & (start < first + length)
    told = len(found.launches) + len(found.graphs) + found.inside + found.unknown + found.negative
    assert told == inside.sum()
    assert (found.launches >= 0).all()
    assert (found.graphs >= 0).all()


@given(st.lists(st.integers(0, 10**15), max_size=30))
def test_bins_hold_every_value_once(values: list[int]) -> None:
    found = log_bins(np.array(values, np.int64))
    assert sum(n for _, _, n, _ in found) == len(values)
    assert sum(total for *_, total in found) == sum(values)
    for low, high, n, total in found:
        assert low < high
        assert n == sum(low <= v < high for v in values)
        assert low * n <= total < high * n or n == total == 0
    assert all(a[1] == b[0] for a, b in itertools.pairwise(found))


def test_bins_are_the_same_for_any_values() -> None:
    edges = {low for low, *_ in log_bins(np.array([0, 10**6]))}
    assert {low for low, *_ in log_bins(np.array([500, 90_000]))} < edges
    assert {0, 10, 100, 1000, 10_000, 100_000, 10**6} <= edges
