"""GPU rows and host calls of an nsys export, in the tables of `traces.readers.timeline`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.columns import NONE, combine, decode, matching, nulls
from traces.readers.timeline import GPU, HOST
from traces.readers.times import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traces.readers.nsys_tables import Export

    Int64s = NDArray[np.int64]
    Codes = NDArray[np.int32]

KERNEL: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
UNNAMED: Final = "(kernel without a name)"
_WHERE: Final = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
_SHAPE: Final = {f"{what}_{axis}": f"{what}{axis.upper()}" for what in ("grid", "block") for axis in "xyz"}
_VERSION: Final = re.compile(r"_v\d+\Z")  # of a runtime call: cudaLaunchKernel_v7000
# CUpti_ActivityMemcpyKind, CUpti_ActivityMemoryKind as nsys numbers them; words as Kineto writes them.
_COPIES: Final = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH",
    10: "PtoP", 11: "unified HtoD", 12: "unified DtoH", 13: "unified DtoD",
}  # fmt: skip
_MEMORIES: Final = {
    0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static",
    6: "Managed Static",
}  # fmt: skip


def gpu(export: Export) -> pa.Table:
    """Kernels, copies, fills and whole-graph replays: schema `timeline.GPU`.

    Every row is kept: one without a time gets start and duration 0, which flags it, and is counted.
    """
    parts = [_kernels(export), _copies(export), _fills(export), _graphs(export)]
    filled = [part for part in parts if part.num_rows] or parts[:1]
    return pa.concat_tables(filled).unify_dictionaries().combine_chunks()


def host(export: Export) -> pa.Table:
    """CUDA calls: schema `timeline.HOST`. A call without a time is dropped."""
    table = "CUPTI_ACTIVITY_KIND_RUNTIME"
    read = export.read(
        table, ("start", "end", "globalTid", "correlationId", "nameId"), needs=("start", "end")
    )
    read = timed(export, read)
    if not read.num_rows:
        return HOST.empty_table()
    codes, texts = named(export, read["nameId"])
    start, dur = times(export, read)
    columns = {
        "start": start,
        "dur": dur,
        "name": decode(codes, [_VERSION.sub("", t) if t else None for t in texts]),
        "process": process(read["globalTid"]),
        "thread": thread(read["globalTid"]),
        "correlation": read["correlationId"],
    }
    return pa.table({f.name: columns[f.name] for f in HOST}, schema=HOST)


def lost_replays(gpu: pa.Table, host: pa.Table) -> int:
    """Graph launches that left no GPU row: replays that this exporter, or the trace mode, left out."""
    launches = host.filter(matching(host["name"], "GraphLaunch")) if host.num_rows else host
    if not launches.num_rows:
        return 0
    # Correlation ids have 32 bits; those of two processes collide.
    known, asked = (
        pa.array(
            pc.fill_null(t["correlation"], 0).to_numpy() + (pc.fill_null(t["process"], 0).to_numpy() << 32)
        )
        for t in (gpu, launches)
    )
    lost: int = launches.num_rows - pc.sum(pc.is_in(asked, known)).as_py()
    return lost


def process(global_id: pa.ChunkedArray) -> pa.ChunkedArray:
    """The process id in bits 24 to 47 of a globalTid or globalPid, whatever its sign."""
    return pc.bit_wise_and(pc.shift_right(global_id, 24), 0xFFFFFF)


def thread(global_id: pa.ChunkedArray) -> pa.ChunkedArray:
    """The thread id in the low 24 bits of a globalTid."""
    return pc.bit_wise_and(global_id, 0xFFFFFF)


def named(export: Export, ids: pa.ChunkedArray) -> tuple[Codes, list[str | None]]:
    """Each row's number of its name (NONE where it has no id), and the names (None: not in StringIds)."""
    encoded = pa.concat_arrays(ids.chunks).dictionary_encode() if len(ids) else pa.array([], pa.int64())
    if not len(encoded):
        return np.zeros(0, np.int32), []
    texts: list[str | None] = export.strings(encoded.dictionary).to_pylist()
    return pc.fill_null(encoded.indices, NONE).to_numpy(), texts


def timed(export: Export, read: pa.Table) -> pa.Table:
    """The rows that have a start (null and the smallest int64 mean none); the others are counted."""
    least = pc.min(read["start"]).as_py()
    if least is not None and least > INT64_MIN and not read["start"].null_count:
        return read
    good = pc.fill_null(pc.not_equal(read["start"], INT64_MIN), False)
    kept = read.filter(good)
    if lost := read.num_rows - kept.num_rows:
        export.notes.drop("no_timestamp", 0, lost)
    return kept


def times(export: Export, read: pa.Table) -> tuple[Int64s, Int64s]:
    """Start and duration, ns, the latter within int64; a missing one is 0 and counted."""
    if not read["start"].null_count + read["end"].null_count:
        whole = read["start"].to_numpy()
        return whole, durations(whole, read["end"].to_numpy())
    no_start, no_end = (pc.is_null(read[n]).to_numpy(zero_copy_only=False) for n in ("start", "end"))
    if no_start.any():
        export.notes.repair("no_timestamp", int(no_start.argmax()), int(no_start.sum()))
    if (open_ := no_end & ~no_start).any():
        export.notes.repair("no_duration", int(open_.argmax()), int(open_.sum()))
    start, end = (pc.fill_null(read[n], 0).to_numpy() for n in ("start", "end"))
    return start, np.where(no_start | no_end, 0, durations(start, end))


def durations(start: Int64s, end: Int64s) -> Int64s:
    """`end - start`, at most the ends of int64."""
    dur = end - start
    if start.min(initial=0) >= 0 and end.min(initial=0) >= 0:  # the difference fits
        return dur
    over = ((end ^ start) & (end ^ dur)) < 0  # the sign is wrong: the difference does not fit
    return np.where(over, np.where(end > start, INT64_MAX, INT64_MIN), dur)


def _kernels(export: Export) -> pa.Table:
    integers = (*_WHERE, "demangledName", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory",
                "graphNodeId", "graphId", *_SHAPE.values())  # fmt: skip
    read = export.read(KERNEL, integers, needs=("start", "end"))
    codes, texts = _kernel_names(export, read["demangledName"])
    node = _positive(read["graphNodeId"])
    columns = {
        "name": decode(codes, texts),
        "registers": read["registersPerThread"],
        "shared_bytes": pc.add(read["staticSharedMemory"], read["dynamicSharedMemory"]),
        "graph_node": node,
        # Older exports have no graphId; the upper half of a node's id is its graph.
        "graph_id": pc.coalesce(_positive(read["graphId"]), _positive(pc.shift_right(node, 32))),
    }
    return _rows(export, read, "kernel", columns | {ours: read[nsys] for ours, nsys in _SHAPE.items()})


def _kernel_names(export: Export, demangled: pa.ChunkedArray) -> tuple[Codes, list[str | None]]:
    """Demangled, else short, else mangled name; what is left is counted and says that it has none."""
    codes, texts = named(export, demangled)
    for other in ("shortName", "mangledName"):
        lost = _nameless(codes, texts)
        if not lost.any():
            return codes, texts
        # Read again only here: rows come in the same order, and nearly every export has all names.
        more, names = named(export, export.read(KERNEL, ["start", other])[other])
        take = lost & ~_nameless(more, names)
        codes, texts = np.where(take, more + len(texts), codes).astype(np.int32), texts + names
    if (lost := _nameless(codes, texts)).any():
        export.notes.repair("no_name", int(lost.argmax()), int(lost.sum()))
        codes, texts = np.where(lost, len(texts), codes).astype(np.int32), [*texts, UNNAMED]
    return codes, texts


def _nameless(codes: Codes, texts: list[str | None]) -> NDArray[np.bool_]:
    known = np.array([t is not None for t in texts] + [False], dtype=bool)  # [-1] is NONE
    return ~known[codes]


def _copies(export: Export) -> pa.Table:
    kinds = ("copyKind", "srcKind", "dstKind")
    read = export.read(
        "CUPTI_ACTIVITY_KIND_MEMCPY", (*_WHERE, "bytes", "graphNodeId", *kinds), needs=("start", "end")
    )
    if not read.num_rows:
        return GPU.empty_table()
    number, first, _ = combine(*(_codes(read[k]) for k in kinds))
    names = [_copy_name(*(read[k][int(i)].as_py() for k in kinds)) for i in first]
    return _rows(export, read, "memcpy", {"name": decode(number, names)} | _sized(read))


def _copy_name(copy: int | None, source: int | None, target: int | None) -> str:
    """As Kineto writes it: `Memcpy HtoD (Pageable -> Device)`."""
    ends = [_MEMORIES.get(k) for k in (source, target) if k is not None]
    known = [e for e in ends if e]
    way = _COPIES.get(copy) if copy is not None else None
    return f"Memcpy{f' {way}' if way else ''}{f' ({known[0]} -> {known[1]})' if len(known) == 2 else ''}"


def _fills(export: Export) -> pa.Table:
    read = export.read(
        "CUPTI_ACTIVITY_KIND_MEMSET", (*_WHERE, "bytes", "graphNodeId", "memKind"), needs=("start", "end")
    )
    names = ["Memset", *(f"Memset ({m})" for m in _MEMORIES.values())]
    kind = _codes(read["memKind"])
    code = np.where(np.isin(kind, list(_MEMORIES)), kind + 1, 0)
    return _rows(export, read, "memset", {"name": decode(code, names)} | _sized(read))


def _sized(read: pa.Table) -> dict[str, Any]:
    node = _positive(read["graphNodeId"])
    graph = _positive(pc.shift_right(node, 32))
    return {"bytes": read["bytes"], "graph_node": node, "graph_id": graph}


def _graphs(export: Export) -> pa.Table:
    """Replays of a whole graph (`--cuda-graph-trace=graph`): one row each, its kernels unknown."""
    read = export.read(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", (*_WHERE, "graphId", "graphExecId"), needs=("start", "end")
    )
    graph = pc.coalesce(_positive(read["graphId"]), _positive(read["graphExecId"]))
    codes = pc.fill_null(graph, 0).to_numpy()
    ids, code = np.unique(codes, return_inverse=True)
    names = [f"CUDA graph {i}" if i else "CUDA graph" for i in ids.tolist()]
    # A replay that starts on the host has no device: the greatest int32 in the file.
    device = pc.if_else(pc.equal(read["deviceId"], 2**31 - 1), None, read["deviceId"])
    read = read.set_column(read.column_names.index("deviceId"), "deviceId", device)
    return _rows(export, read, "graph", {"name": decode(code.reshape(-1), names), "graph_id": graph})


def _rows(export: Export, read: pa.Table, kind: str, columns: dict[str, Any]) -> pa.Table:
    """Rows of one kind: what all kinds share, and their own `columns`; the rest is null."""
    if not read.num_rows:
        return GPU.empty_table()
    start, dur = times(export, read)
    columns |= {
        "start": start,
        "dur": dur,
        "kind": pa.DictionaryArray.from_arrays(np.zeros(len(start), np.int32), [kind]),
        "device": read["deviceId"],
        "stream": read["streamId"],
        "process": process(read["globalPid"]),
        "correlation": read["correlationId"],
    }
    made = {
        f.name: _fitting(columns[f.name], f.type) if f.name in columns else nulls(len(start), f.type)
        for f in GPU
    }
    return pa.table(made, schema=GPU)


def _fitting(column: Any, kind: pa.DataType) -> Any:
    """Cast to int32 where asked, null where the value does not fit."""
    if not pa.types.is_int32(kind):
        return column
    try:
        return column.cast(kind)  # nearly always: all fit
    except pa.ArrowInvalid:
        pass
    inside = pc.and_(pc.less_equal(column, 2**31 - 1), pc.greater_equal(column, -(2**31)))
    return pc.if_else(inside, column, None).cast(kind)


def _positive(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Ids above 0; 0 is no id, and a uint64 beyond int64 came as a negative number."""
    return pc.if_else(pc.greater(column, 0), column, None)


def _codes(column: pa.ChunkedArray) -> Codes:
    """Small enumeration values as int32, NONE where null or senseless."""
    values = pc.fill_null(column, NONE).to_numpy()
    return np.where((values < 0) | (values > 255), NONE, values).astype(np.int32)
