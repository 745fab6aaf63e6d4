"""Which rows are doubtful, and what of their duration the ledger may use.

A disqualified row keeps its place in the file but has `used_ns` 0 and lies outside the span. A row
that ends after its successor on the same stream *ends* cannot be right (the stream is in order), so it
is cut at the successor's start. Shorter overlaps (programmatic dependent launch) are legitimate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traces.columns import decode

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

DAY_NS: Final = 86_400_000_000_000
DISQUALIFYING: Final = frozenset({"beyond_int64", "negative_start", "reversed", "too_long", "zero_time"})
CLIPPED: Final = "overlap_clipped"
NO_DURATION: Final = "no_duration"  # null in the trace: nothing to use, but its start stands


def judge(start: NDArray[np.int64], dur: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
    """Rows that cannot be used, by reason. `start` and `dur` are the tool's own clock, ns."""
    return {
        "zero_time": (start == 0) & (dur == 0),
        "negative_start": start < 0,
        "reversed": dur < 0,
        "too_long": dur >= DAY_NS,
        "beyond_int64": start > np.iinfo(np.int64).max - DAY_NS,
    }


def clip(
    start: NDArray[np.int64], dur: NDArray[np.int64], streams: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Cut rows that outlast their stream successor: (used ns, which were cut).

    `streams` numbers the in-order queue of each row; a negative number is no queue and never clips.
    """
    end = start + dur
    order = np.lexsort((end, start, streams))
    same = (streams[order][1:] == streams[order][:-1]) & (streams[order][1:] >= 0)
    outlasts = same & (end[order][:-1] > end[order][1:])
    used, cut = dur.copy(), np.zeros(len(dur), dtype=bool)
    rows, successors = order[:-1][outlasts], order[1:][outlasts]
    used[rows] = start[successors] - start[rows]
    cut[rows] = True
    return used, cut


def join(reasons: dict[str, NDArray[np.bool_]], rows: int) -> pa.DictionaryArray:
    """One sorted, comma-joined text of reasons per row; null where there is no doubt."""
    names = sorted(reasons)
    bits = np.zeros(rows, np.int32)
    for i, name in enumerate(names):
        bits |= reasons[name].astype(np.int32) << i
    texts = [",".join(n for i, n in enumerate(names) if which >> i & 1) for which in range(1 << len(names))]
    return decode(bits, [text or None for text in texts])
