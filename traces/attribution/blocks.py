"""The blocks in a step's sequence of kernels: a prologue, N blocks that are alike, and an epilogue.

A kernel that runs once a block, the anchor, cuts the sequence into pieces. How alike these are decides
whether N is believed; how the sequence begins and ends decides where in a piece the blocks meet. Blocks may
differ: in tiles chosen for a GEMM, by a kernel more or less, by kind (local and global attention, dense and
sparse MLP).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traces.attribution.block_bounds import MIN_BLOCKS, Cut, Ends, Found, KernelSequence, number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]
    Codes = NDArray[np.int32]
    Bools = NDArray[np.bool_]

_MIN_KERNELS: Final = 3  # of a block
_MAX_KERNELS: Final = 2_000
_ALIKE: Final = 0.8  # of the kernels in blocks; where experts are routed, so that kinds of blocks alternate:
_ALIKE_ROUTED: Final = 0.5
_CLOSE: Final = 0.05  # what smaller blocks may be less alike than larger ones that hold several of them,
_OF_ONE_KIND: Final = 0.66  # unless so many are the very same
_FUSED: Final = 2  # kernels that a first block may lack, since the compiler fused them with what is before
_FINER: Final = 1.5  # how many more blocks count as another level, not as the same with a kernel of the ends
_MANY: Final = 8  # blocks at least, if most have no attention
_ATTENTION: Final = 3  # kernels of attention that a block may have: of itself, across, in two parts
_COVERED: Final = 0.5  # of a step's kernels must lie in blocks; without attention to go by:
_COVERED_ALONE: Final = 0.8


def find(seq: KernelSequence, expected: int | None = None) -> tuple[int, Int64s] | None:
    """The number of blocks, and for each kernel its block (-1 outside); None where nothing is convincing.

    Several forward passes in one step number their blocks alike. Anchors that occur `expected` times are
    asked first, which saves time.
    """
    candidates = [f for cut in _cuts(seq, expected) if (f := _judge(seq, cut))]
    while candidates:
        best = _best(candidates, seq)
        if (numbered := number(seq, best)) is not None:
            return numbered
        candidates = [f for f in candidates if f is not best]
    return find(seq) if expected else None


def _best(candidates: list[Found], seq: KernelSequence) -> Found:
    """The most alike; but rather single blocks than groups of them, and as many as attention kernels."""
    attention = int(seq.attention.sum())
    level = candidates
    best = max(level, key=lambda f: (f.alike, f.number))
    finer = [
        f
        for f in candidates
        if f.number >= _FINER * best.number
        and (
            f.alike >= best.alike - _CLOSE
            or f.of_one_kind >= _OF_ONE_KIND
            or (seq.routed and f.number == attention)
        )
    ]
    if finer:
        most = max(f.number for f in finer)
        level = [f for f in finer if _FINER * f.number > most]
        best = max(level, key=lambda f: (f.alike, f.number))
    usual = [f for f in level if f.number == attention and f.alike >= best.alike - _CLOSE]
    return usual[0] if usual and _FINER * best.number > attention else best


def _cuts(seq: KernelSequence, expected: int | None) -> Iterator[Cut]:
    """The sequence cut by each possible anchor; of those that occur equally often by the evenest."""
    evenest: dict[int, tuple[int, Int64s]] = {}
    covered = (_COVERED if seq.attention.any() else _COVERED_ALONE) * len(seq.names)
    for places in _places(seq, expected):
        count = len(places)
        if (places[-1] - places[0]) * count < covered * (count - 1):
            continue
        uneven = int(np.abs(places[2:] - 2 * places[1:-1] + places[:-2]).sum())
        if count not in evenest or uneven < evenest[count][0]:
            evenest[count] = (uneven, places)
    random = np.random.default_rng(0).integers(0, 2**63, int(seq.symbols.max(initial=0)) + 1, np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(random[seq.symbols], dtype=np.uint64)])
    for _, places in evenest.values():
        hashes = np.diff(sums[places])
        _, first, which, often = np.unique(hashes, return_index=True, return_inverse=True, return_counts=True)
        kind = int(np.lexsort((first, -often))[0])
        sample = int(places[first[kind]])
        common = seq.symbols[sample : places[first[kind] + 1]]
        yield Cut(places, hashes, which.reshape(-1) == kind, sample, common)


def _places(seq: KernelSequence, expected: int | None) -> Iterator[Int64s]:
    """Where each name, each symbol, and attention of any kind occurs that does so often enough."""
    for codes in (seq.names, seq.symbols, np.where(seq.attention, 0, 1)):
        order = np.argsort(codes, kind="stable")
        counts = np.bincount(codes)
        wanted = counts == expected if expected else counts >= MIN_BLOCKS
        ends = np.cumsum(counts)
        for code in np.flatnonzero(wanted):
            yield order[ends[code] - counts[code] : ends[code]]


def _judge(seq: KernelSequence, cut: Cut) -> Found | None:
    """Whether the pieces are the blocks of a model, and how much they are alike."""
    anchors, length, attention = len(cut.places), len(cut.common), int(seq.attention.sum())
    of_one_kind = float(cut.modal.mean())
    if not _MIN_KERNELS <= length <= _MAX_KERNELS or attention > _ATTENTION * anchors:
        return None
    # More blocks than attention kernels: half blocks, unless most do without it (Mamba).
    half = anchors < max(_FINER * attention, _MANY) or of_one_kind < _OF_ONE_KIND
    if 0 < attention < anchors and half:
        return None
    mixed = seq.routed and anchors == attention
    least = _ALIKE_ROUTED if mixed else _ALIKE
    size = np.diff(cut.places)
    shared = float((size * _shared(seq.symbols, cut) / np.maximum(size, length)).sum())
    count, total = anchors - 1, int(size.sum())
    if shared < least * total:
        return None
    ends = _ends(seq, cut)
    if mixed or 2 * ends.whole >= length:
        count, shared, total = count + 1, shared + ends.whole, total + length
    else:  # one anchor lies outside the blocks, like the last norm
        ends = ends._replace(turn=length)
    alike = shared / total
    return Found(count, alike, of_one_kind, ends, cut) if count >= MIN_BLOCKS and alike >= least else None


def _shared(symbols: Codes, cut: Cut) -> Int64s:
    """How many kernels each piece and the common one both have."""
    inside = symbols[cut.places[0] : cut.places[-1]].astype(np.int64)
    kinds, pieces = int(symbols.max()) + 1, len(cut.places) - 1
    key = np.repeat(np.arange(pieces), np.diff(cut.places)) * kinds + inside
    pairs, count = np.unique(key, return_counts=True)
    both = np.minimum(count, np.bincount(cut.common, minlength=kinds)[pairs % kinds])
    return np.bincount(pairs // kinds, both, pieces).astype(np.int64)


def _ends(seq: KernelSequence, cut: Cut) -> Ends:
    """Where in the common piece a block ends: the rest stands before the first anchor, that behind the last.

    Of equal choices the first that lets a block begin with a norm, else the first: the norm behind the last
    block, and what comes after it, look like the beginning of a block. Such a choice counts as equal with a
    kernel or two less in common: a compiler fuses the first norm with the embedding, under another name.
    """
    first, last, common = int(cut.places[0]), int(cut.places[-1]), cut.common
    reach = len(common) + max(8, len(common) // 4)
    tail, behind = _prefixes(common, seq.symbols[last : last + reach])
    head, before = _prefixes(common[::-1], seq.symbols[max(0, first - reach) : first][::-1])
    whole = (tail + head[::-1])[1:]  # the anchor itself lies behind
    equal = np.flatnonzero(whole == whole.max()) + 1
    near = np.flatnonzero(whole >= whole.max() - _FUSED) + 1
    norms = [t for t in near if t < len(common) and seq.norms[cut.sample + t]]
    turn = int(norms[0] if norms else equal[0])
    return Ends(turn, int(whole.max()), first - int(before[::-1][turn]), last + int(behind[turn]))


def _prefixes(common: Codes, other: Codes) -> tuple[Int64s, Int64s]:
    """For each prefix of `common` its best alignment with one of `other`: (score, length of that one).

    A kernel that both have counts 1, one that only one of them has -1 (after Needleman and Wunsch, 1970).
    """
    offset = np.arange(len(other) + 1)
    row = -offset
    score, length = np.zeros(len(common) + 1, np.int64), np.zeros(len(common) + 1, np.int64)
    for i, kernel in enumerate(common, 1):
        through = row - 1
        through[1:] = np.maximum(through[1:], np.where(other == kernel, row[:-1] + 1, row[:-1] - 2))
        row = np.maximum.accumulate(through + offset) - offset
        length[i] = int(np.argmax(row))
        score[i] = row[length[i]]
    return score, length
