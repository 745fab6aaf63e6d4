"""Phase and step of each row, from the range that encloses its launch; and the tiles steps make.

Never from the GPU-side annotation: it is cut short when ranges nest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.attribution import modules
from traces.columns import NONE, decode
from traces.nesting import enclosing, moments, never_closed, thread_keys
from traces.range_names import OURS, PROFILER_STEP, Parsed, label, parse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traces.schema import Step

    Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Phases:
    """Per row: its phase (text) and step number (int32), null where no range encloses the launch."""

    phase: pa.DictionaryArray
    step: pa.Array
    recounted: list[str] = field(default_factory=list)  # phases whose step numbers came again


def assign(rows: pa.Table, ranges: pa.Table) -> Phases:
    """Give each row (columns launch_start, process, thread) the phase and step of its range.

    Ours win over the outermost user range, that over ProfilerStep; the launching thread is asked first,
    then ranges of any thread of the process (ours, the only user range open, ProfilerStep): backward
    passes launch from another thread. A range that was never closed counts only where no other encloses the
    launch. A range without a number counts its occurrences. Ranges that say modules name no phase.
    """
    ranges = ranges.filter(pa.array(~modules.say(ranges)))
    names = ranges["name"].to_pylist()
    parsed = [parse(n) for n in names]
    start = ranges["start"].to_numpy()
    labels, recounted = label(parsed, start, start + ranges["dur"].to_numpy())
    chosen = _choose(rows, ranges, names, parsed)
    steps = pa.array([step for _, step in labels], pa.int32())
    return Phases(
        decode(chosen, [phase for phase, _ in labels]),
        steps.take(pa.array(chosen, mask=chosen == NONE)),
        recounted,
    )


def _choose(rows: pa.Table, ranges: pa.Table, names: list[str], parsed: list[Parsed]) -> Int64s:
    ours = np.array([bool(OURS.match(n)) for n in names], dtype=bool)
    profiler = np.array([bool(PROFILER_STEP.match(n)) for n in names], dtype=bool)
    user = np.array([p is not None for p in parsed], dtype=bool) & ~ours & ~profiler
    when, known = moments(rows)
    left_open = never_closed(ranges)
    places = rows.select(["process", "thread"])
    chosen = np.full(rows.num_rows, NONE, np.int64)
    for unclosed, everywhere, which in product((False, True), (False, True), (ours, user, profiler)):
        open_ = known & (chosen == NONE)
        index = np.flatnonzero(which & (left_open == unclosed))
        if not len(index) or not open_.any():
            continue
        mine, asked = ranges.take(pa.array(index)), places.filter(pa.array(open_))
        keys, at = thread_keys(mine, asked)
        if everywhere:
            keys, at = _process_keys(mine, asked)
        found = enclosing(mine, keys, when[open_], at, outermost=True)
        if everywhere and which is user:
            found = _only_one_open(mine, keys, when[open_], at, found)
        chosen[np.flatnonzero(open_)[found != NONE]] = index[found[found != NONE]]
    return chosen


def _process_keys(ranges: pa.Table, rows: pa.Table) -> tuple[Int64s, Int64s]:
    theirs, asked = (pc.fill_null(t["process"], NONE).to_numpy() for t in (ranges, rows))
    return theirs, asked


def _only_one_open(mine: pa.Table, keys: Int64s, moments: Int64s, at: Int64s, found: Int64s) -> Int64s:
    """Keep a range of another thread only where no second thread has one open at that moment."""
    threads = pc.fill_null(mine["thread"], NONE).to_numpy()
    rivals = np.zeros(len(moments), np.int64)
    for thread in np.unique(threads):
        here = np.flatnonzero(threads == thread)
        rivals += enclosing(mine.take(pa.array(here)), keys[here], moments, at) != NONE
    return np.where(rivals == 1, found, NONE)


def tiles(
    found: Phases, start: Int64s, end: Int64s, good: NDArray[np.bool_], *, inferred: bool = False
) -> list[Step]:
    """The tile of each (phase, step): from its first kernel to the first kernel of the next one.

    Only usable rows (`good`) count. The last of a series of consecutive numbers ends with its own last
    kernel and is incomplete.
    """
    table = pa.table({"phase": found.phase, "step": found.step, "start": start, "end": end})
    table = table.filter(pa.array(good))
    table = table.filter(pc.and_(pc.is_valid(table["phase"]), pc.is_valid(table["step"])))
    groups = table.group_by(["phase", "step"]).aggregate([("start", "min"), ("end", "max")])
    in_order = sorted(groups.to_pylist(), key=lambda g: g["start_min"])
    by_number = {(g["phase"], g["step"]): g for g in in_order}
    steps: list[Step] = []
    for g in in_order:
        following = by_number.get((g["phase"], g["step"] + 1))
        complete = following is not None and following["start_min"] > g["start_min"]
        steps.append(
            {
                "phase": g["phase"],
                "step": g["step"],
                "start_ns": g["start_min"],
                "end_ns": following["start_min"] if complete and following else g["end_max"],
                "complete": complete,
                "inferred": inferred,
            }
        )
    return steps
