from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from profiler.capture.unprofiled import summary


def test_summary_of_known_samples() -> None:
    assert summary([10, 20, 30, 40, 50]) == {"n": 5, "median_ns": 30, "iqr_ns": 20}


@given(st.lists(st.integers(0, 10**12), min_size=2))
def test_summary_lies_within_its_samples(samples: list[int]) -> None:
    found = summary(samples)
    assert found["n"] == len(samples)
    assert min(samples) <= found["median_ns"] <= max(samples)
    assert 0 <= found["iqr_ns"] <= max(samples) - min(samples)
