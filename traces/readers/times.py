"""Microseconds as text to integer nanoseconds, by their digits.

A double at epoch microseconds has steps of 0.25 us while kernels last 1 us, so no float is involved.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
_EXACT = pa.decimal128(22, 3)


def nanoseconds(texts: Sequence[bytes]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Parse microsecond texts such as `b"5200873447249.103"`: (ns, which could be read).

    Values beyond int64 become its nearest end; unreadable ones are 0 and False.
    """
    try:
        exact = pa.array(texts, pa.binary()).cast(pa.string()).cast(_EXACT)
        whole = pc.cast(pc.multiply(exact, pa.scalar(1000, pa.int64())), pa.int64())
        return whole.to_numpy(), np.ones(len(texts), dtype=bool)
    except pa.ArrowInvalid:
        parsed = [_one(t) for t in texts]
        good = np.array([p is not None for p in parsed], dtype=bool)
        return np.array([p or 0 for p in parsed], dtype=np.int64), good


def _one(text: bytes) -> int | None:
    try:
        value = Decimal(text.decode().strip('" '))
        if not value.is_finite():
            return None
        if value.adjusted() > 20:
            return INT64_MAX if value > 0 else INT64_MIN
        return saturate(int((value * 1000).to_integral_value()))
    except (InvalidOperation, ValueError):
        return None


def saturate(value: int) -> int:
    """The nearest int64."""
    return max(INT64_MIN, min(INT64_MAX, value))
