"""Where in a step's sequence of kernels each of its blocks begins and ends (see `blocks`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traces.columns import NONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]
    Codes = NDArray[np.int32]
    Bools = NDArray[np.bool_]

MIN_BLOCKS: Final = 3
MAX_BLOCKS: Final = 512  # more are passes that nothing tells apart
_BETWEEN: Final = 3  # kernels at least between the blocks of two forward passes
_KINDS: Final = 32  # of blocks that the first and the last one are compared with
_CONTEXT: Final = 6  # kernels on each side of a boundary that are compared to find it


class KernelSequence(NamedTuple):
    """The kernels of one step on one device, in order of start.

    `names` and `symbols` (int32) number the kernels' names, and what stays the same where only a tile
    differs. `attention` and `norms` mark such kernels; `once`, what a forward pass runs once (embedding,
    sampling); `routed` says that there are experts.
    """

    names: Codes
    symbols: Codes
    attention: Bools
    norms: Bools
    once: Bools
    routed: bool = False


class Cut(NamedTuple):
    """Pieces between the places of an anchor. `common` holds the symbols of the most frequent one."""

    places: Int64s
    hashes: NDArray[np.uint64]  # of each piece, whatever the order of its kernels
    modal: Bools  # which pieces are as `common`
    sample: int  # where one of those begins
    common: Codes


class Ends(NamedTuple):
    """How the sequence begins and ends, compared with the common piece."""

    turn: int  # where in a piece one block ends and the next begins
    whole: int  # how well what lies before the first and behind the last anchor makes up one more block
    begin: int  # where in the sequence that block begins, before the first anchor
    end: int  # where the last block ends, behind the last anchor


class Found(NamedTuple):
    """What one anchor leads to: so many blocks, how much they are alike, how many are the very same."""

    number: int
    alike: float
    of_one_kind: float
    ends: Ends
    cut: Cut


def number(seq: KernelSequence, found: Found) -> tuple[int, Int64s] | None:
    """Number the blocks; None where the passes of one step have different numbers of them."""
    places = found.cut.places
    stop, start, again = _boundaries(seq, found)
    if found.number == len(places):
        begin, end = _first_and_last(seq.symbols, found, stop, start)
        begins, stops, new = np.append(begin, start), np.append(stop, end), np.append(False, again)
    else:
        begins, stops, new = places[:-1], stop, np.append(False, again[:-1])
    sizes = np.bincount(np.cumsum(new))
    if not MIN_BLOCKS <= sizes[0] <= MAX_BLOCKS or (sizes != sizes[0]).any():
        return None
    at = np.arange(len(seq.symbols))
    block = np.searchsorted(begins, at, side="right") - 1
    return int(sizes[0]), np.where((block != NONE) & (at < stops[block]), block % sizes[0], NONE)


def _first_and_last(symbols: Codes, found: Found, stop: Int64s, start: Int64s) -> tuple[int, int]:
    """Where the first block begins and the last ends: as a whole piece of any kind does, else by `ends`."""
    places, begin, end = found.cut.places, found.ends.begin, found.ends.end
    _, kinds = np.unique(found.cut.hashes, return_index=True)
    kinds = kinds[np.argsort(~found.cut.modal[kinds], kind="stable")][:_KINDS]
    first, last = int(places[0]), int(places[-1])
    for k in kinds[::-1]:  # the most frequent one is asked last, and overrides
        before = symbols[start[k] : places[k + 1]]
        if np.array_equal(before, symbols[max(0, first - len(before)) : first]):
            begin = first - len(before)
        behind = symbols[places[k] : stop[k]]
        if np.array_equal(behind, symbols[last : last + len(behind)]):
            end = last + len(behind)
    return begin, end


def _boundaries(seq: KernelSequence, found: Found) -> tuple[Int64s, Int64s, Bools]:
    """For each piece: where its block ends, where the next begins, and whether that is another pass's."""
    places, turn, length = found.cut.places, found.ends.turn, len(found.cut.common)
    stop = places[1:].copy() if turn == length else places[:-1] + turn
    start, again = stop.copy(), np.zeros(len(stop), dtype=bool)
    once = np.diff(np.append(0, np.cumsum(seq.once))[places])
    usual = once[int(np.argmax(found.cut.modal))]
    known: dict[tuple[int, int], tuple[int, int]] = {}
    for k in np.flatnonzero(~found.cut.modal):
        at, end = int(places[k]), int(places[k + 1])
        again[k] = once[k] > usual and end - at >= length + _BETWEEN
        kind = (int(found.cut.hashes[k]), end - at)
        if kind not in known:
            where = np.arange(at + 1, end + 1)
            if again[k]:
                stops = _fit(seq.symbols, found, where, at + turn, after=False)
                starts = _fit(seq.symbols, found, where[where >= stops], end - length + turn, before=False)
            else:
                stops = starts = _fit(seq.symbols, found, where, at + turn, norms=seq.norms)
            known[kind] = (stops - at, starts - at)
        stop[k], start[k] = (at + offset for offset in known[kind])
    return stop, start, again


def _fit(
    symbols: Codes,
    found: Found,
    where: Int64s,
    near: int,
    *,
    before: bool = True,
    after: bool = True,
    norms: Bools | None = None,
) -> int:
    """Of the positions `where` the one around which most kernels are those of a boundary.

    Of equal ones one with a norm behind it, then the one that is nearest to `near`.
    """
    common, turn, steps = found.cut.common, found.ends.turn, np.arange(_CONTEXT)
    score = np.zeros(len(where), np.int64)
    for wanted, offsets in ((before, -1 - steps), (after, steps)):
        if wanted:
            place = where[:, None] + offsets
            inside = (place >= 0) & (place < len(symbols))
            same = symbols[np.clip(place, 0, len(symbols) - 1)] == common[(turn + offsets) % len(common)]
            score += (same & inside).sum(axis=1)
    begins = np.append(norms, False)[where] if norms is not None else np.zeros(len(where), dtype=bool)
    return int(where[np.lexsort((np.abs(where - near), ~begins, -score))[0]])
