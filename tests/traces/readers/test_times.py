from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.readers.times import FLOAT_LIMIT, INT64_MAX, INT64_MIN, InexactError, nanoseconds


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=20))
def test_every_nanosecond_is_kept_in_text(values: list[int]) -> None:
    got, good = nanoseconds([f"{v // 1000}.{v % 1000:03d}" for v in values])
    assert got.tolist() == values
    assert good.all()


@given(st.lists(st.integers(-(2**43) * 1000 + 1, 2**43 * 1000 - 1), min_size=1, max_size=20))
def test_every_nanosecond_is_kept_in_floats_below_the_limit(values: list[int]) -> None:
    floats = [float(f"{'-' if v < 0 else ''}{abs(v) // 1000}.{abs(v) % 1000:03d}") for v in values]
    got, good = nanoseconds([*floats, 7])
    assert got.tolist() == [*values, 7000]
    assert good.all()


def test_floats_at_the_limit_are_refused() -> None:
    assert nanoseconds([1_712_195_495_505_582])[0].tolist() == [1_712_195_495_505_582_000]  # an int is exact
    for value in (FLOAT_LIMIT, -FLOAT_LIMIT, 1_712_195_495_505_582.988):
        with pytest.raises(InexactError):
            nanoseconds([1.5, value])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1712195495505582.988", 1_712_195_495_505_582_988),
        ("5", 5000),
        ("0.7", 700),
        ("-3.001", -3001),
        (" 12.5 ", 12_500),
        ("1.5e3", 1_500_000),
        ("0.0005", 0),
        ("1e40", INT64_MAX),
        ("-1e40", INT64_MIN),
        ("9223372036854775807", INT64_MAX),
        ("", None),
        (None, None),
        (True, None),
        ([1], None),
        ("NaN", None),
        ("N/A", None),
        (2**70, INT64_MAX),
    ],
)
def test_values_in_the_wild(text: Any, expected: int | None) -> None:
    got, good = nanoseconds([text])
    assert good[0] == (expected is not None)
    assert got[0] == (expected or 0)
