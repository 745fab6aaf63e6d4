from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.readers.times import INT64_MAX, INT64_MIN, nanoseconds


@given(st.lists(st.integers(0, 2**62), min_size=1, max_size=20))
def test_every_nanosecond_is_kept(values: list[int]) -> None:
    got, good = nanoseconds([f"{v // 1000}.{v % 1000:03d}".encode() for v in values])
    assert got.tolist() == values
    assert good.all()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"1712195495505582.988", 1_712_195_495_505_582_988),
        (b"5", 5000),
        (b"0.7", 700),
        (b"-3.001", -3001),
        (b'"12.5"', 12_500),
        (b"1.5e3", 1_500_000),
        (b"0.0005", 0),
        (b"1e40", INT64_MAX),
        (b"-1e40", INT64_MIN),
        (b"9223372036854775807", INT64_MAX),
        (b"", None),
        (b"null", None),
        (b"NaN", None),
        (b'"N/A"', None),
    ],
)
def test_texts_in_the_wild(text: bytes, expected: int | None) -> None:
    got, good = nanoseconds([text])
    assert good[0] == (expected is not None)
    assert got[0] == (expected or 0)
