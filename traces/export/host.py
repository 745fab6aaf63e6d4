"""The host's side of an exported run: launches, the ranges around them, arrows to what they launched."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.analysis.timeline import lanes
from traces.flags import DAY_NS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traces.export.tracks import Tracks
    from traces.schema import Step
    from traces.store import Run

_CALL: Final = ("process", "thread", "launch_start_ns", "launch_dur_ns", "launch_api", "correlation")
_DRIVER: Final = re.compile(r"cu[A-Z]")
_UNIT: Final = 1000


def micros(ns: int) -> msgspec.Raw:
    """Nanoseconds as a JSON number of microseconds with three decimals, exactly."""
    sign = "-" if ns < 0 else ""
    return msgspec.Raw(f"{sign}{abs(ns) // _UNIT}.{abs(ns) % _UNIT:03d}".encode())


def event(
    name: str, cat: str, pid: int, tid: int, start: int, dur: int | None, args: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A complete event (`ph` X), times in ns; an unknown duration is left out."""
    made = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": micros(start)}
    if dur is not None:
        made["dur"] = micros(dur)
    return made | ({"args": args} if args else {})


def without_far_launches(table: pa.Table) -> tuple[pa.Table, int]:
    """The table without launch times more than a day off their row (another clock), and how many."""
    apart = pc.abs(pc.subtract(table["launch_start_ns"], table["start_ns"]))
    lost = pc.fill_null(pc.greater(apart, DAY_NS), False)
    at = table.schema.get_field_index("launch_start_ns")
    kept = pc.if_else(lost, None, table["launch_start_ns"])
    return table.set_column(at, "launch_start_ns", kept), pc.sum(lost).as_py() or 0


def shift(table: pa.Table) -> int:
    """What to add to the run's times so that none is negative: whole microseconds, at least one.

    One at least, since a row at 0 that lasts 0 could not be told from one without a time.
    """
    launch, gap = table["launch_start_ns"], pc.subtract(table["start_ns"], pc.fill_null(table["gap_ns"], 0))
    first = min(pc.min(c).as_py() or 0 for c in (launch, gap))
    return (max(-first, 0) // _UNIT + 1) * _UNIT


def launches(table: pa.Table, shift: int) -> Iterator[dict[str, Any]]:
    """One event for each launching call."""
    calls = (
        table.select(_CALL).filter(_launched(table)).group_by(list(_CALL), use_threads=False).aggregate([])
    )
    for process, thread, start, dur, api, correlation in zip(
        *(calls[n].to_pylist() for n in _CALL), strict=True
    ):
        cat = "cuda_driver" if _DRIVER.match(api or "") else "cuda_runtime"
        args = {"correlation": correlation} if correlation is not None else None
        yield event(api or "(unknown call)", cat, process or 0, thread or 0, start + shift, dur, args)


def ranges(run: Run, table: pa.Table, shift: int) -> Iterator[dict[str, Any]]:
    """Each marked step, on the threads that launched it, from its first to its last launch.

    Steps that were inferred, and threads on which steps would overlap, get none: a reader would take them for
    ranges of the program.
    """
    inferred = {(s["phase"], s["step"]) for s in run.meta["steps"] if s["inferred"]}
    on_cpu = pc.fill_null(pc.equal(table["kind"], "cpu_op"), False)
    start = pc.if_else(on_cpu, table["start_ns"], table["launch_start_ns"])
    dur = pc.fill_null(pc.if_else(on_cpu, table["dur_ns"], table["launch_dur_ns"]), 0)
    keys = ("process", "thread", "phase", "step")
    moments = pa.table({**{k: table[k] for k in keys}, "start": start, "end": pc.add(start, dur)})
    known = pc.and_(pc.is_valid(start), pc.and_(pc.is_valid(table["phase"]), pc.is_valid(table["step"])))
    found = moments.filter(known).group_by(list(keys), use_threads=False)
    spans = found.aggregate([("start", "min"), ("end", "max")]).to_pylist()
    threads: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
    for span in sorted(spans, key=lambda s: s["start_min"]):
        threads.setdefault((span["process"], span["thread"]), []).append(span)
    for (process, thread), mine in threads.items():
        apart = all(x["end_max"] <= y["start_min"] for x, y in pairwise(mine))
        for s in mine if apart else ():
            if (s["phase"], s["step"]) not in inferred:
                name = f"kernelgap.{s['phase']}#{s['step']}"
                length = s["end_max"] - s["start_min"]
                yield event(
                    name, "user_annotation", process or 0, thread or 0, s["start_min"] + shift, length
                )


def arrows(table: pa.Table, tracks: Tracks, shift: int) -> Iterator[dict[str, Any]]:
    """An arrow from each launching call to the first row that it launched."""
    names = ("start_ns", "launch_start_ns", "process", "thread")
    seen: set[tuple[Any, ...]] = set()
    mine = (
        table.select(names)
        .append_column("pid", pa.array(tracks.pid))
        .append_column("tid", pa.array(tracks.tid))
    )
    columns = (mine.filter(_launched(table))[n].to_pylist() for n in (*names, "pid", "tid"))
    for number, (start, call, process, thread, pid, tid) in enumerate(zip(*columns, strict=True), 1):
        if (call, process, thread) in seen:
            continue
        seen.add((call, process, thread))
        both = {"cat": "ac2g", "name": "ac2g", "id": number}
        yield both | {"ph": "s", "pid": process or 0, "tid": thread or 0, "ts": micros(call + shift)}
        yield both | {"ph": "f", "bp": "e", "pid": pid, "tid": tid, "ts": micros(start + shift)}


def in_lanes(steps: Sequence[Step]) -> Iterator[tuple[Step, int]]:
    """Each step and its lane, so that none overlap in one lane."""
    start = np.array([s["start_ns"] for s in steps], np.int64)
    end = np.array([s["end_ns"] for s in steps], np.int64)
    yield from zip(steps, lanes(start, end, [0] * len(steps)).tolist(), strict=True)


def _launched(table: pa.Table) -> Any:
    on_cpu = pc.fill_null(pc.equal(table["kind"], "cpu_op"), False)
    return pc.and_(pc.is_valid(table["launch_start_ns"]), pc.invert(on_cpu))
