"""kernel -> launch -> op: which host call launched each GPU row, and from which op.

A launch is found by correlation id; many kernels may share one (a CUDA-graph launch). The op is the
innermost one around the launch on the launching thread: External ids are not trusted first, because old
files repeat the correlation id there (pytorch#132218).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traces.columns import NONE, combine, decode, matching, number
from traces.nesting import enclosing, thread_keys
from traces.schema import LINKS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traces.columns import Codes
    from traces.readers.timeline import Timeline

    Int64s = NDArray[np.int64]

# Host rows can begin up to a microsecond outside the op that made them (clock jitter).
BLEED_NS: Final = 1000


def link(timeline: Timeline) -> pa.Table:
    """The GPU rows with columns added: link, launch_start, launch_dur, launch_api, thread, op, op_row.

    `process` is filled from the launch where the reader left it null. `op_row` indexes `timeline.ops`.
    """
    gpu, host = timeline.gpu, timeline.host
    if "thread" in gpu.column_names:  # CPU device: the row is itself the op
        return _self_launched(gpu)
    launch = _launches(gpu, host)
    known = launch != NONE
    taken = pa.array(launch, mask=~known)
    columns: dict[str, Any] = {
        "launch_start": host["start"].take(taken),
        "launch_dur": host["dur"].take(taken),
        "launch_api": host["name"].take(taken),
        "thread": host["thread"].take(taken),
    }
    process = pc.coalesce(gpu["process"], host["process"].take(taken))
    gpu = gpu.set_column(gpu.schema.get_field_index("process"), "process", process)
    for name, values in columns.items():
        gpu = gpu.append_column(name, values)
    replayed = matching(gpu["launch_api"], "GraphLaunch").to_numpy(zero_copy_only=False)
    code = {kind: i for i, kind in enumerate(LINKS)}
    links = np.where(replayed, code["graph"], np.where(known, code["launch"], code["orphan"]))
    gpu = gpu.append_column("link", decode(links, LINKS))
    op = _ops(gpu, timeline.ops, known)
    chosen = pa.array(op, mask=op == NONE)
    return gpu.append_column("op", timeline.ops["name"].take(chosen)).append_column("op_row", chosen)


def _launches(gpu: pa.Table, host: pa.Table) -> Int64s:
    """Row of `host` that launched each GPU row, or NONE. Correlation 0 is no correlation."""
    theirs, wanted = _join_ids(host, gpu)
    start = host["start"].to_numpy()
    order = np.lexsort((start, theirs))
    order = order[theirs[order] != 0]
    ids = theirs[order]
    first, after = (np.searchsorted(ids, wanted, side=s) for s in ("left", "right"))
    found = np.full(len(wanted), NONE, np.int64)
    hit = (after > first) & (wanted != 0)
    found[hit] = order[first[hit]]
    # One id on several host rows (ids of several processes collide): the latest not after the kernel.
    begins = gpu["start"].to_numpy()
    for row in np.flatnonzero(hit & (after - first > 1)):
        candidates = order[first[row] : after[row]]
        earlier = candidates[start[candidates] <= begins[row] + BLEED_NS]
        found[row] = earlier[-1] if len(earlier) else candidates[0]
    return found


def _join_ids(host: pa.Table, gpu: pa.Table) -> tuple[Int64s, Int64s]:
    """Ids that are equal where host call and GPU row belong together; 0 is no id.

    Correlation ids of several processes collide, so a process counts too where the tool recorded it.
    """
    theirs, wanted = (pc.fill_null(t["correlation"], 0).to_numpy() for t in (host, gpu))
    if gpu["process"].null_count:
        return theirs, wanted
    process = number(pa.chunked_array([c for t in (host, gpu) for c in t["process"].chunks], pa.int64()))
    correlation = np.concatenate([theirs, wanted])
    ids = correlation if not process.any() else _paired(process, correlation)
    return ids[: len(theirs)], ids[len(theirs) :]


def _paired(process: Codes, correlation: Int64s) -> Int64s:
    """One id for each pair of process (counted from 0) and correlation id; 0 for correlation 0."""
    low = int(correlation.min(initial=0))
    span = int(correlation.max(initial=0)) - low + 1
    if span <= 2**62 // (int(process.max()) + 1):
        ids = process.astype(np.int64) * span + (correlation - low)
    else:
        ids, _, _ = combine(process, number(pa.array(correlation)))
    return np.where(correlation == 0, 0, ids + 1)


def _ops(gpu: pa.Table, ops: pa.Table, known: NDArray[np.bool_]) -> Int64s:
    """Row of `ops` around each launch: by time on its thread, else by External id."""
    moments = pc.fill_null(gpu["launch_start"], 0).to_numpy()
    op_keys, launch_keys = thread_keys(ops, gpu)
    found = enclosing(ops, op_keys, moments, np.where(known, launch_keys, NONE))
    lost = known & (found == NONE)
    if lost.any():
        later = moments + np.minimum(pc.fill_null(gpu["launch_dur"], 0).to_numpy(), BLEED_NS)
        found[lost] = enclosing(ops, op_keys, later[lost], launch_keys[lost])
    lost = (found == NONE) & pc.is_valid(gpu["external"]).to_numpy(zero_copy_only=False)
    if lost.any() and not _old_external_ids(gpu):
        found[lost] = _by_external(gpu["external"].filter(pa.array(lost)), ops)
    return found


def _old_external_ids(gpu: pa.Table) -> bool:
    """True where External id only repeats the correlation id (torch before 2022)."""
    same = pc.equal(gpu["external"], gpu["correlation"])
    return bool(pc.all(pc.fill_null(same, True)).as_py())


def _by_external(external: pa.ChunkedArray, ops: pa.Table) -> Int64s:
    ids = pc.fill_null(ops["external"], 0).to_numpy()
    order = np.argsort(ids, kind="stable")
    wanted = external.to_numpy()
    at = np.searchsorted(ids[order], wanted)
    inside = at < len(ids)
    found = np.full(len(wanted), NONE, np.int64)
    rows = order[at[inside]]
    found[inside] = np.where((ids[rows] == wanted[inside]) & (wanted[inside] != 0), rows, NONE)
    return found


def _self_launched(gpu: pa.Table) -> pa.Table:
    rows = gpu.num_rows
    for name, kind in (("launch_dur", pa.int64()), ("launch_api", pa.string()), ("link", pa.string())):
        gpu = gpu.append_column(name, pa.nulls(rows, kind))
    gpu = gpu.append_column("launch_start", gpu["start"])
    return gpu.append_column("op", gpu["name"]).append_column("op_row", pa.nulls(rows, pa.int64()))
