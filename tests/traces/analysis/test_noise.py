"""A difference counts only beyond the wider IQR, and an unknown noise is never passed over in silence."""

from __future__ import annotations

import pytest

from traces.analysis.noise import Noise, gate, noise_of, spread_of


def spread(n: int, iqr: int, basis: str = "unprofiled") -> dict[str, object]:
    return {"basis": basis, "n": n, "median_ns": 100, "iqr_ns": iqr}


def total(a: int, b: int) -> dict[str, int]:
    return {"a": a, "b": b, "delta": b - a}


def test_spread_of_tiles() -> None:
    assert spread_of([10, 20, 30, 40]) == {"basis": "profiled", "n": 4, "median_ns": 25, "iqr_ns": 15}
    assert spread_of([7]) == {"basis": "profiled", "n": 1, "median_ns": 7, "iqr_ns": 0}


def test_the_wider_iqr_counts_for_every_device() -> None:
    assert noise_of(spread(9, 3), spread(9, 5), (1, 1)).ns == 5
    assert noise_of(spread(9, 3), spread(9, 5), (4, 2)).ns == 12  # unprofiled steps are timed once
    assert noise_of(spread(9, 3, "profiled"), spread(9, 5, "profiled"), (4, 2)).ns == 5  # tiles are summed


def test_one_step_has_no_noise() -> None:
    noise = noise_of(spread(1, 0), spread(9, 5), (1, 1))
    assert (noise.ns, noise.hides(0), str(noise)) == (None, None, "unknown (n 1 and 9)")
    assert (Noise(5, (9, 9)).hides(-5), Noise(5, (9, 9)).hides(6)) == (True, False)


@pytest.mark.parametrize(
    ("b", "iqr", "percent", "failed", "why"),
    [
        (1060, 30, 5, True, "failed: B - A is +6.00% (+60 ns) a step, limit +5%, noise 30 ns (the wider IQR"),
        (1060, 70, 5, False, "within the noise"),
        (1040, 30, 5, False, "passed: B - A is +4.00% (+40 ns) a step, limit +5%"),
        (1050, 30, 5, False, "passed"),
        (900, 30, 5, False, "passed: B - A is -10.00% (-100 ns)"),
        (1000, 0, 0, False, "passed: B - A is +0.00% (+0 ns)"),
        (1001, 0, 0, True, "failed"),
        (1060, None, 5, True, "unknown (n 1 and 9); one step has no spread, so the limit alone decides"),
        (1040, None, 5, False, "noise unknown (n 1 and 9)"),
    ],
)  # fmt: skip
def test_the_gate(b: int, iqr: int | None, percent: float, failed: bool, why: str) -> None:
    got = gate(total(1000, b), Noise(iqr, (9 if iqr is not None else 1, 9)), percent)
    assert bool(got) is got.failed is failed
    assert why in got.why


def test_a_baseline_of_no_time_has_no_percentage() -> None:
    assert "B - A is +5 ns a step" in gate(total(0, 5), Noise(0, (2, 2)), 5).why
