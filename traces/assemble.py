"""Every column of a run, from a decoded trace: linking -> attribution -> ledger, one way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces import flags, ledger, linking, phases, repetition
from traces.analysis import gaps
from traces.attribution import graphs, launch_log, layers, modules, work
from traces.columns import NONE, combine, decode, encode, nulls, number
from traces.schema import COMPACT, SCHEMA

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traces.attribution.classify import Classifier
    from traces.readers.timeline import Timeline
    from traces.schema import Step

    Int64s = NDArray[np.int64]
    Columns = dict[str, pa.Array]


class Assembled(NamedTuple):
    """The rows (`schema.COMPACT`), their steps, the first start on the tool's clock, and what to report."""

    table: pa.Table
    steps: list[Step]
    first: int
    log_health: dict[str, int] | None
    layers: dict[str, Any] | None  # how many were inferred, where no range says
    notes: list[str]


class Times(NamedTuple):
    """Starts on the tool's clock, ns; which rows the ledger takes; and the columns that it reads."""

    start: Int64s
    good: NDArray[np.bool_]
    first: int
    columns: Columns  # start_ns (on the run's clock), used_ns, flag


def assemble(
    timeline: Timeline, classifier: Classifier, log: list[list[launch_log.Line]] | None = None
) -> Assembled:
    """Fill every column as far as the trace allows, sorted by start."""
    knows_process = timeline.gpu["process"].null_count == 0
    rows = _sorted(linking.link(timeline))
    _forget(timeline)
    times = _times(rows, reader_knows_process=knows_process)
    replays = graphs.number(rows)
    ledgered = pa.table({"rank": rows["rank"], "device": rows["device"], **times.columns})
    exclusive, gap, _ = ledger.close(ledgered)
    found = phases.assign(rows, timeline.ranges)
    if inferred := found.phase.null_count == rows.num_rows:
        found = _inferred(rows, times, gap, replays)
    said = modules.assign(rows, timeline.ranges)
    told = None if inferred else found
    zipped = launch_log.zip_with(log, rows, replays, told) if log is not None else None

    columns = _copied(rows)
    columns |= {
        **times.columns,
        "exclusive_ns": pa.array(exclusive),
        "gap_ns": pa.array(gap),
        "launch_start_ns": _launch_start(rows, times.first),
        "phase": found.phase,
        "step": found.step,
        "module": said.module,
        "layer": said.layer,
    }
    columns |= _replays(replays)
    columns |= _labels(rows, classifier, zipped)
    columns |= work.columns(rows, columns["category"], timeline.ops, _visible(timeline))
    if zipped:
        columns |= _logged(columns, zipped)
    rest = {f.name: nulls(rows.num_rows, f.type) for f in COMPACT if f.name not in columns}
    table = pa.table(rest | columns, schema=COMPACT)
    del rest, columns, rows, said, replays, ledgered, exclusive
    by_kernels = layers.infer(table, times.good)
    table = table.set_column(COMPACT.get_field_index("layer"), COMPACT.field("layer"), by_kernels.layer)
    causes = gaps.causes(table, gap, _on_run_clock(timeline.host, times.first))
    table = table.set_column(COMPACT.get_field_index("gap_cause"), COMPACT.field("gap_cause"), causes)
    begin, end = ledger.intervals(table)
    steps = phases.tiles(found, begin, end, times.good, inferred=inferred)
    notes = [f"phase {p}: step numbers come again; steps count its ranges instead" for p in found.recounted]
    notes += [by_kernels.note] if by_kernels.note else []
    if zipped and not zipped.health["matched"] + zipped.health["mismatched"]:
        notes.append("launch log: not used, the trace has neither CUDA-graph replays nor ranges of steps")
    return Assembled(table, steps, times.first, zipped.health if zipped else None, by_kernels.health, notes)


def _forget(timeline: Timeline) -> None:
    """Let go of what `rows` holds by now, and of columns and calls that nothing asks for after linking."""
    timeline.gpu = timeline.gpu.schema.empty_table()
    timeline.ops = timeline.ops.select(list(work.CALL))
    timeline.host = gaps.waits(timeline.host)


def _sorted(rows: pa.Table) -> pa.Table:
    """Rows by start, then duration; most traces have them so already, and are not copied."""
    order = pc.sort_indices(rows, sort_keys=[("start", "ascending"), ("dur", "ascending")])
    if np.array_equal(order, np.arange(rows.num_rows)):
        return rows
    return rows.take(order)


def _times(rows: pa.Table, *, reader_knows_process: bool) -> Times:
    """Judge and clip durations: what the ledger may use of each row."""
    start, dur = rows["start"].to_numpy(), pc.fill_null(rows["dur"], 0).to_numpy()
    doubts = flags.judge(start, dur)
    doubts[flags.NO_DURATION] = pc.is_null(rows["dur"]).to_numpy(zero_copy_only=False)
    doubts["zero_time"] &= ~doubts[flags.NO_DURATION]
    good = ~np.logical_or.reduce([d for reason, d in doubts.items() if reason in flags.DISQUALIFYING])
    used = np.zeros(len(dur), np.int64)
    used[good], cut = flags.clip(start[good], dur[good], _queues(rows, reader_knows_process)[good])
    doubts[flags.CLIPPED] = np.zeros(len(dur), dtype=bool)
    doubts[flags.CLIPPED][good] = cut
    first = int(start[good].min()) if good.any() else 0
    columns = {
        "start_ns": pa.array(_shifted(start, first)),
        "used_ns": pa.array(used),
        "flag": flags.join(doubts, len(dur)),
    }
    return Times(start, good, first, columns)


def _queues(rows: pa.Table, reader_knows_process: bool) -> Int64s:
    """Number the in-order queues of each device; NONE where the stream is unknown.

    Streams of two processes may share a number, which only some tools can tell apart.
    """
    names = ["rank", "device", "stream", *(["process"] if reader_knows_process else [])]
    numbers, _, _ = combine(*(number(rows[n]) for n in names))
    known = pc.is_valid(rows["stream"]).to_numpy(zero_copy_only=False)
    return np.where(known, numbers, NONE)


def _shifted(start: Int64s, first: int) -> Int64s:
    """`start - first`, kept inside int64 (hopeless timestamps lie at its ends)."""
    low = np.iinfo(np.int64).min + max(first, 0)
    high = np.iinfo(np.int64).max + min(first, 0)
    return np.clip(start, low, high) - first


def _launch_start(rows: pa.Table, first: int) -> pa.Array:
    """Host launch times on the run's clock; a CPU row has no launch of its own."""
    values = rows["launch_start"]
    shifted = _shifted(pc.fill_null(values, first).to_numpy(), first)
    known = pc.and_(pc.is_valid(values), pc.not_equal(rows["kind"], "cpu_op"))
    return pa.array(shifted, mask=~known.to_numpy(zero_copy_only=False))


def _copied(rows: pa.Table) -> Columns:
    """Columns that go from the reader to the run as they are."""
    renamed = {"dur_ns": "dur", "launch_dur_ns": "launch_dur"}
    columns = {n: rows[n] for n in SCHEMA.names if n in rows.column_names}
    columns |= {n: rows[r] for n, r in renamed.items()}
    return {n: _cast(c, COMPACT.field(n).type) for n, c in columns.items()}


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return decode(*encode(column))
    cast = column.cast(kind)
    return cast.chunk(0) if cast.num_chunks == 1 else cast.combine_chunks()


def _labels(rows: pa.Table, classifier: Classifier, zipped: launch_log.Zipped | None) -> Columns:
    """Classify each distinct row once. A replayed kernel's op is the logged one, if there is a log.

    Where the log explains a row of a replay its rule says so: `graph:<rule>`.
    """
    names, name_texts = encode(rows["name"])
    kinds, kind_texts = encode(rows["kind"])
    ops, op_texts = encode(rows["op"])
    # The op around a graph launch says nothing about the kernels that it replays.
    replayed = pc.fill_null(pc.equal(rows["link"], "graph"), False).to_numpy(zero_copy_only=False)
    ops[replayed] = NONE
    logged = np.zeros(len(ops), np.int32)
    if zipped:
        logged = (replayed & (zipped.placed != NONE)).astype(np.int32)
        line_ops, texts = encode(pa.array([line.op for line in zipped.lines], pa.string()))
        line_op = np.append(line_ops, NONE)[zipped.at]
        ops = np.where(line_op == NONE, ops, line_op + len(op_texts))
        op_texts = op_texts + texts
    number, first, _ = combine(names, ops, kinds, logged)
    labels = []
    for i in first:
        op = op_texts[ops[i]] if ops[i] != NONE else None
        label = classifier.classify(name_texts[names[i]], op=op, kind=kind_texts[kinds[i]])
        rule = f"graph:{label.rule}" if logged[i] else label.rule
        labels.append((label.group, label.category, label.backend, rule))
    return {
        column: decode(number, [label[i] for label in labels])
        for i, column in enumerate(("group", "category", "backend", "rule"))
    }


def _visible(timeline: Timeline) -> int | None:
    """Keys that every decode step of our own captures sees: the prompt and the new token itself."""
    workload = timeline.captured.get("workload")
    return workload["prompt"] + 1 if workload else None


def _replays(found: graphs.Replays) -> Columns:
    absent = found.ordinal == NONE
    if absent.all():
        return {n: nulls(len(absent), pa.int32()) for n in ("graph_ordinal", "graph_replay")}
    return {
        "graph_ordinal": pa.array(found.ordinal, mask=absent),
        "graph_replay": pa.array(found.replay, mask=absent),
    }


def _logged(columns: Columns, zipped: launch_log.Zipped) -> Columns:
    """Facts of the launch log where it has a line for the row, else what is known already."""
    out = {}
    for fact in launch_log.FACTS:
        lines = zipped.placed if fact == "module" else zipped.at
        kind = SCHEMA.field(fact).type
        facts = pa.array([getattr(line, fact) for line in zipped.lines], kind)
        values = facts.take(pa.array(lines, mask=lines == NONE))
        merged = pc.if_else(pa.array(lines != NONE), values, columns[fact].cast(kind))
        out[fact] = merged.dictionary_encode() if pa.types.is_string(kind) else merged
    placed = pa.array(zipped.placed != NONE)
    out["layer"] = pc.if_else(placed, modules.layers(out["module"]), columns["layer"])
    return out


def _inferred(rows: pa.Table, times: Times, gap: Int64s, replays: graphs.Replays) -> phases.Phases:
    """Steps by repetition on the busiest device; rows of other devices take the step of their time."""
    is_kernel = pc.equal(rows["kind"], "kernel").to_numpy(zero_copy_only=False)
    devices = [mine[is_kernel[mine] & times.good[mine]] for _, _, mine in ledger.devices(rows)]
    kernels = max(devices, key=len)
    names, _ = encode(rows["name"])
    begins = repetition.step_starts(names[kernels], gap[kernels], replays.launch[kernels])
    step = np.searchsorted(times.start[kernels[begins]], times.start, side="right") - 1
    step[~times.good] = NONE
    return phases.Phases(
        decode(np.minimum(step, 0), [repetition.PHASE]),
        pa.array(step.astype(np.int32), mask=step == NONE),
    )


def _on_run_clock(host: pa.Table, first: int) -> pa.Table:
    return host.set_column(0, "start", pa.array(_shifted(host["start"].to_numpy(), first)))
