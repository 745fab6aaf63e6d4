"""The launch log: which module and op launched each kernel of a step, and the work that it had to do.

A CUDA-graph replay launches everything at once, so its kernels name no op and no module; compiled code names
ops only. The log comes from profiling one uncaptured run of the same function (`profiler.capture.log`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces import linking, phases
from traces.attribution import modules, work
from traces.attribution.classify import default_classifier
from traces.columns import NONE, TEXT, encode
from traces.errors import InputError
from traces.nesting import enclosing, thread_keys

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from traces.readers.timeline import Timeline

PRODUCT: Final = "product"
BATCHED: Final = "batched product"
ATTENTION: Final = "attention"
# Where a product's two matrices stand among its inputs; `addmm` has what it adds in front.
_PRODUCTS: Final = {"aten::mm": 0, "aten::addmm": 1, "aten::_addmm_activation": 1}
_BATCHED: Final = {"aten::bmm": 0, "aten::baddbmm": 1}
_NO_OP: Final = "Torch-Compiled Region"  # recorded like an op, but only says where compiled code was entered


class Call(NamedTuple):
    """A call that both eager and compiled code make: a product, attention, a custom op of ours."""

    row: int  # which call, by order; kernels of one call are consecutive
    kind: str
    dims: str  # of a product's matrices; else empty


@dataclass(frozen=True)
class Launch:
    """One kernel, what launched it, and the work of the call where this kernel does it."""

    name: str
    op: str | None  # innermost launching op
    call: Call | None
    module: str | None
    shape: str | None = None
    flops: int | None = None
    min_bytes: int | None = None


@dataclass(frozen=True)
class Entry:
    """One line of the log."""

    graph: int
    ordinal: int
    name: str
    module: str | None
    op: str | None
    shape: str | None
    flops: int | None
    min_bytes: int | None
    phase: str


def read_launches(timeline: Timeline, phase: str, visible: int | None = None) -> list[Launch]:
    """The kernels launched inside the ranges of one phase, in launch order.

    `visible`: how many keys a decode step sees at least (see `traces.attribution.work`).
    Raises InputError if the trace has none.
    """
    rows = linking.link(timeline)
    rows = rows.append_column("phase", pa.array(phases.assign(rows, timeline.ranges).phase, pa.string()))
    rows = rows.append_column("module", pa.array(modules.assign(rows, timeline.ranges).module, pa.string()))
    rows = rows.filter(pc.and_(pc.equal(rows["kind"], "kernel"), pc.equal(rows["phase"], phase)))
    if not rows.num_rows:
        raise InputError(f"the profiler recorded no kernels inside {phase!r}: capture again")
    rows = rows.sort_by("launch_start")
    works = work.columns(rows, _categories(rows), timeline.ops, visible)
    columns = {n: rows[n].to_pylist() for n in ("name", "op", "module")}
    columns |= {n: works[n].to_pylist() for n in ("shape", "flops", "min_bytes")}
    columns["op"] = [None if op is None or op.startswith(_NO_OP) else op for op in columns["op"]]
    calls = _calls(rows, timeline.ops)
    return [
        Launch(call=call, **dict(zip(columns, values, strict=True)))
        for call, *values in zip(calls, *columns.values(), strict=True)
    ]


def log_entries(launches: Sequence[Launch], graph: int, phase: str) -> list[Entry]:
    """The log of one graph, in launch order."""
    return [
        Entry(graph, i, x.name, x.module, x.op, x.shape, x.flops, x.min_bytes, phase)
        for i, x in enumerate(launches)
    ]


def write_log(entries: Sequence[Entry], path: Path) -> None:
    """One JSON object a line, UTF-8."""
    path.write_text("".join(json.dumps(asdict(e), ensure_ascii=False) + "\n" for e in entries))


def kind_of(op: str) -> str | None:
    """What a call is to both eager and compiled code, whichever overload or backend each takes."""
    if op in _PRODUCTS:
        return PRODUCT
    if op in _BATCHED:
        return BATCHED
    if op.startswith("kernelgap::"):
        return op
    return ATTENTION if op.startswith("aten::") and "attention" in op else None


def _categories(rows: pa.Table) -> pa.Array:
    label = default_classifier().classify
    pairs = zip(rows["name"].to_pylist(), rows["op"].to_pylist(), strict=True)
    return pa.array([label(name, op=op).category for name, op in pairs], TEXT)


def _calls(rows: pa.Table, ops: pa.Table) -> list[Call | None]:
    """The outermost shared call around each launch: whatever runs inside (a fill, a copy) is part of it."""
    codes, names = encode(ops["name"])
    kinds = [kind_of(name) for name in names]
    shared = np.flatnonzero(np.array([*(k is not None for k in kinds), False])[codes])
    mine = ops.take(pa.array(shared))
    keys, at = thread_keys(mine, rows)
    found = enclosing(mine, keys, rows["launch_start"].to_numpy(), at, outermost=True)
    return [None if i == NONE else _call(int(shared[i]), names[codes[shared[i]]], ops) for i in found]


def _call(row: int, op: str, ops: pa.Table) -> Call:
    kind, first = kind_of(op), (_PRODUCTS | _BATCHED).get(op)
    assert kind is not None
    if first is None:
        return Call(row, kind, "")
    dims: list[Any] = json.loads(ops["dims"][row].as_py() or "[]")
    return Call(row, kind, str(dims[first : first + 2]))  # not what an out= variant writes to
