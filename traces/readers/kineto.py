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
from traces.readers import ranks, workers
from traces.readers.columns import SCHEMAS, build
from traces.readers.files import Source
from traces.readers.growing import Growing
from traces.readers.jsonstream import EventStream
from traces.readers.salvage import Notes
from traces.readers.timeline import GPU, Timeline
from traces.schema import Captured, Device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from traces.readers.batch import Batch

# Only these facts of a trace enter a run; never environment, command line, host or user.
_VERSION_KEYS: Final = (
    "cuda_runtime_version", "cuda_driver_version", "cupti_version", "hip_runtime_version",
    "hip_driver_version", "roctracer_version", "rocprofiler_version", "xpu_pti_version", "schemaVersion",
)  # fmt: skip


MAX_DOCUMENTS: Final = 1024  # one behind the other in one file


def read_file(path: Path, jobs: int | None = None) -> Timeline:
    """Read one trace file; raises InputError as `read` and `Source` do."""
    with Source(path) as source:
        return read(source, jobs)


def read(source: Source, jobs: int | None = None) -> Timeline:
    """Read one trace; `jobs` processes decode a large one (default: `workers.jobs`).

    Several traces one behind the other in one file are read as one; facts that are not those of a rank are
    taken from the first. Raises InputError if it holds no events at all (no GPU rows is the caller's case).
    """
    documents: list[ranks.Document] = []
    notes, events = Notes(), 0
    with _pool(source, workers.jobs(jobs)) as (submit, ahead), _no_collection():
        stream = EventStream(source.read, str(source.path), submit, build, ahead, notes)
        for document, count in _documents(stream):
            if not events:
                documents = [document]
            elif count:
                documents.append(document)
            events += count
    meta = documents[0].metadata
    if documents[1:]:
        notes.repair("several_documents", documents[1].begin, len(documents) - 1)
    if source.damage:
        notes.drop(source.damage, source.given)
    if not events:
        raise InputError(f"{source.path}: no trace events; is it a torch.profiler export (.json, .json.gz)?")
    tables = ranks.join(documents, notes)
    return Timeline(
        gpu=tables["gpu"],
        host=tables["host"],
        ops=tables["op"],
        ranges=tables["range"],
        base_unix_ns=documents[0].base,
        events=events,
        notes=notes,
        device=_device(meta.get("deviceProperties")),
        versions={k: meta[k] for k in _VERSION_KEYS if isinstance(meta.get(k), int | str)},
        captured=_captured(meta.get("kernelgap"), notes),
    )


def _documents(stream: EventStream[Batch]) -> Iterator[tuple[ranks.Document, int]]:
    """The documents of one text, each with the number of its events."""
    yield _document(stream, further=False)
    for _ in range(MAX_DOCUMENTS - 1):
        if stream.following is None:
            return
        stream = stream.following
        yield _document(stream, further=True)
    if stream.following:
        stream.notes.drop("further_documents", stream.following.begin)


def _document(stream: EventStream[Batch], *, further: bool) -> tuple[ranks.Document, int]:
    """One document and how many events it holds. A further one that holds no events is counted as lost."""
    rows = {route: Growing(schema) for route, schema in SCHEMAS.items()}
    events = 0
    try:
        for where, batch in stream:
            events += batch.events
            batch.report(stream.notes, where.place)
            for route, table in batch.tables.items():
                rows[route].append(table)
    except InputError:
        if not further:
            raise
        stream.notes.drop("broken_document", stream.begin)
    else:
        if further and not events:
            stream.notes.drop("document_without_events", stream.begin)
    tables = {route: growing.finish() for route, growing in rows.items()}
    return ranks.Document(tables, stream.metadata, stream.begin), events


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
        msgspec.convert(value.get("device", {}), Device)
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
