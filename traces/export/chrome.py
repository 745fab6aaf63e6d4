"""A run as Chrome JSON, the trace format that Perfetto, chrome://tracing and our own Kineto reader open.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU ("Trace Event
Format"). Its times are microseconds; here they are decimals with three digits, so that no nanosecond is lost.
Fields are named as Kineto names them, therefore `ingest` reads the file back to the same kernels, starts and
durations. Launches come back too; ops and modules are in `args` only, since a run does not know their times.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from traces import ledger
from traces.export import host
from traces.export.tracks import IDLE_TID, STEPS_TID, Tracks, place
from traces.flags import DISQUALIFYING
from traces.schema import Captured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traces.schema import Step
    from traces.store import Run

CATEGORIES: Final = {
    "kernel": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset", "cpu_op": "cpu_op",
    "graph": "kernel",  # a whole replay: Kineto has no word for it; its args say so
}  # fmt: skip
# Names of chrome://tracing's fixed palette nearest to the taxonomy's colours; Perfetto colours by name.
COLOURS: Final = {
    "gemm": "rail_response", "attention": "rail_idle", "small_op": "rail_load",
    "communication": "thread_state_runnable", "memory": "rail_animation",
    "other": "thread_state_uninterruptible", "idle": "grey",
}  # fmt: skip
_ARGS: Final = {  # column: key in `args`; Kineto's names where it has one
    "device": "device", "stream": "stream", "correlation": "correlation",
    "registers": "registers per thread", "shared_bytes": "shared memory", "bytes": "bytes",
    "graph_id": "graph id", "graph_node": "graph node id", "group": "group", "category": "category",
    "backend": "backend", "rule": "rule", "phase": "phase", "step": "step", "layer": "layer",
    "module": "module", "op": "op", "shape": "shape", "flops": "flops", "min_bytes": "min_bytes",
    "rank": "rank", "graph_replay": "graph_replay", "graph_ordinal": "graph_ordinal", "gap_ns": "gap_ns",
    "gap_cause": "gap_cause", "exclusive_ns": "exclusive_ns", "link": "link", "flag": "flag",
}  # fmt: skip
_AXES: Final = tuple(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz")
_BATCH: Final = 16_384
_ENCODE: Final = msgspec.json.Encoder().encode


class Exported(NamedTuple):
    """The text in pieces, how many rows it shows, and what it leaves out, by reason."""

    text: Iterator[bytes]
    rows: int
    left_out: dict[str, int]


def export(run: Run) -> Exported:
    """Chrome JSON of a run.

    Rows whose time is unusable (`traces.flags.DISQUALIFYING`) and launches more than a day off their row are
    left out and counted, also in the file: one at the epoch would stretch the view to decades.
    """
    good = ledger.usable(run.table)
    reasons: Counter[str] = Counter()
    for text in run.table["flag"].filter(pa.array(~good)).to_pylist():
        reasons.update(DISQUALIFYING & set((text or "").split(",")))
    table, far = host.without_far_launches(run.table.filter(pa.array(good)))
    lost = dict(sorted(reasons.items())) | ({"launch_far_away": far} if far else {})
    return Exported(_text(run, table, lost), table.num_rows, lost)


def _text(run: Run, table: pa.Table, lost: dict[str, int]) -> Iterator[bytes]:
    shift = host.shift(table)
    tracks = place(table)
    steps = list(host.in_lanes(run.meta["steps"]))
    yield _ENCODE(_head(run, table, shift, lost))[:-1] + b',"traceEvents":[\n'
    every = chain(
        _names(tracks, max((lane for _, lane in steps), default=0)), _steps(steps, tracks, shift),
        host.ranges(run, table, shift), host.launches(table, shift), _idle(table, tracks, shift),
        _rows(table, tracks, shift), host.arrows(table, tracks, shift),
    )  # fmt: skip
    separator = b""
    for event in every:
        yield separator + _ENCODE(event)
        separator = b",\n"
    yield b"\n]}\n"


def _head(run: Run, table: pa.Table, shift: int, lost: dict[str, int]) -> dict[str, Any]:
    """What the run says of itself, where Kineto and our capture put it."""
    ranks = [r for r in pc.unique(table["rank"]).to_pylist() if r is not None]
    known: dict[str, Any] = {k: v for k, v in run.meta.items() if k in Captured.__annotations__}
    head: dict[str, Any] = {
        "schemaVersion": 1,
        "displayTimeUnit": "ns",
        "baseTimeNanoseconds": run.meta["time_base_unix_ns"] - shift,
        "kernelgap": known,
        "kernelgap_export": {
            "run_id": run.meta["run_id"], "source": run.meta["source"], "left_out": lost,
            "shift_ns": shift,  # added to the run's start_ns, so that no time is negative
        },
    }  # fmt: skip
    if len(ranks) == 1:
        head["distributedInfo"] = {"rank": ranks[0]}
    return head


def _names(tracks: Tracks, last_lane: int) -> Iterator[dict[str, Any]]:
    """Names and order of processes and threads."""

    def meta(what: str, pid: int, tid: int, **args: Any) -> dict[str, Any]:
        return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}

    for order, (pid, name) in enumerate(sorted(tracks.processes.items(), key=lambda p: p[1])):
        yield meta("process_name", pid, 0, name=name)
        yield meta("process_sort_index", pid, 0, sort_index=order)
    for pid, tid, name, order in tracks.threads:
        yield meta("thread_name", pid, tid, name=name)
        yield meta("thread_sort_index", pid, tid, sort_index=order)
    for pid in tracks.devices.values():
        ours = [(STEPS_TID + lane, "steps", lane - last_lane - 2) for lane in range(last_lane + 1)]
        for tid, name, order in (*ours, (IDLE_TID, "idle, by cause", -1)):
            yield meta("thread_name", pid, tid, name=name)
            yield meta("thread_sort_index", pid, tid, sort_index=order)


def _steps(steps: list[tuple[Step, int]], tracks: Tracks, shift: int) -> Iterator[dict[str, Any]]:
    """The tiles of steps, on every device."""
    for pid in tracks.devices.values():
        for step, lane in steps:
            name = f"{step['phase']} {step['step']}" + (" (inferred)" if step["inferred"] else "")
            yield host.event(
                name, "kernelgap_step", pid, STEPS_TID + lane, step["start_ns"] + shift,
                step["end_ns"] - step["start_ns"], {"complete": step["complete"]},
            )  # fmt: skip


def _idle(table: pa.Table, tracks: Tracks, shift: int) -> Iterator[dict[str, Any]]:
    """Idle time of each device, before the row that ended it."""
    names = ("start_ns", "gap_ns", "gap_cause", "rank", "device", "kind")
    rows = table.select(names).filter(pc.greater(pc.fill_null(table["gap_ns"], 0), 0))
    for start, gap, cause, rank, device, kind in zip(*(rows[n].to_pylist() for n in names), strict=True):
        if kind != "cpu_op":
            pid = tracks.devices[rank, device]
            name = f"idle: {cause or 'unknown cause'}"
            yield host.event(name, "kernelgap_idle", pid, IDLE_TID, start - gap + shift, gap) | {
                "cname": COLOURS["idle"]
            }


def _rows(table: pa.Table, tracks: Tracks, shift: int) -> Iterator[dict[str, Any]]:
    """Every GPU activity (and op of the CPU device), as Kineto writes it, with what we know besides."""
    columns = ("start_ns", "dur_ns", "used_ns", "kind", "name", "occupancy", *_AXES, *_ARGS)
    for first in range(0, table.num_rows, _BATCH):
        part = table.slice(first, _BATCH).select(columns)
        pids, tids = tracks.pid[first : first + _BATCH].tolist(), tracks.tid[first : first + _BATCH].tolist()
        for row, pid, tid in zip(part.to_pylist(), pids, tids, strict=True):
            cat = CATEGORIES.get(row["kind"], "kernel")
            made = host.event(row["name"], cat, pid, tid, row["start_ns"] + shift, row["dur_ns"], _args(row))
            if colour := COLOURS.get(row["group"]):
                made["cname"] = colour
            yield made


def _args(row: dict[str, Any]) -> dict[str, Any]:
    args = {key: row[column] for column, key in _ARGS.items() if row[column] is not None}
    for what in ("grid", "block"):
        sizes = [row[f"{what}_{axis}"] for axis in "xyz"]
        if None not in sizes:
            args[what] = sizes
    if row["occupancy"] is not None:
        args["est. achieved occupancy %"] = row["occupancy"] * 100
    if row["used_ns"] != row["dur_ns"]:
        args["used_ns"] = row["used_ns"]
    if row["kind"] not in CATEGORIES or row["kind"] == "graph":
        args["kind"] = row["kind"]
    return args
