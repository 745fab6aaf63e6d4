"""Microseconds to integer nanoseconds, exactly as written.

A double at epoch microseconds has steps of 0.25 us while kernels last 1 us, so such times must come as
text. Below 2^43 us (101 days; Kineto counts from a base at most three months back) doubles lie closer than
1 ns, the nanosecond meant is the nearest one, and floats are exact and faster.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
FLOAT_LIMIT: Final = 2.0**43
_EXACT = pa.decimal128(22, 3)


class InexactError(ValueError):
    """A time came as a float too large to tell its nanoseconds: decode it as text."""


def nanoseconds(values: Sequence[Any]) -> tuple[Int64s, NDArray[np.bool_]]:
    """Microseconds, as ints, floats or text such as `"5200873447249.103"`: (ns, which could be read).

    Values beyond int64 become its nearest end; unreadable ones are 0 and False. Raises InexactError for a
    float from FLOAT_LIMIT on.
    """
    kinds = set(map(type, values))
    if kinds <= {float, int}:
        numbers = np.array(values, np.float64)
        if not len(values) or np.abs(numbers).max() < FLOAT_LIMIT:
            whole = np.floor(numbers)
            fraction = np.rint((numbers - whole) * 1000)
            return whole.astype(np.int64) * 1000 + fraction.astype(np.int64), np.ones(len(values), dtype=bool)
    elif kinds <= {str, int}:
        try:
            exact = pa.array(list(map(str, values)), pa.string()).cast(_EXACT)
            whole = pc.cast(pc.multiply(exact, pa.scalar(1000, pa.int64())), pa.int64())
            return whole.to_numpy(), np.ones(len(values), dtype=bool)
        except pa.ArrowInvalid:
            pass
    parsed = [_one(v) for v in values]
    good = np.array([p is not None for p in parsed], dtype=bool)
    return np.array([p or 0 for p in parsed], dtype=np.int64), good


def _one(value: object) -> int | None:
    if isinstance(value, float) and abs(value) >= FLOAT_LIMIT:
        raise InexactError("a float cannot hold this time")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        exact = Decimal(value.strip() if isinstance(value, str) else repr(value))
        if not exact.is_finite():
            return None
        if exact.adjusted() > 20:
            return INT64_MAX if exact > 0 else INT64_MIN
        return saturate(int((exact * 1000).to_integral_value()))
    except (InvalidOperation, ValueError):
        return None


def saturate(value: int) -> int:
    """The nearest int64."""
    return max(INT64_MIN, min(INT64_MAX, value))
