"""One transformer block as its operations, in the order they run, in A and in B.

An operation is a module's kernels of one group: the projection with its split-K reduction, attention, the
small ops of a block. Modules of both runs are paired as `compare` pairs them (`traces.analysis.align`), so
what a run calls its kernels does not matter. The operations add up to the layer, in ns summed over all
counted steps; divided by their number they are what `compare --by layer,module,group` says, unrounded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.analysis.achieved import HELPERS
from traces.analysis.breakdown import steps_of
from traces.analysis.compare import counted
from traces.analysis.kernels import nearest_rank
from traces.analysis.parts import added, grouped, measures
from traces.analysis.units import within
from traces.attribution.taxonomy import GROUP_OF

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traces.analysis.compare import Comparison, Side

BY: Final = ("layer", "module", "category", "name")  # what the comparison must be by
ITSELF: Final = "(layer itself)"
_SECTION: Final = ("rank", "device", "step", "layer")
_SERVED: Final = ("gemm", "attention")
Key = tuple[str, str]  # part inside the layer, group


@dataclass(frozen=True)
class Spread:
    """Of one number over all layers that have it, ns per step, by nearest rank."""

    n: int
    median: float
    q1: float
    q3: float


@dataclass(frozen=True)
class Cell:
    """One operation of one run's layer. `sum_ns` is over `steps` steps; rates as of `parts.measures`."""

    sum_ns: int
    steps: int
    share: float  # of its layer, 0..1
    per_step: float  # kernels
    tflops: float | None
    gb_per_s: float | None
    roofline: float | None
    kernels: list[str]  # their names, most time first
    spread: Spread

    @property
    def ns(self) -> float:
        """Exclusive time per step."""
        return self.sum_ns / self.steps


@dataclass(frozen=True)
class Op:
    """One operation in both runs; None where a run has no kernel of it."""

    name: str
    group: str
    a: Cell | None
    b: Cell | None


@dataclass(frozen=True)
class Block:
    """One run's layer: which it is, its time, and what all layers are like."""

    number: int
    sum_ns: int
    steps: int
    spread: Spread
    gap_ns: float  # the device's idle time directly before its kernels, per step, under the profiler
    all_ns: int  # time of all layers, summed over the steps

    @property
    def ns(self) -> float:
        """Exclusive time per step."""
        return self.sum_ns / self.steps


@dataclass(frozen=True)
class Layer:
    """A layer of A and of B; `sum(op.a.sum_ns) == a.sum_ns`. A side without that layer is None."""

    ops: list[Op]
    a: Block | None
    b: Block | None


def numbers(result: Comparison) -> list[int]:
    """The layers that either run knows in this phase."""
    found = {n for side in (result.a, result.b) for n in pc.unique(side.table["layer"]).to_pylist()}
    return sorted(n for n in found if n is not None)


def layer(result: Comparison, number: int | None = None) -> Layer:
    """Layer `number`, or in each run the layer whose time is the median of all (the lower of two).

    `result` is a comparison by `BY`.
    """
    sides = [_Side(part) for part in (result.a, result.b)]
    chosen = [side.median if number is None else number if number in side.layers else None for side in sides]
    named = _names([key for side in sides for ops in side.layers.values() for key in ops])
    cells = [side.cells(n) if n is not None else {} for side, n in zip(sides, chosen, strict=True)]
    orders = [side.order(n) if n is not None else [] for side, n in zip(sides, chosen, strict=True)]
    ops = [Op(named[key], key[1], cells[0].get(key), cells[1].get(key)) for key in merged(*orders)]
    blocks = [
        side.block(n, result.phase) if n is not None else None for side, n in zip(sides, chosen, strict=True)
    ]
    return Layer(ops, blocks[0], blocks[1])


def merged(first: Sequence[Key], second: Sequence[Key]) -> list[Key]:
    """Both sequences in one: the first, and what only the second has, each behind what it follows there."""
    out = list(first)
    at = 0
    for key in second:
        if key in out:
            at = out.index(key) + 1
        else:
            out.insert(at, key)
            at += 1
    return out


class _Side:
    """One run's layers: rows by layer and operation."""

    def __init__(self, side: Side) -> None:
        self.side = side
        rows = [r for r in grouped(side, BY) if r["layer"] is not None]
        self.served = _served(rows)
        self.layers: dict[int, dict[Key, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
        for row in rows:
            self.layers[row["layer"]][self.key(row)].append(row)
        self.totals = {n: sum(map(_time, ops.values())) for n, ops in self.layers.items()}

    def key(self, row: dict[str, Any]) -> Key:
        """The operation that a row belongs to; a memset before a product is part of the product."""
        category = row["category"]
        group = GROUP_OF.get(category or "", "other")
        module = row["module"]
        if category in HELPERS:
            group = self.served.get(module, group)
        return (category or "unknown" if module is None else within(module) or ITSELF), group

    @property
    def median(self) -> int | None:
        """The layer whose time is the median of all."""
        order = sorted(self.totals, key=lambda n: (self.totals[n], n))
        return order[(len(order) - 1) // 2] if order else None

    def cells(self, number: int) -> dict[Key, Cell]:
        """The operations of a layer."""
        steps, whole = self.side.steps, self.totals[number]
        out = {}
        for key, rows in self.layers[number].items():
            total = added(rows)
            found = measures(total, steps)
            time: Counter[str] = Counter()
            for row in rows:
                time[str(row["name"])] += row["exclusive_ns"]
            out[key] = Cell(
                total["exclusive_ns"], steps, total["exclusive_ns"] / whole if whole else 0.0,
                total["count"] / steps, found["tflops"], found["gb_per_s"], found["roofline"],
                [name for name, _ in time.most_common()],
                _spread([_time(ops[key]) for ops in self.layers.values() if key in ops], steps),
            )  # fmt: skip
        return out

    def order(self, number: int) -> list[Key]:
        """The operations of a layer by when they begin in it, on average over steps and devices."""
        mine = self.side.table.filter(pc.fill_null(pc.equal(self.side.table["layer"], number), False))
        first = mine.group_by([*_SECTION, "module", "category"], use_threads=False).aggregate(
            [("start_ns", "min")]
        )
        begins: dict[Any, dict[Key, int]] = defaultdict(dict)
        for row in first.to_pylist():
            ops, key = begins[tuple(row[c] for c in _SECTION)], self.key(row)
            ops[key] = min(row["start_ns_min"], ops.get(key, row["start_ns_min"]))
        offsets: dict[Key, list[int]] = defaultdict(list)
        for ops in begins.values():
            zero = min(ops.values())
            for key, start in ops.items():
                offsets[key].append(start - zero)
        return sorted(offsets, key=lambda k: (sum(offsets[k]) / len(offsets[k]), k))

    def block(self, number: int, phase: str | None) -> Block:
        """What is known of a layer as a whole."""
        steps = self.side.steps
        return Block(
            number, self.totals[number], steps, _spread(list(self.totals.values()), steps),
            _gap(self.side, number, phase) / steps, sum(self.totals.values()),
        )  # fmt: skip


def _served(rows: Iterable[dict[str, Any]]) -> dict[str | None, str]:
    """Modules whose only work is a product or attention: what helps there helps that."""
    groups: dict[str | None, set[str]] = defaultdict(set)
    for row in rows:
        if row["category"] not in HELPERS:
            groups[row["module"]].add(GROUP_OF.get(row["category"] or "", "other"))
    only = {module: next(iter(found)) for module, found in groups.items() if len(found) == 1}
    return {module: group for module, group in only.items() if module is not None and group in _SERVED}


def _names(keys: Iterable[Key]) -> dict[Key, str]:
    """What an operation is called: its part, and its group where the part has several."""
    groups: dict[str, set[str]] = defaultdict(set)
    for part, group in keys:
        groups[part].add(group)
    return {
        (part, group): part if len(found) == 1 else f"{part} · {group.replace('_', ' ')}"
        for part, found in groups.items()
        for group in found
    }


def _spread(sums: Sequence[int], steps: int) -> Spread:
    ordered = np.sort(np.array(sums, np.int64))
    q1, median, q3 = (nearest_rank(ordered, share) / steps for share in (0.25, 0.5, 0.75))
    return Spread(len(ordered), median, q1, q3)


def _time(rows: Iterable[dict[str, Any]]) -> int:
    return sum(row["exclusive_ns"] for row in rows)


def _gap(side: Side, number: int, phase: str | None) -> int:
    """Idle time before the layer's kernels, ns, over the steps that count."""
    table = side.run.table
    mine = pc.equal(table["layer"], number)
    if phase is not None:
        steps = pa.array([s["step"] for s in counted(steps_of(side.run, phase))], pa.int32())
        mine = pc.and_(mine, pc.and_(pc.equal(table["phase"], phase), pc.is_in(table["step"], steps)))
    return pc.sum(table["gap_ns"].filter(pc.fill_null(mine, False))).as_py() or 0
