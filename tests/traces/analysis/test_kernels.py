"""Statistics per kernel name against hand-made rows and against the breakdown."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.builders import run, step
from traces.analysis import kernels
from traces.analysis.breakdown import breakdown
from traces.analysis.compare import compare
from traces.errors import UsageError

ROWS = [
    {"start_ns": 0, "dur_ns": 10, "name": "mm", "phase": "decode", "step": 0},
    {"start_ns": 10, "dur_ns": 30, "name": "mm", "phase": "decode", "step": 0},
    {"start_ns": 50, "dur_ns": 20, "name": "norm", "group": "small_op", "phase": "decode", "step": 1},
    {"start_ns": 70, "dur_ns": 5, "name": "copy", "group": "memory", "category": "memcpy"},
]  # fmt: skip
STEPS = [step("decode", 0, 0, 50), step("decode", 1, 50, 100)]


def test_statistics_of_a_phase() -> None:
    rows = kernels.by_name(run(ROWS, steps=STEPS), "decode").to_pylist()
    assert [r["name"] for r in rows] == ["mm", "norm", None]
    mm = rows[0]
    assert (mm["count"], mm["total_ns"], mm["mean_ns"], mm["per_step"]) == (2, 40, 20.0, 1.0)
    assert (mm["p50_ns"], mm["p99_ns"], mm["share"]) == (10, 30, 0.4)


def test_time_of_other_phases_is_a_row_of_its_own_without_quantiles() -> None:
    other = kernels.by_name(run(ROWS, steps=STEPS), "decode").to_pylist()[-1]
    assert (other["name"], other["exclusive_ns"], other["p50_ns"], other["p99_ns"]) == (None, 5, None, None)


def test_the_rows_are_those_of_the_breakdown() -> None:
    made = run(ROWS, steps=STEPS)
    for phase in (None, "decode"):
        expected = [r["exclusive_ns"] for r in breakdown(made, kernels.KEYS, phase).rows]
        assert kernels.by_name(made, phase)["exclusive_ns"].to_pylist() == expected


def test_the_whole_run_has_no_count_per_step() -> None:
    table = kernels.by_name(run(ROWS, steps=STEPS))
    assert table.schema == kernels.SCHEMA
    assert set(table["per_step"].to_pylist()) == {None}


def test_an_unknown_phase_is_refused() -> None:
    with pytest.raises(UsageError, match="prefill"):
        kernels.by_name(run(ROWS, steps=STEPS), "prefill")


def test_search_wants_every_word_whatever_the_case() -> None:
    names = ("ampere_GEMM.*tn", "gemm_nn")
    table = kernels.by_name(run([{"start_ns": 0, "dur_ns": 1, "name": n} for n in names]))
    assert kernels.search(table, "gemm TN")["name"].to_pylist() == ["ampere_GEMM.*tn"]
    assert kernels.search(table, ".*")["name"].to_pylist() == ["ampere_GEMM.*tn"]
    assert kernels.search(table, "").num_rows == 2


def test_search_looks_at_the_category_and_the_backend_too() -> None:
    rows = [{**ROWS[0], "name": "nvjet", "backend": "cublas"}, {**ROWS[2], "category": "norm", "name": "x"}]
    table = kernels.by_name(run(rows))
    assert kernels.search(table, "gemm")["name"].to_pylist() == ["nvjet"]
    assert kernels.search(table, "cublas jet")["name"].to_pylist() == ["nvjet"]
    assert kernels.search(table, "norm")["name"].to_pylist() == ["x"]


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=60), st.sampled_from([0.5, 0.99, 1.0]))
def test_nearest_rank_is_numpys_inverted_cdf(values: list[int], share: float) -> None:
    ordered = np.sort(np.asarray(values, np.int64))
    assert kernels.nearest_rank(ordered, share) == np.quantile(ordered, share, method="inverted_cdf")


def test_extremes_and_rates() -> None:
    rows = [{**ROWS[0], "flops": 1_000, "min_bytes": 40}, *ROWS[1:]]
    mm, norm, other = kernels.by_name(run(rows, steps=STEPS), "decode").to_pylist()
    assert (mm["min_ns"], mm["max_ns"]) == (10, 30)
    assert (mm["tflops"], mm["gb_per_s"]) == (0.1, 4.0)
    assert norm["tflops"] is norm["gb_per_s"] is norm["roofline"] is None
    assert other["min_ns"] is other["max_ns"] is None


def test_two_runs_side_by_side_per_step() -> None:
    more = [*ROWS[:2], ROWS[3], {"start_ns": 90, "dur_ns": 4, "name": "new", "phase": "decode", "step": 1}]
    runs = run(ROWS, steps=STEPS), run(more, steps=STEPS)
    a, b = (kernels.by_name(r, "decode") for r in runs)
    found = kernels.paired(a, b, compare(*runs, kernels.KEYS, "decode"))
    rows = found.to_pylist()
    told = [(r["name"], r["in"], r["a_step_ns"], r["b_step_ns"], r["delta_ns"]) for r in rows]
    assert told == [
        ("mm", "A and B", 20, 20, 0), ("norm", "A", 10, None, None), (None, "A and B", 2, 2, 0),
        ("new", "B", None, 2, None),
    ]  # fmt: skip
    assert found.schema == kernels.PAIRS


def test_time_per_step_is_of_complete_steps_like_the_comparison() -> None:
    rows = [{**ROWS[0], "step": n, "start_ns": 50 * n, "dur_ns": 10 + 6 * n} for n in range(3)]
    tiles = [step("decode", n, 50 * n, 50 * n + 50, complete=n < 2) for n in range(3)]
    made = run(rows, steps=tiles)
    stats = kernels.by_name(made, "decode")
    row = kernels.paired(stats, stats, compare(made, made, kernels.KEYS, "decode")).to_pylist()[0]
    assert (row["a_step_ns"], row["a_count"], row["b_mean_ns"]) == (13, 3, 16)


def test_two_whole_runs_are_compared_as_they_are() -> None:
    made = run(ROWS)
    a = kernels.by_name(made)
    found = kernels.paired(a, a, compare(made, made, kernels.KEYS))
    assert found["a_step_ns"].to_pylist() == a["exclusive_ns"].to_pylist()


def test_rows_are_chosen_by_a_column() -> None:
    table = kernels.by_name(run(ROWS))
    assert kernels.chosen(table, "group", ["small_op"])["name"].to_pylist() == ["norm"]
    assert kernels.chosen(table, "category", []) is table
