"""Transformer layers of phases whose ranges name none: inferred from the kernels of each step.

On each device the step's busiest stream is looked at; rows of others, and copies, belong to the layer that
it has begun last, memsets to the kernel that follows them. The steps of a phase must agree on the number.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.attribution import blocks
from traces.attribution.block_bounds import KernelSequence
from traces.attribution.taxonomy import GROUP_OF
from traces.columns import NONE, combine, encode, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]
    Codes = NDArray[np.int32]
    Bools = NDArray[np.bool_]

_LOOKED_AT: Final = (  # categories; softmax where attention is not one kernel
    "attention", "softmax", "norm", "embedding", "sampling", "moe_routing", "grouped_gemm",
)  # fmt: skip
_TRAINING: Final = ("optimizer", "loss")
_BACKWARD: Final = re.compile(r"bwd|backward|grad_input|gradinput", re.IGNORECASE)
_TILED: Final = ("gemm", "attention")  # groups whose kernels' names tell the tile that was chosen
_GIVE_UP: Final = 16  # different steps of a phase without any layers
_DIFFER: Final = 0.2  # of a phase's steps may differ, or one that was cut short


class Inferred(NamedTuple):
    """The column `layer` (int16), and what to report: the number of layers, the phases, the steps without."""

    layer: pa.Array
    health: dict[str, Any] | None
    note: str | None


class _Kernels(NamedTuple):
    """Distinct kernels of a table: the number of each row's, and what is known of each."""

    of_row: Int64s
    name: Codes
    symbol: Codes
    category: list[str | None]
    trains: Bools


def infer(table: pa.Table, usable: Bools) -> Inferred:
    """Fill `layer` for phases in which no row has one.

    `table` holds rows in order of start: kind, name, category, backend, phase, step, rank, device, stream,
    layer. Only `usable` rows count. A trace without phases counts as one step.
    """
    layer = table["layer"].combine_chunks() if isinstance(table["layer"], pa.ChunkedArray) else table["layer"]
    phases, names = encode(table["phase"])
    asked = _asked(phases, layer, usable)
    unit, _, _ = combine(phases, *(number(table[n]) for n in ("step", "rank", "device")))
    steps: dict[int, list[Int64s]] = defaultdict(list)
    for rows in _steps(table, asked, unit):
        steps[int(phases[rows[0]])].append(rows)
    kernels = _kernels(table)
    found = np.full(table.num_rows, NONE, np.int64)
    counts: dict[str, int] = {}
    without = 0
    for phase, of_phase in steps.items():
        count, layers = _agree([_sequence(kernels, rows) for rows in of_phase])
        if count:
            counts[names[phase] if phase != NONE else ""] = count
            without += sum(which is None for which in layers)
            _write(found, unit, asked & (phases == phase), table["kind"], of_phase, layers)
    filled = pc.coalesce(layer, pa.array(found.astype(np.int16), mask=found == NONE))
    return Inferred(filled, *_report(counts, without)) if counts else Inferred(layer, None, None)


def _asked(phases: Codes, layer: pa.Array, usable: Bools) -> Bools:
    """Usable rows of phases without any layer."""
    known = pc.is_valid(layer).to_numpy(zero_copy_only=False)
    asked = usable & ~np.isin(phases, np.unique(phases[known]))
    return asked & (phases != NONE) if (phases != NONE).any() else asked


def _kernels(table: pa.Table) -> _Kernels:
    """Number the kernels by what is looked at: name, category, backend."""
    columns = [encode(table[n]) for n in ("name", "category", "backend")]
    of_row, first, _ = combine(*(codes for codes, _ in columns))
    names, categories, backends = (
        [texts[codes[i]] if codes[i] != NONE else None for i in first] for codes, texts in columns
    )
    texts: list[str] = []
    for name, category, backend in zip(names, categories, backends, strict=True):
        same = category == "norm" or GROUP_OF.get(str(category)) in _TILED or backend == "inductor"
        texts.append(f"{backend == 'inductor'} {category}" if same else str(name))
    pairs = zip(names, categories, strict=True)
    trains = np.array([c in _TRAINING or bool(_BACKWARD.search(n or "")) for n, c in pairs], dtype=bool)
    return _Kernels(of_row, _codes(names), _codes(texts), categories, trains)


def _codes(texts: Sequence[str | None]) -> Codes:
    codes, _ = encode(pa.array(texts, pa.string()))
    return codes


def _steps(table: pa.Table, asked: Bools, unit: Int64s) -> list[Int64s]:
    """For each unit (a step on a device) the rows of its busiest stream's kernels, in order of start."""
    rows = np.flatnonzero(asked & pc.equal(table["kind"], "kernel").to_numpy(zero_copy_only=False))
    if not len(rows):
        return []
    pair, first, count = combine(unit[rows].astype(np.int32), number(table["stream"])[rows])
    owner = unit[rows[first]]
    by_size = np.lexsort((first, -count, owner))
    busiest = by_size[np.append(True, np.diff(owner[by_size]) != 0)]
    rows = rows[np.isin(pair, busiest)]
    rows = rows[np.argsort(unit[rows], kind="stable")]
    return np.split(rows, np.flatnonzero(np.diff(unit[rows])) + 1)


def _sequence(kernels: _Kernels, rows: Int64s) -> KernelSequence | None:
    """The kernels of a step; None for training, whose backward pass runs through the layers the other way."""
    which = kernels.of_row[rows]
    if kernels.trains[which].any():
        return None
    is_a = {c: np.array([k == c for k in kernels.category], dtype=bool)[which] for c in _LOOKED_AT}
    attention = is_a["attention"] if is_a["attention"].any() else is_a["softmax"]
    routed = bool((is_a["moe_routing"] | is_a["grouped_gemm"]).any())
    once = is_a["embedding"] | is_a["sampling"]
    return KernelSequence(kernels.name[which], kernels.symbol[which], attention, is_a["norm"], once, routed)


def _agree(sequences: list[KernelSequence | None]) -> tuple[int, list[Int64s | None]]:
    """The number of layers that most steps have (0: none is convincing), and the layers of those that do."""
    keys = [s.names.tobytes() if s else b"" for s in sequences]
    by_key = dict(zip(keys, sequences, strict=True))
    found: dict[bytes, tuple[int, Int64s]] = {}
    votes: Counter[int] = Counter()
    expected, missed = None, 0
    for key, often in Counter(keys).most_common():
        sequence = by_key[key]
        result = blocks.find(sequence, expected) if sequence else None
        if result:
            found[key] = result
            votes[result[0]] += often
            expected = votes.most_common(1)[0][0]
        else:
            missed += 1
        if missed >= _GIVE_UP and missed > len(found):
            break
    count, agreed = votes.most_common(1)[0] if votes else (0, 0)
    differ = len(keys) - agreed
    if differ >= agreed or differ > max(1, _DIFFER * len(keys)):
        return 0, []
    return count, [found[k][1] if k in found and found[k][0] == count else None for k in keys]


def _write(
    found: Int64s,
    unit: Int64s,
    asked: Bools,
    kind: pa.ChunkedArray,
    steps: list[Int64s],
    layers: list[Int64s | None],
) -> None:
    """Write the layers of a phase: of each step's kernels, then of the rows beside them."""
    written = [rows for rows, which in zip(steps, layers, strict=True) if which is not None]
    mains = np.concatenate(written)
    found[mains] = np.concatenate([which for which in layers if which is not None])
    beside = asked.copy()
    beside[mains] = False
    rest = np.flatnonzero(beside)
    keys = unit[mains] * len(found) + mains  # in order: steps come by unit, rows by start
    after = np.searchsorted(keys, unit[rest] * len(found) + rest)
    near = np.where(pc.equal(kind, "memset").to_numpy(zero_copy_only=False)[rest], after, after - 1)
    inside = (near >= 0) & (near < len(mains))
    near = mains[np.clip(near, 0, len(mains) - 1)]
    found[rest] = np.where(inside & (unit[near] == unit[rest]), found[near], NONE)


def _report(counts: dict[str, int], without: int) -> tuple[dict[str, Any], str]:
    """What health says, as facts and in plain words."""
    health: dict[str, Any] = {
        "inferred": True,
        "count": max(counts.values()),
        "phases": [p for p in counts if p],
    }
    told = ", ".join(f"{n} in {p or 'the whole trace'}" for p, n in counts.items())
    note = f"layers: inferred from repeating kernels, not recorded: {told}"
    if len(set(counts.values())) > 1:
        health["counts"] = counts
    if without:
        health["steps_without"] = without
        note += f"; {without:,} steps differ and have none"
    return health, note
