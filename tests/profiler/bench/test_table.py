"""The tables, on made-up times."""

from __future__ import annotations

import pytest

from profiler.bench.table import Measured, Timed, Work, bound, iqr, out, rows, step_sums
from traces.analysis.roofline import Peaks

PEAKS = Peaks(1e15, 4e12, "made up")


def timed(name: str, triton: bool, *samples: float, why: str | None = None) -> Timed:
    return Timed(name, triton, samples, why)


def measured(*contenders: Timed, every: bool = False, calls: int = 1, op: str = "op") -> Measured:
    return Measured(op, "M2", Work(40_000_000, 80_000_000), contenders, every, calls)


def test_a_row_is_triton_against_the_fastest_vendor() -> None:
    (row,) = rows(
        measured(
            timed("slow", False, 40.0, 41.0, 42.0), timed("fast", False, 19.0, 20.0, 24.0),
            timed("ours", True, 15.0, 16.0, 17.0),
        ),
        PEAKS,
    )  # fmt: skip
    assert row["ratio"] == pytest.approx(20 / 16)
    assert row["cuda"] == {
        "name": "fast", "us": 20.0, "iqr_us": 2.5, "n": 3, "gb_per_s": 2000.0, "tflop_per_s": 4.0,
        "of_roof": 0.5, "does": "",
    }  # fmt: skip
    assert row["triton"]["of_roof"] == pytest.approx(10 / 16)
    assert row["triton"]["gb_per_s"] == 2500
    assert (row["bytes"], row["flops"], row["bound"]) == (40_000_000, 80_000_000, "memory")


def test_every_vendor_and_every_triton_kernel_has_its_row() -> None:
    found = measured(
        timed("a", False, 2.0),
        timed("b", False, 1.0),
        timed("x", True, 1.0),
        timed("y", True, 4.0),
        every=True,
    )
    pairs = [(r["cuda"]["name"], r["triton"]["name"], r["ratio"]) for r in rows(found, None)]
    assert pairs == [("b", "x", 1.0), ("a", "x", 2.0), ("b", "y", 0.25), ("a", "y", 0.5)]
    assert rows(found, None)[0]["triton"]["of_roof"] is None


def test_a_side_without_times_stays_empty_and_says_why() -> None:
    found = measured(timed("a", False, why="not supported"), timed("x", True, 1.0))
    (row,) = rows(found, PEAKS)
    assert row["cuda"] is None
    assert row["ratio"] is None
    assert row["triton"]["us"] == 1.0
    assert out(found) == [{"op": "op", "shape": "M2", "name": "a", "why": "not supported"}]
    (row,) = rows(measured(timed("a", False, 1.0), timed("x", True, why="wrong result")), PEAKS)
    assert (row["cuda"]["us"], row["triton"]) == (1.0, None)
    assert rows(measured(timed("a", False, why="x"), timed("b", True, why="y")), PEAKS) == []


@pytest.mark.parametrize(
    ("work", "peaks", "expected"),
    [
        (Work(1000), PEAKS, "memory"),
        (Work(1000, 2000), PEAKS, "memory"),
        (Work(1000, 1_000_000), PEAKS, "compute"),
        (Work(1000, 63_000), None, "memory"),
        (Work(1000, 65_000), None, "compute"),
        (Work(1000, 65_000), Peaks(None, 1.0, ""), "compute"),
    ],
)
def test_which_roof_comes_first(work: Work, peaks: Peaks | None, expected: str) -> None:
    assert bound(work, peaks) == expected


def test_the_spread_of_one_sample_is_none() -> None:
    assert iqr([3.0]) == 0
    assert iqr([1.0, 2.0, 3.0, 4.0, 5.0]) == 2


def test_the_layers_of_a_step_add_up_by_the_fastest_kernel_of_each_row() -> None:
    found = rows(
        measured(timed("a", False, 10.0), timed("x", True, 9.0), timed("y", True, 5.0), calls=3), None
    )
    found += rows(measured(timed("a", False, 2.0), timed("x", True, 1.0), op="other"), None)
    assert step_sums(found) == (32.0, 16.0)
    assert step_sums([]) is None
    assert step_sums(rows(measured(timed("a", False, 2.0)), None)) is None
