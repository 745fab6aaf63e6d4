"""Pairing the kernels of two runs that know layers but not modules: by their order inside a layer.

Inside (step, layer) kernels follow the same plan whatever they are called: small ops, a GEMM, small ops,
attention, a GEMM, ... So each layer becomes a sequence of *slots* (every GEMM, attention or collective with
its own reductions is one; small ops between them are one), the sequences of both runs are aligned, and
paired slots get one name: the module, where one run knows it, else `layers.3.gemm#2`, the second GEMM.
Kernel names and bare positions play no part.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from traces.attribution.taxonomy import GROUP_OF

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

_OWN_SLOT: Final = {"gemm": "gemm", "attention": "attention", "communication": "collective"}
_BEFORE: Final = -1
_AFTER: Final = 2**15
_JOINS: Final = ("attention", "small")  # neighbours of these kinds are one slot

Sequences = dict[int, list[tuple[str, ...]]]


class _Slots(NamedTuple):
    """Each row's layer and place in its layer's sequence, and all sequences of each layer."""

    layer: list[int]
    place: list[int]
    sequence: list[tuple[str, ...]]
    seen: dict[int, Counter[tuple[str, ...]]]

    def usual(self, layer: int) -> tuple[str, ...]:
        """The most frequent sequence of a layer; empty where the run lacks it."""
        found = self.seen.get(layer)
        return found.most_common(1)[0][0] if found else ()


def labels(a: pa.Table, b: pa.Table) -> tuple[list[str], list[str]]:
    """A name of the slot for each row of A and B; equal names are paired.

    Needs `start_ns, rank, device, step, layer, category, module, exclusive_ns`; rows of one phase's counted
    steps, in any order. Rows without a layer before and after the layers are slots too.
    """
    left, right = _slots(a), _slots(b)
    names: tuple[dict[tuple[int, int], str], dict[tuple[int, int], str]] = ({}, {})
    for layer in sorted({*left.seen, *right.seen}):
        for side, found in enumerate(_paired(left.usual(layer), right.usual(layer))):
            for place, slot in enumerate(found):
                names[side][layer, place] = f"{_where(layer)}.{slot}"
    return _named(left, names[0]), _named(right, names[1])


def borrowed(mine: pa.Table, slots: list[str], theirs: pa.Table, their_slots: list[str]) -> list[str]:
    """Module names for rows of `mine`, which has none, from the same slots of `theirs`, which has.

    The module of the row's category in the slot, else the slot's largest; the slot's name where no row of
    the other run has a module.
    """
    time: defaultdict[str, Counter[tuple[str | None, str]]] = defaultdict(Counter)
    columns = (theirs[c].to_pylist() for c in ("module", "category", "exclusive_ns"))
    for slot, module, category, ns in zip(their_slots, *columns, strict=True):
        if module is not None:
            time[slot][category, module] += ns + 1
    best: dict[str, dict[str | None, str]] = {}
    largest: dict[str, str] = {}
    for slot, found in time.items():
        best[slot] = {c: m for (c, m), _ in reversed(found.most_common())}
        largest[slot] = found.most_common(1)[0][0][1]
    return [
        best[slot].get(category, largest[slot]) if slot in best else slot
        for slot, category in zip(slots, mine["category"].to_pylist(), strict=True)
    ]


def _slots(table: pa.Table) -> _Slots:
    out = _Slots([0] * table.num_rows, [0] * table.num_rows, [()] * table.num_rows, defaultdict(Counter))
    categories = table["category"].to_pylist()
    for layer, rows in _sections(table):
        places, sequence = _sequence([categories[i] for i in rows])
        out.seen[layer][sequence] += 1
        for i, place in zip(rows, places, strict=True):
            out.layer[i], out.place[i], out.sequence[i] = layer, place, sequence
    return out


def _sections(table: pa.Table) -> Iterator[tuple[int, list[int]]]:
    """Rows of each layer (or before, or after) of each step of each device, in time order."""
    keys = [pc.fill_null(table[c], -1).to_numpy() for c in ("rank", "device", "step")]
    order = np.lexsort((table["start_ns"].to_numpy(), *keys[::-1]))
    layers = pc.fill_null(table["layer"].cast("int32"), _BEFORE).to_numpy()[order]
    changed = np.any([k[order][1:] != k[order][:-1] for k in keys], axis=0) if len(order) else []
    for part in np.split(np.arange(len(order)), np.flatnonzero(changed) + 1):
        inside = np.flatnonzero(layers[part] != _BEFORE)
        mine = layers[part].copy()
        if len(inside):
            mine[inside[-1] + 1 :] = _AFTER
        for layer in np.unique(mine).tolist():
            yield layer, order[part[mine == layer]].tolist()


def _sequence(categories: Sequence[str | None]) -> tuple[list[int], tuple[str, ...]]:
    """The slot of each kernel, and the kinds of the slots."""
    places, kinds = [], list[str]()
    for category in categories:
        kind = _OWN_SLOT.get(GROUP_OF.get(category or "", ""), "small")
        reduces = (category or "").endswith("_reduce")
        if reduces and kinds[-2:-1] == [kind]:  # a memset may come between
            places.append(len(kinds) - 2)
            continue
        if not kinds or kinds[-1] != kind or not (kind in _JOINS or reduces):
            kinds.append(kind)
        places.append(len(kinds) - 1)
    return places, tuple(kinds)


def _paired(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Slot names for two sequences of kinds, equal where they are paired.

    What finds no partner joins a neighbour of its kind that has one (three GEMMs against a fused one).
    """
    ids_a, ids_b = _ids(a, b)
    kinds = {i: kind for ids, x in ((ids_a, a), (ids_b, b)) for i, kind in zip(ids, x, strict=True)}
    count: Counter[str] = Counter()
    names = {}
    for i in sorted(kinds):
        count[kinds[i]] += 1
        names[i] = f"{kinds[i]}#{count[kinds[i]]}"
    return [names[i] for i in ids_a], [names[i] for i in ids_b]


def _ids(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[list[int], list[int]]:
    """Numbers of the slots, growing along both sequences, equal where paired."""
    if a == b:
        return list(range(len(a))), list(range(len(b)))
    size = len(a) + len(b) + 1
    ids: tuple[list[int], list[int]] = ([0] * len(a), [0] * len(b))
    partner: tuple[set[int], set[int]] = (set(), set())
    for tag, a1, a2, b1, b2 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        for side, (first, last) in enumerate(((a1, a2), (b1, b2))):
            for k in range(first, last):
                # An unpaired slot of A comes before an unpaired one of B at the same place.
                ids[side][k] = (a1 + b1) * size + (k - first) + (0 if tag == "equal" else side * size // 2)
                if tag == "equal":
                    partner[side].add(k)
    for side, kinds in enumerate((a, b)):
        _join(kinds, ids[side], partner[side])
    return ids


def _join(kinds: tuple[str, ...], ids: list[int], partner: set[int]) -> None:
    for way in (range(1, len(kinds)), range(len(kinds) - 2, -1, -1)):
        step = -1 if way.step > 0 else 1
        for k in way:
            if k not in partner and k + step in partner and kinds[k] == kinds[k + step]:
                ids[k] = ids[k + step]
                partner.add(k)


def _named(slots: _Slots, names: dict[tuple[int, int], str]) -> list[str]:
    """The names of all rows; an unusual sequence is aligned with its layer's usual one first."""
    known: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    out = []
    for layer, place, sequence in zip(slots.layer, slots.place, slots.sequence, strict=True):
        if (layer, sequence) not in known:
            known[layer, sequence] = _as_usual(sequence, slots.usual(layer), layer, names)
        out.append(known[layer, sequence][place])
    return out


def _as_usual(
    sequence: tuple[str, ...], usual: tuple[str, ...], layer: int, names: dict[tuple[int, int], str]
) -> list[str]:
    mine, theirs = _ids(sequence, usual)
    at = {i: names[layer, place] for place, i in reversed(list(enumerate(theirs)))}
    return [at.get(i, f"{_where(layer)}.{kind} (extra)") for i, kind in zip(mine, sequence, strict=True)]


def _where(layer: int) -> str:
    return {_BEFORE: "before", _AFTER: "after"}.get(layer, f"layers.{layer}")
