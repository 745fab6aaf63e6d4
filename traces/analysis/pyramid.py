"""Busy time per bin of a long timeline, exact: a picture of millions of rows takes thousands of numbers.

One level is enough: whoever draws it adds the bins up once (prefix sums) and then reads the busy time of any
stretch from two of the sums, however far the picture is zoomed out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]


class Bins(NamedTuple):
    """`busy_ns[i, j]`: ns that the rows of series `i` ran from `first + j * width` to `width` ns later."""

    first: int
    width: int
    busy_ns: Int64s  # (series, bins)


def bins(start: Int64s, end: Int64s, series: Int64s, window: tuple[int, int], most: int) -> Bins:
    """Busy ns of each series (0, 1, …) in at most `most` equal bins of the window, whole ns wide.

    Rows of one series that overlap count each by themselves. Every ns of a row inside the window is in
    exactly one bin: a series' bins add up to its rows' time there.
    """
    first, last = window
    width = max(-(-(last - first) // most), 1)
    count = max(-(-(last - first) // width), 1)
    cuts = first + width * np.arange(count + 1)
    begin = np.clip(start, first, last) - first
    finish = np.clip(end, first, last) - first
    number = int(series.max(initial=-1)) + 1
    order = np.argsort(series, kind="stable")
    busy = np.zeros((number, count), np.int64)
    edges = np.searchsorted(series[order], np.arange(number + 1))
    for i in range(number):
        mine = order[edges[i] : edges[i + 1]]
        busy[i] = np.diff(_until(begin[mine], cuts - first) - _until(finish[mine], cuts - first))
    return Bins(first, width, busy)


def _until(moments: Int64s, cuts: Int64s) -> Int64s:
    """The sum of (cut - moment) over the moments before each cut.

    Of starts, minus the same of ends, that is the time that the rows ran until the cut. The sums may pass
    int64, but wrap around, as do the products: their difference fits, so it is exact.
    """
    ordered = np.sort(moments)
    sums = np.concatenate([[0], np.cumsum(ordered)])
    before = np.searchsorted(ordered, cuts)
    out: Int64s = before * cuts - sums[before]
    return out
