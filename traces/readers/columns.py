"""Events to Arrow tables in the schemas of `timeline`, one batch at a time, fast enough for gigabytes.

Strings are dictionary-encoded here: a trace has thousands of rows for each distinct name.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.attribution import work
from traces.readers.batch import Batch, Faults
from traces.readers.events import Args, decode_many, integer
from traces.readers.pids import LABEL, owners, split
from traces.readers.timeline import GPU, HOST, MODULE_CALL, OPS, RANGES, UNCLOSED
from traces.readers.times import INT64_MAX, INT64_MIN, InexactError, nanoseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from msgspec import Raw

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
PYTHON_CATEGORY: Final = "python_function"
ROUTES: Final = (
    dict.fromkeys(KINDS, "gpu")
    | dict.fromkeys(HOST_CATEGORIES, "host")
    | dict.fromkeys(OP_CATEGORIES, "op")
    | dict.fromkeys(RANGE_CATEGORIES, "range")
)
# With the label of the pid; of a GPU row, `process` is its pid where that is not its device.
SCHEMAS: Final = {
    route: schema.append(LABEL)
    for route, schema in {"gpu": GPU, "host": HOST, "op": OPS, "range": RANGES.append(UNCLOSED)}.items()
}
_NO_ARGS: Final = Args()


def decode(text: bytes | memoryview) -> Batch:
    """Decode `[event, event, ...]`; raises one of DECODE_ERRORS if it is not strict JSON."""
    try:
        return build(decode_many(text))
    except InexactError:
        return build(decode_many(text, exact=True))


def build(events: list[Event]) -> Batch:
    """Tables from events; those that are no GPU row, launch, op, range or module are only counted."""
    routes = _Routes()
    for event in events:
        if event.ph == "X":
            routes[event.cat].append(event)
    tables, faults = {}, Faults()
    for route, routed in routes.routed.items():
        if routed:
            faults.events = routed
            tables[route] = _BUILDERS[route](routed, faults)
    return Batch(len(events), tables, faults.dropped, faults.repaired, faults.first(events))


class _Routes(dict[str, list[Any]]):
    """Category as the file spells it -> the list its events go to."""

    def __init__(self) -> None:
        self.routed: dict[str, list[Event]] = {route: [] for route in SCHEMAS}

    def __missing__(self, category: str) -> list[Any]:
        route = ROUTES.get(category.lower())
        if category == PYTHON_CATEGORY:
            self[category] = _Modules(self.routed["range"])
        else:
            self[category] = self.routed[route] if route else _Nowhere()
        return self[category]


class _Modules(list[Any]):
    """Of the Python functions on the stack keeps only calls of modules: they say whose kernels follow."""

    def __init__(self, kept: list[Event]) -> None:
        self.kept = kept

    def append(self, event: Event) -> None:
        """Keep it if it is a module."""
        if event.name.startswith(MODULE_CALL):
            self.kept.append(event)


class _Nowhere(list[Any]):
    """Takes what nobody wants, and does not keep it alive."""

    def append(self, _: object) -> None:
        """Forget it."""


def _gpu(events: list[Event], faults: Faults) -> pa.Table:
    args = [e.args or _NO_ARGS for e in events]
    pids, labels = split([e.pid for e in events])
    devices = [p if a.device is None else a.device for p, a in zip(pids, args, strict=True)]
    columns: dict[str, Any] = {
        "label": labels,
        "process": owners(pids, devices),
        "kind": pa.array([KINDS[e.cat.lower()] for e in events], pa.string()).dictionary_encode(),
        "name": _names(events, faults),
        # A GPU row's pid is its device and its tid its stream, where args do not say.
        "device": _ints(devices, faults, pa.int32()),
        "stream": _ints([_stream(e.tid) if a.stream is None else a.stream
                         for e, a in zip(events, args, strict=True)], faults),
        "correlation": _ints([a.correlation for a in args], faults),
        "external": _ints([a.external for a in args], faults),
        "graph_id": _ids([a.graph_id for a in args], faults),
        "graph_node": _ids([a.graph_node for a in args], faults),
        "bytes": _ints([a.bytes for a in args], faults),
        "registers": _ints([a.registers for a in args], faults, pa.int32()),
        "shared_bytes": _ints([a.shared for a in args], faults, pa.int32()),
        "occupancy": _occupancy([a.occupancy for a in args]),
    }  # fmt: skip
    columns |= _shapes("grid", [a.grid for a in args]) | _shapes("block", [a.block for a in args])
    return _table(columns, SCHEMAS["gpu"], events, faults)


def _host(events: list[Event], faults: Faults) -> pa.Table:
    correlation = _ints([e.args.correlation if e.args else None for e in events], faults)
    return _table({"correlation": correlation, **_where(events, faults)}, SCHEMAS["host"], events, faults)


def _ops(events: list[Event], faults: Faults) -> pa.Table:
    args = [e.args or _NO_ARGS for e in events]
    shaped = [a if e.name in work.KNOWN else _NO_ARGS for e, a in zip(events, args, strict=True)]
    columns = {
        "external": _ints([a.external for a in args], faults),
        "dims": _texts([a.dims for a in shaped]),
        "types": _texts([a.types for a in shaped]),
        "strides": _texts([a.strides for a in shaped]),
        "concrete": _texts([a.concrete for a in shaped]),
        **_where(events, faults),
    }
    return _table(columns, SCHEMAS["op"], events, faults)


def _ranges(events: list[Event], faults: Faults) -> pa.Table:
    unclosed = [e.args is not None and str(e.args.finished).lower() == "false" for e in events]
    return _table(
        {"unclosed": pa.array(unclosed), **_where(events, faults)}, SCHEMAS["range"], events, faults
    )


_BUILDERS: Final[dict[str, Callable[[list[Event], Faults], pa.Table]]] = {
    "gpu": _gpu, "host": _host, "op": _ops, "range": _ranges,
}  # fmt: skip


def _where(events: list[Event], faults: Faults) -> dict[str, Any]:
    pids, labels = split([e.pid for e in events])
    return {
        "name": _names(events, faults),
        "label": labels,
        "process": _ints(pids, faults),
        "thread": _ints([e.tid for e in events], faults),
    }


def _table(columns: dict[str, Any], schema: pa.Schema, events: list[Event], faults: Faults) -> pa.Table:
    """Columns in the order of the schema, null where the trace does not know; rows without a start go."""
    start, good = nanoseconds([e.ts for e in events])
    dur, known = nanoseconds([e.dur for e in events])
    faults.drop("no_timestamp", ~good)
    faults.repair("no_duration", good & ~known)
    # Of a GPU row "unknown" must stay apart from "none"; for host rows 0 is good enough.
    unknown = ~known if schema is SCHEMAS["gpu"] else None
    columns |= {"start": pa.array(start), "dur": pa.array(dur, mask=unknown)}
    arrays = [columns[f.name] if f.name in columns else pa.nulls(len(events), f.type) for f in schema]
    table = pa.table(arrays, schema=schema)
    return table if good.all() else table.filter(pa.array(good))


def _strings(values: Sequence[str], faults: Faults) -> pa.Array:
    """Texts; half of a surrogate pair (`\\ud800` in JSON) is no character, and is replaced and counted."""
    try:
        return pa.array(values, pa.string()).dictionary_encode()
    except UnicodeEncodeError:
        texts = [v.encode(errors="replace").decode() for v in values]
        faults.repair("bad_utf8", [t != v for t, v in zip(texts, values, strict=True)])
        return pa.array(texts, pa.string()).dictionary_encode()


def _names(events: list[Event], faults: Faults) -> pa.Array:
    names = [e.name for e in events]
    if "" in names:
        faults.repair("no_name", [not n for n in names])
    return _strings(names, faults)


def _texts(raws: list[Raw]) -> pa.Array:
    """Strings from JSON texts, each distinct one decoded once; null where there is none."""
    # One join and one split: five times faster than as many calls of bytes(). NUL cannot stand in JSON.
    coded = pa.array(b"\0".join(raws).split(b"\0"), pa.binary()).dictionary_encode()
    distinct = [t.decode(errors="replace") or None for t in coded.dictionary.to_pylist()]
    return pa.array(distinct, pa.string()).take(coded.indices).dictionary_encode()


def _ints(values: list[Any], faults: Faults, kind: pa.DataType = pa.int64()) -> pa.Array:  # noqa: B008
    """Integers of any spelling; what does not fit is null and counted."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        numbers = [integer(v) for v in values]
        low, high = (INT64_MIN, INT64_MAX) if kind == pa.int64() else (-(2**31), 2**31 - 1)
        fits = [v if v is not None and low <= v <= high else None for v in numbers]
        lost = [f is None and v not in (None, "") for f, v in zip(fits, values, strict=True)]
        faults.repair("unusable_number", lost)
        return pa.array(fits, kind)


def _ids(values: list[Any], faults: Faults) -> pa.Array:
    """Graph ids: 0 means that there is none."""
    if not any(values):
        return pa.nulls(len(values), pa.int64())
    ids = _ints(values, faults)
    return pc.if_else(pc.equal(ids, 0), None, ids)


def _stream(tid: object) -> object:
    return tid.removeprefix("stream ").strip() if isinstance(tid, str) else tid


def _occupancy(percents: list[Any]) -> pa.Array:
    try:
        values = np.array(percents, np.float64)  # null becomes NaN
    except (ValueError, OverflowError):
        values = np.array([_float(p) for p in percents], np.float64)
    known = (values >= 0) & (values <= 100)
    return pa.array((values / 100).astype(np.float32), pa.float32(), mask=~known)


def _float(value: object) -> float:
    try:
        return float(value) if isinstance(value, int | float | str) else np.nan
    except (ValueError, OverflowError):
        return np.nan


def _shapes(what: str, raws: list[Raw]) -> dict[str, pa.Array]:
    """Columns `<what>_x`, `_y`, `_z` from texts such as `[32, 8, 1]`; each distinct one is read once."""
    coded = _texts(raws)
    distinct = [_triple(t) for t in coded.dictionary.to_pylist()]
    return {
        f"{what}_{axis}": pa.array([d[i] for d in distinct], pa.int32()).take(coded.indices)
        for i, axis in enumerate("xyz")
    }


def _triple(text: str) -> list[int | None]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or len(found) != 3:
        return [None, None, None]
    numbers = [integer(v) for v in found]
    return [n if n is not None and -(2**31) <= n < 2**31 else None for n in numbers]
