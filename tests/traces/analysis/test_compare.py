from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.builders import run, step
from traces.analysis.compare import compare, regressed
from traces.errors import UsageError

if TYPE_CHECKING:
    from traces.store import Run


def decode(gemm: int, norm: int, *, period: int = 100, steps: int = 3, **known: Any) -> Run:
    """`steps` complete decode steps and one incomplete one, each with a GEMM and a norm."""
    rows, tiles = [], []
    for i in range(steps + 1):
        at = i * period
        where = {"phase": "decode", "step": i}
        rows += [
            {"start_ns": at, "dur_ns": gemm, "category": "gemm", **where},
            {"start_ns": at + gemm, "dur_ns": norm, "category": "norm", "group": "small_op", **where},
        ]
        last = i == steps
        tiles.append(step("decode", i, at, at + (gemm + norm if last else period), complete=not last))
    return run([r for r in rows if r["dur_ns"]], steps=tiles, **known)


def test_rows_and_idle_sum_exactly_over_complete_steps_only() -> None:
    got = compare(decode(50, 10), decode(60, 0)).to_json()
    assert (got["phase"], got["basis"], got["by"]) == ("decode", "profiled", ["category"])
    assert got["total"] == {"a": 100, "b": 100, "delta": 0}
    assert got["rows"] == [
        {"key": {"category": "gemm"}, "a": 50, "b": 60, "delta": 10, "status": "matched"},
        {"key": {"category": "norm"}, "a": 10, "b": 0, "delta": -10, "status": "only_a"},
    ]
    assert got["idle"] == {"a": 40, "b": 40, "delta": 0}
    assert got["aligned_share"] == pytest.approx(110 / 120)
    assert got["profiler_overhead"] == {"a": None, "b": None}


def timing(median: int, iqr: int = 1) -> dict[str, Any]:
    return {"decode": {"n": 40, "median_ns": median, "iqr_ns": iqr}}


def test_wall_is_unprofiled_where_both_know_it_and_negative_idle_is_flagged() -> None:
    got = compare(decode(50, 10, unprofiled=timing(80)), decode(50, 10, unprofiled=timing(55))).to_json()
    assert got["basis"] == "unprofiled"
    assert got["total"] == {"a": 80, "b": 55, "delta": -25}
    assert got["idle"] == {"a": 20, "b": -5, "delta": -25, "negative": ["b"]}
    assert got["profiler_overhead"] == {"a": 100 / 80, "b": 100 / 55}
    assert got["spread"]["a"] == {"basis": "unprofiled", "n": 40, "median_ns": 80, "iqr_ns": 1}
    assert compare(decode(50, 10, unprofiled=timing(80)), decode(50, 10)).basis == "profiled"


def test_two_devices_count_twice_on_both_sides() -> None:
    rows = [{"start_ns": 0, "dur_ns": 40, "device": d, "phase": "decode", "step": 0} for d in (0, 1)]
    made = run(rows, steps=[step("decode", 0, 0, 50, complete=False)], unprofiled=timing(60))
    got = compare(made, made).to_json()
    assert got["total"]["a"] == 120
    assert got["rows"][0]["a"] == 80


def test_modules_are_the_unit_when_both_have_them() -> None:
    a, b = (run([{"start_ns": 0, "dur_ns": 5, "module": "lm_head", "phase": "decode", "step": 0}],
                steps=[step("decode", 0, 0, 5, complete=False)]) for _ in range(2))  # fmt: skip
    assert compare(a, b).by == ("module", "category")


def test_rows_of_no_phase_inside_the_tiles_show_as_null() -> None:
    made = run(
        [{"start_ns": 0, "dur_ns": 5, "phase": "decode", "step": 0}, {"start_ns": 6, "dur_ns": 2}],
        steps=[step("decode", 0, 0, 10, complete=False)],
    )
    got = compare(made, made)
    rows = got.rows
    assert (got.aligned_share, "phase" in rows[1]) == (1.0, True)
    assert [(r["key"]["category"], r["a"], r["status"]) for r in rows] == [
        ("gemm", 5, "matched"),
        (None, 2, "matched"),
    ]


def test_an_empty_run_never_counts_as_a_speed_up() -> None:
    with pytest.raises(UsageError, match="empty run"):
        compare(decode(50, 10), run([]))
    with pytest.raises(UsageError, match="--phase train"):
        compare(decode(50, 10), decode(50, 10), phase="train")
    flagged = decode(50, 10)
    nothing = [{**r, "used_ns": 0} for r in flagged.table.to_pylist()]
    for steps, where in ((flagged.meta["steps"], "of phase decode "), ([], "")):
        with pytest.raises(UsageError, match=f"no kernel {where}took time"):
            compare(decode(50, 10, steps=3), run(nothing, steps=steps))


def test_an_unprofiled_step_of_no_time_is_not_known() -> None:
    got = compare(decode(50, 10, unprofiled=timing(80)), decode(50, 10, unprofiled=timing(0)))
    assert (got.basis, got.total["b"]) == ("profiled", 100)


def test_a_regression_must_exceed_the_limit_and_the_noise() -> None:
    base = decode(50, 10, unprofiled=timing(1000, 30))
    assert regressed(compare(base, decode(50, 10, unprofiled=timing(1100, 30))), 5)
    assert not regressed(compare(base, decode(50, 10, unprofiled=timing(1040, 30))), 5)
    assert not regressed(compare(base, decode(50, 10, unprofiled=timing(1100, 200))), 5)
    assert not regressed(compare(base, base), 0)
    assert (
        "limit alone decides"
        in regressed(compare(decode(50, 10, steps=1), decode(90, 10, period=200, steps=1)), 5).why
    )


def test_what_json_adds_to_the_contract() -> None:
    got = compare(decode(50, 10), decode(60, 0)).to_json()
    assert got["aligned_by"] == "category"
    assert got["unaligned"] == {"a": 10, "b": 0}
    assert got["noise"] == {"iqr_ns": 0, "hides_delta": True}
    assert got["sentence"].startswith("B takes exactly as long as A")
    json.dumps(got)


@given(st.tuples(*[st.integers(1, 45)] * 4), st.tuples(*[st.integers(1, 5)] * 2))
def test_every_comparison_sums_exactly(times: tuple[int, ...], steps: tuple[int, int]) -> None:
    got = compare(decode(times[0], times[1], steps=steps[0]), decode(times[2], times[3], steps=steps[1]))
    for side in ("a", "b", "delta"):
        assert sum(r[side] for r in got.rows) + got.idle[side] == got.total[side]
