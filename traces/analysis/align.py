"""Which rows of two runs are the same part of the model, whatever their kernels are called.

The unit is the module: spelled alike, else by synonym and fused projection (`traces.analysis.units`), else by
the part of the layer it lies in; where modules do not meet, the place in the layer's order of operations
(`traces.analysis.order`); where layers are unknown too, the category. Never the kernel name, never the bare
position.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from traces.analysis import order
from traces.analysis.units import block_of, units_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeVar

    T = TypeVar("T")
    Pair = tuple[dict[str, T], dict[str, T]]  # by module path, of A and of B

# Half of the time in common says that names mean the same; below a tenth they meet by chance at best.
_AGREE: Final = 0.5
_CHANCE: Final = 0.1


@dataclass(frozen=True)
class Alignment:
    """What pairs the rows: `basis` in words, and the two tables with `module` replaced by the unit.

    `units` are the units that both runs have; None: the key of the row decides. `spelled` gives the module
    paths of A and of B behind a unit that they name differently.
    """

    basis: str
    a: pa.Table
    b: pa.Table
    units: frozenset[str] | None = None
    spelled: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    def status(self, key: Mapping[str, Any], in_a: bool, in_b: bool) -> str:
        """`matched`, `only_a` or `only_b`, for a row's key and whether either run has that very key."""
        unit = key.get("module")
        if (in_a and in_b) or (self.units is not None and unit in self.units):
            return "matched"
        return "only_a" if in_a else "only_b"


def align(a: pa.Table, b: pa.Table, by: tuple[str, ...]) -> Alignment:
    """Pair the rows of two runs (one phase's counted steps), for a comparison by the columns `by`.

    The tables need `start_ns, rank, device, step, layer, module, category, exclusive_ns`.
    """
    if "module" not in by:
        return Alignment("category" if by == ("category",) else "key", a, b)
    times = _times(a), _times(b)
    units = units_of(times[0]), units_of(times[1])
    whole = pc.sum(a["exclusive_ns"]).as_py() or 0, pc.sum(b["exclusive_ns"]).as_py() or 0
    shared = _shared(times, units, whole)
    if min(shared) < _AGREE:
        blocks = _blocks(units[0]), _blocks(units[1])
        if min(_shared(times, blocks, whole)) >= _AGREE:
            return _by_unit(a, b, blocks, "block of the layer")
    if max(shared) >= _CHANCE:
        return _by_unit(a, b, units, "module name")
    if min(known_share(a, "layer"), known_share(b, "layer")) >= _AGREE:
        return _by_order(a, b)
    unit = None if "category" in by else "category"
    return Alignment("category", _labelled(a, unit), _labelled(b, unit))


def known_share(table: pa.Table, column: str) -> float:
    """Share of the exclusive time whose `column` is known (0 where nothing ran)."""
    time = pc.sum(table["exclusive_ns"]).as_py() or 0
    known = pc.sum(table["exclusive_ns"].filter(pc.is_valid(table[column]))).as_py() or 0
    return known / time if time else 0.0


def _times(table: pa.Table) -> dict[str, int]:
    """Exclusive time of each module, ns."""
    groups = table.select(["module", "exclusive_ns"]).group_by("module", use_threads=False)
    sums = groups.aggregate([("exclusive_ns", "sum")]).to_pydict()
    return {m: t for m, t in zip(sums["module"], sums["exclusive_ns_sum"], strict=True) if m is not None}


def _shared(times: Pair[int], units: Pair[str], whole: tuple[int, int]) -> list[float]:
    """Each run's share of time in units that both runs have."""
    both = set(units[0].values()) & set(units[1].values())
    shares = []
    for time, unit, total in zip(times, units, whole, strict=True):
        shares.append(sum(t for path, t in time.items() if unit[path] in both) / total if total else 0.0)
    return shares


def _blocks(units: dict[str, str]) -> dict[str, str]:
    return {path: block_of(unit) for path, unit in units.items()}


def _known(units: Iterable[str]) -> set[str]:
    """The units and everything that contains them: a run that knows `layers.0.attn.o` has `layers.0`."""
    out: set[str] = set()
    for unit in set(units):
        while unit and unit not in out:
            out.add(unit)
            unit = unit.rpartition(".")[0]
    return out


def _by_unit(a: pa.Table, b: pa.Table, units: Pair[str], basis: str) -> Alignment:
    """Rows take their unit's name where the runs spell it differently, else keep their path."""
    paths: Pair[set[str]] = ({}, {})
    for side, unit in zip(paths, units, strict=True):
        for path, name in unit.items():
            side.setdefault(name, set()).add(path)
    names: Pair[str] = (dict(units[0]), dict(units[1]))
    spelled = {}
    for name in {*paths[0], *paths[1]}:
        mine, theirs = (side.get(name, set()) for side in paths)
        if mine and theirs and mine != theirs:
            spelled[name] = {"a": sorted(mine), "b": sorted(theirs)}
            continue
        for known in names:
            known.update({path: path for path in (mine | theirs) if path in known})
    both = _known(units[0].values()) & _known(units[1].values())
    labels = {names[i][path] for i in (0, 1) for path in units[i] if units[i][path] in both}
    return Alignment(
        basis if spelled else "module",
        _renamed(a, names[0].get), _renamed(b, names[1].get), frozenset(labels), spelled,
    )  # fmt: skip


def _by_order(a: pa.Table, b: pa.Table) -> Alignment:
    left, right = order.labels(a, b)
    knows = known_share(a, "module") >= _AGREE, known_share(b, "module") >= _AGREE
    if knows == (False, True):
        left, right = order.borrowed(a, left, b, right), order.borrowed(b, right, b, right)
    elif knows == (True, False):
        left, right = order.borrowed(a, left, a, left), order.borrowed(b, right, a, left)
    return Alignment(
        "order in the layer", _with(a, pa.array(left, pa.string())), _with(b, pa.array(right, pa.string())),
        frozenset(left) & frozenset(right),
    )  # fmt: skip


def _renamed(table: pa.Table, name: Callable[[str], str | None]) -> pa.Table:
    encoded = pc.dictionary_encode(table["module"]).combine_chunks()
    words = [None if w is None else name(w) for w in encoded.dictionary.to_pylist()]
    return _with(table, pa.array(words, pa.string()).take(encoded.indices))


def _labelled(table: pa.Table, column: str | None) -> pa.Table:
    return _with(table, table[column] if column else pa.nulls(table.num_rows, pa.string()))


def _with(table: pa.Table, module: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index("module"), "module", module)
