"""The launch log: which module and op launched each kernel of a step that is then captured in a CUDA graph.

A replay launches everything at once, so its kernels name no op and no module. The log comes from profiling
one uncaptured run of the same function. Compiled code has no module ranges either; its modules come from an
eager run of the step, profiled beside it: the calls that both runs share (GEMMs, attention, custom ops) come
in the same order, and a fused kernel between two of them belongs to the module whose result it feeds.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from traces import linking, phases
from traces.attribution.work import product
from traces.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from traces.readers.timeline import Timeline

_GEMMS: Final = ("aten::mm", "aten::addmm", "aten::bmm")
_NO_OP: Final = "Torch-Compiled Region"  # recorded like an op, but only says where compiled code was entered
_HELPERS: Final = ("reduce", "memset", "fill")  # kernels that serve the one which does a call's work


@dataclass(frozen=True)
class Launch:
    """One kernel and what launched it."""

    name: str
    op: str | None  # innermost launching op
    call: int  # which call of that op, by order; kernels of one call are consecutive
    module: str | None
    dims: list[list[int]]
    types: list[str]

    @property
    def is_anchor(self) -> bool:
        """Whether eager and compiled code both make this call."""
        op = self.op or ""
        return op in _GEMMS or op.startswith("kernelgap::") or (op.startswith("aten::") and "attention" in op)


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


def read_launches(timeline: Timeline, phase: str) -> list[Launch]:
    """The kernels launched inside the ranges of one phase, in launch order.

    Raises InputError if the trace has none.
    """
    rows = linking.link(timeline)
    rows = rows.append_column("phase", pa.array(phases.assign(rows, timeline.ranges).phase, pa.string()))
    rows = rows.append_column("module", pa.array(phases.modules(rows, timeline.ranges), pa.string()))
    rows = rows.filter(pc.and_(pc.equal(rows["kind"], "kernel"), pc.equal(rows["phase"], phase)))
    if not rows.num_rows:
        raise InputError(f"the profiler recorded no kernels inside {phase!r}: capture again")
    ops = timeline.ops
    return [_launch(row, ops) for row in rows.sort_by("launch_start").to_pylist()]


def assign_modules(compiled: Sequence[Launch], eager: Sequence[Launch]) -> list[Launch] | None:
    """`compiled` with the modules of `eager`; None if the calls they should share differ."""
    shared = {x.op for x in compiled if x.is_anchor} & {x.op for x in eager if x.is_anchor}
    ours, theirs = _segments(compiled, shared), _segments(eager, shared)
    if [anchor for anchor, _ in ours] != [anchor for anchor, _ in theirs]:
        return None
    return [
        replace(launch, module=_module(segment))
        for (_, mine), (_, segment) in zip(ours, theirs, strict=True)
        for launch in mine
    ]


def log_entries(launches: Sequence[Launch], graph: int = 0) -> list[Entry]:
    """The log of one graph, in launch order. Work belongs to one kernel of each call, not to its helpers."""
    entries: list[Entry] = []
    for _, group in groupby(launches, key=lambda x: x.call):
        call = list(group)
        worker = next((x for x in call if not _is_helper(x.name)), call[0])
        for x in call:
            work = product(x.op or "", json.dumps(x.dims), json.dumps(x.types)) if x is worker else None
            flops, min_bytes, shape = work or (None, None, None)
            entries.append(Entry(graph, len(entries), x.name, x.module, x.op, shape, flops, min_bytes))
    return entries


def write_log(entries: Sequence[Entry], path: Path) -> None:
    """One JSON object a line, UTF-8."""
    path.write_text("".join(json.dumps(asdict(e), ensure_ascii=False) + "\n" for e in entries))


def _launch(row: dict[str, Any], ops: pa.Table) -> Launch:
    call, op = row["op_row"], row["op"]
    if op is None or op.startswith(_NO_OP):
        return Launch(row["name"], None, -1, row["module"], [], [])
    dims, types = (json.loads(ops[n][call].as_py() or "[]") for n in ("dims", "types"))
    return Launch(row["name"], op, call, row["module"], dims, types)


def _segments(
    launches: Sequence[Launch], shared: Collection[str | None]
) -> list[tuple[str | None, list[Launch]]]:
    """The launches, cut at the calls of `shared` ops: each such call by name, and what lies between them."""
    segments: list[tuple[str | None, list[Launch]]] = [(None, [])]
    for _, group in groupby(launches, key=lambda x: x.call):
        call = list(group)
        if call[0].op in shared:
            segments += [(_signature(call[0]), call), (None, [])]
        else:
            segments[-1][1].extend(call)
    return segments


def _signature(launch: Launch) -> str:
    """What two runs must agree on: the op and, for a product, its operands' shapes (not the out= one)."""
    return f"{launch.op} {launch.dims[:2] if launch.op in _GEMMS else ''}"


def _module(segment: Sequence[Launch]) -> str | None:
    return next((x.module for x in reversed(segment) if x.module), None)


def _is_helper(name: str) -> bool:
    return any(word in name.lower() for word in _HELPERS)
