"""torch.profiler (Kineto) traces: Chrome JSON of any age, plain or gzip, whole or damaged.

A GPU row is told by its category, never by having a stream (host rows of Triton carry one too).
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.errors import InputError
from traces.readers.events import Args, Number, integer
from traces.readers.files import Source
from traces.readers.jsonstream import EventStream
from traces.readers.timeline import GPU, HOST, OPS, RANGES, Timeline
from traces.readers.times import INT64_MAX, INT64_MIN, nanoseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from traces.readers.events import Event

# Modern names first, then those of 2021 and 2022; compared in lower case.
KINDS: Final = {
    "kernel": "kernel", "concurrent_kernel": "kernel",
    "gpu_memcpy": "memcpy", "memcpy": "memcpy",
    "gpu_memset": "memset", "memset": "memset",
}  # fmt: skip
_MAKERS: Final = ("", "cuda_", "hip_", "xpu_", "mtia_", "privateuse1_")
HOST_CATEGORIES: Final = {maker + level for maker in _MAKERS for level in ("runtime", "driver")}
OP_CATEGORIES: Final = {"cpu_op", "operator"}
RANGE_CATEGORIES: Final = {"user_annotation"}
ROUTES: Final = (
    dict.fromkeys(KINDS, "gpu")
    | dict.fromkeys(HOST_CATEGORIES, "host")
    | dict.fromkeys(OP_CATEGORIES, "op")
    | dict.fromkeys(RANGE_CATEGORIES, "range")
)
_NO_ARGS: Final = Args()
# Only these facts of a trace enter a run; never environment, command line, host or user.
_VERSION_KEYS: Final = (
    "cuda_runtime_version", "cuda_driver_version", "cupti_version", "hip_runtime_version",
    "hip_driver_version", "roctracer_version", "rocprofiler_version", "xpu_pti_version", "schemaVersion",
)  # fmt: skip


def read_file(path: Path) -> Timeline:
    """Read one trace file; raises InputError as `read` and `Source` do."""
    with Source(path) as source:
        return read(source)


def read(source: Source) -> Timeline:
    """Read one trace. Raises InputError if it holds no events at all (no GPU rows is the caller's case)."""
    stream = EventStream(source.read, str(source.path))
    parts: dict[str, list[pa.Table]] = {"gpu": [], "host": [], "op": [], "range": []}
    ignored: Counter[str] = Counter()
    for batch in stream:
        routed: dict[str, list[Event]] = {"gpu": [], "host": [], "op": [], "range": []}
        for event in batch:
            route = ROUTES.get(event.cat) or ROUTES.get(event.cat.lower())
            if route is None or event.ph != "X":
                ignored[event.cat or event.ph] += 1
            else:
                routed[route].append(event)
        for route, events in routed.items():
            if events:
                parts[route].append(_BUILDERS[route](events, stream))
    if source.damage:
        stream.notes.drop(source.damage, stream.offset)
    if not stream.events:
        raise InputError(f"{source.path}: no trace events; is it a torch.profiler export (.json, .json.gz)?")
    meta = stream.metadata
    return Timeline(
        gpu=_with_rank(_concat(parts["gpu"], GPU), _rank(meta.get("distributedInfo"))),
        host=_concat(parts["host"], HOST),
        ops=_concat(parts["op"], OPS),
        ranges=_concat(parts["range"], RANGES),
        base_unix_ns=integer(meta.get("baseTimeNanoseconds")) or 0,
        events=stream.events,
        notes=stream.notes,
        device=_device(meta.get("deviceProperties")),
        versions={k: meta[k] for k in _VERSION_KEYS if isinstance(meta.get(k), int | str)},
        captured=_captured(meta.get("kernelgap")),
    )


def _gpu(events: list[Event], stream: EventStream) -> pa.Table:
    start, dur, good = _times(events, stream)
    args = _arguments(events)
    columns: dict[str, Any] = {
        "start": start,
        "dur": dur,
        "kind": [KINDS[e.cat.lower()] for e in events],
        "name": [e.name for e in events],
        "rank": pa.nulls(len(events)),
        "device": _ints((_device_of(e) for e in events), 32),
        "stream": _ints((_stream_of(e) for e in events), 64),
        "process": pa.nulls(len(events)),
        "correlation": _ints((a.correlation for a in args), 64),
        "external": _ints((a.external for a in args), 64),
        "graph_id": _ints((a.graph_id for a in args), 64, zero_is_unknown=True),
        "graph_node": _ints((a.graph_node for a in args), 64, zero_is_unknown=True),
        "bytes": _ints((a.bytes for a in args), 64),
        "registers": _ints((a.registers for a in args), 32),
        "shared_bytes": _ints((a.shared for a in args), 32),
        "occupancy": [_occupancy(a) for a in args],
    }
    for what in ("grid", "block"):
        shapes = [_shape(getattr(a, what)) for a in args]
        for i, axis in enumerate("xyz"):
            columns[f"{what}_{axis}"] = _ints((s[i] for s in shapes), 32)
    return _table(columns, GPU, good)


def _host(events: list[Event], stream: EventStream) -> pa.Table:
    start, dur, good = _times(events, stream)
    correlation = _ints((a.correlation for a in _arguments(events)), 64)
    return _table({"start": start, "dur": dur, "correlation": correlation, **_where(events)}, HOST, good)


def _ops(events: list[Event], stream: EventStream) -> pa.Table:
    start, dur, good = _times(events, stream)
    args = _arguments(events)
    columns = {
        "start": start,
        "dur": dur,
        "external": _ints((a.external for a in args), 64),
        "dims": [bytes(a.dims).decode() or None for a in args],
        "types": [bytes(a.types).decode() or None for a in args],
        **_where(events),
    }
    return _table(columns, OPS, good)


def _ranges(events: list[Event], stream: EventStream) -> pa.Table:
    start, dur, good = _times(events, stream)
    return _table({"start": start, "dur": dur, **_where(events)}, RANGES, good)


_BUILDERS: Final[dict[str, Callable[[list[Event], EventStream], pa.Table]]] = {
    "gpu": _gpu, "host": _host, "op": _ops, "range": _ranges,
}  # fmt: skip


def _arguments(events: list[Event]) -> list[Args]:
    return [e.args or _NO_ARGS for e in events]


def _where(events: list[Event]) -> dict[str, Any]:
    return {
        "name": [e.name for e in events],
        "process": _ints((e.pid for e in events), 64),
        "thread": _ints((e.tid for e in events), 64),
    }


def _times(events: list[Event], stream: EventStream) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start and duration in ns, and which rows have a start; what is missing is counted."""
    start, good = nanoseconds([bytes(e.ts) for e in events])
    dur, known = nanoseconds([bytes(e.dur) for e in events])
    if lost := int((~good).sum()):
        stream.notes.drop("no_timestamp", stream.offset, lost)
    if mended := int((good & ~known).sum()):
        stream.notes.repair("no_duration", stream.offset, mended)
    return start, dur, good


def _table(columns: dict[str, Any], schema: pa.Schema, good: np.ndarray) -> pa.Table:
    table = pa.table({f.name: pa.array(columns[f.name]).cast(f.type) for f in schema}, schema=schema)
    return table if good.all() else table.filter(pa.array(good))


def _concat(parts: list[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables(parts).combine_chunks() if parts else schema.empty_table()


def _ints(values: Iterable[Number], bits: int, *, zero_is_unknown: bool = False) -> pa.Array:
    low, high = (-(2**31), 2**31 - 1) if bits == 32 else (INT64_MIN, INT64_MAX)
    numbers = [v if type(v) is int else integer(v) for v in values]
    fits = [
        v if v is not None and low <= v <= high and not (zero_is_unknown and v == 0) else None
        for v in numbers
    ]
    return pa.array(fits, pa.int64())


def _device_of(event: Event) -> Number:
    known = event.args.device if event.args else None
    return known if known is not None else event.pid  # a GPU row's pid is its device


def _stream_of(event: Event) -> Number:
    known = event.args.stream if event.args else None
    if known is not None:
        return known
    tid = event.tid
    return tid.removeprefix("stream ").strip() if isinstance(tid, str) else tid


def _occupancy(args: Args) -> float | None:
    try:
        percent = float(args.occupancy) if args.occupancy is not None else None
    except ValueError:
        return None
    return percent / 100 if percent is not None and 0 <= percent <= 100 else None


def _shape(value: list[Number] | str | None) -> list[Number]:
    if isinstance(value, list) and len(value) == 3:
        return value
    return [None, None, None]


def _with_rank(gpu: pa.Table, rank: int | None) -> pa.Table:
    column = (
        pa.array(np.full(gpu.num_rows, rank, np.int32))
        if rank is not None
        else pa.nulls(gpu.num_rows, pa.int32())
    )
    return gpu.set_column(gpu.schema.get_field_index("rank"), GPU.field("rank"), column)


def _rank(info: object) -> int | None:
    rank = integer(info.get("rank")) if isinstance(info, dict) else None
    return rank if rank is not None and 0 <= rank < 2**31 else None


def _device(properties: object) -> dict[str, Any]:
    found = [p for p in properties if isinstance(p, dict)] if isinstance(properties, list) else []
    if not found:
        return {}
    first = found[0]
    facts = {
        "type": "gpu",
        "name": first.get("name") or None,
        "count": len(found),
        "memory_bytes": first.get("totalGlobalMem"),
        "multiprocessors": first.get("numSms"),
    }
    if isinstance(first.get("computeMajor"), int):
        facts["compute_capability"] = f"{first['computeMajor']}.{first.get('computeMinor', 0)}"
    return {k: v for k, v in facts.items() if isinstance(v, int | str)}


def _captured(value: object) -> dict[str, Any]:
    """What `profiler capture` wrote about the run; it stands as an object or as a JSON string."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}


def outermost_ops(timeline: Timeline) -> pa.Table:
    """On the CPU device a row is an outermost op on its thread: those rows, in the `GPU` schema."""
    ops = timeline.ops
    order = pc.sort_indices(
        ops,
        sort_keys=[
            ("process", "ascending"),
            ("thread", "ascending"),
            ("start", "ascending"),
            ("dur", "descending"),
        ],
    )
    ops = ops.take(order)
    start = ops["start"].to_numpy()
    end = start + ops["dur"].to_numpy()
    process, thread = (pc.fill_null(ops[n], -1).to_numpy() for n in ("process", "thread"))
    keep, limit, at = np.zeros(len(start), dtype=bool), 0, (None, None)
    for i in range(len(start)):
        here = (process[i], thread[i])
        if here != at or start[i] >= limit:
            keep[i], limit, at = True, end[i], here
    ops = ops.filter(pa.array(keep))
    columns: dict[str, Any] = {f.name: pa.nulls(ops.num_rows, f.type) for f in GPU}
    columns |= {n: ops[n] for n in ("start", "dur", "name", "process", "external")}
    columns["kind"] = pa.array(["cpu_op"] * ops.num_rows, pa.string())
    return pa.table(columns, schema=GPU).append_column("thread", ops["thread"])
