"""CUDA-graph replays: which kernels belong to one launch of a graph, and their position in it.

A single-stream capture replays in launch order, so the order of starts gives each kernel its ordinal.
Where the trace has no graph ids (torch before 2.12), graphs that replay the same names count as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow.compute as pc

from traces.columns import NONE, encode

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


class Replays(NamedTuple):
    """Per row, -1 where it is not part of a replay."""

    launch: NDArray[np.int64]  # which launch in the trace, counted over all graphs
    ordinal: NDArray[np.int32]  # position within the replay
    replay: NDArray[np.int32]  # n-th launch of the same graph


def number(rows: pa.Table) -> Replays:
    """Number the replays of `rows` (columns link, start, name, process, device, launch_start, graph_id)."""
    count = rows.num_rows
    out = Replays(*(np.full(count, NONE, t) for t in (np.int64, np.int32, np.int32)))
    members = np.flatnonzero(
        pc.fill_null(pc.equal(rows["link"], "graph"), False).to_numpy(zero_copy_only=False)
    )
    if not len(members):
        return out
    names, _ = encode(rows["name"].take(members))
    process, device, launched, graph = (
        pc.fill_null(rows[n], NONE).to_numpy()[members]
        for n in ("process", "device", "launch_start", "graph_id")
    )
    start = rows["start"].to_numpy()[members]
    order = np.lexsort((start, device, process, launched))
    keys = np.stack([launched, process, device], axis=1)[order]
    edges = np.flatnonzero((keys[1:] != keys[:-1]).any(axis=1)) + 1
    seen: dict[object, int] = {}
    for launch, part in enumerate(np.split(order, edges)):
        head = part[0]
        identity = int(graph[head]) if graph[head] != NONE else names[part].tobytes()
        which = (int(process[head]), int(device[head]), identity)
        rows_of = members[part]
        out.launch[rows_of] = launch
        out.ordinal[rows_of] = np.arange(len(part))
        out.replay[rows_of] = seen.get(which, 0)
        seen[which] = seen.get(which, 0) + 1
    return out
