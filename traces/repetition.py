"""Steps of a trace without ranges, inferred from the repetition of its kernels.

A kernel that occurs once a step marks where steps begin: between its occurrences the same kernels run. Of
all such kernels the rarest wins, so that a loop over steps is found before the loop over layers inside it;
a loop over layers alone is told by what follows it in the last block (final norm, lm_head), and refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traces.columns import NONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

PHASE: Final = "step"
_MIN_REPEATS: Final = 3
_MIN_KERNELS: Final = 2  # of a step
_CANDIDATES: Final = 256
_SAME: Final = 0.5  # of the blocks must be the very same
_EXTRA: Final = 0.02  # of the last block may be kernels that the others do not have


def step_starts(names: NDArray[np.int32], gap: Int64s, unit: Int64s) -> Int64s:
    """Positions in `names` where steps begin; empty where nothing repeats.

    `names` codes the kernels of one device in order of start, `gap` is the idle time (ns) before each, and
    `unit` numbers the CUDA-graph replay that each belongs to (NONE outside), which a step never divides.
    """
    order = np.argsort(names, kind="stable")
    edges = np.flatnonzero(np.diff(names[order])) + 1
    places = [p for p in np.split(order, edges) if len(p) >= _MIN_REPEATS]
    # Among equally rare kernels the one that waits longest begins the step, else the earliest.
    places.sort(key=lambda p: (len(p), -np.median(gap[p]), p[0]))
    for starts in places[:_CANDIDATES]:
        if not _divides_a_replay(unit, starts) and len(found := _repeating(names, starts)):
            return found
    return np.zeros(0, np.int64)


def _divides_a_replay(unit: Int64s, starts: Int64s) -> bool:
    inside = starts[starts > 0]
    return bool(((unit[inside] != NONE) & (unit[inside] == unit[inside - 1])).any())


def _repeating(names: NDArray[np.int32], starts: Int64s) -> Int64s:
    """`starts` from where the blocks repeat on, if most of them are the same; else empty."""
    nothing = np.zeros(0, np.int64)
    if np.median(np.diff(starts)) < _MIN_KERNELS:
        return nothing
    blocks = [np.sort(b) for b in np.split(names, starts)[1:]]
    keys = [b.tobytes() for b in blocks]
    common = max(set(keys), key=keys.count)
    if keys.count(common) < max(_MIN_REPEATS - 1, _SAME * len(keys)):
        return nothing
    pattern = np.frombuffer(common, names.dtype)
    extra = len(blocks[-1]) - len(_shared(blocks[-1], pattern))
    if extra > _EXTRA * len(blocks[-1]):
        return nothing
    return starts[keys.index(common) :]


def _shared(a: NDArray[np.int32], b: NDArray[np.int32]) -> NDArray[np.int32]:
    """Kernels of sorted `a` that sorted `b` has too, counting each as often as both have it."""
    nth = np.arange(len(a)) - np.searchsorted(a, a)
    have = np.searchsorted(b, a, side="right") - np.searchsorted(b, a)
    return a[nth < have]
