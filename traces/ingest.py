"""A trace becomes a run: reader -> linking -> attribution -> ledger -> Parquet, one way."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces import flags, ledger, linking, phases
from traces.analysis import gaps
from traces.attribution import graphs, launch_log, work
from traces.attribution.classify import default_classifier
from traces.errors import InputError
from traces.readers import kineto
from traces.readers.files import Source
from traces.readers.times import saturate
from traces.schema import KINDS, SCHEMA, SCHEMA_VERSION, Metadata, empty_columns
from traces.store import Run

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from traces.attribution.classify import Classifier
    from traces.readers.timeline import Timeline

    Int64s = NDArray[np.int64]


def ingest(path: Path, log: Path | None = None, classifier: Classifier | None = None) -> Run:
    """Read one trace file into a run; a launch log gives its CUDA-graph replays modules and shapes.

    Raises InputError when a file is missing, a folder, unreadable, or without GPU rows.
    """
    lines = launch_log.read(log) if log else None
    with Source(path) as source:
        timeline = kineto.read(source)
        digest = source.sha256()
    on_cpu = timeline.captured.get("device", {}).get("type") == "cpu"
    if on_cpu and not timeline.gpu.num_rows:
        timeline.gpu = kineto.outermost_ops(timeline)
    if not timeline.gpu.num_rows:
        raise InputError(
            f"{path}: no GPU rows among {timeline.events:,} events; was the CUDA activity profiled "
            "(ProfilerActivity.CUDA), and did the program use the GPU?"
        )
    return build(timeline, {"file": path.name, "sha256": digest}, classifier or default_classifier(), lines)


def build(
    timeline: Timeline,
    source: dict[str, Any],
    classifier: Classifier,
    log: list[list[launch_log.Line]] | None = None,
) -> Run:
    """Turn a decoded trace into a run with every column filled as far as the trace allows."""
    rows = linking.link(timeline)
    rows = rows.take(pc.sort_indices(rows, sort_keys=[("start", "ascending"), ("dur", "ascending")]))
    start, dur = rows["start"].to_numpy(), rows["dur"].to_numpy()
    doubts = flags.judge(start, dur)
    good = ~np.logical_or.reduce(list(doubts.values()))
    used = np.zeros(len(dur), np.int64)
    used[good], cut = flags.clip(start[good], dur[good], _queues(rows)[good])
    doubts[flags.CLIPPED] = np.zeros(len(dur), dtype=bool)
    doubts[flags.CLIPPED][good] = cut

    first = int(start[good].min()) if good.any() else 0
    found = phases.assign(rows, timeline.ranges)
    columns = empty_columns(rows.num_rows)
    columns |= _copied(rows)
    columns |= {
        "start_ns": pa.array(_shifted(start, first)),
        "dur_ns": pa.array(dur),
        "used_ns": pa.array(used),
        "launch_start_ns": _launch_start(rows, first),
        "phase": pa.array(found.phase, pa.string()),
        "step": pa.array(found.step, pa.int32()),
        "flag": pa.array(flags.join(doubts, len(dur)), pa.string()),
    }
    replays = graphs.number(rows)
    zipped = launch_log.zip_with(log, rows, replays) if log is not None else None
    columns |= _modules(rows, timeline)
    columns |= _replays(replays)
    columns |= _labels(rows, classifier, zipped)
    columns |= work.columns(rows, columns["category"], timeline.ops)
    columns |= _logged(columns, zipped)
    table = pa.table(columns, schema=SCHEMA)
    table = _closed(table, timeline, first)
    begin, end = ledger.intervals(table)
    steps = phases.tiles(columns["phase"], columns["step"], begin, end, good)
    meta = _metadata(timeline, source, saturate(timeline.base_unix_ns + first))
    meta["steps"] = steps
    meta["health"] = _health(timeline, table) | ({"launch_log": zipped.health} if zipped else {})
    return Run(table, meta)


def _queues(rows: pa.Table) -> Int64s:
    """Number the in-order queues (rank, device, stream); -1 where the stream is unknown."""
    keys = np.stack([pc.fill_null(rows[n], -1).to_numpy() for n in ("rank", "device", "stream")], axis=1)
    _, numbers = np.unique(keys, axis=0, return_inverse=True)
    known = pc.is_valid(rows["stream"]).to_numpy(zero_copy_only=False)
    return np.where(known, numbers.reshape(-1), -1).astype(np.int64)


def _shifted(start: Int64s, first: int) -> Int64s:
    """`start - first`, kept inside int64 (hopeless timestamps lie at its ends)."""
    low = np.iinfo(np.int64).min + max(first, 0)
    high = np.iinfo(np.int64).max + min(first, 0)
    return np.clip(start, low, high) - first


def _launch_start(rows: pa.Table, first: int) -> pa.Array:
    """Host launch times on the run's clock; a CPU row has no launch of its own."""
    values = rows["launch_start"]
    shifted = pa.array(_shifted(pc.fill_null(values, first).to_numpy(), first))
    known = pc.and_(pc.is_valid(values), pc.not_equal(rows["kind"], "cpu_op"))
    return pc.if_else(known, shifted, None).combine_chunks()


def _copied(rows: pa.Table) -> dict[str, pa.Array]:
    """Columns that go from the reader to the run as they are."""
    same = [n for n in SCHEMA.names if n in rows.column_names]
    renamed = {"launch_dur_ns": "launch_dur"}
    columns = {n: rows[n] for n in same} | {n: rows[r] for n, r in renamed.items()}
    return {n: c.cast(SCHEMA.field(n).type).combine_chunks() for n, c in columns.items()}


def _modules(rows: pa.Table, timeline: Timeline) -> dict[str, pa.Array]:
    modules = phases.modules(rows, timeline.ranges)
    layers = [phases.layer_of(m) for m in modules]
    return {"module": pa.array(modules, pa.string()), "layer": pa.array(layers, pa.int16())}


def _labels(rows: pa.Table, classifier: Classifier, zipped: launch_log.Zipped | None) -> dict[str, pa.Array]:
    """Classify each distinct row once. A replayed kernel's op is the logged one, if there is a log."""
    names, ops, kinds = (rows[n].to_pylist() for n in ("name", "op", "kind"))
    replayed = pc.fill_null(pc.equal(rows["link"], "graph"), False).to_pylist()
    lines = zipped.lines if zipped else [None] * len(names)
    # The op around a graph launch says nothing about the kernels that it replays.
    evidence = [
        (line.op if line else None) if graph else op
        for op, graph, line in zip(ops, replayed, lines, strict=True)
    ]
    keys = list(zip(names, evidence, kinds, [line is not None for line in lines], strict=True))
    known = {}
    for name, op, kind, logged in dict.fromkeys(keys):
        label = classifier.classify(name, op=op, kind=kind)
        rule = f"graph:{label.rule}" if logged else label.rule
        known[name, op, kind, logged] = (label.group, label.category, label.backend, rule)
    columns = zip(*(known[k] for k in keys), strict=True)
    return {
        n: pa.array(list(c), pa.string())
        for n, c in zip(("group", "category", "backend", "rule"), columns, strict=True)
    }


def _replays(found: graphs.Replays) -> dict[str, pa.Array]:
    absent = found.ordinal == graphs.NONE
    return {
        "graph_ordinal": pa.array(found.ordinal, mask=absent),
        "graph_replay": pa.array(found.replay, mask=absent),
    }


def _logged(columns: dict[str, pa.Array], zipped: launch_log.Zipped | None) -> dict[str, pa.Array]:
    """Facts of the launch log, where it has a line for the row."""
    if zipped is None:
        return {}
    found = {
        fact: pa.array(
            [getattr(line, fact) if line else None for line in zipped.lines], SCHEMA.field(fact).type
        )
        for fact in launch_log.FACTS
    }
    has_line = pa.array([line is not None for line in zipped.lines])
    merged = {fact: pc.if_else(has_line, values, columns[fact]) for fact, values in found.items()}
    layers = [phases.layer_of(m) for m in merged["module"].to_pylist()]
    return merged | {"layer": pa.array(layers, pa.int16())}


def _closed(table: pa.Table, timeline: Timeline, first: int) -> pa.Table:
    """Fill the ledger's columns."""
    exclusive, gap, _ = ledger.close(table)
    host = timeline.host
    host = host.set_column(0, "start", pa.array(_shifted(host["start"].to_numpy(), first)))
    filled = {
        "exclusive_ns": pa.array(exclusive),
        "gap_ns": pa.array(gap),
        "gap_cause": pa.array(gaps.causes(table, gap, host), pa.string()),
    }
    for name, values in filled.items():
        table = table.set_column(SCHEMA.get_field_index(name), SCHEMA.field(name), values)
    return table


def _metadata(timeline: Timeline, source: dict[str, Any], time_base: int) -> Metadata:
    """Our own capture's facts where the trace carries them, else what the trace itself says."""
    known = timeline.captured
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": str(known.get("run_id") or uuid.uuid4().hex[:8]),
        "model": known.get("model"),
        "variant": known.get("variant"),
        "mode": known.get("mode"),
        "tool": known.get("tool") or "torch",
        "workload": known.get("workload"),
        "device": known.get("device") or timeline.device,
        "versions": timeline.versions | (known.get("versions") or {}),
        "source": source,
        "time_base_unix_ns": time_base,
        "steps": [],
        "unprofiled": known.get("unprofiled"),
        "health": {},
    }


def _health(timeline: Timeline, table: pa.Table) -> dict[str, Any]:
    """What was read, lost, mended or is in doubt, so that nothing is silent."""
    doubts = Counter(reason for f in table["flag"].drop_null().to_pylist() for reason in f.split(","))
    kinds = Counter(table["kind"].to_pylist())
    unknown = table.filter(pc.equal(table["category"], "unknown"))
    return {
        "events": timeline.events,
        "rows": {k: kinds[k] for k in KINDS if kinds[k]},
        "dropped": timeline.notes.dropped,
        "repaired": timeline.notes.repaired,
        "flagged": dict(sorted(doubts.items())),
        "orphans": pc.sum(pc.equal(table["link"], "orphan")).as_py() or 0,
        "unknown": {"rows": unknown.num_rows, "exclusive_ns": pc.sum(unknown["exclusive_ns"]).as_py() or 0},
    }
