"""torch.profiler (Kineto) traces: Chrome JSON of any age, plain or gzip, whole or damaged.

A GPU row is told by its category, never by having a stream (host rows of Triton carry one too).
"""

from __future__ import annotations

import gc
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.errors import InputError
from traces.readers import workers
from traces.readers.columns import SCHEMAS, build
from traces.readers.events import integer
from traces.readers.files import Source
from traces.readers.growing import Growing
from traces.readers.jsonstream import EventStream
from traces.readers.timeline import GPU, Timeline
from traces.schema import Captured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from traces.readers.columns import Batch
    from traces.readers.salvage import Notes

# Only these facts of a trace enter a run; never environment, command line, host or user.
_VERSION_KEYS: Final = (
    "cuda_runtime_version", "cuda_driver_version", "cupti_version", "hip_runtime_version",
    "hip_driver_version", "roctracer_version", "rocprofiler_version", "xpu_pti_version", "schemaVersion",
)  # fmt: skip


def read_file(path: Path, jobs: int | None = None) -> Timeline:
    """Read one trace file; raises InputError as `read` and `Source` do."""
    with Source(path) as source:
        return read(source, jobs)


def read(source: Source, jobs: int | None = None) -> Timeline:
    """Read one trace; `jobs` processes decode a large one (default: `workers.jobs`).

    Raises InputError if it holds no events at all (no GPU rows is the caller's case).
    """
    rows = {route: Growing(schema) for route, schema in SCHEMAS.items()}
    events = 0
    with _pool(source, workers.jobs(jobs)) as (submit, ahead), _no_collection():
        stream = EventStream(source.read, str(source.path), submit, build, ahead)
        for offset, batch in stream:
            events += batch.events
            batch.report(stream.notes, offset)
            for route, table in batch.tables.items():
                rows[route].append(table)
    notes, meta = stream.notes, stream.metadata
    if source.damage:
        notes.drop(source.damage, source.given)
    if not events:
        raise InputError(f"{source.path}: no trace events; is it a torch.profiler export (.json, .json.gz)?")
    tables = {route: growing.finish() for route, growing in rows.items()}
    _check_processes(tables["host"], notes)
    return Timeline(
        gpu=_with_rank(tables["gpu"], _rank(meta.get("distributedInfo"), notes)),
        host=tables["host"],
        ops=tables["op"],
        ranges=tables["range"],
        base_unix_ns=integer(meta.get("baseTimeNanoseconds")) or 0,
        events=events,
        notes=notes,
        device=_device(meta.get("deviceProperties")),
        versions={k: meta[k] for k in _VERSION_KEYS if isinstance(meta.get(k), int | str)},
        captured=_captured(meta.get("kernelgap"), notes),
    )


@contextmanager
def _pool(source: Source, jobs: int) -> Iterator[tuple[Callable[[bytes], Callable[[], Batch | None]], int]]:
    """Worker processes where the input is large enough for them, else this one."""
    if jobs < 2 or source.likely_size < workers.WORTHWHILE or not workers.POSSIBLE:
        yield workers.here, 1
        return
    with workers.Pool(jobs) as pool:
        yield pool.submit, pool.ahead


@contextmanager
def _no_collection() -> Iterator[None]:
    """Decoded events hold no cycles; looking for some takes a fifth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _check_processes(host: pa.Table, notes: Notes) -> None:
    """Ranks merged into one file may use the same correlation ids: count those that name no one launch."""
    if pc.count_distinct(host["process"]).as_py() < 2:
        return
    asked = host.select(["process", "correlation"]).filter(pc.not_equal(host["correlation"], 0))
    owners = asked.group_by("correlation").aggregate([("process", "count_distinct")])
    shared = pc.sum(pc.greater(owners["process_count_distinct"], 1)).as_py() or 0
    if shared:
        notes.repair("correlation_of_several_processes", 0, shared)


def _with_rank(gpu: pa.Table, rank: int | None) -> pa.Table:
    column = (
        pa.array(np.full(gpu.num_rows, rank, np.int32))
        if rank is not None
        else pa.nulls(gpu.num_rows, pa.int32())
    )
    return gpu.set_column(gpu.schema.get_field_index("rank"), GPU.field("rank"), column)


def _rank(info: object, notes: Notes) -> int | None:
    """The rank of the whole file; None, and counted, where it holds several."""
    infos = info if isinstance(info, list) else [info]
    ranks = {integer(i.get("rank")) for i in infos if isinstance(i, dict)} - {None}
    if len(ranks) > 1:
        notes.drop("ranks_merged_into_one_file", 0, len(ranks))
        return None
    rank = ranks.pop() if ranks else None
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


def _captured(value: object, notes: Notes) -> Captured:
    """What our capture wrote about the run, as an object or a JSON string; what others wrote is counted."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    if not isinstance(value, dict):
        return {}
    try:
        return msgspec.convert(value, Captured)
    except msgspec.ValidationError:
        notes.drop("captured_facts", 0)
        return {}


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
    columns["kind"] = pa.array(["cpu_op"] * ops.num_rows, GPU.field("kind").type)
    return pa.table(columns, schema=GPU).append_column("thread", ops["thread"])
